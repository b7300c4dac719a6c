"""Tables, JSON, CSV and the heatmap of cross-tests, from runs whose numbers are known."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree

import pytest

from commands import call
from silobench.analysis.cross_tests import MOST_PARTIES, cross_json, cross_lines, cross_tables, transfer
from silobench.analysis.export import cross_csv
from silobench.report.charts.page import markup
from silobench.report.charts.shades import fields
from silobench.report.cross_tests import cross_chart, cross_drawing
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric
from stored import cells, page, stored, texts

NAMES = ("imdb", "amazon")
SOLO = [[0.9, 0.8, 0.86], [0.7, 0.6, 0.64]]  # model, then test rows: imdb, amazon, all
SHARED = [[0.95, 0.85, 0.91]]


def run(
    algorithm: str, scores: Sequence[Sequence[float | None]], seed: int = 0, *, names: Sequence[str] = NAMES,
    fingerprint: str = "same", **more: Any,
) -> StoredRun:  # fmt: skip
    cross = {"models": list(names) if len(scores) > 1 else ["shared"], "tests": [*names, "all"], "scores": scores}
    results: Mapping[str, Any] = {name: {"rows": 10, "own": 0.5} for name in names}
    return stored(
        [0.8], seed, [{"final": {"cross": cross, "parties": results}}], algorithm=algorithm, parties=len(names),
        partition_facts={"parties": list(names), "fingerprint": fingerprint}, **{"partition": "by-group", **more},
    )  # fmt: skip


def shifted(scores: Sequence[Sequence[float]], by: float) -> list[list[float]]:
    return [[score + by for score in row] for row in scores]


def reviews() -> list[StoredRun]:
    """Return two trials of a federated, a solo and a combined training."""
    tables = {"fedavg": SHARED, "solo": SOLO, "combined": [[0.96, 0.86, 0.92]]}
    return [run(name, shifted(table, seed / 50), seed) for name, table in tables.items() for seed in range(2)]


def test_models_are_down_test_rows_across_and_baselines_first() -> None:
    (table,) = cross_tables(cells(reviews()), every=False)
    assert table.columns == ["model", "imdb", "amazon", "all"]
    assert [row["model"] for row in texts(table)] == ["solo, imdb", "solo, amazon", "combined", "fedavg"]
    assert [row["imdb"] for row in texts(table)] == ["91.0 ± 1.4", "71.0 ± 1.4", "97.0 ± 1.4", "96.0 ± 1.4"]
    assert [row["amazon"] for row in texts(table)] == ["81.0 ± 1.4", "61.0 ± 1.4", "87.0 ± 1.4", "86.0 ± 1.4"]
    assert [row["all"] for row in texts(table)] == ["87.0 ± 1.4", "65.0 ± 1.4", "93.0 ± 1.4", "92.0 ± 1.4"]
    own, others, everywhere = fmean([0.9, 0.6]) + 0.01, fmean([0.8, 0.7]) + 0.01, fmean([0.86, 0.64]) + 0.01
    means = f"{100 * own:.1f} on their own rows, {100 * others:.1f} on those of other parties, {100 * everywhere:.1f}"
    assert table.note == f"mean ± std over 2 trials; solo, mean over parties: {means} on all"
    assert table.title.endswith("mnist by-group")


def test_transfer_is_the_diagonal_and_the_rest() -> None:
    one = transfer(run("solo", SOLO))
    assert one is not None
    assert (one.own, one.others, one.all) == pytest.approx((0.75, 0.75, 0.75))
    one = transfer(run("solo", [[0.9, None, 0.8], [0.4, 0.7, 0.6]]))
    assert one is not None
    assert (one.own, one.others, one.all) == pytest.approx((0.8, 0.4, 0.7))
    assert transfer(run("fedavg", SHARED)) is None
    assert transfer(stored([0.5])) is None


def test_trials_with_other_parties_are_not_averaged() -> None:
    numbers = ("0", "1")
    runs = [run("solo", shifted(SOLO, seed / 10), seed, names=numbers, fingerprint=str(seed)) for seed in range(2)]
    (table,) = cross_tables(cells(runs))
    assert [row["0"] for row in texts(table)] == ["90.0", "70.0"]
    assert "parties differ between trials: lines are those of seed 0, means are over all trials" in table.note
    assert "80.0 on their own rows" in table.note
    named = [run("solo", shifted(SOLO, seed / 10), seed, fingerprint=str(seed)) for seed in range(2)]
    (table,) = cross_tables(cells(named))  # a silo with a name is the same one, whatever rows the seed gave it
    assert [row["imdb"] for row in texts(table)] == ["95.0 ± 7.1", "75.0 ± 7.1"]
    assert "differ" not in table.note


def test_undefined_scores_are_left_out() -> None:
    runs = [run("solo", [[0.9, None, 0.8], [None, None, 0.6]]), run("solo", [[0.7, 0.5, 0.8], [0.5, None, 0.6]], 1)]
    lines = cross_lines(cells(runs))
    assert lines[0].means == [pytest.approx(0.8), 0.5, 0.8]
    assert lines[1].means == [0.5, None, 0.6]
    (table,) = cross_tables(cells(runs))
    assert texts(table)[1] == {"model": "solo, amazon", "imdb": "50.0", "amazon": "-", "all": "60.0 ± 0.0"}


def test_which_settings_are_shown_without_asking() -> None:
    def shown(runs: list[StoredRun]) -> list[bool]:
        return [bool(cross_tables(cells(runs), every)) for every in (False, True)]

    assert shown(reviews()) == [True, True]
    assert shown([run("fedavg", SHARED)]) == [False, True]  # one model
    assert shown([run("solo", SOLO, partition="iid")]) == [False, True]
    many = [str(name) for name in range(100, 101 + MOST_PARTIES)]
    table = [[0.5] * (len(many) + 1)] * len(many)
    assert shown([run("solo", table, names=many)]) == [False, True]
    assert shown([stored([0.5], partition="by-group")]) == [False, False]


def test_json_and_csv() -> None:
    found = cells(reviews())
    facts = {cell.label["algorithm"]: cross_json(cell) for cell in found}
    solo = facts["solo"]
    assert solo is not None
    assert (solo["models"], solo["tests"]) == (["imdb", "amazon"], ["imdb", "amazon", "all"])
    assert [pytest.approx(row) for row in shifted(SOLO, 0.01)] == solo["mean"]
    assert solo["std"][0] == pytest.approx([stdev([0.9, 0.92])] * 3)
    assert solo["transfer"] == pytest.approx({"own": 0.76, "others": 0.76, "all": 0.76})
    assert facts["fedavg"] is not None
    assert (facts["fedavg"]["models"], facts["fedavg"]["transfer"]) == (["shared"], None)
    header, *lines = csv.reader(io.StringIO(cross_csv(found)))
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert len(rows) == 2 * (2 + 1 + 1) * 3
    (one,) = [r for r in rows if (r["algorithm"], r["seed"], r["model"], r["test"]) == ("solo", "1", "imdb", "amazon")]
    assert (one["metric"], one["unit"], one["score"]) == ("accuracy", "%", "82.00")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    for seed in range(2):
        run("solo", shifted(SOLO, seed / 50), seed, out=out)
    text = call(capsys, "show", out).out
    assert "solo, amazon  71.0 ± 1.4  61.0 ± 1.4" in text
    facts = json.loads(call(capsys, "show", out, "--json").out)
    assert facts["cells"][0]["cross"]["mean"][1][0] == pytest.approx(0.71)
    assert "| solo, amazon | 71.0 ± 1.4 |" in call(capsys, "show", out, "--format", "markdown").out
    assert "imdb,amazon,accuracy,%,82.00" in call(capsys, "show", out, "--format", "csv", "--cross").out
    both = call(capsys, "show", out, "--format", "csv", "--cross", "--parties")
    assert (both.code, "leave out --parties or --cross" in both.err) == (2, True)
    plain = tmp_path / "plain"
    stored([0.5], out=plain)
    assert "these runs have no cross-tests" in call(capsys, "show", plain, "--cross").out
    failed = call(capsys, "show", plain, "--cross", "--format", "csv")
    assert (failed.code, "leave out --cross" in failed.err) == (2, True)


# --- the heatmap --------------------------------------------------------------------------------------


def shades(metric: Metric) -> dict[tuple[str, str], float]:
    """Return the shade by the model and the test rows of a field."""
    chart = cross_chart(cross_lines(cells(reviews())), metric)
    return {(chart.rows[field.row], chart.columns[field.column]): field.shade for field in fields(chart)}


def test_a_better_field_is_darker_and_has_its_number() -> None:
    chart = cross_chart(cross_lines(cells(reviews())), ACCURACY)
    numbers = {
        (row, column): text
        for row, texts in zip(chart.rows, chart.texts, strict=True)
        for column, text in zip(chart.columns, texts, strict=True)
    }
    assert numbers["solo, imdb", "amazon"] == "81.0"
    assert numbers["solo, amazon", "imdb"] == "71.0"
    shade = shades(ACCURACY)
    order = sorted(shade, key=lambda key: float(numbers[key]))
    assert [shade[key] for key in order] == sorted(shade.values())
    reverse = shades(Metric("mae", "MAE", False, "years"))
    assert reverse["combined", "imdb"] < reverse["solo, amazon", "amazon"]


def test_own_rows_have_a_frame() -> None:
    chart = cross_chart(cross_lines(cells(reviews())), ACCURACY)
    framed = [(chart.rows[row], chart.columns[column]) for row, column in chart.frames]
    assert framed == [("solo, imdb", "imdb"), ("solo, amazon", "amazon")]
    assert markup(chart).count('class="own"') == 1


def test_many_parties_have_no_numbers_and_equal_values_no_scale() -> None:
    names = [f"p{place}" for place in range(20)]
    chart = cross_chart(cross_lines(cells([run("solo", [[0.5] * 21] * 20, names=names)])), ACCURACY)
    assert 'class="field' not in markup(chart)
    assert len({field.shade for field in fields(chart)}) == 1


def test_the_page_has_it_where_models_differ_between_parties(tmp_path: Path) -> None:
    assert "cross-test, accuracy, percent" in page(cells(reviews()), tmp_path / "report.html")
    assert cross_drawing(cells([run("solo", SOLO, partition="iid")])) is not None
    assert cross_drawing(cells([run("fedavg", SHARED)])) is None
    two = cells([run("fedavg", SHARED, partition="iid")], [run("fednova", SHARED, partition="iid")])
    assert cross_drawing(two) is None  # the dots by party show as much


def test_names_are_escaped() -> None:
    drawn = markup(cross_chart(cross_lines(cells([run("solo", SOLO, names=("<a>", "b&c"))])), ACCURACY))
    ElementTree.fromstring(drawn)
    assert "&lt;a&gt;" in drawn
