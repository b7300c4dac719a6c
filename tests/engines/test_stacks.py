"""The stacked engine: how parties are grouped, and the first layer on sparse rows."""

import sys

import numpy as np
import pytest
import torch
from engine_cases import AFFINE, IN_STACKS, UNCORRECTED, Case, agree, go_on, near, run, same
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from commands import run_code
from laws import models
from silobench.engines import Engine, inline
from silobench.engines.stacks.sparse import Columns, Coordinates, Rule, SparseRows
from silobench.method.solvers import sgd


@pytest.mark.parametrize(("kind", "spec"), [("dense", "fedavg"), ("dense", "fedprox(mu=0.1)"), ("sparse", "scaffold")])
def test_grouping_into_stacks_affects_rounding_only(silos, monkeypatch, kind: str, spec: str) -> None:
    case = Case(kind, spec, (6, 3), (20, 1, 9, 33, 8))
    federated = case.federated(silos)
    (first,) = run(spec, federated, inline(), case.solver, rounds=1)
    theirs = go_on(spec, federated, inline(), case.solver, first.state)
    for name, value in (("_IN_A_STACK", 2), ("_WORTH_SPLITTING", 0.0), ("_STACK_BYTES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(f"silobench.engines.modes.stacked.{name}", value)
            agree(go_on(spec, federated, IN_STACKS, case.solver, first.state), theirs, first.state)


@pytest.mark.parametrize(
    ("kind", "spec"), [*(("dense", spec) for spec in AFFINE), *(("sparse", s) for s in UNCORRECTED)]
)
def test_stacked_has_the_same_bits_twice_and_for_any_number_of_workers(silos, kind: str, spec: str) -> None:
    sizes = (17, 3, 1, 9) * 5  # in two stacks
    federated = Case(kind, widths=(6, 3), sizes=sizes).federated(silos)
    solver, options = sgd(0.05, 0.9, 0.1, steps=3, batch=4), {"rounds": 2, "participation": 0.9, "seed": 1}
    first = run(spec, federated, IN_STACKS, solver, **options)
    assert {record.engine for record in first} == {"stacked"}
    for workers in (1, 3):  # the first in this process, again
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
def test_coordinates_give_a_weight_at_every_step(rule: Rule, grads: list[float]) -> None:
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


def test_a_rule_that_diverges_gives_no_warning() -> None:
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
    engine, growth = run_code(GROWTH, "stacked(workers=1)", "scaffold").decode().split()
    assert engine == "stacked"
    assert int(growth) < 2_000 * 47_236 * 4 / 1000 / 5, f"{int(growth) / 1000:.0f} MB"
