"""Runs that are judged by another metric than accuracy: errors in the unit of a target, and areas under curves."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import call
from silobench.analysis import export
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import judge
from silobench.analysis.compare import checked_question, compare, rope_of
from silobench.analysis.comparison_table import comparison_table
from silobench.analysis.details import details, details_tables
from silobench.analysis.groups import by_metric
from silobench.analysis.ranking import ranking, ranking_table
from silobench.analysis.statistics import bytes_to, party_accuracy, rounds_to, stability
from silobench.analysis.tables import GRID, metrics_table, score_table, score_tables
from silobench.errors import SilobenchError
from silobench.papers import FINDINGS, paper_facts, paper_sections, paper_tables
from silobench.runs.stored import RoundRow, StoredRun
from silobench.tasks.metrics import ACCURACY, AUC, BALANCED_ACCURACY, Metric
from stored import binary, cells, page, regression, stored, texts

MAE = Metric("mae", "MAE", False, "years")
NOISE = (-0.05, 0.0, 0.05)
Make = Callable[..., StoredRun]


def trials(make: Make, last: float, noise: float = 1.0, first: float | None = None, **choices: Any) -> list[StoredRun]:
    """Return three runs of three rounds that end at about `last`."""
    middle = last if first is None else first
    return [make([middle, last, last + noise * off], seed, **choices) for seed, off in enumerate(NOISE)]


@pytest.fixture
def ages() -> list[CellResult]:
    """FedAvg is better than SCAFFOLD by one year; the best mu is the larger one."""
    return cells(
        trials(regression, 8.3),
        trials(regression, 9.3, algorithm="scaffold"),
        trials(regression, 8.8, algorithm="fedprox(mu=0.01)"),
        trials(regression, 8.5, algorithm="fedprox(mu=0.1)"),
    )


@pytest.fixture
def mixed(ages: list[CellResult]) -> list[CellResult]:
    both = (("fedavg", 0.01), ("scaffold", 0.0))
    areas = [trials(binary, 0.8 + extra, 0.1, algorithm=name) for name, extra in both]
    accuracies = [trials(stored, 0.7 + extra, 0.1, algorithm=name) for name, extra in both]
    return [*ages, *cells(*areas, *accuracies)]


# --- records ------------------------------------------------------------------------------------------


def test_a_run_without_an_objective_is_judged_by_accuracy() -> None:
    run = stored([0.5, None, 0.7])
    assert (run.metric, run.curve()) == (ACCURACY, [(1, 0.5), (3, 0.7)])
    assert (run.facts.objective.reason, run.facts.objective.target) == ("", None)


def test_an_objective_is_read_with_its_metrics_and_target() -> None:
    run = regression([9.0, 8.0])
    facts = run.facts.objective
    assert (facts.name, facts.reason, facts.main) == ("regression", "the label age is numeric", run.metric)
    assert run.metric == Metric("mae", "MAE", False, "years", 1.0, 2, 10.0)
    assert [metric.name for metric in run.metrics] == ["mae", "rmse", "r2"]
    assert facts.target is not None
    assert (facts.target.name, facts.target.bins) == ("age", (17.0, 31.0, 44.0, 90.0))
    assert run.curve() == [(1, 9.0), (2, 8.0)]
    assert run.rounds[1].score("rmse") == 10.0
    assert run.rounds[1].score("auc") is None


def test_balanced_accuracy_follows_from_the_accuracy_by_class() -> None:
    row = RoundRow.from_json({"round": 1, "accuracy": 0.9, "class_accuracy": [1.0, None, 0.5], "validation_loss": 0.3})
    assert row.score(BALANCED_ACCURACY.name) == 0.75
    assert row.validation_loss == 0.3
    recorded = RoundRow.from_json({"round": 1, "class_accuracy": [1.0, 0.5], "metrics": {BALANCED_ACCURACY.name: 0.6}})
    assert recorded.score(BALANCED_ACCURACY.name) == 0.6
    (cell,) = cells([stored([0.9], records=[{"class_accuracy": [1.0, 0.6]}])])
    assert cell.as_json()["metrics"] == {
        "accuracy": {"mean": 0.9, "std": None}, "balanced-accuracy": {"mean": 0.8, "std": None},
    }  # fmt: skip


def test_a_metric_survives_json() -> None:
    assert Metric.from_json(json.loads(json.dumps(MAE.as_json()))) == MAE
    assert Metric.from_json({"name": "mae", "higher_is_better": False, "colour": "green"}).title == "mae"


# --- cells and their JSON -----------------------------------------------------------------------------


def test_the_json_of_a_regression(ages: list[CellResult]) -> None:
    facts = ages[0].as_json()
    assert facts["accuracy"] is None
    assert facts["metric"] == {
        "name": "mae", "higher_is_better": False, "unit": "years", "mean": pytest.approx(8.3),
        "std": pytest.approx(0.05), "best": pytest.approx((8.25 + 8.3 + 8.3) / 3), "last": pytest.approx(8.3),
    }  # fmt: skip
    assert facts["metrics"]["rmse"] == {"mean": pytest.approx(1.25 * 8.3), "std": pytest.approx(1.25 * 0.05)}
    assert facts["metrics"].keys() == {"mae", "rmse", "r2"}
    assert facts["baseline"] == 10.0


def test_the_json_of_a_binary_classification(mixed: list[CellResult]) -> None:
    facts = next(cell for cell in mixed if cell.metric.name == "auc").as_json()
    assert facts["accuracy"] == {"mean": 0.9, "std": 0.0, "best": 0.9, "last": 0.9}
    assert (facts["metric"]["name"], facts["metric"]["higher_is_better"], facts["baseline"]) == ("auc", True, 0.5)
    assert facts["metrics"].keys() == {"auc", "average-precision", "accuracy", "balanced-accuracy"}


def test_a_diverged_regression_stays_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its error is not finite, so that it is worse than any other, and null in JSON."""
    runs = [regression([9.0, None, None], seed, out=tmp_path, algorithm="scaffold") for seed in (0, 1)]
    runs += [regression([9.0, 8.0, 8.0 + seed], seed, out=tmp_path) for seed in (0, 1)]
    bad, good = sorted(cells(runs), key=lambda cell: cell.label["algorithm"], reverse=True)
    assert (bad.diverged, good.diverged) == (True, False)
    assert [bad.as_json()["metric"][key] for key in ("mean", "std", "best")] == [None, None, 9.0]
    assert details(bad)["last"] == {"mean": None, "std": None, "least": None, "most": None}
    (row,) = texts(score_table([bad, good]))
    assert (row["scaffold"], row["fedavg"]) == ("- †", "8.50 ± 0.71")
    assert [s.algorithm for s in ranking([bad, good]).standings] == ["fedavg", "scaffold"]
    for command in (["show", "--details"], ["show", "--json"], ["report"], ["claims"], ["show", "--format", "csv"]):
        result = call(capsys, command[0], tmp_path, *command[1:])
        assert result.code == 0, result.err
    assert "Infinity" not in call(capsys, "show", tmp_path, "--json").out
    refused = call(capsys, "compare", tmp_path, "fedavg", "scaffold")
    assert "every pair of fedavg and scaffold has a run without a finite MAE" in refused.err


