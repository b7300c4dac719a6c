"""Tables and figures of time and communication, `show --time`, `compare --plot`, and their sections of the page."""

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest

from commands import call
from screens import check
from silobench.analysis.compare import checked_question, compare, paired
from silobench.analysis.costs import PARTS
from silobench.analysis.posterior import duels, duels_table
from silobench.analysis.tables import cost_table
from silobench.analysis.time_tables import decomposition_table, phases_tables, time_table
from silobench.cli.terminal import grid_of
from silobench.errors import ConfigError
from silobench.report.charts.page import markup
from silobench.report.charts.values import Value
from silobench.report.evidence import posterior_sections, stacked_chart, time_sections
from silobench.report.posteriors import plot_comparison, posterior_chart
from silobench.runs.stored import StoredRun
from stored import cells, page, stored, texts

SERVER = {"test": 0.5, "aggregate": 0.5, "communicate": 1.0, "idle": 2.0, "encode": 0.0}
PARTIES = {"train": 2.0, "test": 0.0, "encode": 0.25, "encrypt": 0.0, "communicate": 1.25, "idle": 0.5}
TIME = {"total": 4.0, "core": 2.0, "server": SERVER, "parties": PARTIES}
ROUND = {"rows": 600, "dense_up": 1000, "dense_down": 20, "bytes_up": 1000, "bytes_down": 20, "time": TIME}
PLATEAU = "sgd(lr=plateau(start=0.1), epochs=1)"


def timed(count: int = 2, seed: int = 0, *, accuracy: float = 0.5, most: int = 20, **more: Any) -> StoredRun:
    """Return a run of `count` rounds of `most` that were planned; it converged if it has fewer."""
    return stored([accuracy] * count, seed, **{"every": ROUND, "solver": PLATEAU, "rounds": most, **more})


def sparse(count: int, seed: int = 0, **more: Any) -> StoredRun:
    return timed(count, seed, transforms="top_k(fraction=0.01)", every={**ROUND, "bytes_up": 30}, **more)


# --- tables -------------------------------------------------------------------------------------------


def test_a_row_for_each_way_to_compress() -> None:
    found = cells([timed(10), timed(14, 1)], [sparse(16), sparse(14, 1)])
    plain, compressed = texts(time_table(found, by_partition=True))
    assert plain == {
        "dataset": "mnist", "partition": "iid", "transforms": "", "algorithm": "fedavg",
        "rounds to converge": "12 ± 2.83", "rows/s": "150 ± 0", "rows/core-s": "300 ± 0", "overhead, %": "37.5 ± 0.0",
        "uplink ratio": "1", "downlink ratio": "1", "end-to-end ratio": "-",
    }  # fmt: skip
    assert compressed["rounds to converge"] == "15 ± 1.41"
    assert compressed["uplink ratio"] == "33.3"
    assert compressed["end-to-end ratio"] == "26.7"  # 33.33 * 12 / 15


def test_a_run_that_did_not_converge_gives_bounds() -> None:
    _, compressed = texts(time_table(cells([timed(10)], [sparse(20)])))
    assert (compressed["rounds to converge"], compressed["end-to-end ratio"]) == (">20", "<16.7")
    _, compressed = texts(time_table(cells([timed(20)], [sparse(10)])))
    assert (compressed["rounds to converge"], compressed["end-to-end ratio"]) == ("10", ">66.7")
    assert "end-to-end ratio" not in time_table(cells([timed(20)], [sparse(20)])).columns  # nothing is known


def test_partitions_are_averaged_unless_they_are_asked_for() -> None:
    found = cells([timed(10)], [timed(14, partition="shards")])
    (row,) = texts(time_table(found))
    assert (row["rounds to converge"], "partition" in row) == ("12", False)
    assert [row["rounds to converge"] for row in texts(time_table(found, by_partition=True))] == ["10", "14"]


def test_deviations_are_shown_only_where_the_title_says_so() -> None:
    fast = {**ROUND, "rows": 1_234_567}
    runs = [timed(10, every=fast), timed(14, 1, every={**fast, "rows": 1_000_000})]
    table = time_table(cells(runs))
    assert table.title == "Time and communication (mean ± std over 2 trials)"
    assert texts(table)[0]["rows/s"] == "279000 ± 41500"  # three digits: 279,321 ± 41,465
    table = time_table(cells(runs, [timed(14, partition="shards")], [timed(9, algorithm="scaffold")]))
    assert table.title == "Time and communication (mean over partitions and trials)"
    assert not any("±" in text for row in texts(table) for text in row.values())
    assert time_table(cells([timed(10)])).title == "Time and communication (one trial)"


