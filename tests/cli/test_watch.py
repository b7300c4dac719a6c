"""The command `watch` as a user calls it: in a process of its own, which Ctrl-C ends."""

import json
import os
import re
import signal
import time
from pathlib import Path
from urllib.request import urlopen

from commands import PATIENCE, start
from growing import GrowingRun
from stored import stored


def get(address: str) -> str:
    with urlopen(address, timeout=60) as answer:
        return str(answer.read(), "utf-8")


def wait_for(address: str, part: str) -> str:
    """Return a page as soon as it has a part."""
    until = time.monotonic() + PATIENCE
    while part not in (text := get(address)):
        assert time.monotonic() < until, text
        time.sleep(0.05)
    return text


def files_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_pages_follow_a_run_until_ctrl_c(tmp_path: Path) -> None:
    process = start("watch", tmp_path, "--port", "0", "--every", "0.1", "--host", "0.0.0.0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", line)
        assert "waiting for the first round" in get(address).lower()
        growing = GrowingRun(tmp_path, [0.25, 0.75])
        growing.grow(1)
        wait_for(f"{address}live.json", '"rounds_done": 1')
        stored([0.5], 1, out=tmp_path)
        growing.finish()
        state = json.loads(wait_for(f"{address}live.json", '"finished": 2'))
        assert "75.0" in get(address)
        assert state["problems"] == []
        before = files_of(tmp_path)
        (growing.path / "run.json").write_text("{")
        assert growing.path.name in wait_for(f"{address}live.json", "is damaged")
        assert files_of(tmp_path).keys() == before.keys()  # nothing is written beside the records
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert err.splitlines()[-2:] == [  # a busy machine may say before that reading the runs takes long
        "warning: --host 0.0.0.0 lets everyone who can reach this machine read the results; there is no password.",
        "stopped.",
    ]


def test_a_directory_that_is_not_there_is_waited_for_and_said_to_be_missing(tmp_path: Path) -> None:
    """The view may be started before the runs; a note tells of a misspelt path, also where the output is a pipe."""
    process = start("watch", tmp_path / "later", "--port", "0", "--every", "0.1")
    try:
        assert process.stdout is not None
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        stored([0.5], 1, out=tmp_path / "later")
        wait_for(f"{address}live.json", '"finished": 1')
    finally:
        process.kill()
        _, err = process.communicate()
    note = f"note: {tmp_path / 'later'} does not exist yet, so this waits for it: check the path, or start the runs."
    assert note in err.splitlines()  # beside a line about a slow step on a busy machine