def test_null_in_place_of_all_metrics_is_a_diverged_round() -> None:
    run = regression([9.0, 8.0])
    (cell,) = cells([replace(run, rounds=[run.rounds[0], replace(run.rounds[1], metrics={})])])
    assert (cell.as_json()["metric"]["last"], cell.as_json()["metric"]["best"]) == (None, 9.0)


# --- tables -------------------------------------------------------------------------------------------


def test_the_table_states_metric_and_unit_and_marks_the_least_error(ages: list[CellResult]) -> None:
    table = score_table(ages)
    assert table.title == "Test MAE in the last round, years (mean ± std over 3 trials)"
    (row,) = texts(table)
    assert row["fedavg"] == "8.30 ± 0.05"
    assert row[GRID] == "8.50 ± 0.05 [mu=0.1]"
    assert [name for name, entry in zip(table.columns, table.rows[0], strict=True) if entry.best] == ["fedavg"]
    assert "the mu with the best MAE" in table.note
    assert row["constant"] == "10.00"
    assert "constant: the best constant answer on the test rows" in table.note


def test_other_metrics_have_a_table(ages: list[CellResult]) -> None:
    table = metrics_table(ages)
    assert table.columns == ["dataset", "partition", "algorithm", "RMSE, years", "R2"]
    assert texts(table)[0]["RMSE, years"] == "10.38 ± 0.06"
    assert not metrics_table(cells([stored([0.9], records=[{"class_accuracy": [1.0, 0.6]}])])).rows


