"""Aggregates: median, trimmed mean and krum against NumPy, parties that send nonsense, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from laws import SOLVER, bits, close, models
from natives import needs_native
from precision import bound, bound_of_steps
from silobench.engines import ENGINES
from silobench.errors import ConfigError, SpecError
from silobench.loop.rounds import rounds
from silobench.method.aggregates import AGGREGATES, krum, mean, median, trimmed_mean
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import dropout
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.transforms import clip, top_k
from silobench.method.types import Context, Memory, Transform, Update
from silobench.training.setting import BUFFERS
from silobench.training.state import RoundRecord
from wire import identity, noted

SIZES = (20, 12, 30, 52, 16)
ROBUST = ["median", "trimmed_mean(share=0.2)", "krum(byzantine=1)"]
MINIBATCH = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)


def run(spec: str, aggregate: str, federated: Any, *transforms: Transform, solver: Any = SOLVER, **options: Any):
    method = Method(ALGORITHMS.build(spec), solver, transforms, aggregate=AGGREGATES.build(aggregate))
    return list(rounds(method, *federated, **{"rounds": 3} | options))


def messages(values: Any, weights: Sequence[float] | None = None) -> list[Update]:
    """Return one message per row, with the row as the vector `delta`."""
    weights = weights or [1.0] * len(values)
    return [Update.of(float(w), delta=torch.tensor(row)) for w, row in zip(weights, values, strict=True)]


def combined(aggregate: Any, values: Any, weights: Sequence[float] | None = None) -> Any:
    return aggregate.combine(messages(values, weights)).mean()["delta"].numpy()


@st.composite
def tables(draw: Any, least: int = 1, most: int = 9, whole: bool = False) -> Any:
    """Messages as rows, [messages, entries], in double precision; whole numbers have many ties."""
    shape = draw(st.integers(least, most)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(-3, 4, shape).astype(float) if whole else rng.normal(size=shape)


# --- by hand ------------------------------------------------------------------------------------------

ROUNDING = bound(20, torch.float64)


@given(st.booleans().flatmap(lambda whole: tables(whole=whole)))
@settings(max_examples=80, deadline=None)
def test_median_by_hand(values: Any) -> None:
    weights = list(range(1, len(values) + 1))  # they do not matter
    np.testing.assert_allclose(combined(median(), values, weights), np.median(values, 0), ROUNDING, ROUNDING)


@given(st.booleans().flatmap(lambda whole: tables(whole=whole)), st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4, 0.49]))
@settings(max_examples=80, deadline=None)
def test_trimmed_mean_by_hand(values: Any, share: float) -> None:
    count = len(values)
    cut = int(share * 100) * count // 100  # in whole numbers
    expected = [sum(sorted(column)[cut : count - cut]) / (count - 2 * cut) for column in values.T.tolist()]
    np.testing.assert_allclose(combined(trimmed_mean(share), values), expected, ROUNDING, ROUNDING)


def test_a_share_of_29_percent_of_100_values_is_29() -> None:
    """In floating point 0.29 · 100 is less than 29."""
    squares = np.arange(100.0)[:, None] ** 2
    np.testing.assert_allclose(combined(trimmed_mean(0.29), squares), [(np.arange(29, 71) ** 2).mean()], ROUNDING)


def krum_by_hand(values: Any, byzantine: int) -> int:
    sums = []
    for place, row in enumerate(values):
        squares = sorted(sum((row - other) ** 2) for i, other in enumerate(values) if i != place)
        sums.append(sum(squares[: len(values) - byzantine - 2]))
    return sums.index(min(sums))


@given(st.integers(1, 2).flatmap(lambda f: st.tuples(st.just(f), tables(2 * f + 3, 10, whole=True))))
@settings(max_examples=80, deadline=None)
def test_krum_by_hand(case: Any) -> None:
    """Whole numbers: sums are exact, and the first of equal ones is taken."""
    byzantine, values = case
    weights = list(range(1, len(values) + 1))
    chosen = values[krum_by_hand(values, byzantine)]
    np.testing.assert_allclose(combined(krum(byzantine), values, weights), chosen, ROUNDING, ROUNDING)


def test_the_mean_is_by_weight() -> None:
    assert combined(mean(), [[2.0], [6.0]], [1, 3]).tolist() == [5.0]
    assert combined(median(), [[2.0], [6.0]], [1, 3]).tolist() == [4.0]


@pytest.mark.parametrize("spec", ROBUST)
@given(tables(5, 9), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_order_of_parties_does_not_matter(spec: str, values: Any, seed: int) -> None:
    aggregate, order = AGGREGATES.build(spec), np.random.default_rng(seed).permutation(len(values))
    assert combined(aggregate, values).tobytes() == combined(aggregate, values[order]).tobytes()


@pytest.mark.parametrize("spec", ROBUST)
@given(tables(5, 9), st.floats(-100, 100))
@settings(max_examples=25, deadline=None)
def test_a_shift_of_all_messages_shifts_the_result(spec: str, values: Any, shift: float) -> None:
    aggregate = AGGREGATES.build(spec)
    scale = 100 + np.abs(values).max()
    ours, expected = combined(aggregate, values + shift), combined(aggregate, values) + shift
    if spec.startswith("krum"):  # two messages may have sums that only rounding tells apart
        near = [np.abs(ours - row - shift).max() <= ROUNDING * scale for row in values]
        assert any(near)
    else:
        np.testing.assert_allclose(ours, expected, 0, ROUNDING * scale)


@pytest.mark.parametrize("spec", ROBUST)
@pytest.mark.parametrize("nonsense", [1e6, -1e6, np.inf, -np.inf, np.nan])
def test_one_party_of_five_cannot_move_the_result(spec: str, nonsense: float) -> None:
    values = np.random.default_rng(1).normal(size=(5, 7))
    honest = values[[0, 1, 3, 4]]
    values[2] = nonsense
    ours = combined(AGGREGATES.build(spec), values)
    slack = ROUNDING * np.abs(honest).max()
    assert (ours >= honest.min(0) - slack).all()
    assert (ours <= honest.max(0) + slack).all()
    average = combined(mean(), values)
    assert not (np.abs(average) < 1e5).any()


def test_krum_takes_the_message_of_one_party_in_full() -> None:
    """Sums and parts of it come from the same party, and scalars do not count in distances."""
    updates = [
        Update.of(2.0, delta=torch.tensor([float(i)]), reach=torch.tensor(100.0 * i)).with_sums(
            c=torch.tensor([i * 1.0])
        )
        for i in (0, 1, 2, 3, 50)
    ]
    both = krum().combine(updates)  # the closest two others: of 1 and 2 at 1 and 1, the first is taken
    assert both.weight == 10
    assert {name: part.item() for name, part in both.mean().items()} == {"delta": 1.0, "reach": 100.0}
    assert both.sums["c"].tolist() == [5.0]  # as if all five had sent it


def test_krum_compares_parts_by_name() -> None:
    """The order of parts in a message does not matter, and a part that one lacks is zero."""
    a, b = torch.tensor([0.0]), torch.tensor([10.0])
    same = [Update({"a": a, "b": b}, 1.0) for _ in range(3)]
    turned = Update({"b": b, "a": a}, 1.0)
    lacking = Update({"b": b}, 1.0)
    far = Update({"a": b, "b": a}, 1.0)
    chosen = krum().combine([far, turned, lacking, *same])
    assert {name: part.item() / 6 for name, part in chosen.total.items()} == {"a": 0.0, "b": 10.0}


@pytest.mark.parametrize("spec", ["mean", *ROBUST])
def test_a_part_that_a_message_lacks_is_zero(spec: str) -> None:
    updates = [Update({}, 1.0) for _ in range(4)] + [Update.of(1.0, delta=torch.tensor([8.0]))]
    result = AGGREGATES.build(spec).combine(updates)
    expected = 8 / 5 if spec == "mean" else 0.0
    assert result.weight == 5
    assert float(result.mean().get("delta", torch.zeros(1))) == pytest.approx(expected)
    assert AGGREGATES.build(spec).combine([Update({}, 1.0)] * 5).is_empty


# --- in runs ------------------------------------------------------------------------------------------


def byzantine(value: float, party: int = 2) -> Transform:
    """Return a transform by which one party sends the same number in every entry."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        wrong = context.party == party
        return update.map(lambda part: torch.full_like(part, value) * update.weight) if wrong else update, memory

    return Transform(encode)


