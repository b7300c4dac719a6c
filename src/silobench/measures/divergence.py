"""Weight divergence (Zhao et al., 2018, equation 1) and the bound on it (their Proposition 3.1)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.errors import ConfigError
from silobench.federation import Federation, Party
from silobench.loop.loop import initial_state, one_thread, run_rounds
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.availability import always
from silobench.method.method import Buffers, Method
from silobench.method.servers import is_plain_step
from silobench.method.solvers import Problem, Solver
from silobench.method.solvers.dp_sgd import DpSgd
from silobench.method.types import Algorithm, Count, Layout, Memory, Vector, at
from silobench.models import CustomLoss, Mlp
from silobench.models.devices import seed_torch
from silobench.rng import stream, torch_seed
from silobench.spec.registry import part_name
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

_BLOCK = 1000  # rows at a time
_NOT_OF_THE_SOLVER = {"params", "buffers", "round", "lipschitz"}  # other names in the memory are of the shadow's solver


@MEASURES.register
def weight_divergence(bound: Literal["sampled", "logistic"] | None = None, rows: Count = 500) -> Measure:
    """How far the model is from that of centralised SGD, layer by layer: ‖w - w_sgd‖ / ‖w_sgd‖ (Zhao et al., eq. 1).

    A shadow run trains beside the run: all rows in one place, the same initial vector, the same schedule, and batches
    as large as those of all parties of a round together. Its accuracy is reported too. `bound` evaluates Proposition
    3.1 for FedAvg under plain SGD: `sampled` measures the gradients of classes on up to `rows` rows of each and
    estimates their Lipschitz constants; `logistic` has proven constants, for the model linear and batch=full.
    """

    def check(setting: Setting, cohort: int) -> None:
        if setting.method.algorithm.replica is not None:
            raise ConfigError(
                "weight-divergence needs one shared model, but with "
                f"{part_name(setting.method.algorithm, 'algorithm')} every party has its own: leave one "
                "of them out."
            )
        if getattr(setting.method.solver.lr, "follow", None) is not None:
            raise ConfigError(
                "weight-divergence compares two runs with the same learning rates, but those of plateau depend on the "
                "run: use another schedule, or leave the measure out."
            )
        if bound is not None:
            _need_plain_fedavg(setting, cohort)
        if bound == "logistic":
            _need_softmax_regression(setting)

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        limit = None if bound is None else _BOUNDS[bound](schedule, rows)
        return _Divergence(schedule, state, memory, limit)

    return Measure(begin, check, lambda schedule: _refusal(schedule, bound is not None))


def _refusal(schedule: Schedule, has_bound: bool) -> str | None:
    """Return why a run cannot be compared with a shadow run, or None."""
    if schedule.pace.takes is not None:
        return (
            "weight-divergence compares rounds of all parties of a cohort, but with "
            f"{part_name(schedule.pace, 'pace')} the server does not wait for all of them: leave "
            "pace at synchronous, or leave the measure out."
        )
    is_mean = schedule.setting.needs_only_sum and schedule.availability is always()
    if has_bound and not is_mean:
        return (
            "weight-divergence: Proposition 3.1 is about the mean over all parties: leave exchange at star, aggregate "
            "at mean and availability at always, or leave its bound out."
        )
    return None


class _Divergence:
    """The shadow run, and the comparison with it after every round."""

    def __init__(self, schedule: Schedule, state: State | None, memory: Memory, limit: "_Bound | None"):
        setting = schedule.setting
        self.layers = layers(setting.task.network.layout, setting.shared)
        self.places = [place for places in self.layers.values() for place in places]
        self.limit, self.task = limit, setting.task
        self.shadow = _shadow(schedule, memory)
        self.before = state.server.params if state else setting.task.initial  # of the run
        self.shadow_before = memory["params"] if memory else setting.task.initial
        if limit:
            limit.remember(memory)

    def __call__(self, record: RoundRecord) -> tuple[Findings, Memory]:
        beside = next(self.shadow)
        run, shadow, memory = record.state.server.params, beside.state.server.params, _memory_of(beside.state)
        with one_thread(self.task):
            findings = {**self._differences(run, shadow), "sgd_accuracy": beside.accuracy}
            if self.limit:
                before = _distance(self.before, self.shadow_before)
                value = self.limit(before, self.shadow_before, shadow, run, record.round - 1)
                findings |= {"bound": value, "estimated": self.limit.estimated}
                memory |= self.limit.memory
        self.before, self.shadow_before = run, shadow
        return findings, memory

    def _differences(self, run: Vector, shadow: Vector) -> Findings:
        return {
            "layers": {name: _ratio(run, shadow, places) for name, places in self.layers.items()},
            "all": _ratio(run, shadow, self.places),
            "distance": _distance(_taken(run, self.places), _taken(shadow, self.places)),
        }


# --- the shadow run -----------------------------------------------------------------------------------


def _shadow(schedule: Schedule, memory: Memory) -> Iterator[RoundRecord]:
    setting = schedule.setting
    buffers: Buffers = "keep" if setting.method.buffers == "keep" else "average"  # one party has none of its own
    solver = _centralised(schedule)
    if isinstance(solver, DpSgd) and solver.noise is not None:
        solver = replace(solver, epsilon=None)  # a budget could end the shadow run before the run
    method = Method(Algorithm(), solver, buffers=buffers)
    pooled = Setting(method, _pooled(setting), setting.task, setting.seed)
    state = initial_state(pooled)
    if memory:
        of_solver = {name: value for name, value in memory.items() if name not in _NOT_OF_THE_SOLVER}
        server = replace(state.server, params=memory["params"], buffers=memory["buffers"], round=int(memory["round"]))
        state = State(server, {0: {"solver": of_solver}} if of_solver else {})
    centralised = Schedule(
        pooled, schedule.rounds, eval_every=schedule.eval_every, eval_on=schedule.eval_on, engine=schedule.engine
    )
    return run_rounds(centralised, state)


def _memory_of(state: State) -> dict[str, Vector]:
    server, of_solver = state.server, state.memory.get(0, {}).get("solver", {})
    return {"params": server.params, "buffers": server.buffers, "round": torch.tensor(server.round), **of_solver}


def _pooled(setting: Setting) -> Federation:
    """Return all rows at one party. A shared row is repeated once per party that has it, as in their mean gradient."""
    return setting.federation.pooled(once=setting.method.algorithm.pooled)


def _centralised(schedule: Schedule) -> Solver:
    """Return the solver for one party with all rows: batches as large as those of a cohort together, and as many."""
    solver, parties = schedule.setting.method.solver, schedule.setting.federation.parties
    if schedule.setting.method.algorithm.pooled:
        return solver
    whole = replace(solver, batch=None if solver.batch is None else solver.batch * schedule.cohort)
    if schedule.cohort == len(parties) or solver.steps is not None:
        return whole
    steps = np.mean([solver.count(party.samples) for party in parties])
    return replace(whole, steps=max(1, round(float(steps))))  # an epoch of a cohort is part of an epoch of all rows


def layers(layout: Layout, shared: Layout) -> dict[str, list[slice]]:
    """Return the places of the parameters of each layer, first to last: weight and bias are one layer.

    Parameters that are not shared are left out.

    >>> sizes = torch.Size([2, 3]), torch.Size([2])
    >>> layers(*[Layout(("out.weight", "out.bias"), sizes, trainable=8)] * 2)
    {'out': [slice(0, 6, None), slice(6, 8, None)]}
    """
    places: dict[str, list[slice]] = {}
    for name, place in layout.slices.items():
        if place.stop <= layout.trainable and name in shared.slices:
            places.setdefault(name.rpartition(".")[0] or name, []).append(place)
    return places


def _distance(a: Vector, b: Vector) -> float:
    return float(torch.linalg.vector_norm(a.double() - b.double()))


def _taken(vector: Vector, places: list[slice]) -> Vector:
    return torch.cat([vector[place] for place in places])


def _ratio(run: Vector, shadow: Vector, places: list[slice]) -> float | None:
    """Return the relative distance of some entries; None if those of the shadow are all zero."""
    a, b = _taken(run, places), _taken(shadow, places)
    length = float(torch.linalg.vector_norm(b.double()))
    return _distance(a, b) / length if length else None


# --- the bound ----------------------------------------------------------------------------------------


@dataclass
class _Bound(ABC):
    """Proposition 3.1, in the form that its proof gives (the statement's index k of g_max is j):

    ‖w_f - w_c‖ ≤ Σ_k n_k/n [ a_k^T (the distance a round before) + lr EMD_k Σ_{j=1..T-1} a_k^j g_max(w_c, T-1-j) ]

    where a_k = 1 + lr Σ_i p_k(i) λ_i, λ_i is the Lipschitz constant of class i's gradient, and g_max(w_c, t) the
    longest of the classes' gradients at step t of the centralised run.
    """

    schedule: Schedule
    rows: int
    estimated = False

    def __post_init__(self) -> None:
        setting = self.schedule.setting
        held = setting.federation.class_counts.double().numpy()
        self.share = held.sum(1) / held.sum()
        self.mix = held / held.sum(1, keepdims=True)
        self.whole = held.sum(0) / held.sum()
        self.emd = np.abs(self.mix - self.whole).sum(1)
        self.solver = _centralised(self.schedule)
        self.steps = self.solver.count(int(held.sum()))
        self.memory: dict[str, Vector] = {}
        self.problems = [self._problem(label) for label in range(held.shape[1])]

    def _problem(self, label: int) -> Problem:
        """Return the problem of the rows of one class, whose gradient is needed."""
        setting = self.schedule.setting
        federation = _pooled(setting)
        rows = federation.parties[0].rows
        rows = rows[federation.y[rows] == label]
        if self.estimated and len(rows) > self.rows:
            drawn = stream(setting.seed, "bound", party=label).choice(len(rows), self.rows, replace=False)
            rows = rows[torch.from_numpy(np.sort(drawn))]
        return Problem(setting.task, federation, Party(0, rows, rows[:0], str(label)), setting.seed)

    def gradients(self, params: Vector) -> Tensor:
        """Return the gradient of every class's mean loss, [classes, d]; zeros for a class without rows."""
        zeros = torch.zeros_like(params)
        with torch.random.fork_rng(devices=[]):  # a network that draws numbers draws the same at every point
            seed_torch(torch_seed(self.schedule.setting.seed, "bound"))
            return torch.stack([p.gradient(params) if p.party.samples else zeros for p in self.problems])

    def remember(self, memory: Memory) -> None:
        self.memory = {name: memory[name] for name in ("lipschitz",) if name in memory}

    @abstractmethod
    def __call__(self, distance: float, start: Vector, end: Vector, run: Vector, now: int) -> float:
        """Return the bound after a round that began at this distance.

        In the round the shadow went from `start` to `end`, and the run to `run`.
        """

    def evaluate(
        self, distance: float, lr: float, lipschitz: NDArray[np.float64], longest: NDArray[np.float64]
    ) -> float:
        """Return the bound; `longest` is g_max at each step 0 .. T-1 of the centralised run (the last is not used)."""
        growth = 1 + lr * self.mix @ lipschitz
        with np.errstate(over="ignore", invalid="ignore"):
            powers = growth[:, None] ** np.arange(1, len(longest))
            pushed = (powers * longest[:-1][::-1]).sum(1)
            return float(self.share @ (growth ** len(longest) * distance + lr * self.emd * pushed))

    def lr(self, now: int) -> float:
        setting = self.schedule.setting
        server = initial_state(setting).server
        return at(self.solver.lr, replace(server, round=now))


class _Sampled(_Bound):
    """An estimate: gradients at the ends of a round stand for those in it, and the steepest change so far for λ."""

    estimated = True

    def __call__(self, distance: float, start: Vector, end: Vector, run: Vector, now: int) -> float:
        points = [start, end, run]
        slopes = [self.gradients(point) for point in points]
        steepest = self.memory.get("lipschitz", torch.zeros(len(self.problems), dtype=torch.float64))
        for a, b in ((0, 1), (1, 2), (0, 2)):
            if way := _distance(points[a], points[b]):
                change = torch.linalg.vector_norm((slopes[a] - slopes[b]).double(), dim=1) / way
                steepest = torch.maximum(steepest, change)
        self.memory = {"lipschitz": steepest}
        decay = self.solver.weight_decay
        longest = max(float(torch.linalg.vector_norm(slope.double(), dim=1).max()) for slope in slopes[:2])
        return self.evaluate(distance, self.lr(now), steepest.numpy() + decay, np.full(self.steps, longest))


class _Logistic(_Bound):
    """Proven constants: the Hessian of softmax regression is at most half of E[x xᵀ], with a 1 appended to x."""

    def __post_init__(self) -> None:
        super().__post_init__()
        moments = [self._second_moment(problem) for problem in self.problems]
        largest = np.array([np.linalg.eigvalsh(moment)[-1] for moment in moments])
        self.lipschitz = largest / 2 + self.solver.weight_decay

    def _second_moment(self, problem: Problem) -> NDArray[np.float64]:
        width = math.prod(problem.federation.dataset.shape) + 1
        total = np.zeros((width, width))
        for rows in problem.party.rows.split(_BLOCK):
            x = problem.federation.batch(rows)[0].flatten(1).cpu().double().numpy()
            x = np.hstack([x, np.ones((len(x), 1))])
            total += x.T @ x
        return total / max(1, problem.party.samples)

    def __call__(self, distance: float, start: Vector, end: Vector, run: Vector, now: int) -> float:
        params, lr, longest = start.clone(), self.lr(now), np.zeros(self.steps)
        for step in range(self.steps):
            slopes = self.gradients(params)
            longest[step] = float(torch.linalg.vector_norm(slopes.double(), dim=1).max())
            mean = (torch.from_numpy(self.whole)[:, None] * slopes.double()).sum(0).to(params.dtype)
            params -= lr * (mean + self.solver.weight_decay * params)
        return self.evaluate(distance, lr, self.lipschitz, longest)


_BOUNDS: dict[str, Callable[[Schedule, int], _Bound]] = {"sampled": _Sampled, "logistic": _Logistic}


def _need_plain_fedavg(setting: Setting, cohort: int) -> None:
    """Refuse a setting that Proposition 3.1 does not cover."""
    method, everyone = setting.method, cohort == len(setting.federation.parties)
    plain_sgd = method.solver.kind == "sgd" and not method.solver.momentum
    plain = method.algorithm == Algorithm() and not method.transforms and plain_sgd
    if not (plain and everyone and is_plain_step(method.server)):
        raise ConfigError(
            "weight-divergence: Proposition 3.1 bounds fedavg with sgd(momentum=0), server=step(lr=1) and all "
            "parties in every round: choose these, or leave its bound out."
        )
    if not setting.task.objective.is_cross_entropy:
        raise ConfigError(
            "weight-divergence: Proposition 3.1 is about classes, but the objective is "
            f"{setting.task.objective.name}: take a dataset for classification, or leave its bound out."
        )
    if isinstance(setting.task.network.module, CustomLoss):
        raise ConfigError(
            "weight-divergence: Proposition 3.1 is about the mean loss of rows, but this model (like face-cnn) has "
            "another loss: take another model, or leave its bound out."
        )


def _need_softmax_regression(setting: Setting) -> None:
    module, dense = setting.task.network.module, not setting.federation.is_sparse
    linear = isinstance(module, Mlp) and len(module.widths) == 2
    if not (linear and dense and setting.method.solver.batch is None):
        raise ConfigError(
            "weight-divergence(bound=logistic) needs the model linear, dense rows and batch=full, for which constants "
            "are proven: choose these, or bound=sampled."
        )
