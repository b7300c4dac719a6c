"""Search spaces: ranges as they are written, which keys can be tuned, and experiments at one point of a space."""

import pytest

from silobench.errors import ConfigError
from silobench.runs.plan import bind
from silobench.tuning.ranges import Interval, range_of
from silobench.tuning.space import applied, is_active, read_space, values_at

DIGITS = bind({"dataset": "digits"}).cell
MANY_PARTS = bind(
    {
        "dataset": "digits", "partition": "label-count(k=2) + share(beta=0.1)", "algorithm": "fedprox",
        "transforms": "clip(norm=1.0) | quantize(bits=8)", "server": "adam(lr=0.1)", "model": "mlp(32, 16)",
    }
).cell  # fmt: skip


@pytest.mark.parametrize("text", ["log(0.001, 1.0)", "range(0.0, 0.9)", "range(1, 10, step=3)", "log(1, 64)"])
def test_a_range_is_written_as_it_is_read(text: str) -> None:
    assert range_of("solver.lr", text).text() == text


def test_bounds_decide_whether_numbers_are_whole() -> None:
    whole, mixed = range_of("a", "log(1, 64)"), range_of("a", "range(0, 0.5)")
    assert isinstance(whole, Interval)
    assert isinstance(mixed, Interval)
    assert (whole.is_whole, mixed.is_whole) == (True, False)
    assert range_of("a", "range(1, 10, step=4)").values == (1, 5, 9)
    assert range_of("a", "range(0.1, 0.3, step=0.1)").values == (0.1, 0.2, 0.3)
    assert range_of("a", "log(0.1, 1.0)").values == ()


def test_true_is_not_one() -> None:
    choices = range_of("a", [True, False])
    assert True in choices
    assert 1 not in choices
    assert True not in range_of("a", "range(0, 5)")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("log(1.0, 0.1)", "the first bound must be below"),
        ("log(0, 1)", "bounds above 0"),
        ("log(0.1, 1.0, step=0.1)", "has no step"),
        ("range(1, 5, step=0.5)", "whole between integers"),
        ("range(1, 5, step=-1)", "above 0"),
        ("normal(0, 1)", "not a range"),
        ("log(a, b)", "not a range"),
        ("log(0.1)", "not a range"),
        ("log(0.1, 1e999)", "not a range"),
        ("log(0.1,", "cannot be read"),
        ([], "empty list"),
        ([[1]], r"has \[1\]"),
        (3, "a range is needed"),
    ],
)
def test_bad_ranges_are_refused(written: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        range_of("solver.lr", written)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("seed", "cannot be tuned, because it changes the rows"),
        ("split", "cannot be tuned"),
        ("dataset.path", "cannot be tuned"),
        ("solvr.lr", "did you mean solver"),
        ("rounds.lr", "no spec 'rounds' to tune"),
        ("solver.lrr", "did you mean solver.lr"),
        ("algorithm.mu", "algorithm is fedavg, which has no argument"),
        ("transforms.bits", "transforms is nothing, which has no argument"),
        ("solver.sgd.lr.x", "write the key and the argument"),
        ("solver.", "write the key and the argument"),
    ],
)
def test_keys_that_cannot_be_tuned_are_refused(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_space({key: [1, 2]}, DIGITS)


def test_without_ranges_the_arguments_of_the_experiment_are_searched() -> None:
    assert {key: each.text() for key, each in read_space({}, DIGITS).items()} == {
        "solver.lr": "log(0.001, 1.0)", "server.lr": "log(0.01, 10.0)",
    }  # fmt: skip
    wide = read_space({}, bind({"dataset": "digits", "solver": "sgd(lr=5.0)"}).cell)["solver.lr"]
    assert wide.text() == "log(0.001, 5.0)"  # it includes what the experiment has
    assert "algorithm.mu" in read_space({}, MANY_PARTS)
    scheduled = bind({"dataset": "digits", "solver": "sgd(lr=exponential(0.1, 0.9))", "server": "step"}).cell
    assert list(read_space({}, scheduled)) == ["server.lr"]


def test_whole_keys_come_before_their_arguments() -> None:
    space = read_space({"algorithm.mu": "log(0.01, 1.0)", "algorithm": ["fedavg", "fedprox"]}, DIGITS)
    assert list(space) == ["algorithm", "algorithm.mu"]
    fedavg, fedprox = ({**DIGITS.model_dump(), "algorithm": name} for name in ("fedavg", "fedprox(mu=0.5)"))
    assert not is_active(fedavg, "algorithm.mu")
    assert is_active(fedprox, "algorithm.mu")
    assert is_active(fedprox, "algorithm.fedprox.mu")
    assert not is_active(fedprox, "algorithm.moon.mu")


def test_any_argument_of_any_spec_is_replaced_and_read_back() -> None:
    values = {
        "partition.share.beta": 0.2, "transforms.bits": 4, "transforms.clip.norm": 2.0, "solver.batch": 16,
        "solver.lr": "exponential(0.1, 0.9)", "server.lr": 0.5, "algorithm.mu": 0.25, "rounds": 7,
        "model": "mlp(8)",
    }  # fmt: skip
    before = MANY_PARTS.model_dump()
    after = applied(before, values)
    plan = bind(after)
    assert plan.label["partition"] == "label-count(k=2) + share(beta=0.2)"
    assert plan.label["transforms"] == "clip(norm=2.0) | quantize(bits=4)"
    assert plan.cell.rounds == 7
    numbers = {key: value for key, value in values.items() if key not in ("solver.lr", "model")}
    assert values_at(after, numbers) == numbers
    assert {key for key in after if after[key] != before[key]} == {key.partition(".")[0] for key in values}
    assert before["solver"] == "sgd"  # the experiment itself is unchanged


def test_values_without_a_change_are_the_same_run() -> None:
    keys = ("solver.lr", "algorithm.mu", "transforms.quantize.bits", "partition.share.beta", "rounds")
    choices = MANY_PARTS.model_dump()
    assert bind(applied(choices, values_at(choices, keys))).id == bind(choices).id
