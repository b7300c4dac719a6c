"""Suggestions: a function of the history alone, inside the space, and better than chance on an easy problem."""

import math
import sys
from collections.abc import Mapping
from statistics import median

import pytest

from silobench.errors import ConfigError
from silobench.runs.plan import bind
from silobench.tuning.space import read_space
from silobench.tuning.study import Definition
from silobench.tuning.suggestions import Observation, is_hopeless, suggestion

CELL = bind({"dataset": "digits"}).cell
CHOICES = CELL.model_dump()
SPACE = {
    "algorithm": ["fedavg", "fedprox"], "algorithm.mu": "log(0.001, 1.0)", "solver.lr": "log(0.001, 1.0)",
    "solver.batch": "range(8, 64, step=8)",
}  # fmt: skip


def definition(sampler: str, space: Mapping[str, object] = SPACE, seed: int = 0) -> Definition:
    return Definition({"dataset": "digits"}, read_space(space, CELL), sampler, seed)


def history(defined: Definition, count: int, score: object) -> list[Observation]:
    """Return a study of this many trials in which each is judged before the next."""
    seen = [Observation({"algorithm": "fedavg", "solver.lr": 0.01, "solver.batch": 64}, 0.0)]
    for number in range(1, count):
        values = suggestion(defined, CHOICES, number, seen, is_higher_better=True)
        assert values is not None
        seen.append(Observation(values, score(values)))  # type: ignore[operator]
    return seen


def closeness(values: Mapping[str, float]) -> float:
    return -abs(math.log10(values["solver.lr"]) + 1)  # the best rate is 0.1


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_values_are_inside_the_space_and_conditional_ones_only_where_they_belong(sampler: str) -> None:
    defined = definition(sampler)
    for each in history(defined, 25, closeness)[1:]:
        assert all(value in defined.space[key] for key, value in each.values.items())
        assert ("algorithm.mu" in each.values) == (each.values["algorithm"] == "fedprox")
        assert all(float(f"{value:.3g}") == value for value in each.values.values() if isinstance(value, float))


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("range(1.0, 1.5, step=0.125)", [1.0, 1.125, 1.25, 1.375, 1.5]),
        ("range(0.1234, 0.4234, step=0.1)", [0.1234, 0.2234, 0.3234, 0.4234]),
        ("range(1000.0, 1020.0, step=5)", [1000.0, 1005.0, 1010.0, 1015.0, 1020.0]),
        ("range(0, 0.4, step=0.1)", [0.0, 0.1, 0.2, 0.3, 0.4]),  # 0.1 + 2 * 0.1 is not 0.3 in floats
    ],
)
def test_a_range_with_steps_has_exactly_its_steps(sampler: str, written: str, values: list[float]) -> None:
    defined = definition(sampler, {"solver.lr": written})
    assert list(defined.space["solver.lr"].values) == values
    assert all(value in defined.space["solver.lr"] for value in values)
    first = Observation({"solver.lr": values[1]}, 0.0)
    seen = [first]
    for number in range(1, len(values) if sampler == "grid" else 20):
        suggested = suggestion(defined, CHOICES, number, seen, is_higher_better=True)
        assert suggested is not None
        seen.append(Observation(suggested, float(number)))
    tried = {each.values["solver.lr"] for each in seen}
    assert tried == set(values) if sampler == "grid" else tried <= set(values)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_suggestion_depends_on_nothing_but_the_history(sampler: str) -> None:
    defined = definition(sampler)
    seen = history(defined, 15, closeness)
    for number in (14, 3, 9):  # in any order, as after a kill
        assert suggestion(defined, CHOICES, number, seen[:number], is_higher_better=True) == seen[number].values
    other = [suggestion(definition(sampler, seed=1), CHOICES, number, seen[:number], True) for number in (3, 9)]
    assert other != [seen[3].values, seen[9].values]


