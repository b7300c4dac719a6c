"""The local socket of a silo, and the process that is started again."""

import os
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from silobench.silos.flower import supervision
from silobench.silos.flower.desk import answer_letters, forward, opened_desk
from silobench.silos.flower.superlink import is_allowed


def waited(condition: Callable[[], bool], seconds: float = 60) -> bool:
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    return condition()


def test_letters_of_any_size_are_answered_and_strangers_are_not() -> None:
    letters: list[bytes] = []

    def answer(letter: bytes) -> bytes:
        letters.append(letter)
        return letter[::-1]

    def answer_all() -> None:
        with suppress(OSError), closing(listener):  # the desk is closed before the next visitor
            answer_letters(listener, answer)

    with opened_desk() as (folder, listener):
        threading.Thread(target=answer_all, daemon=True).start()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in folder.iterdir())
        with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
            Client(str(folder / "desk.sock"), family="AF_UNIX", authkey=b"guess").send_bytes(b"letter")
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(folder / "desk.sock"))
            assert stranger.recv(1000)  # the desk waits for a proof of the key
            stranger.sendall(struct.pack("!i", 5000) + bytes(5000))
        with Client(str(folder / "desk.sock"), family="AF_UNIX", authkey=(folder / "desk.key").read_bytes()) as visitor:
            os.write(visitor.fileno(), struct.pack("!i", 5000) + b"half a let")
        large = bytes(range(256)) * 40_000
        assert forward(folder, b"abc") == b"cba"
        assert forward(folder, large) == large[::-1]
    assert letters == [b"abc", large]
    assert not folder.exists()


def test_a_process_that_dies_is_started_again_and_ends_with_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_FIRST_WAIT", 0.01)
    starts = tmp_path / "starts"
    code = f"import os, time; open({str(starts)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"

    def pids() -> list[int]:
        return [int(line) for line in starts.read_text().splitlines()] if starts.exists() else []

    with supervision.supervised("a sleeper", [sys.executable, "-c", code], {}, tmp_path / "log"):
        assert waited(lambda: len(pids()) == 1)

        os.kill(pids()[0], signal.SIGKILL)
        assert waited(lambda: len(pids()) == 2)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids())


def test_waits_grow_while_a_process_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    supervisor = supervision.Supervisor(
        "a failure", [sys.executable, "-c", "raise SystemExit(3)"], {}, tmp_path / "log"
    )

    def wait(seconds: float | None = None) -> bool:
        if seconds and seconds >= supervision._FIRST_WAIT:
            waits.append(seconds)
            if len(waits) == 6:
                supervisor.stop()
        return supervisor._stopped.is_set()

    monkeypatch.setattr(supervisor._stopped, "wait", wait)
    supervisor.run()
    assert waits == [2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("host", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "", "localhost.evil.org"])
def test_other_machines_reach_the_interface_for_silos_only(host: str) -> None:
    assert is_allowed("/v1/fleet/pull-messages", host)
    for path in (
        "/v1/control/start-run",
        "/v1/runtime/acquire-task",
        "/docs",
        "/",
        "/v1/fleet",
        "/V1/fleet/../control/x",
    ):
        assert not is_allowed(path, host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_this_machine_reaches_all_interfaces(host: str) -> None:
    assert is_allowed("/v1/control/start-run", host)
