"""Results by party and by class: tables, JSON, `show --parties`, `show --details`, and the page."""

import csv
import io
import json
import math
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree

import pytest

from commands import call
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import checked_question, compare
from silobench.analysis.comparison_table import comparison_table
from silobench.analysis.confusion import MOST_LINES, calibration, confusion, confusion_tables, frequent_confusions
from silobench.analysis.details import details, details_tables
from silobench.analysis.export import scores_csv
from silobench.analysis.parties import MOST_PARTIES, fairness, parties_tables, party_results
from silobench.analysis.tables import score_tables
from silobench.errors import ConfigError
from silobench.report.charts.page import markup
from silobench.report.final import confusion_chart, final_section, parties_chart, reliability_chart
from silobench.runs.stored import CalibrationFacts, PartyResult, StoredRun
from silobench.tasks.metrics import ACCURACY, Metric
from stored import cells, page, regression, stored, texts

NAMES = ("Bergen", "Cork", "Delft")
COLOURS = {"fedavg": 0, "solo": 1, "a<b": 2}
CURVE = {"error": 0.125, "brier": 0.2, "rows": [0] * 14 + [1000], "confidence": [0.0] * 14 + [0.95],
         "accuracy": [0.0] * 14 + [0.8]}  # fmt: skip


def hospitals(
    values: tuple[float | None, ...] = (0.9, 0.7, 0.8), seed: int = 0, everywhere: bool = False, **more: Any
) -> StoredRun:
    """Return a run in three hospitals with these accuracies on their own test rows."""
    results = {
        name: {"rows": 10 * place, "own": value, **({"all": 0.5} if everywhere else {})}
        for place, (name, value) in enumerate(zip(NAMES, values, strict=True), 1)
    }
    final = {"parties": results, "confusion": [[600, 100], [120, 180]], "calibration": CURVE}
    return stored(
        [0.78], seed, [{"final": final, "class_accuracy": [0.857, 0.6]}], parties=3, dataset="h",
        dataset_facts={"classes": ["alive", "died"]},
        partition_facts={"parties": list(NAMES), "fingerprint": "same", **more.pop("partition_facts", {})}, **more,
    )  # fmt: skip


# --- fairness -----------------------------------------------------------------------------------------


def test_fairness_by_hand() -> None:
    values = [0.5 + 0.02 * place for place in range(20)]
    one = fairness({str(place): PartyResult(5, value) for place, value in enumerate(values)}, ACCURACY)
    assert one is not None
    assert (one.worst_party, one.best_party, one.worst, one.best) == ("0", "19", values[0], values[-1])
    assert one.worst_tenth == pytest.approx(fmean(values[:2]))
    assert (one.mean, one.std, one.range) == pytest.approx((fmean(values), stdev(values), 0.38))


def test_fairness_follows_the_direction_and_leaves_out_undefined_values() -> None:
    error = Metric("mae", "MAE", False, "years")
    one = fairness({"a": PartyResult(5, 3.0), "b": PartyResult(5, 9.0), "c": PartyResult(0, None)}, error)
    assert one is not None
    assert (one.worst_party, one.best_party, one.range, one.worst_tenth) == ("b", "a", 6.0, 9.0)
    assert fairness({"c": PartyResult(0, None)}, error) is None
    alone = fairness({"a": PartyResult(5, 3.0)}, error)
    assert alone is not None
    assert alone.std is None


# --- the table of parties -----------------------------------------------------------------------------