def test_metrics_are_never_mixed(mixed: list[CellResult]) -> None:
    assert [group[0].metric.name for group in by_metric(mixed)] == ["accuracy", "mae", "auc"]
    titles = [table.title.split(" (")[0] for table in score_tables(mixed)]
    assert titles == [
        "Test accuracy in the last round, percent",
        "Test MAE in the last round, years",
        "Other metrics in the last round",
        "Test AUC in the last round, percent",
        "Other metrics in the last round",
    ]
    assert ranking(mixed).settings == 1


def test_csv_has_columns_for_all_metrics(mixed: list[CellResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(export.scores_csv(mixed))))
    first = {name: rows[0][name] for name in ("accuracy", "metric", "unit", "score", "score_std", "rmse", "auc")}
    assert first == {
        "accuracy": "", "metric": "mae", "unit": "years", "score": "8.300", "score_std": "0.050", "rmse": "10.375",
        "auc": "",
    }  # fmt: skip
    area = next(row for row in rows if row["metric"] == "auc")
    assert (area["accuracy"], area["score"], area["auc"], area["mae"]) == ("90.00", "81.00", "81.00", "")


# --- statistics and details ---------------------------------------------------------------------------


def test_a_target_is_reached_from_above() -> None:
    run = regression([9.0, 8.0, 8.5])
    assert [rounds_to(run.curve(), target, run.metric) for target in (9.5, 8.2, 7.0)] == [1, 2, None]
    assert (bytes_to(run, 8.2), bytes_to(run, 7.0)) == (40, None)
    assert stability([(1, 9.0), (2, MAE.failure)]) is None


def test_details_follow_the_direction() -> None:
    run = regression([9.0, 7.0, 8.0], every={"party_accuracy": [7.5, 9.5, None]})
    (cell,) = cells([run])
    facts = details(cell, 8.0)
    assert facts["best"]["mean"] == 7.0
    assert facts["rounds_to_target"] == [2]
    assert facts["party_accuracy"]["worst"] == 9.5
    assert facts["class_accuracy"] is None
    (table,) = details_tables([cell], 8.0)
    assert table.title == "Behind the MAE"
    assert "worst class" not in table.columns
    (row,) = texts(table)
    assert (row["best round"], row["rounds to 8 years"], row["worst party"]) == ("7.00", "2", "9.50 (1)")
    assert table.note.startswith("years, mean ± std over trials")


def test_areas_have_no_expected_value_by_party() -> None:
    assert party_accuracy(binary([0.8])) is None
    assert party_accuracy(stored([0.8], records=[{"class_accuracy": [0.9, 0.7]}])) is not None


# --- ranks and comparison -----------------------------------------------------------------------------


def test_the_least_error_ranks_first(ages: list[CellResult]) -> None:
    ranks = ranking(ages, every=True)
    assert [standing.algorithm for standing in ranks.standings] == [
        "fedavg", "fedprox(mu=0.1)", "fedprox(mu=0.01)", "scaffold",
    ]  # fmt: skip
    table = ranking_table(ages)
    assert table.title.startswith("Rank by MAE over 1 setting")
    assert "better by more than 0.1 years" in table.note


def test_compare_knows_which_direction_is_better(ages: list[CellResult]) -> None:
    comparison = compare(ages, "fedavg", "scaffold", checked_question(cells=ages))
    facts = comparison.as_json()
    assert (facts["metric"], facts["rope"], facts["higher_is_better"]) == ("mae", 0.1, False)
    assert facts["mean_difference"] == pytest.approx(-1.0)
    assert (facts["better_a"] > 0.95, facts["verdict"]) == (True, "fedavg is better")
    table = comparison_table(comparison)
    assert table.title == "A = fedavg, B = scaffold: test MAE in the last round, less is better"
    assert "A - B, years [95%]" in table.columns
    assert "equal: within ±0.1 years" in table.note


