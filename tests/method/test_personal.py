"""Models of parties: slow versions by hand of every personalised algorithm, identities, bytes and engines."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from laws import SEVERAL_TRAININGS, Toy, bits, close, draw_cohort, feedback, models
from silobench.engines import Engine, auto, inline, native, pool, stacked
from silobench.errors import ConfigError, SpecError
from silobench.loop.clocks import device
from silobench.loop.evaluation import models_to_test
from silobench.loop.paces import buffered
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, apfl, ditto, fedper, fedrep, finetune, perfedavg, pfedme
from silobench.method.method import Method
from silobench.method.solvers import Problem, Solver, sgd
from silobench.method.types import Algorithm, Local, Memory, Server, Step, Train, Update, Vector
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

SIZES = (20, 12, 30, 52, 16)  # no batch of one row, which BatchNorm1d refuses
LR, DECAY, SEED = 0.05, 0.01, 5
MLP = "mlp(6, init=torch)"  # on four numbers: 51 parameters
BODY, HEAD = slice(0, 30), slice(30, 51)
TESTED = [*SEVERAL_TRAININGS, "fedper", "fedrep(head_epochs=2)", "finetune(fedavg)", "finetune(fedper, epochs=2)"]


@pytest.fixture(params=[(1.0, 0.0), (3, 0.9)], ids=["all-plain", "three-momentum"])
def drawn_and_moved(request) -> tuple[float, float]:
    """Participation and momentum: which parties are drawn does not depend on how they train."""
    return request.param


@pytest.fixture
def participation(drawn_and_moved: tuple[float, float]) -> float | int:
    return drawn_and_moved[0]


@pytest.fixture
def momentum(drawn_and_moved: tuple[float, float]) -> float:
    return drawn_and_moved[1]


def solver_with(momentum: float, **options: Any) -> Solver:
    return sgd(**{"lr": LR, "momentum": momentum, "weight_decay": DECAY, "epochs": 2, "batch": 8, **options})


def run(algorithm: Algorithm | str, federated, solver: Solver, *transforms, **options) -> list[RoundRecord]:
    algorithm = ALGORITHMS.build(algorithm) if isinstance(algorithm, str) else algorithm
    return list(rounds(Method(algorithm, solver, transforms), *federated, **{"rounds": 3, "seed": SEED} | options))


class Slow:
    """Plain loops over an MLP in double precision; only the order of rows and the cohorts are silobench's."""

    def __init__(self, federated, momentum: float = 0.0):
        self.federation, self.task = federated
        self.momentum, self.solver = momentum, solver_with(momentum)
        self.start = self.task.initial.double()
        self.sizes = [party.samples for party in self.federation.parties]

    def batches(self, party: int, now: int, training: str = "", epochs: int = 2, seed: int = SEED) -> list[Any]:
        problem = Problem(self.task, self.federation, self.federation.parties[party], seed, training=training)
        solver = solver_with(self.momentum, epochs=epochs)
        return [self.federation.batch(rows) for rows in solver.batches(problem, now)]

    def walk(
        self,
        batches: list[Any],
        start: Tensor,
        term: Callable[[Tensor], Any] = lambda x: 0.0,
        moving: slice = slice(None),
    ) -> Tensor:
        """Return where SGD ends if only the entries in `moving` move."""
        here, velocity = start.clone(), torch.zeros_like(start)
        for batch in batches:
            velocity = self.momentum * velocity + slope(here, *batch) + term(here)
            here[moving] = here[moving] - LR * velocity[moving]
        return here

    def mean(self, cohort: tuple[int, ...], ends: list[Tensor]) -> Tensor:
        weights = [self.sizes[party] for party in cohort]
        return sum(weight * end for weight, end in zip(weights, ends, strict=True)) / sum(weights)