@pytest.mark.parametrize("value", [1e6, float("nan")])
def test_a_byzantine_party_moves_the_mean_only(toy, value: float) -> None:
    federated = toy(SIZES, "mlp(6)")
    start, honest = federated[1].initial, run("fedavg", "mean", federated)
    for spec in ROBUST:
        records = run("fedavg", spec, federated, byzantine(value))
        moved, usual = ((models(each)[-1] - start).norm() for each in (records, honest))
        assert 0 < moved < 10 * usual
    assert not (models(run("fedavg", "mean", federated, byzantine(value)))[-1].norm() < 1e4)


def by_hand(spec: str, updates: Sequence[Update], part: str, kind: str) -> Tensor:
    rows = torch.stack([(each.mean() if kind == "total" else each.sums)[part] for each in updates]).numpy()
    if spec == "median":
        return torch.from_numpy(np.median(rows, 0))
    if spec.startswith("trimmed"):
        return torch.from_numpy(np.sort(rows, 0)[1:-1].mean(0))
    every = np.concatenate([torch.cat(list(each.vectors().values()))[None].numpy() for each in updates])
    return torch.from_numpy(rows[krum_by_hand(every, 1)])


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("spec", ROBUST)
def test_statistics_and_sums_are_combined_too(normed, spec: str) -> None:
    """SCAFFOLD's control variates are unweighted sums, and BatchNorm's statistics are a part of the message."""
    federated, log = normed(), list[Update]()
    (record,) = run("scaffold", spec, federated, noted(log, lambda update, context: update), rounds=1)
    server, task = record.state.server, federated[1]
    assert close(server.params, task.initial + by_hand(spec, log, "delta", "total"))
    assert close(server.buffers, task.buffers + by_hand(spec, log, BUFFERS, "total"))
    assert close(server.extras["control"], by_hand(spec, log, "control", "sums"))  # 5 times, divided by 5 parties
    plain = run("scaffold", spec, federated, rounds=1)[0].state.server
    assert close(plain.buffers, server.buffers)
    assert close(plain.params, server.params)


