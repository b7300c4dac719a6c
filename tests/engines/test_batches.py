"""Many small parties in one native call: NumPy's orders, the bits of single calls, and errors that name the party."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natives import needs_native
from silobench.data import Dataset, Split
from silobench.engines import Engine
from silobench.engines.kernel import PARTY, KernelError, PartyError, Passes, Rows, Rule, Shape, Walk, batches, native
from silobench.engines.kernel import parties as compiled
from silobench.engines.kernel.binding import parameters
from silobench.errors import RunError
from silobench.federation import Federation, federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.rng import key_words, stream
from silobench.tasks.task import task

pytestmark = needs_native

_SEEDS = st.one_of(st.integers(0, 5), st.integers(0, 1 << 33), st.integers(0, 1 << 200))
_NUMBERS = st.integers(0, (1 << 32) - 1)


def table_of(parties: list[np.ndarray], numbers: list[int] | None = None) -> np.ndarray:
    table = np.zeros(len(parties), PARTY)
    table["rows"], table["count"] = [rows.ctypes.data for rows in parties], [len(rows) for rows in parties]
    table["number"] = range(len(parties)) if numbers is None else numbers
    return table


def order_by_numpy(seed: int, round: int, party: int, rows: np.ndarray, epochs: int) -> np.ndarray:
    generator = stream(seed, "order", round, party)
    return np.concatenate([generator.permutation(rows) for _ in range(epochs)])


@settings(max_examples=150, deadline=None)
@given(seed=_SEEDS, round=_NUMBERS, party=_NUMBERS, count=st.integers(1, 300), epochs=st.integers(1, 3))
def test_orders_are_those_of_numpy(seed: int, round: int, party: int, count: int, epochs: int) -> None:
    rows = np.arange(count) * 7 + 3
    key = np.append(key_words(seed, "order", round), np.uint32(party))
    assert np.array_equal(native().kernel.order(key, rows, epochs), order_by_numpy(seed, round, party, rows, epochs))


def test_a_long_order_is_that_of_numpy() -> None:
    rows, key = np.arange(70_000), np.append(key_words(1, "order", 2), np.uint32(3))
    assert np.array_equal(native().kernel.order(key, rows), order_by_numpy(1, 2, 3, rows, 1))


def summed_one_by_one(
    shape: Shape,
    rows: Rows,
    parties: list[np.ndarray],
    passes: tuple[int, int, int, int],
    rule: Rule,
    start: np.ndarray,
) -> tuple[np.ndarray, list[float]]:
    """Return the sum of the changes, by single calls and PyTorch, and the losses."""
    seed, round, epochs, size = passes
    total, losses = torch.zeros(0), []
    for party, members in enumerate(parties):
        sizes = [len(members[begin : begin + size]) for begin in range(0, len(members), size)] * epochs
        end = start.copy()
        walk = Walk(order_by_numpy(seed, round, party, members, epochs), sizes)
        losses.append(native().kernel.train(shape, rows, walk, rule, end))
        moved = torch.from_numpy(end).sub_(torch.from_numpy(start))
        total = total.add_(moved, alpha=float(len(members))) if party else moved.mul_(float(len(members)))
    return total.numpy(), losses


@settings(max_examples=40, deadline=None)
@given(
    widths=st.sampled_from([(22, 7), (37, 10), (9, 20, 3), (16, 33, 17, 2)]),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    is_bytes=st.booleans(),
    epochs=st.integers(1, 3),
    size=st.integers(1, 70),
    pulls=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    threads=st.integers(0, 4),
    seed=st.integers(0, 1 << 40),
)
def test_a_batch_has_the_bits_of_single_calls(
    widths: tuple[int, ...],
    counts: list[int],
    is_bytes: bool,
    epochs: int,
    size: int,
    pulls: tuple[bool, bool, bool],
    threads: int,
    seed: int,
) -> None:
    rng, shape = np.random.default_rng(seed), Shape(widths)
    x = rng.integers(0, 256, (50, widths[0]), np.uint8) if is_bytes else rng.normal(size=(50, widths[0]))
    rows = Rows(x if is_bytes else x.astype(np.float32), rng.integers(0, widths[-1], 50))
    start, *vectors = (rng.normal(0, 0.1, parameters(shape)).astype(np.float32) for _ in range(4))
    anchor, linear, drift = (vector if used else None for vector, used in zip(vectors, pulls, strict=True))
    rule = Rule(0.05, 0.9, 0.01, 0.1, anchor, linear, drift)
    parties = [rng.integers(0, 50, count) for count in counts]
    table, passes = table_of(parties), Passes(key_words(seed, "order", 3), epochs, size)
    kernel, half = native().kernel, len(parties) // 2
    whole = kernel.train_batch(shape, rows, passes, rule, start, table, threads)
    expected, losses = summed_one_by_one(shape, rows, parties, (seed, 3, epochs, size), rule, start)
    assert whole.tobytes() == expected.tobytes()
    assert table["loss"].tolist() == losses
    assert table["steps"].tolist() == [epochs * -(-count // size) for count in counts]
    if half:
        first = kernel.train_batch(shape, rows, passes, rule, start, table[:half], threads)
        assert kernel.train_batch(shape, rows, passes, rule, start, table[half:], 1, first).tobytes() == whole.tobytes()


def test_a_batch_is_refused_where_one_of_its_parties_is_wrong() -> None:
    shape, rows = Shape((4, 3)), Rows(np.zeros((5, 4), np.float32), np.array([0, 1, 2, 1, 7]))
    passes, start = Passes(key_words(0, "order"), 1, 2), np.zeros(15, np.float32)
    for members, match in ((np.array([1, 4]), "label"), (np.array([5]), "row number"), (np.array([-1]), "row number")):
        parties = [np.array([0, 1]), members, np.array([2])]
        with pytest.raises(PartyError, match=match) as caught:
            native().kernel.train_batch(shape, rows, passes, Rule(0.1), start, table_of(parties), 2)
        assert caught.value.place == 1


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"epochs": 0}, "a batch is empty"),
        ({"batch": 0}, "a batch is empty"),
        ({"members": []}, "a batch is empty"),
        ({"number": 1 << 32}, "a batch is empty"),
        ({"key": np.zeros(64, np.uint32)}, "a batch is empty"),
        ({"shape": Shape((64, 120, 84, 10), (1, 8, 8), padding=2)}, "shape"),
        ({"start": np.zeros(14, np.float32)}, "vector of 14"),
        ({"table": np.zeros(3)}, "array of parties"),
    ],
)
def test_wrong_batches_are_refused(wrong: dict[str, Any], match: str) -> None:
    shape = wrong.get("shape", Shape((4, 3)))
    x = np.zeros((5, 4) if shape.pictures is None else (5, *shape.pictures), np.float32)
    rows, members = Rows(x, np.zeros(5, np.int64)), np.array(wrong.get("members", [1]), np.int64)
    passes = Passes(wrong.get("key", key_words(0, "order")), wrong.get("epochs", 1), wrong.get("batch", 2))
    table = wrong.get("table", table_of([members], [wrong.get("number", 0)]))
    start = wrong.get("start", np.zeros(parameters(shape), np.float32))
    with pytest.raises(KernelError, match=match):
        native().kernel.train_batch(shape, rows, passes, Rule(0.1), start, table)


# --- runs ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def federation() -> Federation:
    rng = np.random.default_rng(0)
    halves = (Split(rng.normal(size=(n, 12)).astype(np.float32), np.arange(n) % 3) for n in (200, 60))
    data = Dataset("rows", *halves, tuple("abc"), "none")
    return federate(data, "quantity-dirichlet(beta=0.5, min_size=1)", 15, seed=3)


def trained(federation: Federation, spec: str = "fedavg", threads: int = 0, seed: int = 0, **solver: Any) -> list[Any]:
    method = Method(ALGORITHMS.build(spec), sgd(**{"lr": 0.05, "epochs": 2, "batch": 8, **solver}))
    options = {"rounds": 3, "participation": 9, "seed": seed, "engine": Engine(("native",), workers=threads)}
    return list(rounds(method, federation, task("mlp(10)", federation.dataset), **options))


def facts(records: list[Any]) -> list[Any]:
    """Return what must not depend on how parties were trained."""
    values = ("accuracy", "loss", "train_loss", "steps", "rows", "bytes_up", "bytes_down", "clock", "cohort")
    bits = [record.state.server.params.numpy().tobytes() for record in records]
    return [[getattr(record, name) for name in values] for record in records] + bits


@pytest.mark.parametrize("seed", [0, (1 << 32) + 9])
@pytest.mark.parametrize("spec", ["fedavg", "fedprox(mu=0.1)"])
def test_a_run_has_the_same_bits_with_and_without_batches(
    federation: Federation, spec: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = facts(trained(federation, spec, seed=seed))
    assert facts(trained(federation, spec, 3, seed)) == together
    monkeypatch.setattr(batches, "_WORK_OF_A_CALL", 5000.0)  # several calls in a round
    assert facts(trained(federation, spec, 2, seed)) == together
    monkeypatch.setattr(compiled, "can_batch", lambda *_: False)
    assert facts(trained(federation, spec, 2, seed)) == together


@pytest.mark.parametrize(
    ("spec", "solver", "calls"),
    [
        ("fedavg", {}, 3),
        ("fedprox", {}, 3),
        ("fedavg", {"batch": "full"}, 3),
        ("scaffold", {}, 0),
        ("fedavg", {"keep_momentum": True}, 0),
        ("fedavg", {"epochs": 10, "steps": 4}, 0),
    ],
)
def test_parties_that_differ_only_in_their_rows_are_trained_in_one_call_per_round(
    federation: Federation, spec: str, solver: dict[str, Any], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, count = native().kernel, 0
    original = kernel.train_batch

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return original(*args)

    monkeypatch.setattr(kernel, "train_batch", counted)
    trained(federation, spec, **solver)
    assert count == calls


def test_long_parties_are_trained_one_by_one(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    together = facts(trained(federation))
    monkeypatch.setattr(batches, "_LARGEST_PARTY", 100.0)
    monkeypatch.setattr(native().kernel, "train_batch", None)
    assert facts(trained(federation)) == together


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_names_the_party(federation: Federation, threads: int) -> None:
    row = int(federation.parties[4].rows[0])
    labels = federation.dataset.train.y.copy()
    labels[row] = 9
    holder = next(party.id for party in federation.parties if row in party.rows.tolist())
    with pytest.raises(RunError, match=rf"^round \d, party {holder}: PartyError: the native step refused .* a label"):
        trained(replace(federation, labels=labels), threads=threads)


def test_the_seconds_of_a_round_are_those_of_its_parties(federation: Federation) -> None:
    for record in trained(federation, threads=2):
        assert record.workers == 2
        assert 0 < record.seconds["slowest"] <= 2 * record.seconds["train"]


def test_another_numpy_or_torch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batches.is_exact()
    with monkeypatch.context() as patch:
        patch.setattr(batches, "stream", lambda seed, purpose, round, party: stream(seed, purpose, round, party + 1))
        assert not batches.is_exact.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(batches, "key_words", lambda seed, purpose, round: key_words(seed + 1, purpose, round))
        assert not batches.is_exact.__wrapped__()
    exact = torch.Tensor.add_
    with monkeypatch.context() as patch:  # a product that is rounded by itself
        patch.setattr(torch.Tensor, "add_", lambda self, other, alpha: exact(self, other * alpha))
        assert not batches.is_exact.__wrapped__()


@given(
    counts=st.lists(st.integers(1, 1000), min_size=1, max_size=50).map(lambda counts: sorted(counts, reverse=True)),
    row_work=st.floats(1, 1e7),
    nbytes=st.integers(1, 1 << 28),
)
def test_no_call_has_too_much_work_or_memory(counts: list[int], row_work: float, nbytes: int) -> None:
    bounds = batches._bounds(np.array(counts), row_work, nbytes)
    assert (bounds[0], bounds[-1]) == (0, len(counts))
    for begin, end in pairwise(bounds):
        assert begin < end
        if end - begin > 1:  # a single party always has a call
            assert sum(counts[begin:end]) * row_work <= 1.001 * batches._WORK_OF_A_CALL
            assert (end - begin) * nbytes <= batches._BYTES_OF_A_CALL