def loss(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
    hidden = (x.double() @ flat[:24].view(6, 4).T + flat[24:30]).clamp(min=0)
    logits = hidden @ flat[30:48].view(3, 6).T + flat[48:51]
    return (logits.logsumexp(1) - logits[torch.arange(len(y)), y]).mean()


def slope(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the loss with weight decay, by plain autograd."""
    flat = flat.clone().requires_grad_()
    loss(flat, x, y).backward()
    return flat.grad + DECAY * flat.detach()


def cohorts(records: list[RoundRecord], participation: float | int) -> Iterator[tuple[RoundRecord, int, Any]]:
    for record in records:
        yield record, record.round - 1, draw_cohort(5, participation, SEED, record.round - 1)


# --- by hand, three rounds ----------------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
def test_fedper_by_hand(toy: Toy, participation: float | int, momentum: float) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    body, heads = slow.start[BODY], [slow.start[HEAD]] * 5
    records = run(fedper(), federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        ends = [slow.walk(slow.batches(party, now), torch.cat([body, heads[party]])) for party in cohort]
        for party, end in zip(cohort, ends, strict=True):
            heads[party] = end[HEAD]
            assert close(record.state.memory[party]["personal"]["params"], end[HEAD])
        body = slow.mean(cohort, ends)[BODY]
        assert close(record.state.server.params[BODY], body)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("head_epochs", [0, 1, 3])
def test_fedrep_by_hand(toy: Toy, participation: float | int, momentum: float, head_epochs: int) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    body, heads = slow.start[BODY], [slow.start[HEAD]] * 5
    records = run(fedrep(head_epochs=head_epochs), federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        ends = []
        for party in cohort:
            both = torch.cat([body, heads[party]])
            of_head = slow.batches(party, now, "head", head_epochs) if head_epochs else []
            heads[party] = slow.walk(of_head, both, moving=HEAD)[HEAD]
            both = torch.cat([body, heads[party]])
            ends.append(slow.walk(slow.batches(party, now), both, moving=BODY))
            assert close(record.state.memory[party]["personal"]["params"], heads[party])
        body = slow.mean(cohort, ends)[BODY]
        assert close(record.state.server.params[BODY], body)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("lam", "epochs"), [(0.5, None), (2.0, 1)])
def test_ditto_by_hand(toy: Toy, participation: float | int, momentum: float, lam: float, epochs: int | None) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    shared, own = slow.start, [slow.start] * 5
    records = run(ditto(lam=lam, epochs=epochs), federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        for party in cohort:
            batches = slow.batches(party, now, "personal", epochs or 2)
            own[party] = slow.walk(batches, own[party], lambda v, w=shared: lam * (v - w))
            assert close(record.state.memory[party]["algorithm"]["model"], own[party])
        shared = slow.mean(cohort, [slow.walk(slow.batches(party, now), shared) for party in cohort])
        assert close(record.state.server.params, shared)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("alpha", "adaptive"), [(0.3, False), (0.5, True), (0.9, True)])
def test_apfl_by_hand(toy: Toy, participation: float | int, momentum: float, alpha: float, adaptive: bool) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    shared, own, shares = slow.start, [slow.start] * 5, [alpha] * 5
    algorithm = apfl(alpha=alpha, adaptive=adaptive)
    setting = Setting(Method(algorithm, slow.solver), *federated, SEED)
    records = run(algorithm, federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        ends = []
        for party in cohort:
            v, w, a = own[party], shared, shares[party]
            speed_v, speed_w = torch.zeros_like(v), torch.zeros_like(w)
            for batch in slow.batches(party, now):
                of_mixture, of_w = slope(a * v + (1 - a) * w, *batch), slope(w, *batch)
                speed_v = momentum * speed_v + a * of_mixture
                speed_w = momentum * speed_w + of_w
                step_of_a = LR * float((v - w) @ of_mixture)
                v, w = v - LR * speed_v, w - LR * speed_w
                a = min(1.0, max(0.0, a - step_of_a)) if adaptive else a
            own[party], shares[party] = v, a
            ends.append(w)
        shared = slow.mean(cohort, ends)
        assert close(record.state.server.params, shared)
        for party in cohort:
            memory = record.state.memory[party]
            assert float(memory["algorithm"]["alpha"]) == pytest.approx(shares[party], rel=1e-9)
            tested = setting.model_at(record.state.server, memory)[0]
            assert close(tested, shares[party] * own[party] + (1 - shares[party]) * shared)
    assert adaptive == (len(set(shares)) > 1)


@pytest.mark.usefixtures("in_double")
def test_perfedavg_by_hand(toy: Toy, participation: float | int, momentum: float) -> None:
    federated, alpha = toy(SIZES, MLP), 0.1
    slow = Slow(federated, momentum)
    shared, algorithm = slow.start, perfedavg(alpha=alpha)
    setting = Setting(Method(algorithm, slow.solver), *federated, SEED)
    records = run(algorithm, federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        ends = []
        for party in cohort:
            w, speed = shared, torch.zeros_like(shared)
            for first, second in zip(*(slow.batches(party, now, name) for name in ("", " draw 1")), strict=True):
                speed = momentum * speed + slope(w - alpha * slope(w, *first), *second)
                w = w - LR * speed
            ends.append(w)
        shared = slow.mean(cohort, ends)
        assert close(record.state.server.params, shared)
        adapted = models_to_test(setting, inline(), record.state)
        for party, (params, _) in zip(slow.federation.parties, adapted, strict=True):
            assert close(params, shared - alpha * slope(shared, *slow.federation.batch(party.rows)))


@pytest.mark.usefixtures("in_double")
def test_perfedavg_without_a_hessian_is_close_to_the_exact_one(toy: Toy, gradient, momentum: float) -> None:
    """On a linear model, whose loss is smooth; the error of the difference is of the order of delta squared."""
    federated, alpha = toy(SIZES), 0.5
    slow = Slow(federated, momentum)
    shared = slow.start
    variants = (perfedavg(alpha=alpha, variant="HF", delta=1e-4), perfedavg(alpha=alpha))
    for record, first_order in zip(*(run(each, federated, slow.solver) for each in variants), strict=True):
        ends = []
        for party in range(5):
            w, speed = shared, torch.zeros_like(shared)
            draws = (slow.batches(party, record.round - 1, name) for name in ("", " draw 1", " draw 2"))
            for first, second, third in zip(*draws, strict=True):
                ahead = w - alpha * (gradient(w, *first) + DECAY * w)
                g = gradient(ahead, *second) + DECAY * ahead
                hessian = _hessian(w, *third) + DECAY * torch.eye(len(w))
                speed = momentum * speed + g - alpha * hessian @ g
                w = w - LR * speed
            ends.append(w)
        shared = slow.mean(tuple(range(5)), ends)
        assert close(record.state.server.params, shared, rel=1e-6)
        assert not close(first_order.state.server.params, shared, rel=1e-3)


def _hessian(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the exact Hessian of the mean cross-entropy of a linear model, [d, d]."""

    def of(flat: Tensor) -> Tensor:
        logits = x @ flat[:12].view(3, 4).T + flat[12:]
        return (logits.logsumexp(1) - logits[torch.arange(len(y)), y]).mean()

    return torch.autograd.functional.hessian(of, flat)  # type: ignore[no-any-return]  # torch has no types here


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("lam", "beta"), [(15.0, 1.0), (1.0, 2.0)])
def test_pfedme_by_hand(toy: Toy, participation: float | int, momentum: float, lam: float, beta: float) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    shared = slow.start
    algorithm = pfedme(lam=lam, inner_steps=3, inner_lr=0.02, beta=beta)
    records = run(algorithm, federated, slow.solver, participation=participation)
    for record, now, cohort in cohorts(records, participation):
        ends = []
        for party in cohort:
            w, theta, speed = shared, shared, torch.zeros_like(shared)
            for batch in slow.batches(party, now):
                for _ in range(3):
                    theta = theta - 0.02 * (slope(theta, *batch) + lam * (theta - w))
                speed = momentum * speed + lam * (w - theta)
                w = w - LR * speed
            ends.append(w)
            assert close(record.state.memory[party]["algorithm"]["model"], theta)
        shared = (1 - beta) * shared + beta * slow.mean(cohort, ends)
        assert close(record.state.server.params, shared)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("inner", ["fedavg", "fedper", "ditto(lam=0.5)"])
def test_finetune_by_hand(toy: Toy, momentum: float, inner: str) -> None:
    """Each party trains on from its model, with batches that no round has."""
    federated = toy(SIZES, MLP)
    slow = Slow(federated, momentum)
    algorithm = ALGORITHMS.build(inner)
    setting, before = (
        Setting(Method(each, slow.solver), *federated, SEED) for each in (finetune(algorithm, 3), algorithm)
    )
    for record in run(finetune(algorithm, 3), federated, slow.solver):
        state, seed = record.state, setting.adapting.seed
        assert seed != SEED
        for party, (params, _) in enumerate(models_to_test(setting, inline(), state)):
            start = before.model_at(state.server, state.memory.get(party, {}))[0]
            assert close(params, slow.walk(slow.batches(party, record.round - 1, "", 3, seed), start))


# --- identities ---------------------------------------------------------------------------------------


def test_fedper_without_layers_is_fedavg(toy: Toy) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9)
    ours, average = (run(name, federated, solver) for name in ("fedper(layers=0)", "fedavg"))
    assert [bits(r) for r in ours] == [bits(r) for r in average]


