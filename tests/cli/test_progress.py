"""Progress on a terminal of 80 columns, and without one."""

import io
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from silobench.cli import busy, progress
from silobench.cli.busy import show_progress, waiting
from silobench.cli.progress import Progress, short_name, shortened
from silobench.runs.sweep import Event

LONG = "a-rather-long-partition(with=arguments, and=more) + noise(sigma=0.1)"
CSV = "csv(path=data/of/the/hospital/patients.csv, label=outcome, group=hospital, drop=[id, date, text, comment])"
part = st.text("abcdef()=-", min_size=1, max_size=60)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what is written to a terminal of 80 columns."""
    written = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=written, force_terminal=True, width=80, color_system="standard")
    )
    return written


@given(st.lists(part, min_size=1, max_size=6), st.integers(1, 100))
def test_a_shortened_text_fits(parts: list[str], room: int) -> None:
    text = " / ".join(parts)
    short = shortened(text, room)
    assert len(short) <= max(room, 1)
    assert (short == text) == (len(text) <= room)


def test_a_file_has_its_short_name() -> None:
    assert short_name(f"{CSV} / by-group / fedavg / seed 0") == "patients / by-group / fedavg / seed 0"
    assert short_name("digits / iid / fedavg / seed 0") == "digits / iid / fedavg / seed 0"
    assert short_name("not (a spec / iid") == "not (a spec / iid"
    linked = "linked(files=[data/bank.csv, shop.parquet], label=paid, key=id)"
    assert short_name(f"{linked} / columns / split / seed 0") == "bank+shop / columns / split / seed 0"


def _events(name: str) -> Iterator[Event]:
    begin = Event("begin", "1", name, 3)
    yield begin
    for number in (1, 2, 3):
        yield replace(begin, kind="round", round=number, score=0.912, seconds=1.0)
    yield replace(begin, kind="end", round=3)


def test_the_bar_and_the_time_are_visible_beside_a_long_name(screen: io.StringIO) -> None:
    with Progress(total=2, done=0) as bars:
        for event in _events(f"{CSV} / {LONG} / fedprox(mu=0.01) / seed 0"):
            bars.show(event)
            bars.bars.refresh()
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue().replace("\r", "\n")).splitlines()
    assert max(map(len, printed)) <= 80
    lines = [line for line in printed if "run " in line]
    assert lines
    for line in lines:
        assert line.count("━") + line.count("╸") + line.count("╺") == 16
        assert "-:--:--" in line or "0:00:0" in line
    assert any(line.rstrip().endswith("/ seed 0: accuracy 91.2%") for line in lines)
    assert any(line.startswith("[1/2] patients / a-rather-long-partition(") for line in printed)


def test_lines_without_a_terminal_have_the_short_name(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(total=1, done=0) as bars:
        for event in _events(f"{CSV} / by-group / fedavg / seed 0"):
            bars.show(event)
    assert capsys.readouterr().err == "[1/1] patients / by-group / fedavg / seed 0: accuracy 91.2%, 3.0 s\n"


def test_notes_are_printed_once_and_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(total=2, done=0) as bars:
        for notes in (("rows were matched", "columns were scaled"), ("rows were matched", "a leak")):
            bars.show(Event("begin", "1", "digits / iid / fedavg / seed 0", 3, notes=notes))
    lines = ["note: rows were matched", "note: columns were scaled", "note: a leak"]
    assert capsys.readouterr().err.splitlines() == lines


def test_the_line_of_a_run_counts_lost_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(total=1, done=0) as bars:
        for event in _events("digits / iid / fedavg / seed 0"):
            bars.show(replace(event, is_lost=event.kind == "round" and event.round > 1))
    line = "[1/1] digits / iid / fedavg / seed 0: accuracy 91.2%, 2 of 3 rounds were lost, 3.0 s\n"
    assert capsys.readouterr().err == line


def test_a_quick_step_shows_nothing(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("reading"):
        pass
    assert (screen.getvalue(), capsys.readouterr().err) == ("", "")


def test_a_slow_step_shows_a_bar(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "SILENT", 0.0)
    record = logging.makeLogRecord({"msg": "x", "step": "reading patients.csv", "done": 7, "total": 20})
    with waiting("partitioning"):
        assert show_progress(record)
        _until(lambda: "reading patients.csv, 7 of 20" in screen.getvalue())
    assert not show_progress(record)  # nothing waits
    assert "━" * 5 in screen.getvalue()


def test_a_slow_step_prints_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy, "SILENT", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    printed: list[str] = []

    def is_printed() -> bool:
        printed.append(capsys.readouterr().err)
        return "planning the runs, " in "".join(printed)

    with waiting("planning the runs"):
        _until(is_printed)


def test_a_slow_step_is_shown_while_the_output_of_a_library_is_silenced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line comes at once, and warnings come before the next."""
    monkeypatch.setattr(busy, "SILENT", 0.0)
    printed: list[str] = []

    def is_printed() -> bool:
        printed.append(capsys.readouterr().err)
        return "writing model.onnx, 0 s" in "".join(printed)

    nowhere = io.StringIO()
    with waiting("writing model.onnx"):
        with redirect_stderr(nowhere):
            _until(is_printed)
            _until(lambda: show_progress(logging.makeLogRecord({"msg": "a warning"})))
        assert capsys.readouterr().err == "a warning\n"
    assert nowhere.getvalue() == ""
    assert not show_progress(logging.makeLogRecord({"msg": "a warning"}))


def _until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)
