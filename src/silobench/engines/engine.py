"""The engines by name: how parties are trained (natively, stacked or one by one) and on how many cores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from silobench.engines import kernel as kernels
from silobench.engines.kernel import parties as compiled
from silobench.engines.stacks.stack import can_stack, train_stack
from silobench.engines.workers import Job, workers_of_this_command
from silobench.errors import ConfigError
from silobench.federation import Part
from silobench.method.types import Count, Server
from silobench.processes import cores
from silobench.spec import Registry
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_STACK_BYTES = 1 << 28  # memory for the vectors of one stack
_IN_A_STACK = 16  # parties; a larger stack is hardly cheaper per party
_WORTH_SPLITTING = 1e8  # parameters times rows: about 10 ms of stacked work
_WORTH_SENDING = 2e7  # parameters times rows; below this, messages to workers cost more than they save
_OF_TRAINING = 0.2  # cost of testing on a row, relative to training on it


@dataclass(frozen=True)
class Engine:
    """How parties are trained, and on how many cores. Only the first affects results, and only by rounding."""

    ways: tuple[str, ...]  # of "native", "stacked" and "inline", in order of preference
    workers: int = 0  # threads of the native step, else worker processes; 0 to use this process only
    least: float = 0.0  # a round with less work than this stays in this process

    def settled(self, setting: Setting, previous: str | None = None) -> "Engine":
        """Choose one way: the `previous` one of an interrupted run, else the first that supports this setting."""
        if previous in self.ways and (refusal := _REFUSALS[previous](setting)):
            raise ConfigError(
                f"this run was started with engine {previous}, which cannot continue it on this machine ({refusal}): "
                "fix that, or delete the run to start it again."
            )
        refusals = []
        for way in (previous,) if previous in self.ways else self.ways:
            refusal = _REFUSALS[way](setting)
            if refusal is None:
                if "native" in self.ways and compiled.can_run(setting):
                    kernels.warn_if_missing()
                return replace(self, ways=(way,))
            refusals.append(f"engine {way} cannot run this experiment: {refusal}")
        raise ConfigError("; ".join(refusals) + "; use auto.")

    @property
    def way(self) -> str:
        """How parties are trained; results are identical for any number of processes or threads."""
        return self.ways[0]

    @property
    def environment(self) -> dict[str, str]:
        """Facts for the run record: the engine, the type of processor and, if native, the kernel."""
        facts = {"engine": self.way, "cpu": kernels.cpu_type()}
        return facts | kernels.native().facts if self.way == "native" else facts

    def __str__(self) -> str:
        return "pool" if self.way == "inline" and self.workers else self.way

    def train(self, local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> "tuple[Engine, Iterator[Reply]]":
        """Train the parties in `memory`; return the engine that is used and the replies in a fixed order.

        The engine that is used has no workers where the round is too short for them.
        """
        if self.way == "native":
            work = sum(_work(local_round, memory).values())
            used = self if self._is_worth(len(memory), work) else replace(self, workers=0)
            return used, compiled.train(local_round, memory, used.workers)
        jobs = _training(local_round, memory, self.way == "stacked")
        used = self if self._sends(jobs) else replace(self, workers=0)
        return used, chain.from_iterable(self._results(jobs))

    def score(self, setting: Setting, models: Sequence[Weights], parts: Sequence[Part]) -> list[Score]:
        """Return the score of every model on all parts. Parts are summed in their order, wherever they were scored."""
        size = setting.task.network.layout.size
        if self.way == "native":
            if not setting.task.objective.counts_hits:
                return inline().score(setting, models, parts)
            worth = self._is_worth(len(models) * len(parts), len(models) * _rows(parts) * size * _OF_TRAINING)
            return compiled.score(setting, models, parts, self.workers if worth else 0)
        share = -(-len(parts) // max(1, self.workers // len(models)))
        groups = [parts[begin : begin + share] for begin in range(0, len(parts), share)]
        jobs = [
            Job(_score_parts, (setting, model), (group,), _rows(group) * size * _OF_TRAINING)
            for model in models
            for group in groups
        ]
        scores = list(self._results(jobs))
        of_models = (scores[begin : begin + len(groups)] for begin in range(0, len(scores), len(groups)))
        return [sum(chain(*of_groups), Score()).judged() for of_groups in of_models]

    def _is_worth(self, jobs: int, work: float) -> bool:
        return self.workers > 0 and jobs > 1 and work >= self.least

    def _sends(self, jobs: Sequence[Job]) -> bool:
        """Whether the jobs are large enough for the workers."""
        return self._is_worth(len(jobs), sum(job.cost for job in jobs))

    def _results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        return workers_of_this_command(self.workers).results(jobs) if self._sends(jobs) else (job() for job in jobs)


def _native_refusal(setting: Setting) -> str | None:
    if not compiled.can_run(setting):
        return (
            "it needs the model cnn, mlp or linear, a classification dataset and an algorithm without its own loss or "
            "gradient hook (not moon or fedrs)"
        )
    return kernels.why_not()


def _stacked_refusal(setting: Setting) -> str | None:
    if can_stack(setting):
        return None
    return (
        "it needs the model linear or mlp, classes and an algorithm without its own loss or gradient hook (not moon or "
        "fedrs; on sparse rows, not fedprox, feddyn or scaffold(momentum=inside) either)"
    )


# Each function returns why a way cannot run a setting, or None if it can. Inline can run anything.
_REFUSALS: Mapping[str, Callable[[Setting], str | None]] = {
    "native": _native_refusal,
    "stacked": _stacked_refusal,
    "inline": lambda setting: None,
}


def _work(local_round: LocalRound, parties: Iterable[int]) -> dict[int, float]:
    """Estimate the cost of training each party: parameters times rows visited."""
    rows, size = local_round.setting.solver.rows, local_round.setting.task.network.layout.size
    return {party: float(size * rows(local_round.party(party).samples)) for party in parties}


def _training(local_round: LocalRound, memory: Mapping[int, PartyMemory], stacked: bool) -> list[Job]:
    solver, size = local_round.setting.solver, local_round.setting.task.network.layout.size
    work = _work(local_round, memory)
    train, stacks = _train_one_by_one, [[party] for party in memory]
    if stacked:
        longest_first = sorted(memory, key=lambda party: -solver.count(local_round.party(party).samples))
        train, stacks = _train_stack, _stacks(longest_first, sum(work.values()), size)
    return [
        Job(
            train,
            (local_round.setting, local_round.server),
            ({party: memory[party] for party in stack},),
            sum(work[party] for party in stack),
        )
        for stack in stacks
    ]


def _stacks(parties: Sequence[int], work: float, size: int) -> list[list[int]]:
    """Group parties into stacks, in the same way on every machine because rounding depends on it.

    A long round has at least two stacks, so that two cores have work; each has long and short parties.
    """
    most = min(_IN_A_STACK, max(1, _STACK_BYTES // (16 * size)))  # parameters, gradient, velocity, drift: 4 bytes each
    count = max(-(-len(parties) // most), 2 if work > _WORTH_SPLITTING else 1)
    return [list(parties[place::count]) for place in range(min(count, len(parties)))]


def _rows(parts: Iterable[Part]) -> int:
    return sum(len(part.rows) for part in parts)


# --- functions that workers call ----------------------------------------------------------------------


def _train_one_by_one(setting: Setting, server: Server, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    local_round = LocalRound(setting, server)
    return [local_round(party, party_memory) for party, party_memory in memory.items()]


def _train_stack(setting: Setting, server: Server, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    return train_stack(LocalRound(setting, server), memory)


def _score_parts(setting: Setting, model: Weights, parts: Sequence[Part]) -> list[Score]:
    return setting.task.scores(*model, map(setting.federation.part, parts))


ENGINES: Registry[Engine] = Registry("engine")


@ENGINES.register
def auto(workers: Count | None = None, native: bool = True) -> Engine:
    """The first of native (unless native=false), stacked and inline that supports the run; on all cores if it pays."""
    return Engine((*["native"] * native, "stacked", "inline"), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def inline() -> Engine:
    """Train one party after another with PyTorch, in this process, on one thread."""
    return Engine(("inline",))


@ENGINES.register
def native(workers: Count | None = None) -> Engine:
    """Train each party by one call of compiled code (models cnn, mlp and linear), on threads of this process."""
    return Engine(("native",), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def stacked(workers: Count | None = None) -> Engine:
    """Train parties together as one batched computation (models linear and mlp), one stack per worker process."""
    return Engine(("stacked",), workers=_processes(workers), least=_WORTH_SENDING)


@ENGINES.register
def pool(workers: Count | None = None) -> Engine:
    """Train one party at a time in each worker process, by default one per core; results are identical to inline."""
    return Engine(("inline",), workers=workers or cores())


def _processes(workers: int | None) -> int:
    count = workers or cores()
    return count if count > 1 else 0