@pytest.mark.parametrize("spec", ["ditto", "apfl", "finetune(fedavg)", "finetune(fedavg, epochs=3)"])
def test_the_shared_model_is_that_of_fedavg(toy: Toy, spec: str) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9, epochs=1)
    assert torch.equal(models(run(spec, federated, solver)), models(run("fedavg", federated, solver)))


def test_a_mixture_without_a_model_of_its_own_is_fedavg_and_without_the_shared_one_solo(toy: Toy) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9)
    for share, name in ((0.0, "fedavg"), (1.0, "solo")):
        ours, theirs = run(apfl(alpha=share, adaptive=False), federated, solver), run(name, federated, solver)
        assert [r.accuracy for r in ours] == [r.accuracy for r in theirs]
        assert [r.loss for r in ours] == pytest.approx([r.loss for r in theirs], rel=1e-6)
        if name == "solo":
            for party in range(5):
                of_ours, of_theirs = (r[-1].state.memory[party]["algorithm"]["model"] for r in (ours, theirs))
                assert torch.equal(of_ours, of_theirs)


@pytest.mark.usefixtures("in_double")
def test_ditto_without_a_pull_is_solo(toy: Toy) -> None:
    """With all rows in one batch, so that their order does not matter."""
    federated, solver = toy(SIZES, MLP), solver_with(0.9, batch="full", epochs=4)
    free, pulled, alone = (run(spec, federated, solver) for spec in ("ditto(lam=0)", "ditto(lam=0.5)", "solo"))
    for party in range(5):
        of_free, of_pulled, of_alone = (r[-1].state.memory[party]["algorithm"]["model"] for r in (free, pulled, alone))
        assert close(of_free, of_alone)
        assert not close(of_pulled, of_alone, rel=1e-2)


