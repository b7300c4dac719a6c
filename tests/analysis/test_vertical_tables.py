"""What commands show of runs in which parties hold columns: tables, comparisons, the page, and OARF's numbers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from commands import call
from silobench.analysis.compare import Ropes, checked_question, compare
from silobench.analysis.tables import cost_table
from silobench.analysis.time_tables import phases_tables
from silobench.analysis.vertical import (
    alignment_table,
    leakage_table,
    parties_table,
    row_set_tables,
    vertical_json,
    vertical_tables,
)
from silobench.papers import other_measures, paper_tables, rope_option
from silobench.report.charts.files import draw
from silobench.report.charts.page import markup
from silobench.report.charts.values import Axis, BarChart, Line, LineChart, Panels, Point
from silobench.report.vertical import leakage_sections
from silobench.runs.stored import StoredRun
from stored import cells, columns_of, page, regression, stored, texts

LABELS, OTHER = "audio", "chart"
MATCH = {
    "match": "fuzzy",
    "rows": {LABELS: 1200, OTHER: 2000},
    "unmatched": {LABELS: 70, OTHER: 800},
    "likely_false": 7,
}
MASK = {"metric": "mae", "score": 8.0, "constant": 10.0, "patterns": 2}


def sets(error: float, own: float | None = None) -> dict[str, Any]:
    """The final test of a run: an error on the aligned rows, and another one elsewhere."""
    rows = {"aligned": 85, "all": 100, f"party {LABELS}": 100, f"party {OTHER}": 90}
    scores = {name: error if name == "aligned" else own for name in rows}
    return {"by_rows": {name: {"rows": count, "score": scores[name]} for name, count in rows.items()}}


def run(error: float, seed: int = 0, rate: float = 20_000, **more: Any) -> StoredRun:
    """A run of Billboard that trains `rate` rows per second, in two rounds."""
    timed = {"rows": round(rate), "steps": 10, "time": {"total": 1.0, "core": 1.0, "parties": {"train": 1.0}}}
    choices = {
        "dataset": "billboard", "partition": "columns", "parties": 2, "solver": "adam", "algorithm": "split",
        "every": {**timed, "final": sets(error, 5.0)},
        "vertical": columns_of(LABELS, OTHER, alignment=MATCH, mask=MASK),
    }  # fmt: skip
    return regression([9.0, error], seed, **choices | more)


def trials(error: float, rate: float = 20_000, **more: Any) -> list[StoredRun]:
    return [run(error + off, seed, rate + 30 * off, **more) for seed, off in enumerate((-0.01, 0.0, 0.01))]


def three() -> list[list[StoredRun]]:
    return [
        trials(6.1, 39_000, algorithm=f"solo(party={OTHER})"),
        trials(6.0, 23_000, algorithm="combined"),
        trials(6.02, 19_000),
    ]


# --- who holds what ----------------------------------------------------------------------------------


def test_parties_and_their_columns() -> None:
    table = parties_table(cells(*three()))
    first, second = texts(table)
    assert table.columns == [
        "dataset", "partition", "party", "role", "columns", "rows", "test rows", "in its file", "without a match",
    ]  # fmt: skip
    assert list(first.values())[2:] == [LABELS, "labels", "3", "1,000", "100", "1,200", "70"]
    assert list(second.values())[2:] == [OTHER, "-", "4", "900", "90", "2,000", "800"]


def test_features_are_shown_if_they_are_not_the_columns() -> None:
    facts = columns_of(LABELS, OTHER)
    facts["parties"][LABELS]["features"], facts["parties"][OTHER]["features"] = 3, 9
    first, second = texts(parties_table(cells([run(6.0, vertical=facts)])))
    assert (first["columns"], first["features"], second["columns"], second["features"]) == ("3", "3", "4", "9")


def test_an_alignment_beside_the_check_of_presence() -> None:
    (row,) = texts(alignment_table(cells(*three())))
    assert list(row.values())[2:] == ["fuzzy", "850", "85", "zeros", "150", "5,000", "7", "8.00", "10.00"]
    private = columns_of(LABELS, OTHER, alignment={"match": "psi", "seconds": 1.66, "bytes": 64_000})
    (row,) = texts(alignment_table(cells([run(6.0, vertical=private)])))
    assert (row["time to match"], row["sent to match"]) == ("1.66 s", "64 kB")
    whole = columns_of(LABELS, OTHER, aligned={"train": 6000, "test": 1000}, rows=6000)
    assert alignment_table(cells([run(6.0, vertical=whole)])).rows == []


def test_columns_that_no_run_has_are_left_out() -> None:
    table = parties_table(cells([run(6.0, vertical=columns_of(LABELS, OTHER))]))
    assert table.columns[2:] == ["party", "role", "columns", "rows", "test rows"]
    assert "without a match" not in table.note
    assert vertical_tables(cells([stored([0.5])])) == []


def test_scores_by_set_of_test_rows() -> None:
    (table,) = row_set_tables(cells(*three(), trials(6.02, measure="label-leakage")))
    assert table.title == "By set of test rows: MAE, years (mean ± std over 3 trials)"
    assert table.columns[-4:] == [
        "aligned (85 rows)", "all (100 rows)", f"rows of {LABELS} (100 rows)", f"rows of {OTHER} (90 rows)",
    ]  # fmt: skip
    assert [row["aligned (85 rows)"] for row in texts(table)] == ["6.10 ± 0.01", "6.00 ± 0.01", "6.02 ± 0.01"]
    assert [row["algorithm"] for row in texts(table)] == [f"solo(party={OTHER})", "combined", "split"]


# --- leakage -----------------------------------------------------------------------------------------


def leaking(auc: float, r2: float, seed: int, **more: Any) -> StoredRun:
    attack = {"auc": auc, "null": 0.5, "null_se": 0.02}
    facts = {
        "label-leakage": {"parties": {OTHER: {"norm": attack, "direction": {**attack, "auc": 0.4}}}},
        "reconstruction": {"parties": {OTHER: {"r2": r2, "null": -0.01, "binary": None}}},
    }
    one = run(6.0, seed, measure="label-leakage + reconstruction", **more)
    return replace(one, rounds=[*one.rounds[:-1], replace(one.rounds[-1], measures=facts)])


def leaks() -> list[list[StoredRun]]:
    plain = [leaking(0.9, 0.8, seed) for seed in range(2)]
    return [plain, [leaking(0.6, 0.1, seed, algorithm="split(defence=noise(deviation=1.0))") for seed in range(2)]]


def test_leakage_by_defence() -> None:
    found = cells(*leaks())
    plain, defended = texts(leakage_table(found))
    names = ("defence", "party", "MAE, years", "label AUC, norm", "label AUC, direction", "columns, R²")
    assert [plain[name] for name in names] == [
        "none", OTHER, "6.00 ± 0.00", "0.900 ± 0.000 (0.500 ± 0.014)", "0.400 ± 0.000 (0.500 ± 0.014)",
        "0.800 ± 0.000 (-0.010)",
    ]  # fmt: skip
    assert (defended["defence"], defended["columns, R²"]) == ("noise(deviation=1.0)", "0.100 ± 0.000 (-0.010)")
    assert {"distance correlation", "binary columns, %"}.isdisjoint(plain)
    assert "≈" not in leakage_table(found).note
    assert other_measures(found) == []  # this table has them
    facts = vertical_json(found[1])
    assert facts
    assert facts["leakage"][OTHER]["label_auc_norm"] == 0.6
    assert facts["mask"]["score"] == 8.0


def test_a_value_within_two_standard_errors_of_the_null_is_marked() -> None:
    near, far = (leakage_table(cells([leaking(auc, 0.8, seed) for seed in range(4)])) for auc in (0.519, 0.521))
    assert texts(near)[0]["label AUC, norm"] == "0.519 ± 0.000 (0.500 ± 0.010) ≈"  # 0.02 in each of four trials
    assert "≈ within two standard errors" in near.note
    assert texts(far)[0]["label AUC, norm"] == "0.521 ± 0.000 (0.500 ± 0.010)"
    assert "columns, R²" in far.columns  # whose guess has no standard error, and no mark


def test_the_figure_of_leakage_has_the_best_attack_beside_the_metric() -> None:
    (section,) = leakage_sections(cells(*leaks()))
    chart = section.drawings[0].chart
    assert isinstance(chart, Panels)
    root = ElementTree.fromstring(markup(chart))
    words = [element.text for element in root.iter() if element.text]
    for expected in (
        "none",
        "noise(deviation=1.0)",
        "label leakage, AUC",
        "reconstruction, R²",
        "0.90",
        "0.60",
        "0.80",
    ):
        assert expected in words
    assert "0.40" not in words  # the weaker attack
    (leak,) = [panel for panel in chart.charts if panel.title == "label leakage, AUC"]
    assert isinstance(leak, BarChart)
    assert [value and value.mean for value in leak.bars[0].values] == pytest.approx([0.9, 0.6])
    assert "black tick" in section.drawings[0].note
    assert leakage_sections(cells([stored([0.5])])) == []


# --- commands ----------------------------------------------------------------------------------------


def test_show_report_and_compare_know_vertical_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for error, rate, name in (
        (6.1, 39_000, f"solo(party={OTHER})"),
        (6.0, 23_000, "combined"),
        (6.02, 22_500, "split"),
    ):
        trials(error, rate, algorithm=name, out=tmp_path)
    out = call(capsys, "show", tmp_path).out
    for title in ("Parties and columns", "Alignment", "By set of test rows", "OARF, Table 10(a)", "OARF, Table 10(c)"):
        assert title in out
    shown = json.loads(call(capsys, "show", tmp_path, "--json").out)
    assert shown["cells"][0]["vertical"]["by_rows"]["aligned"]["rows"] == 85
    mae = json.loads(call(capsys, "compare", tmp_path, "split", "combined", "--rope", "oarf", "--json").out)
    assert (mae["metric"], mae["rope"], mae["verdict"]) == ("mae", 0.1, "practically equal")
    options = ("--metric", "throughput", "--rope", "oarf", "--json")
    rate = json.loads(call(capsys, "compare", tmp_path, "split", "combined", *options).out)
    assert (rate["rope"], rate["verdict"], rate["settings"][0]["n"]) == (1000, "practically equal", 3)
    said = call(capsys, "show", tmp_path, "--parties").out
    assert "no party has test rows of its own, because parties hold columns" in " ".join(said.split())


def test_the_page_of_vertical_runs_has_no_empty_parts(tmp_path: Path) -> None:
    facts = {"counts": [], "sizes": [], "notes": ["rows were matched by psi"]}
    ways = [trials(6.0, algorithm=name, partition_facts=facts) for name in ("combined", "split")]
    text = page(cells(*ways), tmp_path / "report.html")
    assert "<h2>Vertical</h2>" in text
    assert "<h2>Curves</h2>" in text
    assert "<h2>Partitions</h2>" not in text  # there are no rows by party
    for absent in ("<dt>participation</dt>", '<th scope="col">worst party</th>'):
        assert absent not in text
    assert "billboard columns: rows were matched by psi" in text
    assert "MAE of a model that sees only which party has a row: 8.00 years, and of one answer" in text


def test_legends_of_long_names_fit(recwarn: pytest.WarningsRecorder, tmp_path: Path) -> None:
    names = [f"split(noise(deviation={number}.25, at=both), solvers=['adam(lr=0.001)'])" for number in range(6)]
    lines = [Line(name, [Point(1, 0.5), Point(2, 0.6)]) for name in names]
    draw(LineChart("AUC by round", Axis("round", scale="whole"), Axis("AUC"), lines), tmp_path / "a.svg")
    assert not recwarn.list  # matplotlib warns if axes have no room


def test_the_rope_of_throughput_is_larger_for_columns_only() -> None:
    ropes = rope_option("oarf")
    assert isinstance(ropes, Ropes)
    plain = cells([stored([0.5], time={"total": 1.0, "core": 1.0}, records=[{"rows": 9, "time": {"total": 1.0}}])])
    assert checked_question("throughput", ropes, cells=plain).rope == 100
    question = checked_question("throughput", ropes, cells=cells(*three()))
    assert question.rope == 1000
    assert compare(cells(*three()), "combined", "split", question).verdict == "combined is better"


def test_every_message_across_a_cut_counts_in_the_bytes_of_a_round() -> None:
    sent = {"bytes_up": 3000, "bytes_down": 3000, "cohort": [0, 1, 2]}
    (row,) = texts(table := cost_table(cells([run(6.0, every=sent)])))
    assert row["bytes per round"] == "6 kB"  # gradients differ by party
    assert "bytes per round: all messages" in table.note


def test_messages_across_a_cut_are_no_secure_sum() -> None:
    phases = {"activations": {"up": 100, "down": 0, "messages": 4, "seconds": 0.001}}
    one = run(6.0, every={"phases": phases})
    (table,) = phases_tables(cells([one]))
    assert table.title.startswith("Messages by phase")
    assert texts(table)[0]["bytes up"] == "100 B"


# --- OARF's tables -----------------------------------------------------------------------------------


def test_table_10_beside_ours() -> None:
    tables = {table.title: table for table in paper_tables(cells(*three()))}
    results = tables["OARF, Table 10(a): year prediction"]
    assert [row["trained on"] for row in texts(results)] == [OTHER, "combined", "split"]
    split = dict(zip(results.columns, results.rows[-1], strict=True))
    assert (split["MAE, years"].text, split["MAE, years"].paper) == ("6.020 ± 0.010", "paper 6.083 ± 0.135")
    assert split["rows/s"].paper == "paper 19627.89 ± 1131.67"
    assert "FMA 3.158 ± 0.123" in results.note
    odds = tables["OARF, Table 10(c): probabilities of differences"]
    beside = {(row[1].text, row[3].text): [entry.paper for entry in row[4:]] for row in odds.rows}
    assert beside["mae", "combined"] == ["paper 5.41e-2", "paper 8.09e-1", "paper 1.35e-1"]
    assert beside["mae", OTHER] == ["", "", ""]
    larger = {(row[1].text, row[3].text): row[4].text for row in odds.rows}
    assert larger["throughput", "combined"] == "0.000"  # split is slower, so it is not larger


def test_table_11_is_an_estimate() -> None:
    ways = {"split": 1.0, "split(encryption=ckks)": 100.0}
    found = [[rated(name, total, seed) for seed in range(2)] for name, total in ways.items()]
    (table,) = [each for each in paper_tables(cells(*found)) if "Table 11" in each.title]
    plain, encrypted = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (plain["training"].text, encrypted["training"].text) == ("split", "split with ckks")
    assert (encrypted["s per batch"].text, encrypted["s per batch"].paper) == ("10", "paper 206")
    hours = encrypted["7,834 batches (estimate)"]
    assert (hours.text, hours.paper) == ("21.8 h", "paper 448 h")
    assert "448 h for one epoch, and the text states 403 h in all" in table.note


def test_encrypted_runs_of_other_data_are_not_beside_the_paper() -> None:
    ways = {"split": 1.0, "split(encryption=ckks)": 100.0}
    own = [[rated(name, total, seed, dataset="linked") for seed in range(2)] for name, total in ways.items()]
    (table,) = paper_tables(cells(*own))
    assert table.title == "Encryption at the cut"
    assert [row["s per batch"] for row in texts(table)] == ["0.1", "10"]
    assert table.columns[-1] == "s per batch"
    assert not any(entry.paper for row in table.rows for entry in row)
    assert "paper" not in table.note


def rated(algorithm: str, total: float, seed: int, dataset: str = "movielens-omdb") -> StoredRun:
    """A run of recommendation with rounds of `total` seconds, all but one of which are spent on encryption."""
    time = {"total": total, "core": total, "parties": {"train": 1.0, "encrypt": total - 1.0, "communicate": 0.0}}
    return run(0.8, seed, dataset=dataset, algorithm=algorithm, every={"rows": 9, "steps": 10, "time": time})