def test_columns_that_no_cell_has_are_left_out() -> None:
    fixed = cells([timed(20, solver="sgd(lr=0.1)")])
    (row,) = texts(time_table(fixed))
    assert "rounds to converge" not in row  # no schedule could have ended it
    assert "rounds to converge" not in time_table(fixed).note
    silent = {**ROUND, "dense_up": 0, "dense_down": 0, "bytes_up": 0, "bytes_down": 0}
    (row,) = texts(time_table(cells([timed(every=silent)])))
    assert "uplink ratio" not in row


def test_earlier_runs_are_left_out() -> None:
    both = cells([timed(20)], [timed(20, algorithm="scaffold", every={})])
    assert [row["algorithm"] for row in texts(time_table(both))] == ["fedavg"]
    assert {row["algorithm"] for row in texts(decomposition_table(both))} == {"fedavg"}
    assert time_table(cells([timed(20, every={})])).rows == []
    assert decomposition_table(cells([timed(20, every={})])).rows == []
    assert time_sections(cells([timed(20, every={})])) == []


def test_the_time_of_server_and_mean_party() -> None:
    server, party = texts(decomposition_table(cells([timed(3), timed(5, 1)])))
    assert (server["of"], server["round time"], server["idle"], server["train"]) == (
        "server",
        "16 s",
        "8 s (50.0%)",
        "-",
    )
    assert (party["of"], party["train"], party["communicate"]) == ("mean party", "8 s (50.0%)", "5 s (31.2%)")
    assert "encrypt" not in party  # nothing is encrypted
    for row in (server, party):
        shares = [float(text) for text in re.findall(r"\(([0-9.]+)%\)", " ".join(row.values()))]
        assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))


def test_a_run_without_time_has_no_shares() -> None:
    still = {"total": 0.0, "core": 0.0, "server": dict.fromkeys(SERVER, 0.0), "parties": dict.fromkeys(PARTIES, 0.0)}
    found = cells([timed(every={**ROUND, "time": still})])
    assert [row["round time"] for row in texts(decomposition_table(found))] == ["0", "0"]
    ElementTree.fromstring(markup(time_sections(found)[1].drawings[0].chart))


def test_tables_fit_a_terminal() -> None:
    found = cells([timed(10), timed(14, 1)], [sparse(16), sparse(14, 1)], [timed(20, partition="shards")])
    for table in (time_table(found), time_table(found, by_partition=True), decomposition_table(found)):
        check(grid_of(table), 80)


def phased(up: float, messages: int, seconds: float) -> dict[str, Any]:
    return {"up": up, "down": 10, "messages": messages, "seconds": seconds}


def test_a_secure_sum_by_phase() -> None:
    """Two trials of two rounds; the first round of the first trial was lost before the replies."""
    lost = {"phases": {"keys": phased(100, 3, 0.002)}}
    whole = {"phases": {"unmasking": phased(4, 6, 0.0), "keys": phased(300, 6, 0.004), "replies": phased(50, 3, 0.1)}}
    secure = [stored([0.5, 0.5], 0, [lost, whole]), stored([0.5, 0.5], 1, [whole, whole])]
    (table,) = phases_tables(cells(secure, [timed(2, algorithm="scaffold")]))
    keys, replies, unmasking = texts(table)
    assert [row["algorithm"] for row in (keys, replies, unmasking)] == ["fedavg"] * 3
    assert [row["phase"] for row in (keys, replies, unmasking)] == ["keys", "replies", "unmasking"]
    names = ("bytes up", "bytes down", "messages", "time, ms")
    assert [keys[name] for name in names] == ["250 B", "10 B", "5.25", "3.5"]
    assert [replies[name] for name in names] == ["37.5 B", "7.5 B", "2.25", "75"]
    assert [unmasking[name] for name in names] == ["3 B", "7.5 B", "4.5", "0"]
    assert phases_tables(cells([timed(2)])) == []
    check(grid_of(table), 80)


# --- commands -----------------------------------------------------------------------------------------


def write_runs(out: Path) -> None:
    for seed, (a, b) in enumerate([(0.8, 0.6), (0.82, 0.61), (0.81, 0.63)]):
        timed(10 + seed, seed, accuracy=a, out=out)
        timed(20, seed, accuracy=b, algorithm="scaffold", out=out)