@pytest.mark.usefixtures("in_double")
def test_a_strong_pull_leaves_dittos_models_at_the_shared_one(toy: Toy) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.0, epochs=20)
    near, far = (run(ditto(lam=lam), federated, solver)[-1].state for lam in (15.0, 0.01))
    shared = run("fedavg", federated, solver, rounds=2)[-1].state.server.params  # that of the last round
    for party in range(5):
        distances = [(s.memory[party]["algorithm"]["model"] - shared).norm() for s in (near, far)]
        assert distances[0] < distances[1] / 5


@pytest.mark.usefixtures("in_double")
def test_perfedavg_with_a_short_step_is_fedavg_and_tests_the_shared_model(toy: Toy) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9, batch="full", epochs=4)
    average = run("fedavg", federated, solver)
    for variant in ("FO", "HF"):
        ours = run(perfedavg(alpha=1e-9, variant=variant), federated, solver)
        assert close(models(ours), models(average), rel=1e-6)
        assert [r.accuracy for r in ours] == [r.accuracy for r in average]


def _direction_of(algorithm: Algorithm) -> Callable[[Step], tuple[Vector, Memory]]:
    """Return the direction that an algorithm gives its only training."""
    directions = []

    def train(start: Vector, **options: Any) -> Local:
        directions.append(options["direction"])
        return Local(start, start, 1, 1.0, 0.1, 1, 0.0, lambda x: x, None, 0.1, 0.0, 1, scratch={})  # type: ignore[arg-type]

    assert algorithm.trainings is not None
    algorithm.trainings(train, Server(torch.zeros(3), {}, {}, 0, 1, {}), {})  # type: ignore[arg-type]
    return directions[0]


