"""How much work tables are: it grows with the cells of a directory, not with their square. Seconds are not measured."""

import math
import statistics
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import call
from silobench.analysis import choices, exact, leaderboard, ranking
from silobench.analysis.cells import CellResult
from silobench.analysis.choices import shown, varying
from silobench.report import leaderboard as leaderboard_page
from silobench.report.leaderboard import budgets_of, write_board
from silobench.runs.label import Label
from stored import cells, stored

ALGORITHMS = ("fedavg", "fednova", "scaffold", "moon")
sizes = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6).map(float)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[tuple[Any, ...]]:
    """Return the arguments of all calls of a function, as they come."""
    calls: list[tuple[Any, ...]] = []
    real: Callable[..., Any] = getattr(module, name)

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, counting)
    return calls


def study(settings: int = 6) -> list[CellResult]:
    """Return cells of four algorithms in some settings, with three trials each."""
    return cells([
        stored([0.3, 0.5 + place / 20 + seed / 500], seed, algorithm=algorithm, partition=f"label-count(k={number})")
        for number in range(1, settings + 1)
        for place, algorithm in enumerate(ALGORITHMS)
        for seed in range(3)
    ])  # fmt: skip


# --- deviations ---------------------------------------------------------------------------------------


@given(st.lists(sizes, min_size=2, max_size=8))
def test_deviations_are_those_of_python_to_the_last_bit(values: list[float]) -> None:
    for ours, theirs in ((exact.stdev, statistics.stdev), (exact.variance, statistics.variance)):
        try:
            expected = theirs(values)
        except OverflowError:
            with pytest.raises(OverflowError):
                ours(values)
        else:
            assert ours(values) == expected


@pytest.mark.parametrize("values", [[0.5, math.inf], [0.5, math.nan], [5e-324, 0.0], [0.7] * 3, [1, 2, 4]])
def test_unusual_values_have_the_variance_of_python(values: list[float]) -> None:
    ours, theirs = exact.variance(values), statistics.variance(values)
    assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))


# --- tables -------------------------------------------------------------------------------------------


def test_each_pair_of_a_setting_is_tested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = counted(monkeypatch, ranking, "paired")
    found = ranking.ranking(study())
    assert found.settings == 6
    assert len(pairs) == 6 * len(list(combinations(ALGORITHMS, 2)))
    assert [standing.algorithm for standing in found.standings] == list(ALGORITHMS[::-1])


def test_ranks_over_settings_share_their_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    every = study()
    runs = [run for cell in every for run in cell.runs]
    resampled = counted(monkeypatch, leaderboard, "intervals_of")
    board = leaderboard.leaderboard(runs)
    assert [standing.method for standing in board.standings] == list(ALGORITHMS[::-1])
    assert [standing.rank for standing in board.standings] == [1, 2, 3, 4]
    ((differences,),) = resampled  # one call for all pairs
    assert len(differences) == len(list(combinations(ALGORITHMS, 2)))


def test_intervals_do_not_depend_on_how_many_are_resampled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [[1.0, 2.0, 4.0, 2.5, 3.0], [4.0, 1.5, 1.0, 2.0, 2.0]]
    together = ranking.intervals_of(every)
    monkeypatch.setattr(ranking, "_AT_ONCE", 5 * 999)
    assert ranking.intervals_of(every) == together == [ranking.interval_of(ranks) for ranks in every]


@pytest.mark.parametrize("name", ["solver", "controller", "dataset"])
def test_a_choice_is_shown_without_a_look_at_all_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every, looks = study(), list[Label]()
    real: Callable[[CellResult], Label] = CellResult.config.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(CellResult, "config", property(lambda cell: looks.append(real(cell)) or real(cell)))
    texts = {shown(cell, name, every) for cell in every}
    assert len(texts) == 1
    assert len(looks) <= 2 * len(every)


def test_a_solver_has_the_arguments_that_differ() -> None:
    solvers = ("sgd(lr=0.1, batch=64)", "sgd(lr=0.2, batch=64)", "sgd(lr=0.2, batch=64, momentum=0.9)")
    every = cells([stored([0.5], solver=solver) for solver in solvers])
    assert [shown(cell, "solver", every) for cell in every] == ["lr=0.1", "lr=0.2", "lr=0.2, momentum=0.9"]


def test_a_controller_has_the_arguments_that_differ() -> None:
    controllers = ("fixed", "skewscout(every=2, high=0.5)", "skewscout(every=3, high=0.5)")
    every = cells([stored([0.5], controller=controller) for controller in controllers])
    texts = [shown(cell, "controller", every) for cell in every]
    assert texts == ["fixed", "skewscout(every=2)", "skewscout(every=3)"]


def test_the_columns_of_the_same_cells_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = counted(monkeypatch, choices, "distinguishing")
    every = study()
    found = [varying(every), varying(list(every)), varying(every[:-1])]
    assert found == [["dataset", "partition"]] * 3
    assert len(looks) == 2
    found[0].append("changed by a caller")
    assert varying(every) == ["dataset", "partition"]


def test_a_label_without_some_choices_is_made_once() -> None:
    label = Label({"dataset": "digits", "algorithm": "fedavg", "seed": 3})
    assert label.without("algorithm") is label.without("algorithm")
    assert label.without("algorithm") != label.without("seed")
    trials = [label.with_seed(seed) for seed in range(3, 5)]
    assert trials[0] == label != trials[1]
    assert [list(trial) for trial in trials] == [list(label)] * 2
    assert all(trial.without("seed") is label.without("seed") for trial in trials)


# --- leaderboards of very many runs -------------------------------------------------------------------


def test_a_page_of_very_many_runs_has_no_budgets_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [stored([0.3, 0.6], seed, algorithm=name, out=tmp_path) for name in ("fedavg", "moon") for seed in range(2)]
    page = tmp_path / "leaderboard.html"
    said = leaderboard_page.NO_BUDGETS
    assert budgets_of(runs)
    assert said not in write_board([leaderboard.leaderboard(runs)], page).read_text()
    assert said not in " ".join(call(capsys, "leaderboard", tmp_path).out.split())
    monkeypatch.setattr(leaderboard_page, "MOST_WITH_BUDGETS", 3)
    assert not budgets_of(runs)
    assert said in " ".join(call(capsys, "leaderboard", tmp_path).out.split())
    assert said in page.read_text()
    assert said not in " ".join(call(capsys, "leaderboard", tmp_path, "--max-rounds", "1").out.split())