def test_show_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path)
    plain, more = call(capsys, "show", tmp_path), call(capsys, "show", tmp_path, "--time")
    assert (plain.out.count("Time and communication"), plain.out.count("Time of server")) == (1, 0)
    assert (more.out.count("Time and communication"), more.out.count("Time of server")) == (1, 1)
    marked = call(capsys, "show", tmp_path, "--time", "--format", "markdown").out
    assert "Time of server and parties" in marked
    assert "Time of server" not in call(capsys, "show", tmp_path, "--format", "markdown").out
    refused = call(capsys, "show", tmp_path, "--time", "--format", "csv")
    assert (refused.code, "leave out --details, --target and --time" in refused.err) == (2, True)
    first, second = json.loads(call(capsys, "show", tmp_path, "--json").out)["cells"]
    assert first["costs"]["convergence"] == {"mean": 11, "std": 1, "bound": None}
    assert second["costs"]["convergence"] == {"mean": 20, "std": None, "bound": ">"}
    assert (first["costs"]["converged"], second["costs"]["converged"]) == ([10, 11, 12], [None] * 3)
    assert first["costs"]["throughput"]["mean"] == 150
    assert first["costs"]["time"]["server"]["idle"] == 22


def test_show_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phases = {"keys": phased(300, 6, 0.004)}
    run = stored([0.5, 0.5], every={"phases": phases}, out=tmp_path)
    assert "Secure sum by phase" in call(capsys, "show", tmp_path).out
    (cell,) = json.loads(call(capsys, "show", tmp_path, "--json").out)["cells"]
    assert cell["costs"]["phases"] == phases
    (section,) = (each for each in time_sections(cells([run])) if each.title == "Secure sum by phase")
    assert len(section.table.rows) == 1


def test_show_time_of_earlier_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timed(20, every={}, out=tmp_path)
    shown = call(capsys, "show", tmp_path, "--time")
    assert shown.code == 0
    assert "no time of server and parties, because they are from an earlier version" in " ".join(shown.out.split())


def test_compare_draws_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "runs")
    command = ("compare", tmp_path / "runs", "fedavg", "scaffold", "--rho", "0", "--plot")
    for name in ("a.svg", "a.png", "a.pdf"):
        assert f"wrote {tmp_path / name}" in call(capsys, *command, tmp_path / name).out.replace("\n", "")
    drawn = (tmp_path / "a.svg").read_text()
    ElementTree.fromstring(drawn)
    odds = json.loads(call(capsys, *command, tmp_path / "b.svg", "--json").out)
    assert (tmp_path / "b.svg").read_text() == drawn
    for name, key in (("A", "better_a"), ("equal", "equal"), ("B", "better_b")):
        assert f"p({name}) = {odds[key]:.3f}" in drawn
    assert "A = fedavg, B = scaffold: test accuracy" in drawn
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    wrong = call(capsys, *command, tmp_path / "a.gif")
    assert (wrong.code, "must end in .pdf, .svg or .png" in wrong.err) == (2, True)


# --- figures ------------------------------------------------------------------------------------------


def test_the_better_side_is_that_of_the_metric() -> None:
    """A difference above 0 is in favour of A for a throughput, and of B for an overhead."""
    runs = [
        [timed(seed=seed, algorithm=name, every={**ROUND, "time": {**TIME, "total": total + seed / 10}})
         for seed in range(3)]
        for name, total in (("fedavg", 4.0), ("scaffold", 5.0))
    ]  # fmt: skip
    for metric, order in (("throughput", ["B", "equal", "A"]), ("overhead", ["A", "equal", "B"])):
        found = cells(*runs)
        question = checked_question(metric, cells=found)
        pairs = paired(*found, question)
        assert pairs is not None
        chart = posterior_chart(pairs, question)
        assert [name for name, _ in chart.parts] == order
        assert re.findall(r"p\((\w+)\) = ", markup(chart)) == order  # the legend, from left to right


@pytest.mark.parametrize("rope", [0.0, 0.01, 5.0])
@pytest.mark.parametrize("scores", [(0.5, 0.5, 0.5), (0.5, 0.50001, 0.5), (0.1, 0.9, 0.5)])
def test_any_spread_and_any_rope_can_be_drawn(scores: tuple[float, ...], rope: float) -> None:
    """All differences the same, hardly different, and wildly different. A cost has no grain to widen the first."""
    found = cells(
        [timed(seed=seed, every={**ROUND, "rows": round(1e6 * score)}) for seed, score in enumerate(scores)],
        [timed(seed=seed, algorithm="scaffold") for seed in range(3)],
    )
    question = checked_question("throughput", min(rope, 1.9), cells=found)
    pairs = paired(*found, question)
    assert pairs is not None
    chart = posterior_chart(pairs, question)
    ElementTree.fromstring(markup(chart))
    assert (chart.atom is None) == (len(set(scores)) > 1)


def test_single_pairs_have_no_posterior_to_draw(tmp_path: Path) -> None:
    found = cells(*(
        [timed(algorithm=name, partition=f"label-count(k={k})")] for name in ("fedavg", "scaffold") for k in (2, 3)
    ))  # fmt: skip
    comparison = compare(found, "fedavg", "scaffold", checked_question(cells=found))
    with pytest.raises(ConfigError, match="no setting has two pairs of trials or more, so there is no posterior"):
        plot_comparison(comparison, tmp_path / "none.svg")


