"""Worker processes: order of jobs and results, errors, early stops, shared values."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_jobs import jobs, squares

from commands import PATIENCE
from silobench.engines.workers import Job, Workers
from silobench.errors import ConfigError, RunError
from silobench.processes import start_server


@pytest.mark.parametrize("costs", [(1, 1, 1, 1, 1), (1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (2, 9, 1, 9, 0.5)])
def test_results_come_in_the_order_of_jobs_and_the_most_expensive_starts_first(one, two, tmp_path, costs) -> None:
    def work(number: int, folder: Path) -> int:
        with (folder / "begun").open("a") as file:
            file.write(f"{number}\n")
        return number

    given = [Job(work, (), (number, tmp_path), cost) for number, cost in enumerate(costs)]
    assert list(two.results(given)) == [0, 1, 2, 3, 4]
    (tmp_path / "begun").unlink()
    assert list(one.results(given)) == [0, 1, 2, 3, 4]
    begun = [costs[int(line)] for line in (tmp_path / "begun").read_text().split()]
    assert begun == sorted(costs, reverse=True)


def test_a_result_arrives_before_later_jobs_have_ended(two, tmp_path: Path) -> None:
    def wait_for(file: Path | None) -> str:
        import time

        while file and not file.exists():
            time.sleep(0.005)
        return str(file)

    results = two.results(jobs(wait_for, None, tmp_path / "told"))
    assert next(results) == "None"
    (tmp_path / "told").touch()
    assert next(results) == str(tmp_path / "told")


def test_a_generator_sends_its_values_at_once(one, tmp_path: Path) -> None:
    def count(file: Path) -> Iterator[int]:
        import time

        yield 1
        while not file.exists():
            time.sleep(0.005)
        yield 2

    news = one.news(jobs(count, tmp_path / "heard"))
    first = next(news)
    (tmp_path / "heard").touch()
    assert [(said.job, said.value, said.final) for said in (first, *news)] == [
        (0, 1, False), (0, 2, False), (0, None, True),
    ]  # fmt: skip


@pytest.mark.parametrize("error", [ConfigError("rounds must be more."), ValueError(3), RunError("it failed.", "trace")])
def test_an_error_arrives_as_it_was_and_the_worker_goes_on(one, error: Exception) -> None:
    def work(error: Exception | None) -> int:
        import os

        if error:
            raise error
        return os.getpid()

    (before,) = one.results(jobs(work, None))
    with pytest.raises(type(error)) as caught:
        list(one.results(jobs(work, error)))
    assert caught.value.args == error.args
    assert any("in a worker process" in text and "raise error" in text for text in caught.value.__notes__)
    assert list(one.results(jobs(work, None))) == [before]


def test_an_error_of_a_generator_arrives_after_its_news(one) -> None:
    def work(number: int) -> Iterator[int]:
        yield number
        raise ValueError(number)

    news = one.news(jobs(work, 7))
    assert next(news).value == 7
    with pytest.raises(ValueError, match="7"):
        next(news)
    assert squares(one)


@pytest.mark.parametrize("way", ["cannot be packed", "cannot be unpacked", "the result cannot be packed"])
def test_what_cannot_travel_back_is_described(one, way: str) -> None:
    def work(way: str) -> Any:
        import threading

        class OddError(Exception):
            def __init__(self, a: int, b: int) -> None:
                super().__init__(f"odd {a + b}")  # and not the arguments that it would be made of again

        if way == "the result cannot be packed":
            return threading.Lock()
        error = OddError(1, 2)
        if way == "cannot be packed":
            error.lock = threading.Lock()
        raise error

    with pytest.raises((RuntimeError, TypeError), match=r"OddError: odd 3|cannot pickle"):
        list(one.results(jobs(work, way)))
    assert squares(one)


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_workers_can_be_used_after_somebody_stopped_listening(two, taken: int) -> None:
    def work(number: int) -> Iterator[int]:
        for _ in range(3):
            yield number

    news = two.news(jobs(work, *range(6)))
    for _ in range(taken):
        next(news)
    news.close()
    assert squares(two)
    results = two.results(jobs(lambda x: x, *range(6)))
    for _ in range(taken):
        next(results)
    del results
    assert squares(two)


def in_time(work: Callable[[], Any]) -> Any:
    """What a call gives, if it does not take for ever."""
    found: list[Any] = []

    def call() -> None:
        with suppress(Exception):  # of one that hung until its workers were closed
            found.append(work())

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, "it hangs"
    return found[0]


def test_workers_can_be_used_after_a_job_that_cannot_be_packed(one) -> None:
    with pytest.raises(TypeError, match="pickle"):
        list(one.results(jobs(str, threading.Lock())))
    assert in_time(lambda: squares(one))


def test_workers_can_be_used_after_a_result_that_cannot_be_read(one) -> None:
    here = os.getpid()

    def work(_: int) -> Any:
        class Bad:
            def __reduce__(self):
                def arrive():
                    import os

                    if os.getpid() == here:
                        raise ValueError("not here")

                return arrive, ()

        return Bad()

    with pytest.raises(ValueError, match="not here"):
        list(one.results(jobs(work, 0)))
    assert in_time(lambda: squares(one))


@pytest.mark.parametrize("way", ["shared", "argument"])
def test_what_a_worker_cannot_read_is_an_error_each_time(one, way: str) -> None:
    """Such as a class of a file that has changed since the workers began. It is no death of the worker."""

    class Bad:
        def __reduce__(self):
            def arrive():
                raise LookupError("it has gone")

            return arrive, ()

    bad = Bad()
    job = Job(id, (bad,), ()) if way == "shared" else Job(id, (), (bad,))
    for _ in range(2):
        with pytest.raises(LookupError, match="it has gone"):
            list(one.results([job]))
    assert squares(one)


def test_listeners_may_take_turns(two, tmp_path: Path) -> None:
    def wait_for(file: Path | None) -> str:
        import time

        while file and not file.exists():
            time.sleep(0.005)
        return str(file)

    mine = two.results([Job(wait_for, (), (file,), cost) for file, cost in ((None, 2), (tmp_path / "go", 1))])
    assert next(mine) == "None"
    (tmp_path / "go").touch()
    time.sleep(0.1)  # the answer is sent, but not yet read
    assert squares(two)
    assert in_time(lambda: list(mine)) == [str(tmp_path / "go")]


def tidying() -> Callable[..., Iterator[int]]:
    def work(marker: Path) -> Iterator[int]:
        import time

        try:
            while True:
                yield 1
        finally:
            time.sleep(0.2)
            marker.touch()

    return work


@pytest.mark.parametrize("again", [False, True])
def test_a_job_that_nobody_listens_to_any_more_is_stopped_and_may_tidy_up(tmp_path: Path, again: bool) -> None:
    """A command that ends sends SIGTERM twice: we do it, and Python's multiprocessing does it to all its children."""
    others, workers, marker = set(multiprocessing.active_children()), Workers(1), tmp_path / "tidy"
    news = workers.news(jobs(tidying(), marker))
    next(news)
    (process,) = set(multiprocessing.active_children()) - others
    news.close()
    if again:
        time.sleep(0.1)
        process.terminate()
    process.join(PATIENCE)
    assert not process.is_alive()
    assert marker.exists()
    assert squares(workers)
    workers.close()


