"""The constant answer: its column, who beats it by more than noise, and marks of the best."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from silobench.analysis.constants import beats_constant, versus_constant
from silobench.analysis.export import scores_csv
from silobench.analysis.tables import CONSTANT, metrics_table, score_table, score_tables
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, AUC, BALANCED_ACCURACY, F1, Metric
from stored import binary, cells, regression, stored, texts

ROWS, ALIVE = 1000, 855


def confusion(right_alive: int, right_died: int) -> list[list[int]]:
    """Return the confusions of a test of 855 rows "alive" and 145 rows "died"."""
    return [[right_alive, ALIVE - right_alive], [ROWS - ALIVE - right_died, right_died]]


def accuracy_of(table: Sequence[Sequence[int]]) -> float:
    return sum(row[place] for place, row in enumerate(table)) / ROWS


def patients(
    table: Sequence[Sequence[int]], seed: int = 0, algorithm: str = "fedavg", extra: dict[str, float] | None = None,
    **more: Any,
) -> StoredRun:  # fmt: skip
    """Return a run on patients of whom 14.5% died."""
    final: dict[str, Any] = {"confusion": table}
    objective: dict[str, Any] = {
        "name": "cross-entropy", "main": "accuracy", "constant_answer": "alive",
        "metrics": [{**ACCURACY.as_json(), "constant": ALIVE / ROWS}],
    }  # fmt: skip
    if extra:
        final["metrics"] = extra
        constants = {"balanced-accuracy": 0.5, "auc": 0.5, "f1": 0.2533}
        metrics = (BALANCED_ACCURACY, AUC, F1)
        objective["extra"] = [{**metric.as_json(), "constant": constants[metric.name]} for metric in metrics]
    facts = {"classes": ["alive", "died"]}
    return stored(
        [accuracy_of(table)], seed, [{"final": final}], objective=objective, dataset="hospital", algorithm=algorithm,
        dataset_facts=facts, **more,
    )  # fmt: skip


def trials(tables: Sequence[Sequence[Sequence[int]]], **more: Any) -> list[StoredRun]:
    return [patients(table, seed, **more) for seed, table in enumerate(tables)]


ALWAYS = confusion(855, 0)
HARDLY = [confusion(853, 6), confusion(852, 6), confusion(853, 7)]  # 85.9, 85.8 and 86.0 percent
CLEARLY = [confusion(845, 60), confusion(843, 62), confusion(846, 61)]  # above 90 percent


# --- the rule -----------------------------------------------------------------------------------------


def test_a_gain_within_the_noise_of_test_rows_does_not_beat_it() -> None:
    """85.9 against 85.5: of eight disputed rows six were won, which five coin flips of a hundred do as well."""
    (cell,) = cells(trials(HARDLY))
    assert cell.score.mean > 0.858
    assert beats_constant(cell) is False
    (cell,) = cells(trials(CLEARLY))
    assert beats_constant(cell) is True


def test_the_bound_by_hand() -> None:
    """The mean gain must exceed the 95% bound of the mean over trials plus that of the disputed test rows."""
    tables = [confusion(840, won) for won in (35, 36, 40)]
    gains = np.array([accuracy_of(table) - 0.855 for table in tables])
    disputed = np.mean([(won + 15) / ROWS for won in (35, 36, 40)])
    of_rows = 1.645 * math.sqrt((disputed - gains.mean() ** 2) / ROWS)
    of_trials = stats.t.ppf(0.95, 2) * gains.std(ddof=1) / math.sqrt(3)
    (cell,) = cells(trials(tables))
    assert beats_constant(cell) is bool(gains.mean() > of_trials + of_rows) is True
    tables = [confusion(840, won) for won in (25, 36, 40)]  # a larger spread
    gains = np.array([accuracy_of(table) - 0.855 for table in tables])
    assert gains.mean() > of_rows
    assert gains.mean() < stats.t.ppf(0.95, 2) * gains.std(ddof=1) / math.sqrt(3) + of_rows
    (cell,) = cells(trials(tables))
    assert versus_constant(cell) == "unclear"
    assert beats_constant(cell) is False


def test_the_best_of_several_needs_a_larger_gain() -> None:
    """What one algorithm shows with an error of 0.05, the best of ten must show with 0.005."""
    (cell,) = cells(trials([confusion(840, won) for won in (35, 36, 40)]))
    assert [beats_constant(cell, rivals) for rivals in (1, 10)] == [True, False]


def test_two_trials_that_differ_widely_leave_the_question_open() -> None:
    objective = {"name": "cross-entropy", "main": "accuracy", "metrics": [{**ACCURACY.as_json(), "constant": 0.1}]}
    groups = [
        [stored([share], seed, algorithm=name, objective=objective) for seed, share in enumerate((0.45, 0.65))]
        for name in ("fedavg", "scaffold")
    ]
    table = score_table(cells(*groups))
    assert marked(table) == [[]]
    start = "the spread over trials is too large to say that an algorithm beats the constant answer on mnist iid"
    assert table.note.startswith(start)
    assert "no algorithm beats" not in table.note


def test_a_model_without_any_knowledge_passes_in_at_most_one_of_twenty_cases() -> None:
    """It answers "died" for 2% of the rows at random, where that is right as often as "alive" would be."""
    draw, passed, tests = np.random.default_rng(0), 0, 400
    for _ in range(tests):
        disputed, won = draw.random(ROWS) < 0.02, draw.random(ROWS) < 0.5  # most rows alike in all trials
        tables = []
        for _ in range(3):
            rows, wins = disputed ^ (draw.random(ROWS) < 0.002), won ^ (draw.random(ROWS) < 0.05)
            tables.append(confusion(855 - int((rows & ~wins).sum()), int((rows & wins).sum())))
        passed += beats_constant(cells(trials(tables))[0]) is True
    assert passed / tests < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tests)


def test_one_trial_is_judged_by_its_test_rows() -> None:
    verdicts = [beats_constant(cells([patients(table)])[0]) for table in (ALWAYS, HARDLY[0], CLEARLY[0])]
    assert verdicts == [False, False, True]


def test_without_confusions_the_largest_possible_dispute_counts() -> None:
    objective = {"name": "cross-entropy", "main": "accuracy", "metrics": [{**ACCURACY.as_json(), "constant": 0.855}]}
    close, far = (cells([stored([share], objective=objective)])[0] for share in (0.9, 0.99))
    assert 0.045 < 1.645 * math.sqrt(1.0 / 1000) < 0.135
    assert (beats_constant(close), beats_constant(far)) == (False, True)


def test_runs_that_do_not_state_it_are_not_judged() -> None:
    (cell,) = cells([stored([0.9])])
    assert beats_constant(cell) is None


@pytest.mark.parametrize(("error", "verdict"), [(9.0, None), (10.0, False), (11.0, False), (None, False)])
def test_one_trial_of_an_error_can_only_be_worse(error: float | None, verdict: bool | None) -> None:
    (cell,) = cells([regression([error])])
    assert beats_constant(cell) is verdict


def test_errors_are_judged_by_their_trials() -> None:
    (steady,) = cells([regression([error], seed) for seed, error in enumerate((8.0, 8.1, 8.2))])
    (shaky,) = cells([regression([error], seed) for seed, error in enumerate((5.0, 9.9, 12.0))])
    assert (beats_constant(steady), beats_constant(shaky)) == (True, False)


@pytest.mark.parametrize(("area", "verdict"), [(0.53, False), (0.56, True)])
def test_areas_are_judged_by_the_sizes_of_both_classes(area: float, verdict: bool) -> None:
    """Ranks without any relation to the class have a standard deviation of 0.0259 with 855 and 145 rows."""
    deviation = math.sqrt(1001 / (12 * 855 * 145))
    assert deviation == pytest.approx(0.0259, abs=1e-4)
    run = binary([area])
    shares = {"final": {"confusion": ALWAYS}, "metrics": {"auc": area, "average-precision": 0.4, "accuracy": 0.9}}
    objective = {
        "name": "binary", "main": "auc",
        "metrics": [{**AUC.as_json(), "constant": 0.5}, {**ACCURACY.as_json(), "constant": 0.9}],
    }  # fmt: skip
    (cell,) = cells([stored([0.9], 0, [shares], objective=objective, dataset="bank")])
    assert run.metric.name == cell.metric.name == "auc"
    assert beats_constant(cell) is verdict


def test_balanced_accuracy_is_judged_by_its_classes() -> None:
    objective = {
        "name": "x",
        "main": "balanced-accuracy",
        "metrics": [{**BALANCED_ACCURACY.as_json(), "constant": 0.5}],
    }

    def verdict(table: list[list[int]]) -> bool | None:
        value = (table[0][0] / 855 + table[1][1] / 145) / 2
        record = {"final": {"confusion": table}, "metrics": {"balanced-accuracy": value}}
        return beats_constant(cells([stored([0.9], 0, [record], objective=objective)])[0])

    noise = 1.645 * math.sqrt(0.25 / 855 + 0.25 / 145) / 2
    assert 0.02 < noise < 0.06
    assert verdict(confusion(428, 78)) is False  # 51.9
    assert verdict(confusion(470, 85)) is True  # 56.8


# --- tables -------------------------------------------------------------------------------------------


def marked(table: Any) -> list[list[str]]:
    return [[name for name, entry in zip(table.columns, row, strict=True) if entry.best] for row in table.rows]


def test_no_best_is_marked_where_nothing_beats_it_and_one_sentence_says_so() -> None:
    table = score_table(cells(trials(HARDLY), trials([ALWAYS] * 3, algorithm="scaffold")))
    assert marked(table) == [[]]
    assert texts(table)[0][CONSTANT] == "85.5"
    assert table.columns[-1] == CONSTANT
    where, answer = "by more than noise on hospital iid", "always answering 'alive' scores 85.5"
    assert f"no algorithm beats the constant answer {where}: {answer}" in table.note
    assert "* best" not in table.note
    assert table.note.count("no algorithm") == 1


def test_the_best_is_marked_where_it_beats_the_constant_answer() -> None:
    table = score_table(cells(trials(HARDLY), trials(CLEARLY, algorithm="scaffold")))
    assert marked(table) == [["scaffold"]]
    assert "no algorithm beats" not in table.note


def test_the_best_mean_is_marked_if_another_algorithm_beats_the_constant_answer() -> None:
    steady = trials([[[820, 35], [60, 85]]] * 3)
    unsteady = trials([[[850, 5], [5, 140]], [[850, 5], [5, 140]], [[700, 155], [80, 65]]], algorithm="scaffold")
    both = cells(steady, unsteady)
    assert [beats_constant(cell, 2) for cell in both] == [True, False]
    assert marked(score_table(both)) == [["scaffold"]]


def test_settings_without_a_winner_are_named() -> None:
    groups = [
        trials(tables, algorithm=algorithm, partition=partition)
        for partition, tables in (("iid", CLEARLY), ("shards", HARDLY), ("by-group", [ALWAYS] * 3))
        for algorithm in ("fedavg", "fednova")
    ]
    note = score_table(cells(*groups)).note
    assert "on hospital shards, hospital by-group: always answering 'alive' scores 85.5" in note


def test_ties_are_all_marked_and_baselines_never() -> None:
    groups = [trials(CLEARLY, algorithm=name) for name in ("fedavg", "scaffold", "solo", "combined")]
    table = score_table(cells(*groups))
    assert marked(table) == [["fedavg", "scaffold"]]
    assert "equal means are all marked" in table.note
    assert "solo and combined: baselines, never marked" in table.note
    alone = score_table(cells(trials(CLEARLY), trials(HARDLY, algorithm="scaffold")))
    assert "equal means" not in alone.note
    assert "baselines" not in alone.note


def test_a_single_algorithm_beside_baselines_is_not_marked_and_the_note_says_why() -> None:
    only = "fedavg is the only algorithm beside baselines, so no best is marked"
    table = score_table(cells(trials(CLEARLY), trials(CLEARLY, algorithm="solo")))
    assert marked(table) == [[]]
    assert f"{only}, and it beats the constant answer;" in table.note
    assert f"{only};" in score_table(cells(trials(HARDLY), trials(CLEARLY, algorithm="solo"))).note
    some = [
        *(trials(CLEARLY, algorithm=name) for name in ("fedavg", "solo")), trials(HARDLY, partition="by-group"),
    ]  # fmt: skip
    assert f"{only}, and it beats the constant answer in 1 of 2 settings" in score_table(cells(*some)).note
    assert only not in score_table(cells(trials(CLEARLY))).note


def test_a_baseline_that_beats_it_is_not_an_algorithm() -> None:
    note = score_table(cells(trials(HARDLY), trials(CLEARLY, algorithm="combined"))).note
    assert "no algorithm beats the constant answer" in note


def test_earlier_runs_have_no_column_and_keep_their_marks() -> None:
    groups = [
        [stored([share + 0.001 * seed], seed, algorithm=name) for seed in range(3)]
        for name, share in (("fedavg", 0.05), ("scaffold", 0.04))
    ]
    table = score_table(cells(*groups))
    assert CONSTANT not in table.columns
    assert marked(table) == [["fedavg"]]
    assert "constant" not in table.note


def test_a_table_of_both_leaves_the_entry_of_earlier_runs_empty() -> None:
    earlier = [stored([0.9], seed, dataset="digits") for seed in range(3)]
    rows = texts(score_table(cells(trials(CLEARLY), earlier)))
    assert {row["dataset"]: row[CONSTANT] for row in rows} == {"hospital": "85.5", "digits": ""}


def test_footers_leave_the_constant_empty() -> None:
    groups = [
        trials(CLEARLY, algorithm=name, partition=partition)
        for name in ("fedavg", "fednova") for partition in ("shards", "label-count(k=2)")
    ]  # fmt: skip
    table = score_table(cells(*groups))
    assert [len(row) for row in table.footer] == [len(table.columns)]
    assert table.footer[0][-1].text == ""


def test_uneven_classes_show_their_metrics_next_to_accuracy_and_the_constant_answer() -> None:
    extra = {"balanced-accuracy": 0.52, "auc": 0.66, "f1": 0.08}
    found = cells(trials(HARDLY, extra=extra))
    _, table = score_tables(found)
    assert table.title == "Metrics in the last round (mean ± std over trials)"
    model, constant = texts(table)
    columns = ("accuracy, percent", "balanced accuracy, percent", "AUC, percent", "F1, percent")
    assert [model[name] for name in columns] == ["85.9 ± 0.1", "52.0 ± 0.0", "66.0 ± 0.0", "8.0 ± 0.0"]
    assert (constant["algorithm"], *(constant[name] for name in columns)) == (CONSTANT, "85.5", "50.0", "50.0", "25.3")
    facts = found[0].as_json()
    assert facts["constants"]["auc"] == 0.5
    assert facts["constant_answer"] == "alive"
    assert facts["metrics"]["auc"]["mean"] == pytest.approx(0.66)
    assert "auc" in scores_csv(found).splitlines()[0]


def test_other_metrics_show_their_constant_answer() -> None:
    rows = texts(metrics_table(cells([regression([8.0])])))
    assert [(row["algorithm"], row["RMSE, years"]) for row in rows] == [("fedavg", "10.00"), (CONSTANT, "12.00")]


def test_a_metric_that_a_trial_lacks_is_not_shown() -> None:
    runs = [patients(HARDLY[0], 0, extra={"balanced-accuracy": 0.5, "auc": 0.6, "f1": 0.1}), patients(HARDLY[1], 1)]
    (cell,) = cells(runs)
    assert "auc" not in cell.metrics
    assert Metric.from_json(AUC.as_json()) == AUC