def test_trials_of_a_batch_differ() -> None:
    defined, seen = definition("tpe"), history(definition("tpe"), 12, closeness)
    for number in range(12, 16):
        values = suggestion(defined, CHOICES, number, seen, is_higher_better=True)
        assert values is not None
        seen.append(Observation(values))  # still running
    assert len({repr(each.values) for each in seen[12:]}) == 4


def test_the_model_finds_the_best_rate_sooner_than_chance() -> None:
    """Distances from the best rate in decades, of ten late trials in each of five studies.

    Chance draws three decades evenly: a distance d below 1 has the probability 2d/3, so the median is 0.75. The median
    of 50 draws has a standard error of 0.5 / (2/3 * sqrt(50)) = 0.106; two of them below is no chance.
    """
    distances: list[float] = []
    for seed in range(5):
        seen = history(definition("tpe", {"solver.lr": "log(0.001, 1.0)"}, seed), 24, closeness)
        distances += [-closeness(each.values) for each in seen[14:]]  # type: ignore[arg-type]
    assert median(distances) < 0.75 - 2 * 0.106


def test_the_direction_of_the_metric_counts() -> None:
    space = {"solver.lr": "log(0.001, 1.0)"}
    seen = [Observation({"solver.lr": 0.001 * 1.4**place}, float(place)) for place in range(20)]
    rates = {
        higher: [
            suggestion(definition("tpe", space, seed), CHOICES, 20, seen, higher)["solver.lr"]  # type: ignore[index]
            for seed in range(10)
        ]
        for higher in (True, False)
    }
    assert median(rates[True]) > median(rates[False])  # type: ignore[type-var]


def test_diverged_trials_and_defaults_outside_the_space_do_no_harm() -> None:
    defined = definition("tpe", {"solver.lr": "log(0.1, 1.0)", "algorithm": ["fednova", "scaffold"]})
    seen = [Observation({"solver.lr": 0.01, "algorithm": "fedavg"}, 0.2)]
    seen += [Observation({"solver.lr": 0.5, "algorithm": "fednova"}, -math.inf)] * 10
    values = suggestion(defined, CHOICES, 11, seen, is_higher_better=True)
    assert values is not None
    assert all(value in defined.space[key] for key, value in values.items())


def test_a_grid_has_every_point_once_and_the_defaults_never() -> None:
    space = {"algorithm": ["fedavg", "fedprox"], "algorithm.mu": [0.1, 1.0], "solver.batch": [32, 64]}
    defined = definition("grid", space)
    seen = [Observation({"algorithm": "fedavg", "solver.batch": 64}, 0.0)]
    points = [suggestion(defined, CHOICES, number, seen, True) for number in range(1, 8)]
    assert points[5:] == [None, None]  # two values of mu with two batches, and fedavg with the other batch
    assert len({repr(point) for point in points[:5]}) == 5
    assert seen[0].values not in points
    with pytest.raises(ConfigError, match=r"grid needs a list of values for solver.lr"):
        suggestion(definition("grid", {"solver.lr": "log(0.1, 1.0)"}), CHOICES, 1, seen, True)


def test_only_trials_below_the_median_are_given_up() -> None:
    defined, space = definition("tpe"), {"algorithm": "fedavg", "solver.lr": 0.1}
    finished = [Observation(space, 0.5, {1: score, 2: score + 0.1}) for score in (0.2, 0.4, 0.6, 0.8)]
    assert is_hopeless(defined, 9, {1: 0.45}, finished, higher=True)
    assert not is_hopeless(defined, 9, {1: 0.55}, finished, higher=True)
    assert not is_hopeless(defined, 9, {1: 0.45}, finished, higher=False)
    assert not is_hopeless(defined, 9, {1: 0.0}, finished[:3], higher=True)  # too few to judge by
    assert is_hopeless(defined, 9, {1: -math.inf}, finished, higher=True)


def test_without_optuna_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"pip install 'silobench\[tune\]'"):
        suggestion(definition("tpe"), CHOICES, 1, [], True)