@pytest.mark.parametrize(
    ("metric", "rope", "better", "words"),
    [
        ("r2", 0.01, True, "test R2 in the last round, more is better"),
        ("rmse", 0.1, False, "test RMSE in the last round, less is better"),
        ("best", 0.1, False, "best test MAE, less is better"),
    ],
)
def test_any_recorded_metric_can_be_compared(
    ages: list[CellResult], metric: str, rope: float, better: bool, words: str
) -> None:
    comparison = compare(ages, "fedavg", "scaffold", checked_question(metric, cells=ages))
    facts = comparison.as_json()
    assert (facts["rope"], facts["higher_is_better"]) == (rope, better)
    assert facts["better_a"] > 0.95
    assert words in comparison_table(comparison).title


def test_rounds_until_an_error_is_reached() -> None:
    slow = trials(regression, 8.0, 0.0, first=9.0, algorithm="scaffold")
    both = cells(trials(regression, 8.0, 0.0, first=8.1), slow)
    question = checked_question("rounds", rope=0.5, target=8.5, cells=both)
    comparison = compare(both, "fedavg", "scaffold", question)
    assert comparison.as_json()["mean_difference"] == -1.0
    assert "rounds until MAE 8.5 years, less is better" in comparison_table(comparison).title
    with pytest.raises(SilobenchError, match=r"the best is 8.000: use a higher --target"):
        compare(both, "fedavg", "scaffold", checked_question("rounds", target=5.0, cells=both))


def test_an_algorithm_with_a_diverged_trial_is_not_called_better() -> None:
    some = [regression([9.0, 7.0 + off], seed) for seed, off in enumerate(NOISE)] + [regression([9.0, None], 3)]
    other = [regression([9.0, 8.0], seed, algorithm="scaffold") for seed in range(4)]
    both = cells(some, other)
    comparison = compare(both, "fedavg", "scaffold", checked_question(cells=both))
    facts = comparison.as_json()
    assert facts["better_a"] > 0.95
    assert facts["verdict"] == facts["settings"][0]["verdict"] == "undecided"
    assert facts["settings"][0]["without_score"] == {"a": 1, "b": 0}
    assert "runs without a finite score are left out" in comparison_table(comparison).note


def test_a_setting_in_which_all_trials_diverged_speaks_against_an_algorithm() -> None:
    worse = trials(regression, 9.0, algorithm="scaffold") + trials(
        regression, 9.0, algorithm="scaffold", partition="shards"
    )
    diverged = [regression([9.0, 9.0, None], seed, partition="shards") for seed in range(3)]
    comparison = compare(
        both := cells(trials(regression, 8.0), diverged, worse),
        "fedavg",
        "scaffold",
        checked_question(cells=both),
    )
    facts = comparison.as_json()
    assert facts["settings"][0]["verdict"] == "fedavg is better"
    assert (facts["verdict"], facts["left_out"]) == ("undecided", ["people / shards"])
    assert "left out: 1, such as people / shards" in comparison_table(comparison).note


@pytest.mark.parametrize(("name", "rope"), [("accuracy", 0.01), ("auc", 0.01), ("mse", 0.01), ("mae", 0.1)])
def test_regions_of_practical_equivalence(name: str, rope: float) -> None:
    assert rope_of(Metric(name, name, True)) == rope


