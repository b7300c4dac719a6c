"""The native step on sparse rows: the order of its vectors, the numbers of columns, and parties that share a model."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from natives import needs_native
from silobench.data import Dataset, Split
from silobench.engines import Engine
from silobench.engines.kernel import KernelError, Rows, Rule, Shape, Walk, native
from silobench.engines.kernel import parties as compiled
from silobench.engines.kernel.binding import parameters
from silobench.engines.kernel.order import Order
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.task import task

pytestmark = needs_native
WIDEST = 70_000  # columns: more than two digits of the sort that groups a batch by column


def some_rows(rng: np.random.Generator, columns: int, classes: int) -> Rows:
    """Rows with columns in any order, some of them twice in a row, and rows without an entry."""
    lengths = rng.integers(0, 9, 30)
    lengths[::7] = 0
    places = rng.integers(0, columns, lengths.sum()).astype(np.int32)
    begins = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    values = rng.normal(size=lengths.sum()).astype(np.float32)
    return Rows((values, places, begins), rng.integers(0, classes, 30))


def some_rule(rng: np.random.Generator, size: int, pulls: int) -> Rule:
    anchor, linear, drift = (rng.normal(0, 0.01, size).astype(np.float32) for _ in range(3))
    pulled = {"strength": 0.1, "anchor": anchor} if pulls & 1 else {}
    pulled |= {"linear": linear} if pulls & 2 else {}
    pulled |= {"drift": drift} if pulls & 4 else {}
    return Rule(0.1, 0.9 * bool(pulls & 8), 0.01 * bool(pulls & 16), **pulled)


def some_walk(rng: np.random.Generator) -> Walk:
    sizes = tuple(rng.integers(1, 40, rng.integers(1, 9)).tolist())
    return Walk(rng.integers(0, 30, sum(sizes)), sizes)


def reordered(shape: Shape, flat: NDArray[np.float32]) -> NDArray[np.float32]:
    ordered = np.zeros(native().kernel.size(shape), np.float32)
    native().kernel.reorder(shape, flat, ordered)
    return ordered


widths = st.lists(st.integers(1, 70), min_size=0, max_size=3)


@settings(max_examples=60, deadline=None)
@given(inputs=st.integers(1, 300), hidden=widths, classes=st.integers(2, 20), seed=st.integers(0, 2**32 - 1))
def test_a_vector_comes_back_from_the_other_order(inputs: int, hidden: list[int], classes: int, seed: int) -> None:
    kernel, shape = native().kernel, Shape((inputs, *hidden, classes))
    flat = np.random.default_rng(seed).normal(size=parameters(shape)).astype(np.float32)
    ordered, back = reordered(shape, flat), np.full_like(flat, np.nan)
    kernel.reorder(shape, flat=back, ordered=ordered, back=True)
    assert back.tobytes() == flat.tobytes()
    assert np.array_equal(np.sort(ordered[ordered != 0]), np.sort(flat[flat != 0]))  # the rest is padding


@settings(max_examples=60, deadline=None)
@given(
    inputs=st.integers(1, 300),
    hidden=widths,
    pulls=st.integers(0, 31),
    has_velocity=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_both_orders_give_the_same_bits(
    inputs: int, hidden: list[int], pulls: int, has_velocity: bool, seed: int
) -> None:
    kernel, shape, rng = native().kernel, Shape((inputs, *hidden, 3)), np.random.default_rng(seed)
    rows, size = some_rows(rng, inputs, 3), parameters(shape)
    rule, walk = some_rule(rng, size, pulls), some_walk(rng)
    params, velocity = (rng.normal(0, 0.1, size).astype(np.float32) for _ in range(2))
    vectors = {
        name: None if vector is None else reordered(shape, vector)
        for name, vector in (("anchor", rule.anchor), ("linear", rule.linear), ("drift", rule.drift))
    }
    other = Rule(rule.lr, rule.momentum, rule.decay, rule.strength, **vectors)
    ordered = [reordered(shape, vector) for vector in (params, velocity)]
    loss = kernel.train(shape, rows, walk, rule, params, velocity if has_velocity else None)
    same = kernel.train(shape, rows, walk, other, ordered[0], ordered[1] if has_velocity else None, reordered=True)
    assert loss == same
    for flat, its_order in zip((params, velocity), ordered, strict=True):
        assert reordered(shape, flat).tobytes() == its_order.tobytes()
    order = np.arange(30)
    hits, total = kernel.score(shape, rows, order, params)
    other_hits, other_total = kernel.score(shape, rows, order, ordered[0], reordered=True)
    assert np.array_equal(hits, other_hits)
    assert total == other_total


@settings(max_examples=40, deadline=None)
@given(
    few=st.integers(1, 260),
    many=st.integers(260, WIDEST),
    width=st.integers(1, 40),
    pulls=st.integers(0, 31),
    seed=st.integers(0, 2**32 - 1),
)
def test_other_numbers_of_the_columns_do_not_change_a_bit(
    few: int, many: int, width: int, pulls: int, seed: int
) -> None:
    """The same rows with other column numbers, among more columns, train the same weights of these columns."""
    rng, kernel = np.random.default_rng(seed), native().kernel
    rows, walk, numbers = some_rows(rng, few, width), some_walk(rng), rng.permutation(many)[:few]
    values, columns, begins = rows.x
    renamed = Rows((values, numbers[columns].astype(np.int32), begins), rows.labels)
    rule = some_rule(rng, few * width + width, pulls)
    narrow = rng.normal(0, 0.1, few * width + width).astype(np.float32)

    def spread(vector: Any) -> Any:
        if vector is None:
            return None
        wide = np.zeros((width, many), np.float32)
        wide[:, numbers] = vector[: few * width].reshape(width, few)
        return np.concatenate([wide.ravel(), vector[few * width :]])

    pulled = {name: spread(getattr(rule, name)) for name in ("anchor", "linear", "drift")}
    wide = spread(narrow)
    loss = kernel.train(Shape((few, width)), rows, walk, rule, narrow)
    wide_rule = Rule(rule.lr, rule.momentum, rule.decay, rule.strength, **pulled)
    assert kernel.train(Shape((many, width)), renamed, walk, wide_rule, wide) == loss
    assert spread(narrow).tobytes() == wide.tobytes()


def test_a_column_beyond_the_network_is_refused_wherever_it_is() -> None:
    for place in range(40):
        for wrong in (-1, 50, np.iinfo(np.int32).max, np.iinfo(np.int32).min):
            columns = np.arange(40, dtype=np.int32)
            columns[place] = wrong
            rows = Rows((np.ones(40, np.float32), columns, np.array([0, 40], np.int32)), np.zeros(1, np.int64))
            params = np.zeros(102, np.float32)
            with pytest.raises(KernelError, match="column"):
                native().kernel.train(Shape((50, 2)), rows, Walk(np.zeros(1, np.int64), (1,)), Rule(0.1), params)
            assert not params.any()


def test_wrong_vectors_are_refused_in_one_sentence() -> None:
    kernel, shape = native().kernel, Shape((50, 2))
    flat, rows = np.zeros(102, np.float32), some_rows(np.random.default_rng(0), 50, 2)
    with pytest.raises(KernelError, match=f"has {kernel.size(shape)} parameters, but a vector of 102"):
        kernel.train(shape, rows, Walk(np.zeros(1, np.int64), (1,)), Rule(0.1), flat, reordered=True)
    with pytest.raises(KernelError, match="vector of 102"):
        kernel.reorder(shape, flat, flat)
    with pytest.raises(KernelError, match="pictures"):
        kernel.size(Shape((64, 120, 84, 10), (1, 8, 8), padding=2))


@pytest.mark.parametrize(
    ("algorithm", "keep_momentum"),
    [
        ("fedavg", False),
        ("fedavg", True),
        ("fedprox", False),
        ("scaffold", False),
        ("feddyn", False),
        ("fednova", True),
    ],
)
def test_a_shared_reordered_model_gives_the_bits_of_one_copy_per_party(
    algorithm: str, keep_momentum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    halves = (Split(sparse.random(n, 90, 0.1, "csr", np.float32, rng), np.arange(n) % 3) for n in (200, 60))
    data = Dataset("words", *halves, tuple("abc"), "none")
    federation, its_task = federate(data, "quantity-dirichlet(beta=0.5)", 5, seed=3), task("mlp(9, 4)", data)
    solver = sgd(lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch=16, keep_momentum=keep_momentum)
    method = Method(ALGORITHMS.build(algorithm), solver)

    def run(threads: int) -> list[Any]:
        options: dict[str, Any] = {"rounds": 3, "participation": 4, "engine": Engine(("native",), workers=threads)}
        return [
            (record.state.server.params, record.accuracy, record.loss, record.train_loss)
            for record in rounds(method, federation, its_task, **options)
        ]

    results = [run(0), run(2)]
    monkeypatch.setattr(compiled, "Order", lambda kernel, shape, _, model: Order(kernel, shape, False, model))
    single = run(0)
    for one in results:
        for (params, *metrics), (other, *other_metrics) in zip(one, single, strict=True):
            assert torch.equal(params, other)
            assert metrics == other_metrics