def test_jobs_have_ended_when_who_listened_goes_on(one, tmp_path: Path) -> None:
    news = one.news(jobs(tidying(), tmp_path / "tidy"))
    next(news)
    news.close()
    assert (tmp_path / "tidy").exists()


class Noted:
    """A value that notes when it is packed and, as what it becomes, by whom it is unpacked."""

    def __init__(self, folder: Path, value: Any) -> None:
        self.folder, self.value = folder, value

    def __reduce__(self) -> Any:
        def arrive(folder: Path, value: Any) -> Any:
            import os

            with (folder / "unpacked").open("a") as file:
                file.write(f"{os.getpid()}\n")
            return value

        with (self.folder / "packed").open("a") as file:
            file.write("once\n")
        return arrive, (self.folder, self.value)


def test_a_shared_value_is_packed_once_and_sent_once_to_every_worker(two, tmp_path: Path) -> None:
    shared = Noted(tmp_path, 5)

    def work(shared: int, own: int) -> tuple[int, int]:
        import os
        import time

        time.sleep(0.02)  # so that both have something to do
        return shared * own, os.getpid()

    pids = set()
    for _ in range(2):
        found = list(two.results([Job(work, (shared,), (own,)) for own in range(6)]))
        assert [value for value, _ in found] == [0, 5, 10, 15, 20, 25]
        pids |= {pid for _, pid in found}
    assert (tmp_path / "packed").read_text() == "once\n"
    assert sorted((tmp_path / "unpacked").read_text().split()) == sorted(map(str, pids))


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_values_that_were_forgotten_are_sent_again(one, count: int) -> None:
    values = [np.full(20_000, float(number)) for number in range(count)]
    given = [Job(lambda shared, own: float(shared.mean()) + own, (value,), (0.5,)) for value in values]
    for _ in range(3):
        assert list(one.results(given)) == [number + 0.5 for number in range(count)]


@pytest.mark.parametrize(("count", "shared"), [(4, 1), (1, 4), (8, 1), (1, 6)])
def test_a_worker_that_is_slow_to_begin_gets_the_values_of_its_own_job(count: int, shared: int) -> None:
    def pid(own: int) -> int:
        import os
        import time

        time.sleep(0.02)
        return os.getpid()

    def means(*values: Any) -> list[float]:
        return [float(value.mean()) for value in values]

    workers = Workers(count)
    pids = set(workers.results(jobs(pid, *range(3 * count))))
    assert len(pids) == count
    for one in pids:
        os.kill(one, signal.SIGSTOP)
    threading.Timer(0.2, lambda: [os.kill(one, signal.SIGCONT) for one in pids]).start()
    numbers = np.arange(float(count * shared)).reshape(count, shared)
    given = [Job(means, tuple(np.full(20_000, number) for number in line), ()) for line in numbers]
    try:
        assert list(workers.results(given)) == numbers.tolist()
    finally:
        workers.close()


def test_threads_that_start_workers_at_once_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "ensure_running", lambda: time.sleep(0.01))
    before = dict(os.environ)
    threads = [threading.Thread(target=start_server) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(os.environ) == before


def test_workers_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """The command does not either: people have files called random.py, and folders that others made."""
    here, program = tmp_path / "here", tmp_path / "program.py"
    here.mkdir()
    (here / "random.py").write_text("raise SystemExit('this random is a file of the user')")
    lines = (
        "from silobench.engines.workers import Job, Workers",
        "workers = Workers(1)",
        "print(list(workers.results([Job(abs, (), (-3,))])))",
        "workers.close()",
    )
    program.write_text("\n".join(lines))
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("[3]\n", "")