def test_parties_have_names_rows_and_scores_by_algorithm() -> None:
    found = cells(
        [hospitals((0.9, 0.7, 0.8)), hospitals((0.92, 0.74, 0.8), 1)],
        [hospitals((0.8, 0.6, None), 0, everywhere=True, algorithm="solo")],
    )
    (table,) = parties_tables(found)
    assert table.title == "Accuracy, percent, on each party's own test rows: h iid"
    assert [entry.text for entry in table.rows[0]] == ["Bergen", "40", "10", "91.0 ± 1.4", "80.0"]
    assert table.rows[0][-1].paper == "all rows 50.0"
    assert table.rows[2][-1].text == "-"
    summary = {row[0].text: [entry.text for entry in row[3:]] for row in table.footer}
    assert summary["worst party"] == ["72.0 (Cork)", "60.0 (Cork)"]
    assert summary["best party"] == ["91.0 (Bergen)", "80.0 (Bergen)"]
    assert summary["mean over parties"] == ["81.0", "70.0"]
    assert "mean of the worst 10%" not in summary  # of three parties it is the worst one
    expected = fmean([stdev([0.9, 0.7, 0.8]), stdev([0.92, 0.74, 0.8])])
    assert summary["std over parties"][0] == f"{100 * expected:.1f}"
    assert summary["range"] == ["19.0", "20.0"]
    assert "all rows: the party's model on all test rows" in table.note
    assert "differ between trials" not in table.note


def test_parties_that_differ_between_trials_are_not_averaged() -> None:
    runs = [hospitals((0.9, 0.7, 0.8), seed, partition_facts={"fingerprint": str(seed)}) for seed in range(2)]
    runs[1] = hospitals((0.1, 0.2, 0.3), 1, partition_facts={"fingerprint": "1"})
    (table,) = parties_tables(cells(runs))
    assert [row[-1].text for row in table.rows] == ["90.0", "70.0", "80.0"]
    assert "parties differ between trials: lines are those of seed 0" in table.note
    assert table.footer[0][-1].text == "40.0 (Cork, Bergen)"


def test_of_many_parties_the_best_and_the_worst_are_shown() -> None:
    count = MOST_PARTIES + 10
    results = {str(place): {"rows": 1, "own": place / 100} for place in range(count)}
    (table,) = parties_tables(cells([stored([0.5], 0, [{"final": {"parties": results}}], parties=count)]))
    assert len(table.rows) == MOST_PARTIES
    assert (table.rows[0][0].text, table.rows[-1][0].text) == (str(count - 1), "0")
    assert f"{MOST_PARTIES} of {count} parties" in table.note
    assert [row[-1].text for row in table.footer if row[0].text == "mean of the worst 10%"] == ["2.0"]


# --- scores on own test rows --------------------------------------------------------------------------


def personal() -> list[CellResult]:
    """Return the cells of a shared model, and of two algorithms that give parties models of their own."""
    values = {"fedavg": (0.9, 0.7, 0.8), "ditto": (1.0, 0.9, 0.95), "solo": (1.0, 1.0, 1.0)}
    return cells(
        *(
            [
                hospitals(tuple(v - 0.02 * seed for v in each), seed, name != "fedavg", algorithm=name)
                for seed in range(2)
            ]
            for name, each in values.items()
        )
    )


def test_scores_on_own_rows_are_a_table_beside_the_headline() -> None:
    headline, table, *_ = score_tables(personal())
    assert (
        "ditto, solo: the mean over the parties' models on all test rows; own rows: the next table, and `silobench show"
        in headline.note
    )
    where = "Accuracy on the parties' own test rows, percent"
    assert table.title == f"{where} (mean over parties; mean ± std over 2 trials)"
    assert table.columns == ["dataset", "partition", "fedavg", "ditto", "solo"]
    ((_, _, *scores),) = table.rows
    assert [entry.text for entry in scores] == ["79.0 ± 1.4", "94.0 ± 1.4", "99.0 ± 1.4"]
    assert [entry.best for entry in scores] == [False, True, False]  # solo is a baseline
    assert table.note.startswith("* best mean of its row; solo: for comparison, never marked; ditto, solo: each party")


def test_a_shared_model_has_no_table_of_own_rows() -> None:
    tables = score_tables(cells([hospitals(seed=0), hospitals(seed=1)]))
    assert not [table for table in tables if "own test rows" in table.title]
    assert "own rows" not in tables[0].note


