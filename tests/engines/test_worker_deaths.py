"""Worker processes that are killed, or whose parent is."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_jobs import jobs, squares

from commands import PATIENCE
from laws import bits
from silobench.engines import inline, pool
from silobench.engines.shipping import unpacked
from silobench.engines.workers import Job
from silobench.errors import RecordError
from silobench.loop.rounds import rounds
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.types import Algorithm, Local, Memory, Server, Update


def dies_once() -> Callable[..., int]:
    def work(number: int, marker: Path) -> int:
        import os
        import signal

        if number == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return work


def test_a_killed_worker_is_replaced_and_its_job_done_again(two, tmp_path: Path) -> None:
    given = [Job(dies_once(), (), (number, tmp_path / "died")) for number in range(6)]
    assert list(two.results(given)) == list(range(6))
    assert (tmp_path / "died").exists()
    assert squares(two)


def test_a_worker_killed_before_its_large_result_was_looked_at_is_replaced(two, tmp_path: Path, monkeypatch) -> None:
    """Its memory, and the result in it, went with it."""

    def large(flag: Path) -> np.ndarray[Any, Any]:
        if not flag.exists():
            flag.touch()
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        return np.arange(100_000.0)

    def later(content: bytes) -> Any:
        time.sleep(0.5)
        return unpacked(content)

    monkeypatch.setattr("silobench.engines.workers.unpacked", later)
    (found,) = two.results([Job(large, (), (tmp_path / "killed",))])
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(found, np.arange(100_000.0))


QUIET = """
import time
from silobench.engines.workers import Job, Workers

def large(number):
    import numpy as np
    return np.full(100_000, float(number))

for _ in range(8):
    workers = Workers(2)
    assert [found[0] for found in workers.results([Job(large, (), (number,)) for number in range(4)])] == [0, 1, 2, 3]
    workers.close()

class Slow:
    def __reduce__(self):
        time.sleep(1)
        return int, ()

def work():
    try:
        yield 1
        yield Slow()
    finally:
        raise OSError("the disk is full")

def outer():
    for value in work():
        yield value
        time.sleep(1)

for job in (work, outer):
    workers = Workers(1)
    news = workers.news([Job(job, (), ())])
    assert next(news).value == 1
    time.sleep(0.3)  # it is on its way with the second, or between the two
    news.close()
    print(job.__name__)
"""


def test_workers_end_without_a_word(tmp_path: Path) -> None:
    """With large results, also when they are told to end while they are ending; and with a job that is stopped.

    That job cannot clean up. It is stopped outside its own lines: while what it said is on its way, or in who called
    it. All of it is one script, because each would import PyTorch twice: for itself, and for its server of workers.
    """
    (tmp_path / "quiet.py").write_text(QUIET)
    done = subprocess.run([sys.executable, str(tmp_path / "quiet.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "work\nouter\n", "")


def test_a_worker_killed_while_idle_is_replaced(two) -> None:
    def pid(_: int) -> int:
        import os

        return os.getpid()

    for found in set(two.results(jobs(pid, *range(6)))):
        os.kill(found, signal.SIGKILL)
    assert squares(two)


def test_a_repeated_job_sends_its_news_again(one, tmp_path: Path) -> None:
    def work(marker: Path) -> Iterator[int]:
        import os
        import signal

        yield 1
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield 2

    news = [(said.value, said.final) for said in one.news(jobs(work, tmp_path / "died"))]
    assert news[-3:] == [(1, False), (2, False), (None, True)]


@pytest.mark.parametrize(("way", "said"), [("kill", "was killed"), ("exit", "ended with code 7")])
def test_a_job_that_always_ends_its_worker_is_abandoned(two, tmp_path: Path, way: str, said: str) -> None:
    def work(way: str) -> None:
        import os
        import signal

        with (tmp_path / "tries").open("a") as file:
            file.write("again\n")
        if way == "exit":
            os._exit(7)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RecordError, match=rf"^a worker process {said} 3 times [^.]*\.$"):
        list(two.results(jobs(work, way)))
    assert (tmp_path / "tries").read_text() == "again\n" * 3
    assert squares(two)


def test_a_federated_run_whose_worker_is_killed_has_the_bits_of_inline(toy, tmp_path: Path) -> None:
    here = os.getpid()

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        import os
        import signal

        marker = tmp_path / str(server.round)
        if os.getpid() != here and local.samples == 9 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Update.of(local.samples, delta=local.delta), {"last": local.delta}

    federated, method = toy((20, 9, 30, 12), "mlp(6)"), Method(Algorithm(message=message), sgd(0.1, epochs=2, batch=8))
    killed, whole = (
        list(rounds(method, *federated, rounds=3, engine=engine)) for engine in (pool(workers=2), inline())
    )
    assert [bits(record.state) for record in killed] == [bits(record.state) for record in whole]
    assert [record.train_loss for record in killed] == [record.train_loss for record in whole]
    assert len(list(tmp_path.iterdir())) == 3


PARENT = """
import os, sys, time
from silobench.engines.workers import Job, Workers

def pid(busy):
    yield os.getpid()
    if busy:
        time.sleep(600)

workers = Workers(2)
news = workers.news([Job(pid, (), (busy,)) for busy in (True, False)])
print(*{said.value for said in (next(news), next(news), next(news)) if not said.final}, flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells who is alive")
def test_workers_end_when_their_parent_is_killed_idle_or_busy(tmp_path: Path) -> None:
    """From a script without a guard for its main module, which workers must not run again."""
    (tmp_path / "script.py").write_text(PARENT)
    with subprocess.Popen([sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        living = [pid for pid in pids if alive(pid)]
        process.kill()
    assert len(living) == 2
    deadline = time.monotonic() + PATIENCE
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pids))