def test_a_bar_is_as_long_as_its_time() -> None:
    parts = dict.fromkeys(PARTS, 0.0)
    chart = stacked_chart("time", {"a": {**parts, "train": 3.0, "idle": 1.0}, "b": {**parts, "train": 1.0}})
    assert [(bars.name, bars.values) for bars in chart.bars] == [
        ("train", [Value(3.0), Value(1.0)]),
        ("idle", [Value(1.0), Value(0.0)]),
    ]
    drawn = markup(chart)
    assert re.findall(r"h(\d+)v", drawn) == ["750", "250", "250", "0"]  # of 1000 for 4 s
    assert "encrypt" not in drawn


# --- the page -----------------------------------------------------------------------------------------


def trials(algorithm: str, *accuracies: float, **more: Any) -> list[StoredRun]:
    return [timed(20, seed, accuracy=accuracy, algorithm=algorithm, **more) for seed, accuracy in enumerate(accuracies)]


def test_the_best_meets_the_runner_up_and_the_baselines() -> None:
    found = cells(
        trials("fedavg", 0.7, 0.71, 0.72), trials("scaffold", 0.8, 0.81, 0.83), trials("fednova", 0.3, 0.3, 0.3),
        trials("combined", 0.81, 0.8, 0.82), trials("solo", 0.5, 0.51, 0.5),
    )  # fmt: skip
    pairs = duels(found)
    assert {duel.names for duel in pairs} == {("scaffold", name) for name in ("fedavg", "combined", "solo")}
    assert [duel.verdict for duel in pairs] == ["scaffold is better", "scaffold is better", "undecided"]
    row = next(row for row in texts(duels_table(pairs, found)) if row["B"] == "fedavg")
    assert row["A - B [95%]"].startswith(f"+{100 * fmean([0.1, 0.1, 0.11]):.2f} [")
    assert (row["pairs"], row["verdict"]) == ("3", "scaffold is better")


def test_a_single_trial_or_a_diverged_one_has_no_posterior() -> None:
    assert duels(cells(trials("fedavg", 0.7), trials("scaffold", 0.8))) == []
    assert posterior_sections(cells(trials("fedavg", 0.7), trials("scaffold", 0.8))) == []
    broken = trials("scaffold", 0.8, 0.8, every={**ROUND, "loss": None})
    assert duels(cells(trials("fedavg", 0.7, 0.71), broken)) == []


def test_the_page_has_posteriors_and_bars(tmp_path: Path) -> None:
    found = cells(trials("fedavg", 0.7, 0.71, 0.72), trials("scaffold", 0.8, 0.81, 0.83))
    html = page(found, tmp_path / "page.html")
    assert "<h3>Best against runner-up and baselines</h3>" in html
    assert "A = scaffold, B = fedavg: scaffold is better" in html
    assert html.index("<h2>Cost</h2>") < html.index("<h3>Time and communication</h3>")
    assert "scaffold, mean party" in html
    assert page(found, tmp_path / "again.html") == html


def test_the_note_names_whose_core_seconds_these_are() -> None:
    measured, device = timed(20), timed(20, clock="device(speed=1000)", transforms="sign")
    assert "core-second of the machine that trains;" in time_table(cells([measured])).note
    assert "training is that of the device that clock states" in time_table(cells([device])).note
    assert "where clock states a device" in time_table(cells([measured], [device])).note


def test_a_note_speaks_of_one_clock_only_where_one_command_has_trained_all_parties() -> None:
    """Real silos train on machines of their own, and the lead measures only how long their answers took."""
    simulated, other = timed(20), timed(20, algorithm="scaffold")
    lead = replace(other, facts=replace(other.facts, environment={"engine": "silos"}))
    together, by_the_lead = "computing: wall-clock time, all parties together", "by the clock of the lead"
    for runs, said in (([simulated], (True, False)), ([lead], (False, True)), ([simulated, lead], (True, True))):
        found = cells(*([run] for run in runs))
        notes = cost_table(found).note, time_table(found).note
        assert (together in notes[0], by_the_lead in notes[0]) == said
        assert "this machine" not in " ".join(notes)


def test_only_a_table_with_solo_explains_why_its_parties_wait() -> None:
    assert "with solo too" in time_table(cells([timed(20, algorithm="solo")], [timed(20)])).note
    assert "solo" not in time_table(cells([timed(20)])).note


def test_the_two_durations_have_two_names() -> None:
    found = cells([timed(20)])
    assert "virtual time" in cost_table(found).columns
    assert "round time" in decomposition_table(found).columns