BAD = {
    "two metrics": ([], "scored by several metrics (AUC in percent, MAE in years, accuracy in percent)"),
    "unknown": (["--metric", "mea"], "did you mean mae?"),
    "no target": (["--metric", "rounds", "--only", "people*"], "until the MAE reaches a target"),
    "nan": (["--metric", "rounds", "--only", "people*", "--target", "nan"], "that is a finite number"),
    "share": (["--metric", "rounds", "--only", "bank*", "--target", "80"], "above 0 and up to 1, such as 0.8"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of three metrics on disk."""
    out = tmp_path_factory.mktemp("metrics")
    makes: Sequence[tuple[Make, float]] = ((regression, 8.0), (binary, 0.8), (stored, 0.7))
    for make, last in makes:
        for algorithm, factor in (("fedavg", 1.0), ("scaffold", 1.1)):
            trials(make, factor * last, 0.1, algorithm=algorithm, out=out)
    return out


@pytest.mark.parametrize("case", BAD)
def test_bad_questions_are_one_sentence(directory: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    arguments, fragment = BAD[case]
    result = call(capsys, "compare", directory, "fedavg", "scaffold", *arguments)
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert fragment in result.err


def test_commands_show_every_metric(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = call(capsys, "show", directory, "--details", "--target", "0.9").out
    for title in ("Test MAE in the last round, years", "Test AUC in the last round, percent", "Behind the accuracy"):
        assert title in shown
    facts = json.loads(call(capsys, "show", directory, "--json").out)
    assert [ranks["metric"] for ranks in facts["rankings"]] == ["accuracy", "mae", "auc"]
    assert facts["ranking"] == {key: value for key, value in facts["rankings"][0].items() if key != "metric"}
    compared = json.loads(call(capsys, "compare", directory, "fedavg", "scaffold", "--only", "bank*", "--json").out)
    assert (compared["metric"], compared["better_b"] > 0.95) == ("auc", True)
    shared = json.loads(call(capsys, "compare", directory, "fedavg", "scaffold", "--metric", "accuracy", "--json").out)
    assert [setting["setting"] for setting in shared["settings"]] == ["bank / iid", "mnist / iid"]


# --- papers and the page ------------------------------------------------------------------------------


def test_other_metrics_never_enter_findings(ages: list[CellResult]) -> None:
    areas = cells(*(trials(binary, 0.8, 0.1, dataset="mnist", partition=p) for p in ("iid", "label-count(k=1)")))
    assert not any(claim.evidence for claim in judge([*ages, *areas], FINDINGS))
    assert all(cell.paper is None for cell in areas)
    assert paper_tables(areas) == paper_sections(areas) == []
    assert not any(paper_facts([*ages, *areas]).values())


def test_the_page_draws_each_metric_in_its_unit(mixed: list[CellResult], tmp_path: Path) -> None:
    text = page(mixed, tmp_path / "page.html")
    for words in ("<h3>Accuracy</h3>", "<h3>MAE</h3>", "<h3>AUC</h3>", "test MAE, years", "test AUC", "&gt;=31", "age"):
        assert words in text, words
    assert "constant answer" in text
    assert "people: regression, judged by MAE, because the label age is numeric" in text


def test_the_page_needs_no_counts(tmp_path: Path) -> None:
    (cell,) = cells([regression([9.0, 8.0], partition_facts={"counts": []})])
    assert "test MAE, years" in page([cell], tmp_path / "page.html")


def test_an_axis_fits_the_metric() -> None:
    from silobench.report.metric_axis import metric_axis

    assert (metric_axis(AUC, [0.6, 0.7], 0.5).low, metric_axis(AUC, [0.6, 0.7]).high) == (0, 100)
    assert metric_axis(MAE, [9.0, 8.0, 7.5], 10.0).high is None  # nothing is far away
    wild = metric_axis(MAE, [1e9, 9.0, 8.0, 8.5, MAE.failure])
    assert (wild.low, wild.high is not None and 9 < wild.high < 20) == (0, True)
    assert metric_axis(MAE, [MAE.failure]).high is None


def test_progress_lines_state_metric_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    from silobench.cli.progress import Progress
    from silobench.runs.sweep import Event

    begin = Event("begin", "1", "people / iid", 2, metric=MAE)
    with Progress(total=1, done=0) as progress:
        for event in (begin, replace(begin, kind="round", round=1, score=8.312), replace(begin, kind="end", round=2)):
            progress.show(event)
    assert "[1/1] people / iid: MAE 8.31 years, 0.0 s" in capsys.readouterr().err
