"""The page of studies: charts and tables of trials, from stored runs alone."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import call
from silobench.report.charts.values import BarChart, LineChart, ScatterChart
from silobench.report.study import study_pages, study_sections
from silobench.runs.stored import read_runs
from silobench.tuning.importance import importances
from silobench.tuning.ranges import range_of
from silobench.tuning.study import Definition, Pairs, Study, Trial, read_outcome, read_study
from silobench.tuning.verdict import facts, sentences
from stored import regression, stored

SPACE = {"solver.lr": "log(0.001, 1.0)", "algorithm": ["fedavg", "fedprox"]}


def run(folder: Path, accuracies: Sequence[float | None], seed: int = 0, **choices: Any) -> str:
    """Write a run into a folder, and return its id."""
    before = {path.name for path in folder.glob("*")}
    stored(accuracies, seed, out=folder, **choices)
    return next(path.name for path in folder.glob("*") if path.name not in before)


def study(out: Path, scores: Sequence[float | None], space: Mapping[str, Any] = SPACE) -> Study:
    """Write a study whose trials have these scores; a larger rate is a later trial."""
    definition = Definition({"dataset": "mnist"}, {key: range_of(key, each) for key, each in space.items()}, seeds=1)
    trials = []
    for number, score in enumerate(scores):
        rate, algorithm = 0.001 * 2**number, ("fedavg", "fedprox")[number % 2]
        values: dict[str, Any] = {"solver.lr": rate, "algorithm": algorithm}
        ran = run(out / "trials", [0.1, score], algorithm=algorithm, solver=f"sgd(lr={rate})", split="tuning 4:1")
        trials.append(Trial(number, {key: values[key] for key in space}, (ran,)))
    found = Study(definition, tuple(trials))
    found.write(out)
    return found


def test_a_study_has_its_charts_and_tables(tmp_path: Path) -> None:
    scores = [0.3, 0.5, 0.4, 0.9, 0.2, 0.6, 0.7, 0.8]
    written = study(tmp_path, scores)
    sides = [tuple(run(tmp_path / "confirm", [score], seed, algorithm=name) for seed, score in enumerate(each, 10))
             for name, each in (("fedavg", (0.3, 0.35, 0.31)), ("fedprox", (0.8, 0.84, 0.79)))]  # fmt: skip
    Study(written.definition, written.trials, confirm=Pairs(3, *sides)).write(tmp_path)
    search, confirmed, cost = study_sections(tmp_path)
    history, by_rate, by_algorithm, importance = (drawing.chart for drawing in search.drawings)
    assert isinstance(history, LineChart)
    assert [point.y for point in history.lines[1].points] == [30, 50, 50, 90, 90, 90, 90, 90]
    assert isinstance(by_rate, ScatterChart)
    assert isinstance(by_algorithm, ScatterChart)
    assert (by_rate.x.scale, list(by_algorithm.x.names)) == ("log", ["fedavg", "fedprox"])
    assert [mark.group for mark in by_rate.marks].index("best") == 3
    assert isinstance(importance, BarChart)
    assert [row[0].text for row in search.table.rows][:2] == ["0 (defaults)", "1"]
    assert [row[3].best for row in search.table.rows].index(True) == 3
    assert [entry.text for entry in confirmed.table.rows[0]] == ["10", "30.0", "80.0", "+50.0"]
    assert "tuned is better" in " ".join(search.lead)
    assert [entry.text for entry in cost.table.rows[0]][:3] == ["search", "8", "16"]
    (page,) = study_pages(read_runs(tmp_path))
    assert (page.file, len(page.sections)) == ("tuning.html", 3)


@pytest.mark.parametrize(
    ("split", "note"), [("given", "test rows that no trial has seen."), ("10:1", "trials have seen some of them")]
)
def test_test_rows_are_unseen_only_if_no_seed_draws_them(split: str, note: str, tmp_path: Path) -> None:
    written = study(tmp_path, [0.3, 0.5])
    sides = [(run(tmp_path / "confirm", [0.3], 10, algorithm=name),) for name in ("fedavg", "fedprox")]
    definition = replace(written.definition, choices={"dataset": "mnist", "split": split})
    Study(definition, written.trials, confirm=Pairs(1, *sides)).write(tmp_path)
    _, confirmed, _ = study_sections(tmp_path)
    assert note in confirmed.table.note


def test_repeats_give_no_probability(tmp_path: Path) -> None:
    """The best trial is chosen by the seeds of repeats too, so that a test on them would favour it."""
    written = study(tmp_path, [0.3, 0.5])
    scores = {"fedavg": (0.3, 0.35, 0.31), "fedprox": (0.8, 0.84, 0.79)}
    repeats, confirm = (
        [
            tuple(
                run(tmp_path / folder, [score], seed, algorithm=name, split=split) for seed, score in enumerate(each, 1)
            )
            for name, each in scores.items()
        ]
        for folder, split in (("trials", "tuning 4:1"), ("confirm", "given"))
    )
    whole = Study(written.definition, written.trials, dict(enumerate(repeats)), Pairs(1, *confirm))
    outcome = read_outcome(whole, tmp_path)
    (repeated,) = [line for line in sentences(outcome) if line.startswith("repeated")]
    (confirmed,) = [line for line in sentences(outcome) if line.startswith("confirmed")]
    means = "3 seeds: 81.0% tuned, 32.0% with the defaults"
    assert repeated == f"repeated on validation rows, {means}; these seeds helped to choose the best trial."
    assert confirmed.startswith(f"confirmed on test rows, {means}; tuned is better (probability ")
    answer = facts(outcome)
    assert "comparison" not in answer["repeats"]
    assert answer["confirm"]["comparison"]


def test_runs_without_a_study_have_no_page(tmp_path: Path) -> None:
    run(tmp_path / "runs", [0.1])
    assert study_pages(read_runs(tmp_path)) == []
    assert study_sections(tmp_path) == []


def test_unfinished_pruned_and_diverged_trials(tmp_path: Path) -> None:
    written = study(tmp_path, [0.3, 0.5, None])
    missing = Trial(3, {"solver.lr": 0.5, "algorithm": "fedavg"}, ("0123456789abcdef",))
    cut = Trial(4, missing.values, (written.trials[1].runs[0],), pruned=1)
    Study(written.definition, (*written.trials, missing, cut)).write(tmp_path)
    outcome = read_outcome(read_study(tmp_path), tmp_path)
    assert [result.state for result in outcome.trials] == ["finished", "finished", "finished", "pruned"]
    assert outcome.best.trial.number == 1
    assert study_sections(tmp_path)


def test_importance_finds_what_matters(tmp_path: Path) -> None:
    """Scores that follow the algorithm alone leave nothing for the rate, and the other way round."""
    study(tmp_path / "a", [0.2 + 0.5 * (number % 2) for number in range(12)])
    shares = importances(read_outcome(read_study(tmp_path / "a"), tmp_path / "a"))
    assert math.isclose(sum(shares.values()), 1)
    assert shares["algorithm"] > 0.9
    study(tmp_path / "b", [0.05 * number for number in range(12)])
    assert importances(read_outcome(read_study(tmp_path / "b"), tmp_path / "b"))["solver.lr"] > 0.9
    study(tmp_path / "c", [0.1, 0.2, 0.3])
    assert importances(read_outcome(read_study(tmp_path / "c"), tmp_path / "c")) == {}


def test_defaults_that_their_range_cannot_have_are_left_out(tmp_path: Path) -> None:
    """The defaults of an argument may be None, or 0 where the range is logarithmic; other trials have numbers."""
    space = {"solver.lr": "log(0.001, 1.0)", "solver.momentum": "log(0.01, 0.9)", "solver.steps": "range(1, 20)"}
    ranges = {key: range_of(key, each) for key, each in space.items()}
    trials = []
    for number in range(9):
        values = {"solver.lr": 0.001 * 2**number, "solver.momentum": 0.1 * number, "solver.steps": number or "None"}
        ran = run(tmp_path / "trials", [0.1 * number], solver=f"sgd(lr={number + 1})")
        trials.append(Trial(number, values, (ran,)))
    Study(Definition({"dataset": "mnist"}, ranges, seeds=1), tuple(trials)).write(tmp_path)
    assert math.isclose(sum(importances(read_outcome(read_study(tmp_path), tmp_path)).values()), 1)
    search, *_ = study_sections(tmp_path)
    charts = [drawing.chart for drawing in search.drawings if isinstance(drawing.chart, ScatterChart)]
    assert [len(chart.marks) for chart in charts] == [9, 8, 8]


def test_less_is_better_for_errors(tmp_path: Path) -> None:
    for number, error in enumerate([5.0, 3.0, 4.0]):
        regression([9.0, error], 0, solver=f"sgd(lr={number + 1})", out=tmp_path / "trials")
    runs = {each.label["solver"]: each.path.name for each in read_runs(tmp_path / "trials")}
    space = {"solver.lr": range_of("solver.lr", [1, 2, 3])}
    trials = tuple(Trial(number, {"solver.lr": number + 1}, (runs[f"sgd(lr={number + 1})"],)) for number in range(3))
    Study(Definition({"dataset": "people"}, space, seeds=1), trials).write(tmp_path)
    (history, *_) = (drawing.chart for drawing in study_sections(tmp_path)[0].drawings)
    assert isinstance(history, LineChart)
    assert [point.y for point in history.lines[1].points] == [5, 3, 3]


@pytest.mark.parametrize("change", ["one bit", "cut off", "a folder"])
def test_a_damaged_study_is_named_and_does_not_hide_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    study(tmp_path, [0.3, 0.5])
    file = tmp_path / "study.json"
    content = file.read_bytes()
    file.unlink()
    if change == "a folder":
        file.mkdir()
    else:  # one bit turns trial 1's value 0.2 into another number
        place = content.index(b'"number": 1') + len(b'"number": ')
        changed = content[:place] + b"3" + content[place + 1 :]
        file.write_bytes(changed if change == "one bit" else content[:-9])
    result = call(capsys, "report", tmp_path)
    assert result.code == 2
    assert "study.json" in result.err
    assert "the study cannot be shown" in (tmp_path / "report" / "tuning.html").read_text()
    assert len(list((tmp_path / "report" / "runs").glob("*.html"))) >= 2


def test_a_study_of_an_earlier_version_states_no_digest(tmp_path: Path) -> None:
    written = study(tmp_path, [0.3, 0.5])
    facts = json.loads((tmp_path / "study.json").read_text())
    del facts["facts_sha256"]
    (tmp_path / "study.json").write_text(json.dumps(facts))
    assert read_study(tmp_path) == written
