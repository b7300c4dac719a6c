"""`silobench leaderboard` as a user calls it: ranks, budgets, the page, records in one file, published runs."""

import json
from pathlib import Path

import pytest

from commands import call
from silobench.runs import archive
from stored import stored

PARTITIONS = ("iid", "shards", "label-count(k=2)")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return results of three settings: moon is better in all of them, solo is a reference point."""
    gains = {"fedavg": 0.0, "moon": 0.1, "solo": -0.3}
    for partition in PARTITIONS:
        for seed in range(3):
            for name, gain in gains.items():
                scores = [0.3, 0.6 + gain + seed / 500]
                stored(scores, seed, out=tmp_path / "runs", partition=partition, algorithm=name)
    return tmp_path / "runs"


def test_methods_are_ranked(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "leaderboard", runs)
    assert (result.code, result.err) == (0, "")
    assert "Methods over 3 settings, whole runs" in result.out
    assert "70.2 ± 0.2 * (1)" in result.out
    assert result.out.rstrip().endswith(f"page: {(runs / 'leaderboard.html').resolve()}")
    facts = json.loads(call(capsys, "leaderboard", "rank", runs, "--json").out)
    assert [(one["method"], one["alone"]) for one in facts["standings"]] == [("moon", 3), ("fedavg", 0)]


def test_budgets_and_choices(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--max-rounds", "1", "--skew", "label", "--method", "m*", "--output", tmp_path / "a" / "b.html"]
    facts = json.loads(call(capsys, "leaderboard", runs, *options, "--json").out)
    assert {setting["partition"] for setting in facts["settings"]} == {"shards", "label-count(k=2)"}
    assert all(entry["mean"] == 0.3 for entry in facts["settings"][0]["entries"] if entry["method"] == "moon")
    assert (facts["budget"]["rounds"], facts["standings"]) == (1, [])  # one method has no rival
    assert (tmp_path / "a" / "b.html").is_file()
    assert not (runs / "leaderboard.html").exists()


def test_a_budget_that_nobody_keeps_is_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = call(capsys, "leaderboard", runs, "--max-epsilon", "1").out.splitlines()[0]
    assert first == (
        "no setting has two methods inside the budget (epsilon 1), so nothing is ranked: give a larger one, or runs "
        "with a guarantee of differential privacy."
    )


def test_the_help_of_a_check_has_its_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(call(capsys, "leaderboard", "check", "--help").out.split())
    assert "0 if it is accepted, 1 if it is refused, 2 if it cannot be checked, and 3 if it is accepted" in text


def test_equal_runs_give_equal_pages(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for _ in range(2):
        call(capsys, "leaderboard", runs)
        pages.append((runs / "leaderboard.html").read_bytes())
    assert pages[0] == pages[1]


def test_own_runs_stand_beside_published_ones(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = tmp_path / "published"
    packed = call(capsys, "leaderboard", "pack", runs, "--output", published / "study.runs.xz", "--title", "A study")
    assert packed.out.startswith("packed 27 runs into ")
    monkeypatch.setattr(archive, "PUBLISHED_FOLDER", published)
    for seed in range(3):
        stored([0.3, 0.9 + seed / 500], seed, out=tmp_path / "mine", partition="iid", algorithm="scaffold")
    facts = json.loads(call(capsys, "leaderboard", tmp_path / "mine", "--published", "--json").out)
    first = facts["settings"][0]["entries"]
    assert [(entry["method"], entry["rank"]) for entry in first[:2]] == [("scaffold", 1), ("moon", 2)]
    named = json.loads(call(capsys, "leaderboard", "--published", "stu*", "--json").out)
    assert len(named["settings"]) == 3
    assert "A study (27 runs)" in call(capsys, "list", "published").out


@pytest.mark.parametrize("command", [["show"], ["claims", "--all"], ["show", "--json"]])
def test_commands_read_published_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    archive.pack(archive.records_of(runs), tmp_path / "study.runs.xz", "A study")
    monkeypatch.setattr(archive, "PUBLISHED_FOLDER", tmp_path)
    outputs = [call(capsys, *command, *source) for source in (["--published"], ["--published", "study"])]
    assert outputs[0] == outputs[1]
    assert outputs[0].code == 0
    from_file = call(capsys, *command, tmp_path / "study.runs.xz")
    assert from_file == outputs[0]
    wrong = call(capsys, *command, "--published", "other")
    assert (wrong.code, wrong.err) == (2, "error: no published study has the name 'other': choose from study.\n")


def test_compare_reads_published_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.pack(archive.records_of(runs), tmp_path / "study.runs.xz", "A study")
    monkeypatch.setattr(archive, "PUBLISHED_FOLDER", tmp_path)
    whole = call(capsys, "compare", "--published", "moon", "fedavg")
    assert whole.code == 0
    assert whole == call(capsys, "compare", "--published", "study", "moon", "fedavg")


def test_records_are_unpacked(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.runs.xz"
    assert call(capsys, "leaderboard", "pack", runs, "--output", file).code == 0
    assert call(capsys, "leaderboard", "unpack", file, "--out", tmp_path / "out").out.startswith("wrote 27 runs")
    tables = [call(capsys, "show", place, "--format", "csv").out for place in (runs, tmp_path / "out", file)]
    assert tables[0] == tables[1] == tables[2]