@pytest.mark.parametrize("spec", ROBUST)
def test_results_do_not_depend_on_workers(toy, spec: str) -> None:
    federated, options = toy(SIZES, "mlp(6)"), {"participation": 5, "seed": 1}

    def state(engine: str) -> list[Any]:
        return [bits(r.state) for r in run("scaffold", spec, federated, **options, engine=ENGINES.build(engine))]

    assert state("inline") == state("pool(workers=1)") == state("pool(workers=2)")


@pytest.mark.parametrize("engine", ["stacked", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("spec", ROBUST)
def test_engines_agree(toy, spec: str, engine: str) -> None:
    federated = toy(SIZES, "mlp(6)")
    ours = [run("fedavg", spec, federated, engine=ENGINES.build(name), rounds=1) for name in ("inline", engine)]
    assert close(*map(models, ours), rel=bound_of_steps(14, 20))
    assert not close(models(ours[0]), models(run("fedavg", "mean", federated, rounds=1)), rel=1e-3)


@pytest.mark.parametrize("spec", ROBUST)
def test_a_run_resumes_bit_for_bit(toy, spec: str) -> None:
    options: dict[str, Any] = {"participation": 6, "availability": dropout(0.1)}
    whole = run("scaffold", spec, toy((20, 9, 30, 12, 16, 40, 8, 24)), **options)
    for done, record in enumerate(whole):
        rest = run("scaffold", spec, toy((20, 9, 30, 12, 16, 40, 8, 24)), **options, state=record.state)
        assert [bits(r) for r in rest] == [bits(r) for r in whole[done + 1 :]]


def test_too_few_messages_leave_the_model_as_it_is(toy) -> None:
    federated, few = toy((20, 9, 30, 12, 16, 40)), 0
    records = run("scaffold", "krum", federated, availability=dropout(0.25), rounds=8)
    before: RoundRecord | None = None
    for record in records:
        replied = 6 if record.replied is None else len(record.replied)
        earlier = before.state.server.params if before else federated[1].initial
        assert torch.equal(record.state.server.params, earlier) == (replied < 5)
        assert record.bytes_up == replied * 2 * 4 * 15
        few, before = few + (replied < 5), record
    assert [record.round for record in records] == list(range(1, 9))
    assert 0 < few < 8


@pytest.mark.parametrize("spec", ROBUST)
def test_rounds_in_which_nothing_is_sent(toy, spec: str) -> None:
    records = run("fedavg(iter_local=3)", spec, toy((24,) * 5), solver=MINIBATCH, rounds=6)
    assert [record.bytes_up > 0 for record in records] == [False, False, True] * 2
    first, third = records[0].state.server.params, records[2].state.server.params
    assert torch.equal(first, records[1].state.server.params)
    assert not torch.equal(first, third)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["median", "trimmed_mean"])
@pytest.mark.parametrize("algorithm", ["gaia", "dgc", "fedavg"])
def test_entries_of_messages_that_are_mostly_zeros_are_refused(spec: str, algorithm: str) -> None:
    transforms, solver = ((top_k(),), SOLVER) if algorithm == "fedavg" else ((), MINIBATCH)
    with pytest.raises(ConfigError, match=r"mostly zeros, so the median .* use aggregate = mean, or a method"):
        Method(ALGORITHMS.build(algorithm), solver, transforms, aggregate=AGGREGATES.build(spec))
    Method(ALGORITHMS.build("fedavg"), SOLVER, (clip(), identity()), aggregate=AGGREGATES.build(spec))


def test_krum_of_too_few_parties_is_refused(toy) -> None:
    with pytest.raises(ConfigError, match="needs 5 messages in a round, but 4 parties take part: let more take part"):
        run("fedavg", "krum", toy(SIZES), participation=4)
    with pytest.raises(ConfigError, match="needs 7 messages in a round, but 5 parties"):
        run("fedavg", "krum(byzantine=2)", toy(SIZES))


@pytest.mark.parametrize("spec", ["trimmed_mean(share=0.5)", "trimmed_mean(share=-0.1)", "krum(byzantine=0)"])
def test_values_out_of_range_are_refused(spec: str) -> None:
    with pytest.raises(SpecError):
        AGGREGATES.build(spec)
