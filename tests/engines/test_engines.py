"""Engines: pool has the bits of inline; stacked and native agree with it to rounding, whatever the workers."""

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from laws import BY_TORCH, EVERY, SCAFFOLDS, bits, feedback, models
from natives import needs_native
from precision import bound, bound_of_steps
from silobench.data import digits
from silobench.engines import ENGINES, Engine, auto, inline, native, pool, stacked
from silobench.engines import engine as engines
from silobench.engines.stacks import stack
from silobench.engines.stacks.sparse import Columns, Coordinates, Rule, SparseRows
from silobench.errors import ConfigError, RecordError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import Problem, Solver, sgd
from silobench.method.transforms import clip
from silobench.method.types import Algorithm, Local, Memory, Pull, Server, Transform, Update, Vector
from silobench.runs.execute import execute, prepare
from silobench.runs.experiment import plan
from silobench.runs.record import read_run
from silobench.tasks.task import task
from silobench.training.state import RoundRecord, State

DIGITS = digits()
AFFINE = [spec for spec in EVERY if spec not in BY_TORCH]
UNCORRECTED = [spec for spec in AFFINE if not any(name in spec for name in ("fedprox", "inside", "feddyn"))]
IN_STACKS, COMPILED = Engine(("stacked",)), Engine(("native",))
TOGETHER = [pytest.param(IN_STACKS, id="stacked"), pytest.param(COMPILED, id="native", marks=needs_native)]


def run(spec: str | Algorithm, federated: Any, engine: Engine, solver: Solver, *transforms, **options):
    algorithm = ALGORITHMS.build(spec) if isinstance(spec, str) else spec
    return list(rounds(Method(algorithm, solver, transforms), *federated, engine=engine, **options))


def same(records: list[RoundRecord]) -> list[Any]:
    """All that two runs share to the bit: everything but the time it took, and where."""
    return [{k: v for k, v in bits(record).items() if k not in ("engine", "workers")} for record in records]


# --- pool ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unequal_digits():
    """Digits at five parties of unequal sizes that keep a fifth of their rows aside."""
    return federate(DIGITS, "quantity-dirichlet(beta=0.5)", 5, seed=1, validation=0.2)


@pytest.mark.parametrize(
    ("model", "spec"),
    [*(("mlp(6)", spec) for spec in EVERY), *(("cnn", spec) for spec in ("fednova", "solo", SCAFFOLDS[1]))],
)
def test_pool_has_the_bits_of_inline_for_any_number_of_workers(unequal_digits, model: str, spec: str) -> None:
    federated = unequal_digits, task(model, DIGITS)
    solver = sgd(lr=0.05, steps=2, batch=16, keep_momentum=True)
    options = {"rounds": 3, "participation": 0.6, "seed": 1, "eval_every": 2}
    transforms = feedback(), clip(norm=0.5)
    alone = run(spec, federated, inline(), solver, *transforms, **options)
    assert spec in ("solo", "combined") or alone[-1].validation is not None
    for workers in (1, 2, 3):
        others = run(spec, federated, pool(workers=workers), solver, *transforms, **options)
        assert same(others) == same(alone)
        parties = 1 if spec == "combined" else 3
        used = {("pool", workers)} if parties > 1 else {("inline", 1)}  # one party needs nobody else
        assert {(record.engine, record.workers) for record in others} == used


@pytest.mark.parametrize("engine", [inline(), pool(workers=2)], ids=str)
def test_denormal_numbers_count_as_zero_in_rounds_and_only_there(unequal_digits, engine: Engine) -> None:
    """They make training ten times as slow where momenta fade away."""

    def product() -> float:
        return float(torch.full((1,), 1e-40).mul(1e38))  # a hundredth, unless the first factor counts as 0

    def correct(grad: Vector, *_: Any) -> Vector:
        return grad + torch.full((1,), 1e-40).mul(1e38)

    federated = unequal_digits, task("mlp(6)", DIGITS)
    solver = sgd(lr=0.05, steps=2, batch=16)
    assert product() > 0.009
    found, expected = (
        models(run(algorithm, federated, engine, solver, rounds=2))
        for algorithm in (Algorithm(correct=correct), Algorithm(correct=lambda grad, *_: grad))
    )
    assert torch.equal(found, expected)
    assert product() > 0.009
    assert torch.set_flush_denormal(True)
    try:
        run("fedavg", federated, engine, solver, rounds=1)
        assert product() == 0  # as it was
    finally:
        torch.set_flush_denormal(False)


# --- stacked ------------------------------------------------------------------------------------------


def inputs(kind: str, count: int, rng: np.random.Generator) -> Any:
    """Rows of nine numbers, images of nine pixels, or sparse rows, some of them empty."""
    if kind == "bytes":
        return rng.integers(0, 256, (count, 1, 3, 3), dtype=np.uint8)
    dense = rng.normal(size=(count, 9)).astype(np.float32)
    return sparse.csr_matrix(dense * (rng.random(dense.shape) < 0.2)) if kind == "sparse" else dense


def go_on(spec: str, federated: Any, engine: Engine, solver: Solver, state: State, *transforms) -> RoundRecord:
    """The second round, from the state after a first one."""
    (record,) = run(spec, federated, engine, solver, *transforms, rounds=2, state=state)
    return record


ROUNDING = bound_of_steps(40, 40)  # the longest of these rounds: two passes over 20 rows, one by one, by three layers