def test_own_rows_in_json_csv_and_compare() -> None:
    found = personal()
    own = found[1].as_json()["own"]
    assert (own["mean"], own["std"]) == pytest.approx((0.94, stdev([0.95, 0.93])))
    header, *lines = csv.reader(io.StringIO(scores_csv(found)))
    numbers = [dict(zip(header, line, strict=True)) for line in lines]
    assert [(line["own"], line["own_std"]) for line in numbers] == [
        ("79.00", "1.41"), ("94.00", "1.41"), ("99.00", "1.41"),
    ]  # fmt: skip
    comparison = compare(found, "ditto", "fedavg", checked_question("own", cells=found))
    assert comparison.settings[0].differences == pytest.approx([0.15, 0.15])
    assert comparison.verdict == "ditto is better"
    assert "accuracy on the parties' own test rows, mean over parties" in comparison_table(comparison).title


def test_own_needs_results_by_party() -> None:
    plain = cells([stored([0.5])])
    assert plain[0].as_json()["own"] is None
    with pytest.raises(ConfigError, match="no results on the parties' own test rows"):
        checked_question("own", cells=plain)


def test_parties_in_all_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hospitals(out=tmp_path)
    hospitals(out=tmp_path, everywhere=True, algorithm="ditto")
    markdown = call(capsys, "show", tmp_path, "--parties", "--details", "--format", "markdown").out
    assert "| Bergen | 40 | 10 | 90.0 (all rows 50.0) | 90.0 |" in markdown
    assert "**Behind the accuracy**" in markdown
    assert (
        r"Bergen & 40 & 10 & 90.0 {\scriptsize (all rows 50.0)} & 90.0 \\"
        in call(capsys, "show", tmp_path, "--parties", "--format", "latex").out
    )
    header, *lines = csv.reader(io.StringIO(call(capsys, "show", tmp_path, "--parties", "--format", "csv").out))
    assert header[3:] == ["seed", "party", "train_rows", "test_rows", "metric", "unit", "own", "all"]
    assert lines[0][2:] == ["ditto", "0", "Bergen", "40", "10", "accuracy", "%", "90.00", "50.00"]
    assert lines[3][-2:] == ["90.00", ""]