def test_pfedme_follows_the_gradient_of_the_moreau_envelope() -> None:
    """Of ½ xᵀ A x - b x: at its minimum nothing moves, and elsewhere the gradient is λ (w - prox(w))."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    matrix, vector, lam = root @ root.T + torch.eye(3), torch.randn(3, generator=generator, dtype=torch.float64), 2.0
    direction = _direction_of(pfedme(lam=lam, inner_steps=2000, inner_lr=0.02))

    def gradient(x: Tensor, draw: int = 0) -> Tensor:
        return matrix @ x - vector

    best = torch.linalg.solve(matrix, vector)
    other = best + torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    for point, expected in (
        (best, torch.zeros(3, dtype=torch.float64)),
        (other, lam * (other - torch.linalg.solve(matrix + lam * torch.eye(3), vector + lam * other))),
    ):
        found, scratch = direction(Step(point, gradient, {"model": point}, 0.1))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(scratch["model"], point - expected / lam, rtol=1e-9, atol=1e-9)


# --- several trainings in a round ---------------------------------------------------------------------


def test_trainings_have_their_own_order_momentum_and_random_numbers(toy: Toy) -> None:
    """Two of one name are refused; the memory of the solver is one for each name, also for models side by side."""

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        first, second = train(server.params), train(server.params, "second")
        assert not torch.equal(first.end, second.end)
        pair = train(torch.stack([server.params] * 2), "pair", direction=_plain)
        assert torch.equal(pair.end[0], pair.end[1])
        assert not torch.equal(pair.end[0], first.end)
        return first, memory

    def twice(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        return train(server.params), {"again": train(server.params).end}

    def _plain(step: Step) -> tuple[Vector, Memory]:
        return torch.stack([step.gradient(model) for model in step.params]), {}

    federated, solver = toy(SIZES, MLP), solver_with(0.9, steps=3, keep_momentum=True, epochs=10)
    (record,) = run(Algorithm(trainings=trainings), federated, solver, rounds=1)
    owners = {name: sorted(each) for name, each in record.state.memory[0].items()}
    expected = {"solver": ["momentum"], "solver-pair": ["0-momentum", "1-momentum"], "solver-second": ["momentum"]}
    assert owners == expected
    with pytest.raises(Exception, match="two trainings of a round have the name ''"):
        run(Algorithm(trainings=twice), federated, solver, rounds=1)


def test_a_training_along_the_gradient_is_the_usual_one(toy: Toy) -> None:
    """Bit for bit, with dropout drawn anew in every step but not within one."""
    federated, solver = toy(SIZES, MLP), solver_with(0.9, keep_momentum=True, epochs=1)

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        return train(server.params, direction=lambda step: (step.gradient(step.params), {})), memory

    ours, average = (run(each, federated, solver) for each in (Algorithm(trainings=trainings), "fedavg"))
    assert torch.equal(models(ours), models(average))
    assert [r.train_loss for r in ours] == pytest.approx([r.train_loss for r in average], rel=1e-5)


def test_the_gradients_of_a_step_share_their_random_numbers(toy: Toy) -> None:
    noises: list[float] = []

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        hook = network.module.register_forward_pre_hook(lambda *_: noises.append(float(torch.rand(()))))
        local = train(
            server.params, direction=lambda step: (step.gradient(step.params) + step.gradient(step.params), {})
        )
        hook.remove()
        return local, memory

    federated = toy((16,), MLP)
    network = federated[1].network
    run(Algorithm(trainings=trainings), federated, solver_with(0.0, epochs=1), rounds=1)
    assert len(noises) == 4
    assert noises[0] == noises[1] != noises[2] == noises[3]


def test_frozen_tensors_stay_under_any_solver(toy: Toy) -> None:
    from silobench.method.solvers import adam

    federated = toy(SIZES, MLP)
    for solver in (solver_with(0.9), adam(lr=0.1, weight_decay=0.1, decoupled=True, epochs=1)):
        before = federated[1].initial
        after = models(run("fedrep(head_epochs=0)", federated, solver))[-1]
        assert torch.equal(after[HEAD], before[HEAD])
        memory = run("fedrep(head_epochs=0)", federated, solver)[-1].state.memory[0]
        assert torch.equal(memory["personal"]["params"], before[HEAD])
        assert not torch.equal(after[BODY], before[BODY])


def test_statistics_are_those_of_the_model_that_is_tested(normed: Toy) -> None:
    """BatchNorm: of ditto's own models and of apfl's mixture; the shared model trains as if there were none."""
    federated, solver = normed(), solver_with(0.9)

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        local = train(memory["model"], "personal")
        return local, {"model": local.end}

    def send_nothing(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update.of(local.samples, delta=torch.zeros_like(local.start)), memory

    lone = Algorithm(
        memory=lambda params: {"model": params},
        trainings=trainings,
        message=send_nothing,
        replica=lambda server, memory: memory["model"],
    )
    pairs = [("ditto(lam=0)", lone), ("apfl(alpha=1.0, adaptive=False)", "solo")]
    for ours, theirs in pairs:
        first, second = (run(each, federated, solver)[-1].state for each in (ours, theirs))
        for party in range(5):
            assert torch.equal(first.memory[party]["network"]["buffers"], second.memory[party]["network"]["buffers"])
        assert torch.equal(first.server.params, run("fedavg", federated, solver)[-1].state.server.params)


# --- fine-tuning --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "inner"),
    [
        *((inline(), inner) for inner in ("fedavg", "scaffold(option=1)", "solo", "feddyn")),
        *((engine(workers=1), inner) for engine in (native, stacked) for inner in ("fedavg", "scaffold(option=1)")),
    ],
    ids=str,
)
def test_rounds_of_finetune_are_those_of_its_algorithm(toy: Toy, engine: Engine, inner: str) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9)
    ours, theirs = (run(each, federated, solver, engine=engine) for each in (f"finetune({inner}, epochs=2)", inner))
    assert {record.engine for record in ours} == {engine.mode}
    for one, other in zip(ours, theirs, strict=True):
        assert bits(one.state) == bits(other.state)
        assert (one.bytes_up, one.bytes_down, one.train_loss) == (other.bytes_up, other.bytes_down, other.train_loss)
        assert one.loss != other.loss
        assert one.accuracy_std is not None


def test_finetune_keeps_averaged_statistics_and_moves_them_for_a_test(normed: Toy) -> None:
    federated, solver = normed(), solver_with(0.9)
    ours, theirs = (run(each, federated, solver) for each in ("finetune(fedavg)", "fedavg"))
    assert [bits(r.state) for r in ours] == [bits(r.state) for r in theirs]
    setting = Setting(Method(ALGORITHMS.build("finetune(fedavg)"), solver), *federated, SEED)
    for params, buffers in models_to_test(setting, inline(), ours[-1].state):
        assert not torch.equal(buffers, ours[-1].state.server.buffers)
        assert not torch.equal(params, ours[-1].state.server.params)


def test_finetune_has_the_learning_rate_of_the_last_round(toy: Toy) -> None:
    """Which is not zero, though that of the next round is."""
    from silobench.method.solvers import SOLVERS

    solver = SOLVERS.build("sgd(lr=polynomial(0.1, over=2), epochs=1)")
    federated = toy(SIZES, MLP)
    ours, average = (run(each, federated, solver, rounds=2) for each in ("finetune(fedavg)", "fedavg"))
    assert ours[-1].loss != average[-1].loss


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("finetune", "missing a required argument: 'algorithm'; write finetune"),
        ("finetune(fedavgg)", "did you mean fedavg"),
        ("finetune(3)", "algorithm must be an instance of Algorithm, but 3 was given"),
        ("finetune(fedavg, epochs=0)", "epochs must be greater than or equal to 1"),
        ("finetune(combined)", "combined pools their rows: use another"),
        ("finetune(finetune(fedavg))", "this one adapts them already"),
        ("finetune(perfedavg)", "this one adapts them already"),
        ("fedprox(mu=fedavg())", "cannot be specs, but 'fedavg' was given"),
    ],
)
def test_what_finetune_cannot_be_given(spec: str, message: str) -> None:
    with pytest.raises((SpecError, ConfigError), match=message):
        ALGORITHMS.build(spec)


@pytest.mark.parametrize(
    ("spec", "full", "short"),
    [
        ("finetune(fedavg)", "finetune(algorithm=fedavg(), epochs=1)", "finetune(fedavg)"),
        ("finetune(algorithm=fedavg())", "finetune(algorithm=fedavg(), epochs=1)", "finetune(fedavg)"),
        (
            "finetune(scaffold(option=1), epochs=5)",
            "finetune(algorithm=scaffold(option=1, init=zeros, momentum=outside), epochs=5)",
            "finetune(scaffold(option=1), epochs=5)",
        ),
    ],
)
def test_a_full_spec_states_the_inner_algorithm_with_all_its_arguments(spec: str, full: str, short: str) -> None:
    for text in (spec, full, short):
        bound = ALGORITHMS.bind(text)
        assert (str(bound.full), str(bound.short)) == (full, short)


# --- bytes, engines, the clock ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "entries"),
    [("fedper", 30), ("fedrep", 30), *((spec, 51) for spec in (*SEVERAL_TRAININGS, "finetune(fedavg)"))],
)
def test_only_what_is_sent_is_counted(toy: Toy, spec: str, entries: int) -> None:
    records = run(spec, toy(SIZES, MLP), solver_with(0.9, epochs=1), participation=3)
    assert {(r.bytes_up, r.bytes_down) for r in records} == {(3 * 4 * entries, 3 * 4 * entries)}


@pytest.mark.parametrize("spec", ["fedper", "fedrep(layers=2)"])
def test_a_network_with_personal_layers_only_is_refused(toy: Toy, spec: str) -> None:
    with pytest.raises(ConfigError, match="so nothing would be shared: give fewer layers"):
        run(spec, toy(SIZES, "linear" if spec == "fedper" else MLP), solver_with(0.9))


@pytest.mark.parametrize("spec", SEVERAL_TRAININGS)
def test_fast_engines_refuse_what_they_cannot_train(toy: Toy, spec: str) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9, epochs=1)
    assert {r.engine for r in run(spec, federated, solver, rounds=1, engine=auto(workers=1))} == {"inline"}
    for engine in (native(workers=1), stacked(workers=1)):
        with pytest.raises(ConfigError, match="without its own loss, gradient or trainings"):
            run(spec, federated, solver, engine=engine)


@pytest.mark.parametrize("spec", TESTED)
def test_pool_has_the_bits_of_inline(toy: Toy, spec: str) -> None:
    federated, solver = toy(SIZES, MLP), solver_with(0.9, steps=3, epochs=10, keep_momentum=True)
    options = {"participation": 3, "rounds": 4, "eval_every": 2}
    here, there = (
        run(spec, federated, solver, feedback(), engine=engine, **options) for engine in (inline(), pool(workers=2))
    )
    left_out = ("engine", "workers")
    plain = [[{k: v for k, v in bits(r).items() if k not in left_out} for r in each] for each in (here, there)]
    assert plain[0] == plain[1]
    for done in (0, 1):  # and resumed after a round without a test and after one with it
        resumed = run(spec, federated, solver, feedback(), **options, state=here[done].state)
        assert [bits(r) for r in resumed] == [bits(r) for r in here[done + 1 :]]


@pytest.mark.parametrize(
    ("spec", "passes"),
    [
        ("fedavg", 2), ("fedper", 2), ("fedrep(head_epochs=3)", 5), ("ditto", 4), ("ditto(epochs=5)", 7), ("apfl", 4),
        ("perfedavg", 4), ("perfedavg(variant=HF)", 8), ("pfedme(inner_steps=3)", 6), ("finetune(fedavg)", 2),
    ],
)  # fmt: skip
def test_the_virtual_clock_counts_all_trainings_of_a_round(toy: Toy, spec: str, passes: int) -> None:
    records = run(spec, toy(SIZES, MLP), solver_with(0.9), clock=device(speed=10.0), rounds=1)
    assert records[0].computing == pytest.approx(passes * max(SIZES) / 10)


@pytest.mark.parametrize("spec", TESTED)
def test_they_train_at_any_pace(toy: Toy, spec: str) -> None:
    """A party that is late has learnt meanwhile; its own model is tested."""
    options = {"pace": buffered(size=2), "clock": device(speed=100, spread=0.8), "rounds": 6}
    records = run(spec, toy(SIZES, MLP), solver_with(0.9, epochs=1), **options)
    assert max(record.reports["staleness"] for record in records) > 0
    assert all(record.accuracy_std is not None for record in records)
    assert models(records).isfinite().all()