def near(ours: Tensor, theirs: Tensor, rel: float = ROUNDING) -> bool:
    """Whether two vectors are the same up to rounding: their own, and once that of the weights they were taken from."""
    ours, theirs = ours.double(), theirs.double()
    return bool((ours - theirs).norm() <= rel * theirs.norm() + bound(1))


def agree(ours: RoundRecord, theirs: RoundRecord, before: State) -> None:
    """Assert that two rounds from one state are the same up to rounding; a term left out is much more than that."""
    for fact in ("cohort", "steps", "bytes_up", "bytes_down", "clock"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert ours.train_loss == pytest.approx(theirs.train_loss, rel=ROUNDING, abs=bound(1))
    moved, expected = (record.state.server.params - before.server.params for record in (ours, theirs))
    assert near(moved, expected)
    ours, theirs = ours.state, theirs.state
    assert ours.server.extras.keys() == theirs.server.extras.keys()
    assert all(near(ours.server.extras[name], extra) for name, extra in theirs.server.extras.items())
    assert ours.memory.keys() == theirs.memory.keys()
    for party, owners in theirs.memory.items():
        assert ours.memory[party].keys() == owners.keys()
        for owner, kept in owners.items():
            assert ours.memory[party][owner].keys() == kept.keys()
            assert all(near(ours.memory[party][owner][name], vector) for name, vector in kept.items())


@dataclass(frozen=True)
class Case:
    """A round of training: on what, by whom and how."""

    kind: str = "dense"
    spec: str = "fedavg"
    widths: tuple[int, ...] = ()
    sizes: tuple[int, ...] = (20, 1, 9)
    batch: int | str = 8
    passes: tuple[str, int] = ("epochs", 2)
    momentum: float = 0.9
    decay: float = 0.1
    keep: bool = False
    transforms: tuple[Transform, ...] = ()
    window: int = 1 << 19
    seed: int = 0

    @property
    def solver(self) -> Solver:
        return sgd(0.05, self.momentum, self.decay, batch=self.batch, keep_momentum=self.keep, **dict([self.passes]))

    @property
    def model(self) -> str:
        return f"mlp({', '.join(map(str, self.widths))})" if self.widths else "linear"

    def federated(self, silos) -> Any:
        rng, count = np.random.default_rng(self.seed), sum(self.sizes)
        return silos(inputs(self.kind, count, rng), rng.integers(0, 3, count), self.sizes, self.model)


@st.composite
def cases(draw: st.DrawFn, of_sparse: Sequence[str]) -> Case:
    kind = draw(st.sampled_from(["dense", "bytes", "sparse"]))
    return Case(
        kind,
        spec=draw(st.sampled_from(of_sparse if kind == "sparse" else AFFINE)),
        widths=tuple(draw(st.lists(st.integers(2, 6), max_size=3))),
        sizes=tuple(draw(st.lists(st.sampled_from([1, 2, 3, 7, 8, 9, 20]), min_size=1, max_size=5))),
        batch=draw(st.sampled_from([1, 3, 8, 64, "full"])),
        passes=draw(st.sampled_from([("epochs", 1), ("epochs", 2), ("steps", 1), ("steps", 5)])),
        momentum=draw(st.sampled_from([0.0, 0.9])),
        decay=draw(st.sampled_from([0.0, 0.1])),
        keep=draw(st.booleans()),
        transforms=draw(st.sampled_from([(), (clip(norm=0.1),), (feedback(), clip(norm=0.1))])),
        window=draw(st.sampled_from([1, 300, 1 << 19])),
        seed=draw(st.integers(0, 99)),
    )


def check_second_round(silos, case: Case, engine: Engine) -> None:
    """Once in ten thousand a sum lies so near 0 that rounding decides what a ReLU lets through: not in three draws."""
    for seed in (case.seed, case.seed + 100, case.seed + 200):
        ours, theirs, before = second_round(silos, replace(case, seed=seed), engine)
        with suppress(AssertionError):
            agree(ours, theirs, before)
            return
    agree(ours, theirs, before)


def second_round(silos, case: Case, engine: Engine) -> tuple[RoundRecord, RoundRecord, State]:
    """Return the second round by an engine and inline, and the state from which both begin."""
    federated, solver = case.federated(silos), case.solver
    (first,) = run(case.spec, federated, engine, solver, *case.transforms, rounds=1)  # fills the memories
    with patch.object(stack, "_WINDOW", case.window):
        ours = go_on(case.spec, federated, engine, solver, first.state, *case.transforms)
    return ours, go_on(case.spec, federated, inline(), solver, first.state, *case.transforms), first.state


@settings(max_examples=100, deadline=None, derandomize=True)
@given(case=cases(UNCORRECTED))
def test_stacked_agrees_with_inline_to_rounding(silos, case: Case) -> None:
    check_second_round(silos, case, IN_STACKS)


@needs_native
@settings(max_examples=100, deadline=None, derandomize=True)
@given(case=cases(AFFINE))
def test_native_agrees_with_inline_to_rounding(silos, case: Case) -> None:
    check_second_round(silos, case, COMPILED)


def by_hand(federated: Any, solver: Solver, state: State, party: int, pull=lambda here: 0.0, drift=0.0):
    """Plain SGD in double precision through autograd: where a party ends, its velocity and its mean loss."""
    federation, its_task = federated
    x, y = federation.dataset.train.x, federation.y
    x = torch.from_numpy(x.toarray() if sparse.issparse(x) else x).double() / (255 if x.dtype == np.uint8 else 1)
    here, layout, losses = state.server.params.double(), its_task.network.layout, []
    velocity = torch.zeros_like(here)
    for rows in solver.batches(Problem(its_task, federation, federation.parties[party], 0), state.server.round):
        here = here.detach().requires_grad_()
        values, tensors = x[rows].flatten(1), list(layout.views(here).values())
        for layer in range(0, len(tensors), 2):
            values = F.linear(values.relu() if layer else values, tensors[layer], tensors[layer + 1])
        loss = F.cross_entropy(values, y[rows])
        losses.append(loss.item())
        (grad,) = torch.autograd.grad(loss, here)
        with torch.no_grad():
            velocity = solver.momentum * velocity + grad + solver.weight_decay * here + pull(here)
            here = here - solver.lr * (velocity + drift)
    return here, velocity, sum(losses) / len(losses)


BY_HAND = bound_of_steps(6, 30)  # two passes over 20 rows in batches of 8, by nine inputs and three layers


@pytest.mark.parametrize("kind", ["dense", "bytes", "sparse"])
@pytest.mark.parametrize("widths", [(), (5,), (6, 3, 4)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("engine", TOGETHER)
def test_scaffold_by_hand_in_double_precision(silos, engine, kind: str, widths: Any, momentum: float) -> None:
    case = Case(kind, "scaffold", widths, momentum=momentum)
    federated, solver = case.federated(silos), case.solver
    (first,) = run("scaffold", federated, inline(), solver, rounds=1)
    record = go_on("scaffold", federated, engine, replace(solver, keep_momentum=True), first.state)
    start, shared, moved, losses = (first.state.server.params.double(), first.state.server.extras["control"], [], [])
    for party, size in enumerate(case.sizes):
        before, after = (r.state.memory[party]["algorithm"]["control"].double() for r in (first, record))
        drift = shared - before
        assert drift.norm() > 0.01
        end, velocity, loss = by_hand(federated, solver, first.state, party, drift=drift)
        steps = solver.count(size)
        assert near((after + drift) * (steps * solver.lr), start - end, BY_HAND)
        if momentum:  # without, nothing depends on what is kept
            assert near(record.state.memory[party]["solver"]["momentum"], velocity, BY_HAND)
        moved.append(size * (end - start))
        losses.append(size * loss)
    assert near(record.state.server.params - start, sum(moved) / sum(case.sizes), BY_HAND)
    assert record.train_loss == pytest.approx(sum(losses) / sum(case.sizes), rel=BY_HAND)


@pytest.mark.parametrize("kind", ["dense", "bytes"])
@pytest.mark.parametrize("widths", [(), (6, 3)])
@pytest.mark.parametrize("mu", [0, 0.5])
@pytest.mark.parametrize("engine", TOGETHER)
def test_fedprox_by_hand_in_double_precision(silos, engine: Engine, kind: str, widths: Any, mu: float) -> None:
    case = Case(kind, widths=widths)
    federated, solver = case.federated(silos), case.solver
    (first,) = run("fedavg", federated, inline(), solver, rounds=1)
    start = first.state.server.params.double()
    ends = [
        by_hand(federated, solver, first.state, party, pull=lambda here: mu * (here - start))[0]
        for party in range(len(case.sizes))
    ]
    mean = sum(size * end for size, end in zip(case.sizes, ends, strict=True)) / sum(case.sizes)
    record = go_on(f"fedprox(mu={mu})" if mu else "fedavg", federated, engine, solver, first.state)
    assert near(record.state.server.params - start, mean - start, BY_HAND)


def nothing_at_all(kind: str) -> Any:
    """Rows of four parties: zeros only, one zero row among others, and columns that occur at no other party."""
    x = np.zeros((24, 9), np.float32)
    x[6:18, :4] = np.random.default_rng(0).normal(size=(12, 4))
    x[9] = 0
    x[18:, 6:] = 1 + np.arange(18).reshape(6, 3) % 5
    return sparse.csr_matrix(x) if kind == "sparse" else x


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("bias", [0.0, -50.0])  # exactly at the kink of a ReLU, and far beyond it
@pytest.mark.parametrize("spec", ["fedavg", "scaffold"])
@pytest.mark.parametrize("engine", TOGETHER)
def test_dead_and_undecided_units_and_empty_rows_are_as_inline_has_them(
    silos, engine: Engine, kind: str, bias: float, spec: str
) -> None:
    federation, its_task = silos(nothing_at_all(kind), np.arange(24) % 3, (6, 6, 6, 6), "mlp(5, 4)")
    for name, tensor in its_task.network.layout.views(its_task.initial).items():
        if name.endswith("bias"):
            tensor.fill_(bias)
    federated, solver = (federation, its_task), sgd(0.05, 0.9, 0.1, epochs=2, batch=4, keep_momentum=True)
    (first,) = run(spec, federated, inline(), solver, rounds=1)
    ours, theirs = (go_on(spec, federated, each, solver, first.state) for each in (engine, inline()))
    agree(ours, theirs, first.state)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("engine", TOGETHER)
def test_a_party_that_diverges_takes_nobody_with_it(silos, engine: Engine, kind: str) -> None:
    x = inputs("dense", 30, np.random.default_rng(0))
    x[20:] *= 1e25
    x = sparse.csr_matrix(x) if kind == "sparse" else x
    federated, solver = silos(x, np.arange(30) % 3, (10, 10, 10), "mlp(4)"), sgd(0.05, epochs=2, batch=4)
    (ours,), (theirs,) = (run("solo", federated, each, solver, rounds=1) for each in (engine, inline()))
    ours, theirs = ([r.state.memory[party]["algorithm"]["model"] for party in range(3)] for r in (ours, theirs))
    assert [near(one, other) for one, other in zip(ours[:2], theirs[:2], strict=True)] == [True, True]
    assert not ours[2].isfinite().all()
    assert not theirs[2].isfinite().all()


@pytest.mark.parametrize("spec", ["fedavg", "fedprox(mu=0.1)", "scaffold"])
@pytest.mark.parametrize("engine", TOGETHER)
def test_an_aggregation_of_ones_own_sees_every_party(silos, engine: Engine, spec: str) -> None:
    seen: list[Update] = []

    def largest(updates: Iterable[Update]) -> Update:
        seen.extend(updates)
        return max(seen, key=lambda update: update.weight)

    case = Case(spec=spec, widths=(6,), sizes=(20, 1, 9, 33, 8))
    federated, found = case.federated(silos), []
    for each in (engine, inline()):
        seen.clear()
        (record,) = rounds(
            Method(ALGORITHMS.build(spec), case.solver, aggregate=largest), *federated, rounds=1, engine=each
        )
        found.append((record.state.server.params, sorted(seen, key=lambda update: update.weight)))
    (ours, those), (theirs, these) = found
    assert near(ours - federated[1].initial, theirs - federated[1].initial)
    assert [update.weight for update in those] == [update.weight for update in these] == [1, 8, 9, 20, 33]
    assert all(near(a.mean()["delta"], b.mean()["delta"]) for a, b in zip(those, these, strict=True))


@pytest.mark.parametrize("engine", TOGETHER)
def test_parties_see_their_noise(engine: Engine) -> None:
    federated = federate(DIGITS, "noise(sigma=1)", 4), task("mlp(6)", DIGITS)
    clean = federate(DIGITS, "iid", 4), federated[1]
    solver = sgd(0.05, steps=3)
    noisy, alone, without = (
        models(run("fedavg", those, each, solver, rounds=1))
        for those, each in ((federated, engine), (federated, inline()), (clean, inline()))
    )
    assert near(noisy, alone)
    assert not near(noisy, without, 1e-3)


@pytest.mark.parametrize("model", ["linear", "mlp(6)", "cnn"])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_augmentation_is_not_lost(silos, model: str, kind: type) -> None:
    x = np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8)).astype(kind) / kind(1 if kind is np.uint8 else 255)
    x = x.astype(kind)
    federated = silos(x, np.arange(30) % 3, (20, 1, 9), model, augment="crop-flip")
    by_choice, alone = (
        run("fedavg", federated, engine, sgd(0.05, epochs=2), rounds=1) for engine in (auto(), inline())
    )
    still = replace(federated[0], dataset=replace(federated[0].dataset, augment="none")), federated[1]
    unmoved = run("fedavg", still, inline(), sgd(0.05, epochs=2), rounds=1)
    moved, expected, without = (models(those) - federated[1].initial for those in (by_choice, alone, unmoved))
    assert near(moved, expected)
    assert not near(moved, without, 1e-2)


@pytest.mark.parametrize(("kind", "spec"), [("dense", "fedavg"), ("dense", "fedprox(mu=0.1)"), ("sparse", "scaffold")])
def test_who_is_stacked_with_whom_bears_on_rounding_alone(silos, monkeypatch, kind: str, spec: str) -> None:
    case = Case(kind, spec, (6, 3), (20, 1, 9, 33, 8))
    federated = case.federated(silos)
    (first,) = run(spec, federated, inline(), case.solver, rounds=1)
    theirs = go_on(spec, federated, inline(), case.solver, first.state)
    for name, value in (("_IN_A_STACK", 2), ("_WORTH_SPLITTING", 0.0), ("_STACK_BYTES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(engines, name, value)
            agree(go_on(spec, federated, IN_STACKS, case.solver, first.state), theirs, first.state)


@pytest.mark.parametrize(
    ("kind", "spec"), [*(("dense", spec) for spec in AFFINE), *(("sparse", s) for s in UNCORRECTED)]
)
def test_stacked_has_the_same_bits_twice_and_for_any_number_of_workers(silos, kind: str, spec: str) -> None:
    sizes = (17, 3, 1, 9) * 5  # in two stacks
    federated = Case(kind, widths=(6, 3), sizes=sizes).federated(silos)
    solver, options = sgd(0.05, 0.9, 0.1, steps=3, batch=4), {"rounds": 3, "participation": 0.9, "seed": 1}
    first = run(spec, federated, IN_STACKS, solver, **options)
    assert {record.engine for record in first} == {"stacked"}
    assert same(run(spec, federated, IN_STACKS, solver, **options)) == same(first)
    for workers in (1, 2, 3):
        others = run(spec, federated, Engine(("stacked",), workers=workers), solver, **options)
        assert same(others) == same(first)
        assert {record.workers for record in others} == {1 if spec == "combined" else workers}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_identities_hold_in_stacks(silos, momentum: float) -> None:
    federated = Case(widths=(6,), sizes=(20, 9, 30)).federated(silos)
    equal_steps, epochs = (sgd(0.05, momentum, 0.1, batch=8, **{name: 4}) for name in ("steps", "epochs"))
    average, prox, pulled = (
        models(run(spec, federated, IN_STACKS, epochs, rounds=3))
        for spec in ("fedavg", "fedprox(mu=0)", "fedprox(mu=1)")
    )
    assert near(prox, average)
    assert not near(pulled, average, 1e-2)
    steady, nova = (models(run(spec, federated, IN_STACKS, equal_steps, rounds=3)) for spec in ("fedavg", "fednova"))
    assert near(nova, steady)
    assert not near(models(run("fednova", federated, IN_STACKS, epochs, rounds=3)), average, 1e-3)


# --- sparse columns -----------------------------------------------------------------------------------

rates = st.sampled_from([0.0, 0.01, 0.1, 0.5])
decays = st.sampled_from([0.0, 1e-5, 0.3, 0.9])
momenta = st.sampled_from([0.0, 1e-20, 1e-9, 0.3, 0.9, 0.9999])  # nothing, next to nothing, ..., next to a sum


def moved(rule: Rule, w: float, v: float, drift: float, grad: float) -> tuple[float, float]:
    """A weight and its velocity after one step, by the rule as it is written."""
    v = rule.momentum * v + grad + rule.decay * w
    return w - rule.lr * (v + drift), v


@settings(max_examples=100, deadline=None)
@given(
    rule=st.builds(Rule, rates, momenta, decays),
    grads=st.lists(st.sampled_from([0.0, 0.0, 1.0, -0.7]), max_size=120),
)
def test_coordinates_tell_a_weight_at_every_step(rule: Rule, grads: list[float]) -> None:
    known = Coordinates.of(rule, len(grads))
    (w, v), given, drift, base = (0.8, -0.5), np.array([0.8, -0.5, 0.2]), 0.2, 0
    sums = np.zeros(len(known.renewal))
    for step, grad in enumerate(grads):
        if step - base == len(known.added):
            sums, base = known.renewal @ sums, step
        sums = sums + known.added[step - base] * grad
        w, v = moved(rule, w, v, drift, grad)
        found = given @ known.initial[:, step + 1] + known.readout[step - base] @ sums
        bound = 1e-10 * max(1.0, abs(w), abs(v))
        assert abs(found[0] - w) < bound
        if rule.momentum > 1e-12:
            assert abs(found[1] - v) < bound


@pytest.mark.parametrize(
    ("rule", "is_often_renewed"),
    [
        (Rule(0.01, 0.9, 1e-5), False),
        (Rule(0.01, 0.0, 1e-5), False),
        (Rule(0.1, 0.9, 0.1), True),  # swings: its eigenvalues are complex
        (Rule(0.01, 0.9999, 0.0), True),  # its eigenvectors are nearly one
    ],
)
def test_coordinates_hold_for_long_where_they_can(rule: Rule, is_often_renewed: bool) -> None:
    known = Coordinates.of(rule, 300)
    assert len(known.added) == 1 if is_often_renewed else len(known.added) > 200
    assert np.abs(known.added).max() < 1e24


def test_a_rule_that_diverges_says_nothing() -> None:
    assert not np.isfinite(Coordinates.of(Rule(lr=100.0, momentum=0.9, decay=0.1), 1000).initial).all()


@settings(max_examples=60, deadline=None)
@given(
    rule=st.builds(Rule, st.sampled_from([0.01, 0.1, 0.5]), momenta, decays),
    begins=st.sampled_from(["alike", "apart", "at rest"]),
    drifts=st.booleans(),
    steps=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    density=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 99),
)
def test_columns_move_as_in_dense_steps(
    rule: Rule, begins: str, drifts: bool, steps: list[int], density: float, seed: int
) -> None:
    """Several parties that end at different times, against one dense table in double precision."""
    steps, (inputs, outputs, batch) = sorted(steps, reverse=True), (7, 2, 3)
    rng, parties = np.random.default_rng(seed), len(steps)
    weights, velocity, drift = (torch.from_numpy(rng.normal(size=(parties, outputs, inputs))) for _ in range(3))
    if begins == "alike":
        weights = weights[:1].repeat(parties, 1, 1)
    if begins != "apart":
        velocity.zero_()
    start = weights.flatten(1).clone()
    first = start.float()
    members = [
        (
            first[0 if begins == "alike" else place],
            velocity[place].flatten().float() if begins == "apart" else None,
            drift[place].flatten().float() if drifts else None,
        )
        for place in range(parties)
    ]
    drift = drift if drifts else torch.zeros_like(drift)
    columns = Columns(members, inputs, rule, steps)
    x = sparse.csr_matrix((rng.normal(size=(40, inputs)) * (rng.random((40, inputs)) < density)).astype(np.float32))
    for begin, end, active in runs_of_steps(steps):
        rows = torch.from_numpy(rng.integers(0, 40, (end - begin, active, batch)))
        for batches, entries in zip(rows, columns.batches(SparseRows.of(x, rows, begin)), strict=True):
            dense = torch.from_numpy(x[batches.reshape(-1).numpy()].toarray()).double().view(active, batch, inputs)
            product = columns.product(entries).view(active, batch, outputs)
            torch.testing.assert_close(product.double(), dense @ weights[:active].mT, rtol=1e-4, atol=1e-4)
            error = torch.from_numpy(rng.normal(size=(active, batch, outputs)))
            columns.descend(error.float().reshape(-1, outputs))
            grad = error.mT @ dense + rule.decay * weights[:active]
            velocity[:active] = rule.momentum * velocity[:active] + grad
            weights[:active] -= rule.lr * (velocity[:active] + drift[:active])
    for place in range(parties):
        found, speed = columns.weights_of(place).double(), columns.velocity_of(place).double()
        torch.testing.assert_close(found, weights[place].flatten(), rtol=1e-4, atol=1e-4)
        if rule.momentum > 1e-12:
            torch.testing.assert_close(speed, velocity[place].flatten(), rtol=1e-4, atol=1e-4)
    shares = [0.5 + place for place in range(parties)]
    delta = torch.tensor(shares, dtype=torch.float64) @ (weights.flatten(1) - start)
    torch.testing.assert_close(columns.sum_of_deltas(shares).double(), delta, rtol=1e-4, atol=1e-3)


def runs_of_steps(steps: list[int]) -> list[tuple[int, int, int]]:
    """(begin, end, parties at work), for steps in descending order."""
    ends = sorted(set(steps))
    return [(begin, end, sum(end <= own for own in steps)) for begin, end in zip([0, *ends], ends, strict=False)]


GROWTH = """
import re, sys
from pathlib import Path
import numpy as np
from scipy import sparse
from silobench.data.dataset import Dataset, Split
from silobench.engines import ENGINES
from silobench.federation import federate
from silobench.method.method import Method
from silobench.method.algorithms import ALGORITHMS
from silobench.loop.rounds import rounds
from silobench.method.solvers import sgd
from silobench.tasks.task import task

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

rng, shape, a_row = np.random.default_rng(0), (2_000, 47_236), 30
columns = np.concatenate([np.sort(rng.choice(shape[1], a_row, replace=False)) for _ in range(shape[0])])
x = sparse.csr_matrix((np.ones(columns.size, np.float32), columns, np.arange(shape[0] + 1) * a_row), shape)
split = Split(x, rng.integers(0, 2, shape[0]))
data = Dataset("like rcv1", split, split, ("a", "b"), "none")
federation, ready = federate(data, "iid", 5), task("linear", data)
before = peak()
method = Method(ALGORITHMS.build(sys.argv[2]), sgd(lr=0.1, epochs=1))
(record,) = rounds(method, federation, ready, rounds=1, engine=ENGINES.build(sys.argv[1]))
print(record.engine, peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak")
def test_sparse_rows_never_become_dense() -> None:
    command = [sys.executable, "-c", GROWTH, "stacked(workers=1)", "scaffold"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    engine, growth = done.stdout.split()
    assert engine == "stacked"
    assert int(growth) < 2_000 * 47_236 * 4 / 1000 / 5, f"{int(growth) / 1000:.0f} MB"


# --- the choice ---------------------------------------------------------------------------------------


# Without names, because what has one is imported in the worker together with these tests.
CORRECTIONS = {
    "each number": lambda g, at, server, own: (
        g / 2 + torch.sin(at - server.params) * own["scale"] + server.extras["tilt"]
    ),
    "norm": lambda grad, at, server, own: grad / (1 + grad.norm()),
    "memory": lambda grad, at, server, own: grad + own["scale"].mean(),
}


def own(correct: Callable[..., Vector]) -> Algorithm:
    """A user's algorithm with a variable at the server and one at every party."""

    def extras(params: Vector) -> dict[str, Vector]:
        return {"tilt": torch.linspace(-1, 1, len(params)), "count": torch.zeros(3)}

    def memory(params: Vector) -> dict[str, Vector]:
        return {"scale": torch.full_like(params, 0.3)}

    return Algorithm(extras=extras, memory=memory, correct=correct)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_what_is_no_pull_is_run_by_pytorch(silos, correction: str) -> None:
    case = Case(widths=(6, 3))
    federated, algorithm = case.federated(silos), own(CORRECTIONS[correction])
    alone = run(algorithm, federated, inline(), case.solver, rounds=2)
    assert not near(models(alone), models(run("fedavg", federated, inline(), case.solver, rounds=2)), 1e-2)
    for workers in (1, 2):
        by_choice = run(algorithm, federated, replace(auto(workers=workers), least=0.0), case.solver, rounds=2)
        assert same(by_choice) == same(alone)
        assert {record.engine for record in by_choice} == {"inline" if workers == 1 else "pool"}
    for engine in (stacked(), native()):
        with pytest.raises(
            ConfigError, match=r"^engine (stacked|native) cannot run this experiment: [^.]*; use auto\.$"
        ):
            run(algorithm, federated, engine, case.solver, rounds=2)


def its_first_state(federated: Any) -> State:
    federation, its_task = federated
    return State(Server(its_task.initial, {}, {}, 0, len(federation.parties), {}))


def test_a_correction_may_use_autograd(silos) -> None:
    def correct(grad: Vector, at: Vector, server: object, own: object) -> Vector:
        here = at.detach().clone().requires_grad_()
        (here**4).sum().backward()
        return grad + here.grad

    case = Case(widths=(6, 3))
    federated = case.federated(silos)
    by_choice, alone = (run(own(correct), federated, engine, case.solver, rounds=1) for engine in (auto(), inline()))
    assert near(models(by_choice), models(alone))


@pytest.mark.parametrize(
    ("engine", "kind"),
    [(IN_STACKS, "dense"), *(pytest.param(COMPILED, kind, marks=needs_native) for kind in ("dense", "sparse"))],
    ids=str,
)
def test_pulls_of_any_kind_may_differ_from_party_to_party(silos, engine: Engine, kind: str) -> None:
    """Strength, anchor, linear term and drift, together and one by one; party 1 has none of them."""

    def memory(params: Vector) -> dict[str, Vector]:
        return {"calls": torch.zeros(1)}

    def pull(server: Server, own: Vector) -> Pull:
        calls = int(own["calls"])
        anchor, linear, drift = torch.linspace(-1, 1, 3 * len(server.params)).view(3, -1)
        full = Pull(0.3, anchor, linear, drift)
        return [full, Pull(), Pull(0.7), Pull(linear=linear), Pull(drift=drift), replace(full, drift=None)][calls]

    def message(local: Local, server: Server, own: Memory) -> tuple[Update, Memory]:
        return Update.of(local.samples, delta=local.delta), own

    case = Case(kind, widths=(6, 3), sizes=(20, 1, 9, 33, 8, 5))
    federated, algorithm = case.federated(silos), Algorithm(memory=memory, pull=pull, message=message)
    first = its_first_state(federated)
    state = replace(first, memory={p: {"algorithm": {"calls": torch.tensor([float(p)])}} for p in range(6)})
    ours, theirs = (
        next(rounds(Method(algorithm, case.solver), *federated, rounds=1, engine=e, state=state))
        for e in (engine, inline())
    )
    assert near(ours.state.server.params - first.server.params, theirs.state.server.params - first.server.params)


@pytest.mark.parametrize(
    ("kind", "model", "spec", "arithmetic"),
    [
        ("dense", "linear", "fedavg", "stacked"),
        ("dense", "mlp(6, 3)", "scaffold(momentum=inside)", "stacked"),
        ("bytes", "mlp(6)", "fedprox", "stacked"),
        ("bytes", "cnn", "fedavg", "inline"),
        ("sparse", "linear", "scaffold", "stacked"),
        ("sparse", "linear", "fedprox", "inline"),
        ("sparse", "mlp(6)", "scaffold(momentum=inside)", "inline"),
    ],
)
def test_without_a_native_step_the_way_is_chosen_by_model_and_method(
    silos, monkeypatch, kind: str, model: str, spec: str, arithmetic: str
) -> None:
    monkeypatch.setattr("silobench.engines.kernel.why_not", lambda: "there is no compiler")
    monkeypatch.setattr(engines, "_WORTH_SENDING", 0.0)
    monkeypatch.setattr(engines, "_IN_A_STACK", 2)
    x = inputs(kind, 30, np.random.default_rng(0)) if model != "cnn" else DIGITS.train.x[:30]
    federated, solver = silos(x, np.arange(30) % 3, (20, 1, 9), model), sgd(0.05, epochs=1, batch=8)
    first = run(spec, federated, auto(workers=1), solver, rounds=2)
    assert {record.engine for record in first} == {arithmetic}
    for workers in (2, 3):
        others = run(spec, federated, auto(workers=workers), solver, rounds=2)
        assert same(others) == same(first)
        used = {("stacked" if arithmetic == "stacked" else "pool", workers)}
        assert {(record.engine, record.workers) for record in others} == used
    alone = {"inline": inline(), "stacked": stacked(workers=1)}[arithmetic]
    assert same(run(spec, federated, alone, solver, rounds=2)) == same(first)
    if arithmetic == "inline":
        with pytest.raises(ConfigError, match="use auto"):
            run(spec, federated, stacked(), solver, rounds=2)


@needs_native
@pytest.mark.parametrize(
    ("kind", "model", "spec", "way"),
    [
        ("dense", "linear", "fedavg", "native"),
        ("bytes", "cnn", "feddyn", "native"),
        ("sparse", "mlp(6)", "fedprox", "native"),
        ("words", "bag(4)", "fedavg", "inline"),
    ],
)
def test_auto_prefers_the_native_step(silos, monkeypatch, kind: str, model: str, spec: str, way: str) -> None:
    monkeypatch.setattr(engines, "_WORTH_SENDING", 0.0)
    facts = {}
    if kind == "words":
        x, facts = np.random.default_rng(0).integers(0, 5, (30, 4)), {"vocabulary": tuple("?abcd")}
    else:
        x = DIGITS.train.x[:30] if model == "cnn" else inputs(kind, 30, np.random.default_rng(0))
    federated = silos(x, np.arange(30) % 3, (20, 1, 9), model, **facts)
    solver = sgd(0.05, epochs=1, batch=8)
    first = run(spec, federated, auto(workers=1), solver, rounds=2)
    assert {record.engine for record in first} == {way}
    for workers in (2, 4):
        others = run(spec, federated, auto(workers=workers), solver, rounds=2)
        assert same(others) == same(first)
        assert {(record.engine, record.workers) for record in others} == {(way if way == "native" else "pool", workers)}


@pytest.mark.parametrize("engine", [*TOGETHER, pytest.param(inline(), id="inline")])
def test_long_column_numbers_are_read_as_well_as_short_ones(silos, engine: Engine) -> None:
    """Some readers of sparse files give eight bytes to each."""
    short = inputs("sparse", 30, np.random.default_rng(0))
    long = sparse.csr_matrix(short)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    ours, theirs = (
        run("fedavg", silos(x, np.arange(30) % 3, (20, 1, 9), "mlp(6)"), engine, sgd(0.05, epochs=1), rounds=2)
        for x in (long, short)
    )
    assert same(ours) == same(theirs)


def test_a_short_round_stays_in_this_process(toy) -> None:
    assert {r.workers for r in run("fedavg", toy(), auto(workers=2), sgd(epochs=1), rounds=2)} == {1}


def test_engines_have_specs() -> None:
    specs = ("inline", "pool(workers=3)", "stacked(workers=1)", "native(workers=2)", "auto(workers=2)")
    built = [(engine.ways, engine.workers) for engine in map(ENGINES.build, specs)]
    every = ("native", "stacked", "inline")
    assert built == [(("inline",), 0), (("inline",), 3), (("stacked",), 0), (("native",), 2), (every, 2)]


@pytest.mark.parametrize(
    ("begun", "refused", "ends"),
    [
        ("inline", ["stacked", "native"], ["pool(workers=2)", "auto"]),
        ("stacked", ["inline", "native"], ["stacked(workers=2)", "auto"]),
        pytest.param("native", ["inline", "stacked"], ["native(workers=2)", "auto"], marks=needs_native),
    ],
)
def test_a_run_goes_on_as_it_was_begun(tmp_path: Path, begun: str, refused: list[str], ends: list[str]) -> None:
    choices = {"dataset": "fcube", "partition": "octants", "algorithm": "scaffold", "rounds": 4}
    (made,) = plan({**choices, "solver": "sgd(epochs=1, keep_momentum=True)"})
    ready = prepare(made)
    list(execute(ready, tmp_path / "whole", begun))
    for end in ends:
        for record in execute(ready, tmp_path / end, begun):
            if record.round == 2:
                break
        for other in refused:
            with pytest.raises(
                (RecordError, ConfigError), match=f"begun with engine {begun}, and|engine native cannot"
            ):
                list(execute(ready, tmp_path / end, other))
        assert len(list(execute(ready, tmp_path / end, end))) == 2
        whole, parts = (read_run(tmp_path / name / made.id) for name in ("whole", end))
        for fact in ("model_sha256", "state_sha256", "made_by"):
            assert whole.facts[fact] == parts.facts[fact]


@needs_native
def test_a_run_begun_natively_is_not_gone_on_with_where_there_is_no_native_step(tmp_path: Path, monkeypatch) -> None:
    (made,) = plan({"dataset": "fcube", "partition": "octants", "rounds": 3, "solver": "sgd(epochs=1)"})
    ready = prepare(made)
    next(iter(execute(ready, tmp_path)))
    monkeypatch.setattr("silobench.engines.kernel.why_not", lambda: "no C++ compiler was found")
    with pytest.raises(
        ConfigError, match=r"started with engine native, which cannot continue it on this machine \(no C\+\+"
    ):
        list(execute(ready, tmp_path))
    monkeypatch.undo()
    assert [record.round for record in execute(ready, tmp_path)] == [2, 3]


# --- evaluation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "count"), [(0.5, 15), (7, 7), (1, 1), (0.01, 1), (1.0, 30), (30, 30), (99, 30)])
def test_a_share_of_the_test_rows_is_scored_and_all_of_them_at_the_end(toy, share: float | int, count: int) -> None:
    federation, its_task = toy()
    solver = sgd(0.1, epochs=1, batch=8)
    records = run("fedavg", (federation, its_task), inline(), solver, rounds=5, eval_every=2, eval_on=share)
    assert [record.round for record in records if record.accuracy is not None] == [2, 4, 5]
    (part,) = federation.test_parts(share)
    assert len(part.rows) == count
    assert part.rows.tolist() == sorted(set(part.rows.tolist()))
    for record in records[1::2]:
        score = its_task.evaluate(record.state.server.params, its_task.buffers, [federation.part(part)])
        assert (record.accuracy, record.loss) == (score.accuracy, score.loss)
    whole = its_task.evaluate(records[-1].state.server.params, its_task.buffers, federation.test_batches())
    assert (records[-1].accuracy, whole.rows.sum()) == (whole.accuracy, 30)


def test_the_rows_that_are_scored_are_drawn_by_the_seed(toy) -> None:
    federation, _ = toy()
    drawn = [tuple(replace(federation, seed=seed).test_parts(0.5)[0].rows.tolist()) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "engine",
    [
        pool(workers=2),
        Engine(("stacked",), workers=3),
        Engine(("stacked",), workers=2),
        pytest.param(Engine(("native",), workers=2), marks=needs_native),
    ],
)
@pytest.mark.parametrize("spec", ["fedavg", "solo"])
def test_scores_are_the_same_whoever_computes_them(monkeypatch, engine: Engine, spec: str) -> None:
    monkeypatch.setattr("silobench.federation._EVALUATION_ROWS", (50, 50))  # many parts
    federated, solver = (federate(DIGITS, "iid", 3), task("linear", DIGITS)), sgd(0.1, epochs=1)
    ours, alone = (run(spec, federated, e, solver, rounds=2, eval_on=0.7) for e in (engine, replace(engine, workers=0)))
    assert same(ours) == same(alone)


@pytest.mark.parametrize("options", [{"eval_every": 0}, {"eval_on": 0}, {"eval_on": -0.5}])
def test_evaluating_on_nothing_is_refused(toy, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="eval_on"):
        run("fedavg", toy(), inline(), sgd(), **options)