def test_parties_as_csv_need_results_by_party(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored([0.5], out=tmp_path)
    refused = call(capsys, "show", tmp_path, "--parties", "--format", "csv")
    assert (refused.code, "no results by party" in refused.err) == (2, True)


def test_errors_of_parties() -> None:
    results = {"a": {"rows": 3, "own": 4.0}, "b": {"rows": 3, "own": 6.0}}
    final = [{"final": {"parties": results}, "metrics": {"mae": 5.0, "rmse": 6.0, "r2": 0.5}}]
    run = regression([5.0], parties=2)
    one = stored([None], 0, final, objective=_objective(run), parties=2, dataset_facts={"classes": []})
    (table,) = parties_tables(cells([one]))
    assert table.title.startswith("MAE, years, on each party's own test rows")
    assert table.footer[0][-1].text == "6.00 (b)"


def _objective(run: StoredRun) -> dict[str, Any]:
    metrics = [metric.as_json() for metric in run.facts.objective.metrics]
    return {"name": "regression", "main": "mae", "metrics": metrics}


def test_results_as_json() -> None:
    (cell,) = cells([hospitals(), hospitals((0.9, 0.6, 0.8), 1)])
    first, second = party_results(cell)
    assert first["parties"]["Cork"] == {"train_rows": 40, "test_rows": 20, "own": 0.7, "all": None}
    assert (first["worst"], second["worst"]) == ({"party": "Cork", "value": 0.7}, {"party": "Cork", "value": 0.6})
    assert party_results(cells([stored([0.9])])[0]) == []


# --- details ------------------------------------------------------------------------------------------


def test_details_name_the_worst_class_and_party_and_show_calibration() -> None:
    found = cells([hospitals(), hospitals((0.9, 0.7, 0.6), 1)])
    (row,) = texts(details_tables(found)[0])
    assert row["worst class"] == "60.0 (died)"
    assert row["worst party"] == "65.0 (Cork, Delft)"
    assert row["calibration error"] == "12.5"
    facts = details(found[0])
    assert facts["confusion"] == [[1200, 200], [240, 360]]
    assert facts["calibration"] == {"error": 0.125, "brier": 0.2}
    assert facts["own_test"]["worst_party"] == ["Cork", "Delft"]


def test_details_of_earlier_runs_name_what_they_know() -> None:
    every = {"class_accuracy": [0.9, 0.4], "party_accuracy": [0.8, 0.6, 0.7]}
    run = stored([0.8], 0, [every], parties=3, partition_facts={"parties": list(NAMES)})
    (row,) = texts(details_tables(cells([run]))[0])
    assert (row["worst class"], row["worst party"]) == ("40.0 (b)", "60.0 (Cork)")
    assert "calibration error" not in row
    facts = details(cells([run])[0])
    assert (facts["confusion"], facts["calibration"], facts["own_test"]) == (None, None, None)


def test_rows_that_parties_hold_out_come_before_their_test_rows() -> None:
    final = {"parties": {name: {"rows": 5, "own": 0.9} for name in NAMES}}
    run = stored(
        [0.8],
        0,
        [{"final": final, "party_accuracy": [0.8, 0.6, 0.7]}],
        parties=3,
        partition_facts={"parties": list(NAMES)},
    )
    (row,) = texts(details_tables(cells([run]))[0])
    assert row["worst party"] == "60.0 (Cork)"


# --- confusions ---------------------------------------------------------------------------------------


def test_a_small_confusion_matrix_is_shown_in_full() -> None:
    (table,) = confusion_tables(cells([hospitals(), hospitals(seed=1)]))
    alive, died = texts(table)
    assert (alive["class"], alive["rows"], alive["→ alive"], alive["→ died"]) == ("alive", "700", "85.7", "14.3")
    assert (died["class"], died["rows"], died["→ alive"], died["→ died"]) == ("died", "300", "40.0", "60.0")


def test_many_classes_show_their_most_frequent_confusions() -> None:
    names = [f"k{place}" for place in range(11)]
    matrix = [[100 if row == column else 0 for column in range(11)] for row in range(11)]
    matrix[3][5], matrix[7][1], matrix[2][0], matrix[4][0] = 50, 25, 10, 5
    run = stored([0.9], 0, [{"final": {"confusion": matrix}}], dataset_facts={"classes": names})
    (table,) = confusion_tables(cells([run]))
    (row,) = texts(table)
    assert [row[name] for name in ("most frequent", "second", "third")] == ["k3 → k5 33%", "k7 → k1 20%", "k2 → k0 9%"]


def test_many_matrices_are_shortened_as_well() -> None:
    runs = [hospitals(partition=f"label-dirichlet(beta={place})") for place in range(MOST_LINES // 2 + 1)]
    (table,) = confusion_tables(cells(runs))
    assert table.title == "Most frequent wrong answers"
    assert len(table.rows) == len(runs)


def test_runs_without_confusions_have_no_table() -> None:
    found = cells([stored([0.9])])
    assert confusion_tables(found) == []
    assert (confusion(found[0]), calibration(found[0])) == (None, None)
    assert frequent_confusions([[3, 0], [0, 4]]) == []


# --- commands and the page ----------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in range(2):
        hospitals(seed=seed, out=tmp_path)
        hospitals((0.8, 0.6, 0.7), seed, everywhere=True, algorithm="solo", out=tmp_path)
    return tmp_path


def test_show_parties(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "show", runs, "--parties")
    assert result.code == 0
    assert re.search(r"Cork +40 +20 +70\.0 ± 0\.0", result.out)
    assert re.search(r"worst party +70\.0 \(Cork\)", result.out)
    plain = call(capsys, "show", runs)
    assert "worst party" not in plain.out


def test_show_parties_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "show", runs, "--parties", "--json").out)["cells"]
    assert [one["parties"]["Delft"]["own"] for one in found[0]["party_results"]] == [0.8, 0.8]
    assert "party_results" not in json.loads(call(capsys, "show", runs, "--json").out)["cells"][0]


def test_show_parties_of_earlier_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored([0.9], out=tmp_path)
    result = call(capsys, "show", tmp_path, "--parties", "--details")
    assert result.code == 0
    assert "these runs have no results by party" in result.out


def test_show_details_has_confusions(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "show", runs, "--details").out
    assert "Confusion matrices" in out
    assert "60.0 (died)" in out


def test_the_page_names_parties_and_draws_the_final_test(tmp_path: Path) -> None:
    found = cells([hospitals(), hospitals(seed=1)], [hospitals(algorithm="solo", everywhere=True)])
    html = page(found, tmp_path / "report.html")
    assert "<h2>Classes and parties</h2>" in html
    assert html.count("confusions of ") == 2
    assert "70.0 (Cork)" in html
    assert page(found, tmp_path / "again.html") == html
    assert "<h2>Classes and parties</h2>" not in page(cells([stored([0.9])]), tmp_path / "earlier.html")


def test_dots_with_equal_scores_do_not_hide_each_other() -> None:
    drawn = markup(parties_chart({"fedavg": {"a": 0.9, "b": 0.8}, "solo": {"a": 0.9, "b": 0.8}}, ACCURACY, COLOURS))
    series = re.findall(r'<path class="dots large d0" d="([^"]+)"', drawn)
    dots = [[tuple(map(float, dot)) for dot in re.findall(r"M([\d.]+) ([\d.]+)h", path)] for path in series]
    (first_a, first_b), (second_a, second_b) = dots
    assert (first_a[0], first_b[0]) == (second_a[0], second_b[0])
    assert second_a[1] - first_a[1] == second_b[1] - first_b[1] == 9
    assert second_a[1] < first_b[1]
    assert "accuracy, percent" in drawn


@pytest.mark.parametrize(
    ("scores", "metric", "ends"),
    [
        ((1.0, 1.0), ACCURACY, (0.0, 100.0)),  # where all are right, the axis ends at 100%
        ((0.9, 0.8), ACCURACY, (79.0, 100.0)),
        ((0.9, 0.0), ACCURACY, (0.0, 100.0)),
        ((3.0, math.inf), Metric("mae", "MAE", False, "years"), (0.0, 3.0)),
        ((math.nan,), ACCURACY, (0.0, 100.0)),
    ],
)
def test_the_axis_of_parties_holds_what_scores_can_be(
    scores: tuple[float, ...], metric: Metric, ends: tuple[float, float]
) -> None:
    chart = parties_chart({"fedavg": {str(place): one for place, one in enumerate(scores)}}, metric, COLOURS)
    assert (chart.x.low, chart.x.high) == pytest.approx(ends)


def test_drawings_are_xml_with_escaped_names() -> None:
    curve = CalibrationFacts.from_json(CURVE)
    drawings = [
        parties_chart({"a<b": {"x & y": 0.5, "z": None}}, ACCURACY, COLOURS),
        parties_chart({"fedavg": {"a": 3.0, "b": 3.0}}, Metric("mae", "MAE", False, "years"), COLOURS),
        parties_chart({"fedavg": {"a": None}}, ACCURACY, COLOURS),
        reliability_chart({"a<b": curve}, COLOURS),
        confusion_chart([[3, 1], [0, 0]], ["<no>", "yes"]),
        confusion_chart([[1] * 40] * 40, [f"class {place}" for place in range(40)]),
    ]
    for chart in drawings:
        ElementTree.fromstring(markup(chart))
    assert drawings[4].texts == [["75", "25"], ["", ""]]


def test_a_setting_without_a_final_test_has_no_section() -> None:
    assert final_section(cells([stored([0.9])]), "iid", COLOURS) is None
    section = final_section(cells([hospitals()]), "iid", COLOURS)
    assert section is not None
    assert [drawing.name for drawing in section.drawings] == [
        "own test rows by party, seed 0", "reliability, seed 0", "confusions of fedavg",
    ]  # fmt: skip


def test_a_model_that_is_equally_sure_of_all_answers_is_a_dot() -> None:
    def drawn(rows: list[int]) -> str:
        curve = CalibrationFacts(0.1, 0.2, rows, [0.5, 0.9], [0.4, 0.8])
        return markup(reliability_chart({"fedavg": curve}, COLOURS))

    both, one = drawn([5, 5]), drawn([0, 5])
    assert [text.count('class="line d0"') for text in (both, one)] == [1, 0]
    assert "M900 48h" in one  # 90 percent across, and 20 percent of 240 pixels below the top
