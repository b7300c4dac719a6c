"""The command line as a user meets it: what it prints, what it writes, what other tools read from it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import PATIENCE, TINY, call, write
from silobench.engines.kernel import NoNativeError, why_not

DIGITS_ROWS = 1438


def facts(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict:  # type: ignore[type-arg]
    result = call(capsys, *arguments, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment with two trials, run by the command."""
    folder = tmp_path_factory.mktemp("cli")
    file = write(folder / "tiny.toml", TINY + "trials = 2\n")
    command = [sys.executable, "-m", "silobench", "run", str(file), "--out", str(folder / "runs"), "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "[4/4] fcube / octants / scaffold / seed 1: accuracy" in done.stderr
    assert (
        "Test accuracy in the last round, percent (mean ± std over 2 trials; paper, and the difference to it: "
        in done.stdout
    )
    return folder / "runs"


def test_help_and_version_do_not_wait_for_torch() -> None:
    code = "import sys, silobench.cli.app; assert not {'torch', 'scipy', 'matplotlib', 'sklearn'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("command", ["", "demo", "run", "show", "compare", "claims", "report", "partition", "list"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, *filter(None, [command, "--help"]))
    assert result.code == 0
    assert "Usage: silobench" in result.out


def test_partition_json_is_what_the_design_promises(capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, "partition", "digits", "label-dirichlet(beta=0.5)", "--parties", "10", "--seed", "0")
    assert found.keys() >= {
        "dataset", "spec", "parties", "seed", "sizes", "counts", "emd", "emd_weighted", "fingerprint",
    }  # fmt: skip
    assert np.sum(found["counts"]) == sum(found["sizes"]) == DIGITS_ROWS
    again = facts(capsys, "partition", "digits", "label-dirichlet(beta=0.5)", "--parties", "10", "--seed", "0")
    paper = facts(capsys, "partition", "digits", "Dir(0.5)", "--parties", "10", "--seed", "0")
    other = facts(capsys, "partition", "digits", "Dir(0.5)", "--parties", "10", "--seed", "1")
    assert found == again == paper
    assert found["fingerprint"] != other["fingerprint"]


def test_two_classes_each_and_a_given_distance(capsys: pytest.CaptureFixture[str]) -> None:
    two = facts(capsys, "partition", "digits", "label-count(k=2)", "--parties", "10")
    assert [np.count_nonzero(row) for row in two["counts"]] == [2] * 10
    assert np.sum(two["counts"]) == DIGITS_ROWS
    far = facts(capsys, "partition", "digits", "target-emd(emd=1.44)")
    assert far["emd_weighted"] == pytest.approx(1.44, abs=0.02)
    assert far["emd"] == pytest.approx([1.44] * 10, abs=0.05)


def test_partition_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot, export = tmp_path / "p.png", tmp_path / "rows"
    result = call(capsys, "partition", "digits", "#C=3", "--plot", plot, "--export", export)
    assert "digits partitioned by label-count(k=3) into 10 parties" in result.out
    assert "mean EMD" in result.out
    assert plot.read_bytes().startswith(b"\x89PNG")
    with np.load(export / "rows.npz") as arrays:
        exported = [arrays[f"party_{party}"] for party in range(10)]
    assert np.array_equal(np.sort(np.concatenate(exported)), np.arange(DIGITS_ROWS))
    lines = (export / "rows.csv").read_text().splitlines()
    assert lines[0] == "party,row"
    assert lines[1:] == [f"{party},{row}" for party, rows in enumerate(exported) for row in rows]


def test_an_exported_table_is_a_reference_for_like(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call(capsys, "partition", "digits", "Dir(0.1)", "--export", tmp_path)
    original = facts(capsys, "partition", "digits", "Dir(0.1)")
    copied = facts(capsys, "partition", "digits", f"like(reference={tmp_path / 'counts.csv'})")
    assert sorted(copied["counts"]) == sorted(original["counts"])


def test_a_plot_is_the_same_bytes_each_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        call(capsys, "partition", "digits", "iid", "--plot", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_show_json_is_what_the_design_promises(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = facts(capsys, "show", runs)["cells"]
    assert [cell["algorithm"] for cell in cells] == ["fedavg", "scaffold"]
    fedavg, scaffold = cells
    assert fedavg.keys() >= {
        "dataset", "partition", "model", "algorithm", "parties", "rounds", "trials", "accuracy", "bytes_up",
        "bytes_down", "paper",
    }  # fmt: skip
    assert fedavg["accuracy"].keys() == {"mean", "std", "best", "last"}
    assert (fedavg["trials"], fedavg["parties"], fedavg["rounds"]) == (2, 4, 3)
    assert fedavg["paper"] == {"mean": 0.998, "std": 0.002, "table": "Table III"}
    assert fedavg["party_accuracy"]["kind"] == "expected from class accuracies"
    assert len(fedavg["class_accuracy"]) == 2
    assert fedavg["bytes_up"] == 3 * 4 * 8 * 4  # rounds x parties x parameters x 4 bytes
    assert scaffold["bytes_up"] == 2 * fedavg["bytes_up"]


def test_show_marks_the_best_and_sets_the_paper_beside_it(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "show", runs)
    assert "(paper 99.8 ± 0.2, " in result.out
    assert "* best mean of its row; a difference within the spread" in result.out
    assert "sent up" in result.out


def test_running_again_redoes_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.stat().st_mtime_ns for file in runs.glob("*/rounds.jsonl")}
    result = call(capsys, "run", runs.parent / "tiny.toml", "--trials", "2", "--out", runs)
    assert result.code == 0
    assert "4 of 4 runs are already finished" in result.err
    assert {file: file.stat().st_mtime_ns for file in runs.glob("*/rounds.jsonl")} == before


def test_the_report_is_one_page_that_loads_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, option in (("a.html", "--output"), ("b.html", "--out")):
        result = call(capsys, "report", runs, option, tmp_path / name)
        assert result.out.strip() == f"report: {tmp_path / name}"
    page = (tmp_path / "a.html").read_text()
    assert page == (tmp_path / "b.html").read_text()
    assert page.startswith("<!doctype html>")
    for chart in ("line", "heatmap", "density", "row", "scatter"):  # curves, partition, posterior, time, cost
        assert f'data-chart="{chart}"' in page, chart
    assert "<script src" not in page
    assert not any(word in page for word in ('src="http', 'href="http', "@import", "url(http"))
    assert "fcube · octants" in page
    assert page.count(">Behind the accuracy<") == 1  # a heading is not repeated above its table


def test_ctrl_c_before_the_first_round_says_how_to_resume(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("silobench.runs.prepare.check", stop)
    result = call(capsys, "run", write(tmp_path / "tiny.toml", TINY), "--out", tmp_path / "runs", "--workers", "1")
    assert (result.code, result.err) == (
        130,
        "stopped; finished rounds are kept: run the same command again to resume.\n",
    )


def test_set_overrides_every_grid_and_only_selects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", TINY + "[[grid]]\nseed = 1\n[[grid]]\nrounds = 7\n")
    options = ["--set", "rounds=1", "--set", "algorithm=fedavg", "--only", "*seed 1", "--out", tmp_path / "runs"]
    assert call(capsys, "run", file, *options).code == 0
    cells = facts(capsys, "show", tmp_path / "runs")["cells"]
    assert [(cell["rounds"], cell["seeds"]) for cell in cells] == [(1, [1])]


def test_no_best_is_marked_where_there_is_no_spread(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = call(capsys, "run", write(tmp_path / "e.toml", TINY), "--workers", "1", "--out", tmp_path / "runs")
    assert "one trial has no spread, so no best is marked" in result.out
    assert " *" not in result.out


def test_runs_that_differ_in_anything_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", TINY.replace('"sgd(epochs=1)"', '["sgd(epochs=1)", "sgd(epochs=2)"]'))
    result = call(capsys, "run", file, "--workers", "2", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    lines = [line.split("] ")[1].split(":")[0] for line in result.err.splitlines() if line.startswith("[")]
    assert len(set(lines)) == 4
    assert "fcube / octants / scaffold / sgd(epochs=2) / seed 0" in lines


@pytest.mark.parametrize(
    "kind",
    [
    "algorithms", "controllers", "datasets", "engines", "models", "networks", "partitions", "schedules",
    "selections", "servers", "solvers", "suites", "transforms",
])  # fmt: skip
def test_list_says_what_there_is(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = facts(capsys, "list", kind)
    assert rows
    for row in rows:
        assert row.keys() >= {"name", "signature", "summary"}
        assert row["summary"], row["name"]  # every factory says what it is
    assert rows[0]["name"] in call(capsys, "list", kind).out


def test_a_table_of_your_own_with_hospitals_as_silos(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["age,smoker,pressure,hospital,ill"]
    for _ in range(400):
        age, smoker, hospital = rng.integers(20, 90), rng.choice(["yes", "no"]), rng.choice(["Basel", "Lyon", "Turin"])
        ill = age + 20 * (smoker == "yes") + rng.normal(0, 5) > 70
        pressure = "" if rng.random() < 0.1 else f"{rng.normal(120, 10):.1f}"
        lines.append(f"{age},{smoker},{pressure},{hospital},{'ill' if ill else 'well'}")
    table = write(tmp_path / "patients.csv", "\n".join(lines))
    spec = f"csv(path={table}, label=ill, group=hospital)"
    file = write(
        tmp_path / "e.toml",
        f"""
        dataset = "{spec}"
        partition = "by-group"
        algorithm = ["fedavg", "solo", "combined"]
        solver = "sgd(lr=0.1, epochs=5)"
        rounds = 5
        validation = 0.1
    """,
    )
    result = call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    assert "missing values in column 'pressure' filled with its training mean" in result.err
    cells = {cell["algorithm"]: cell for cell in facts(capsys, "show", tmp_path / "runs")["cells"]}
    assert cells["fedavg"]["parties"] == 3
    assert cells["fedavg"]["accuracy"]["mean"] > 0.85
    assert cells["solo"]["bytes_up"] == cells["combined"]["bytes_down"] == 0
    assert facts(capsys, "partition", spec, "by-group")["names"] == ["Basel", "Lyon", "Turin"]


def test_a_sparse_file_trains_without_becoming_dense(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(600):
        columns = np.sort(rng.choice(200, 12, replace=False)) + 1
        label = 1 if (columns <= 100).sum() > 6 else -1
        rows.append(f"{label} " + " ".join(f"{column}:1" for column in columns))
    data = write(tmp_path / "t.svm", "\n".join(rows) + "\n")
    file = write(
        tmp_path / "e.toml",
        f"""
        dataset = "libsvm(path={data})"
        parties = 3
        model = "linear"
        solver = "sgd(lr=0.5, epochs=10)"
        rounds = 5
    """,
    )
    assert call(capsys, "run", file, "--out", tmp_path / "runs").code == 0
    assert facts(capsys, "show", tmp_path / "runs")["cells"][0]["accuracy"]["mean"] > 0.7


def test_a_class_that_no_training_row_has_is_still_a_class(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"x_train": rng.normal(size=(60, 4)), "y_train": np.arange(60) % 3}
    np.savez(tmp_path / "a.npz", **arrays, x_test=rng.normal(size=(8, 4)), y_test=np.arange(8) % 4)
    spec = f"npz(path={tmp_path / 'a.npz'})"
    found = facts(capsys, "partition", spec, "iid", "--parties", "3", "--plot", tmp_path / "p.png")
    assert [len(row) for row in found["counts"]] == [4, 4, 4]
    file = write(tmp_path / "e.toml", f'dataset = "{spec}"\nparties = 3\nrounds = 1\n')
    assert call(capsys, "run", file, "--out", tmp_path / "runs").code == 0
    assert call(capsys, "report", tmp_path / "runs").code == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_code_that_fails_in_a_run_is_named(workers: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plugin = write(
        tmp_path / "mine.py",
        "import silobench as sb\n"
        "def absorb(server, update):\n"
        "    return update.mean()['wrong'], server.extras\n"
        "@sb.ALGORITHMS.register\n"
        "def broken() -> sb.Algorithm:\n"
        "    'Fails.'\n"
        "    return sb.Algorithm(absorb=absorb)\n",
    )
    file = write(tmp_path / "e.toml", TINY + "trials = 2\n")
    options = ["--plugin", plugin, "--set", "algorithm=broken", "--workers", workers, "--out", tmp_path / "runs"]
    result = call(capsys, "run", file, *options)
    assert result.code == 2
    assert "in absorb" not in result.err
    named = r"seed [01] failed in round 1: the hook `absorb` of the algorithm broken \(mine.py, line 3\) raised"
    assert re.search(named + " KeyError: 'wrong'", result.err.splitlines()[-1])
    assert "in absorb" in call(capsys, "--debug", "run", file, *options).err


def test_the_same_table_with_other_content_is_another_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = write(tmp_path / "e.toml", f'dataset = "csv(path={tmp_path / "t.csv"}, label=y)"\nparties = 2\nrounds = 1\n')
    for shift in (0, 5):
        rows = [f"{rng.normal() + shift * (i % 2):.3f},{'ab'[i % 2]}" for i in range(80)]
        write(tmp_path / "t.csv", "x,y\n" + "\n".join(rows))
        assert call(capsys, "run", file, "--out", tmp_path / "runs").code == 0
    cells = facts(capsys, "show", tmp_path / "runs")["cells"]
    assert len({cell["origin"] for cell in cells}) == 2
    assert call(capsys, "show", tmp_path / "runs").out.count("data ") >= 2


def test_a_copy_of_a_run_is_no_second_trial(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(runs, tmp_path / name)
    assert [cell["seeds"] for cell in facts(capsys, "show", tmp_path)["cells"]] == [[0, 1], [0, 1]]


def test_a_diverged_run_is_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", TINY)
    assert call(capsys, "run", file, "--set", "solver=sgd(lr=1e30)", "--out", tmp_path / "runs").code == 0
    assert "† diverged" in call(capsys, "show", tmp_path / "runs").out
    assert facts(capsys, "show", tmp_path / "runs")["cells"][0]["diverged"]


def test_names_are_text_and_never_markup_or_mathematics(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [f"{i % 7},{['[/bold]', 'a$^$'][i % 2]},{['[red]', '$x$'][i % 3 == 0]}" for i in range(60)]
    write(tmp_path / "t.csv", "x,y,silo\n" + "\n".join(rows))
    spec = f"csv(path={tmp_path / 't.csv'}, label=y, group=silo)"
    result = call(capsys, "partition", spec, "by-group", "--plot", tmp_path / "p.svg")
    assert result.code == 0, result.err
    assert "[/bold]" in result.out
    assert "[red]" in result.out
    file = write(tmp_path / "e.toml", f"dataset = {json.dumps(spec)}\npartition = 'by-group'\nrounds = 1\n")
    assert call(capsys, "run", file, "--out", tmp_path / "runs").code == 0
    assert call(capsys, "report", tmp_path / "runs").code == 0
    assert "a$^$" in (tmp_path / "runs/report/partitions.html").read_text()


def test_doctor_says_what_is_used_and_why(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts(capsys, "doctor")
    assert found["torch"] == torch.__version__
    assert found["native"]["available"] == (why_not() is None)
    shown = call(capsys, "doctor").out
    assert all(str(found[name]) in shown for name in ("silobench", "processor", "cores"))

    def nothing() -> None:
        raise NoNativeError("the compiler ended with code 1")

    monkeypatch.setattr("silobench.engines.kernel.native", nothing)
    found = facts(capsys, "doctor")["native"]
    assert (found["available"], found["why"]) == (False, "the compiler ended with code 1")
    assert "PyTorch for everything" in found["used"]


def test_a_list_has_the_name_of_its_key_too(capsys: pytest.CaptureFixture[str]) -> None:
    for singular, plural in (("availability", "availabilities"), ("solver", "solvers"), ("adversary", "adversaries")):
        one, every = call(capsys, "list", singular), call(capsys, "list", plural)
        assert one.code == 0
        assert one.out == every.out
    assert call(capsys, "list", "solvr").code == 2
