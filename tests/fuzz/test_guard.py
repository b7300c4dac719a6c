"""The guards themselves: a broken promise is a finding of the right kind, and nothing else is one."""

import contextlib
import json
import os
import pickle
import socket
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.drive import findings_of
from fuzz.guard import check, strangers
from fuzz.minimise import minimised
from fuzz.mutate import mutations
from fuzz.target import MEGABYTE, Target
from fuzz.worker import DRIVERS, Tally
from silobench.errors import ConfigError, RunError, SilobenchError


@pytest.fixture(autouse=True)
def _output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "output").mkdir()
    monkeypatch.chdir(tmp_path / "output")


def kind(run: Callable[[bytes], object], data: bytes = b"") -> str | None:
    seconds = 0.2 if run is _spin else 20.0
    finding = check(Target("try", run, seconds=seconds, memory=256 * MEGABYTE), data).finding
    return finding.kind if finding else None


class RawError(SilobenchError):
    """An error whose text is as it was given; those of silobench write out what a terminal would obey."""

    def __str__(self) -> str:
        return str(self.args[0])


def _refuse(sentence: str) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        raise RawError(sentence)

    return run


def _spin(data: bytes) -> None:
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def _fill(data: bytes) -> None:
    blocks = []
    with contextlib.suppress(MemoryError):
        while True:
            blocks.append(b"x" * MEGABYTE)


def _hide(data: bytes) -> None:
    with contextlib.suppress(BaseException):
        Path("../beside").write_text("x")


def _fail(data: bytes) -> None:
    raise RunError("A bug was met.", "details")


BREAKS: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "an error of Python": ("error", lambda data: {}["x"]),
    "an error that stands for a bug": ("error", _fail),
    "an exit": ("error", lambda data: os.sys.exit(1)),  # type: ignore[attr-defined]
    "an empty message": ("message", _refuse("")),
    "a message of two lines": ("message", _refuse("One.\nTwo.")),
    "a message with an escape": ("message", _refuse("The name \x1b[31m is red.")),
    "a message that cannot be printed": ("message", _refuse("The name \udc80 is odd.")),
    "a message without an end": ("message", _refuse("something is wrong")),
    "a message without an end in sight": ("message", _refuse("very " * 400 + "long.")),
    "a warning": ("warning", lambda data: warnings.warn("odd", RuntimeWarning, stacklevel=1)),
    "a loop": ("time", _spin),
    "much memory": ("memory", lambda data: bytes(400 * MEGABYTE)),
    "much memory, and silence": ("memory", _fill),
    "a file beside": ("breach", lambda data: Path("../beside").write_text("x")),
    "a file beside, and silence": ("breach", _hide),
    "a folder beside": ("breach", lambda data: Path("../beside").mkdir()),
    "a file deleted": ("breach", lambda data: Path("../keep").unlink()),
    "a file moved": ("breach", lambda data: Path("../keep").rename("mine")),
    "a link out": ("breach", lambda data: (Path("link").symlink_to(".."), Path("link/beside").write_text("x"))),
    "a program": ("breach", lambda data: subprocess.run(["true"], check=False)),
    "a shell": ("breach", lambda data: os.system("true")),
    "code": ("breach", lambda data: eval("1 + 1")),
    "a pickle": ("breach", lambda data: pickle.loads(b"cos\nsystem\n.")),
    "a connection": ("breach", lambda data: socket.create_connection(("127.0.0.1", 9), 1)),
}
KEEPS: dict[str, Callable[[bytes], object]] = {
    "nothing": lambda data: None,
    "a sentence": _refuse("rounds is 0, but at least 1 is needed: give 1 or more."),
    "a question": _refuse("there is no fedprx: did you mean fedprox?"),
    "a file inside": lambda data: Path("mine").write_text("x"),
    "a file read": lambda data: Path("../keep").read_text(),
    "a pickle of numbers": lambda data: pickle.loads(pickle.dumps([1, 2])),
    "some memory": lambda data: bytes(50 * MEGABYTE),
    "an import": lambda data: __import__("this_is_nothing") if data else __import__("colorsys"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_promise_is_found(name: str) -> None:
    Path("../keep").write_text("kept")
    expected, run = BREAKS[name]
    assert kind(run) == expected
    assert Path("../keep").read_text() == "kept"
    assert not Path("../beside").exists()


@pytest.mark.parametrize("name", KEEPS)
def test_what_is_allowed_is_not_found(name: str) -> None:
    Path("../keep").write_text("kept")
    assert kind(KEEPS[name]) is None


def test_code_that_comes_with_the_data_is_found() -> None:
    Path("evil.py").write_text("x = 1")

    def run(data: bytes) -> None:
        import importlib.util

        spec = importlib.util.spec_from_file_location("evil", Path("evil.py").resolve())
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    assert kind(run) == "breach"


def test_a_file_that_a_library_in_c_wrote_is_found() -> None:
    assert not strangers(Path.cwd())
    Path("../beside").write_text("x")
    assert [path.name for path in strangers(Path.cwd())] == ["beside"]


def test_findings_get_smaller() -> None:
    def run(data: bytes) -> None:
        if b"x" in data:
            raise KeyError("x")

    target = Target("try", run)
    finding = check(target, b"a" * 50 + b"x" + b"b" * 70).finding
    assert finding is not None
    assert minimised(target, finding) == b"x"


def test_mutations_are_the_same_for_the_same_seed() -> None:
    def some(seed: int) -> list[bytes]:
        return [data for data, _ in zip(mutations([b"f(a=1)"], [b"b"], seed, 100), range(50), strict=False)]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1))) > 30


def test_a_worker_counts_what_it_reads(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if b"(" in data:
            raise ConfigError("there is a bracket: leave it out.")
        if b"9" in data:
            raise KeyError("nine")

    tally = Tally(tmp_path, Target("try", run), 200)
    DRIVERS["mutator"](tally, [b"f(1)", b"g"], 200, 0)
    assert tally.inputs == 200
    assert min(tally.accepted, tally.refused) > 10
    assert tally.accepted + tally.refused < 200
    (finding,) = findings_of(tmp_path)
    assert finding.kind == "error"
    assert b"9" in finding.data
    assert json.loads((tmp_path / "counts.json").read_text())["inputs"] == 200
