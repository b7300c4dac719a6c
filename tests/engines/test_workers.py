"""Worker processes: what reaches them, in which order they work, and what happens when they die."""

import gc
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from commands import PATIENCE
from laws import bits
from silobench.engines import inline, pool
from silobench.engines.shipping import Shelf, packed, unpacked
from silobench.engines.workers import Job, Workers
from silobench.errors import ConfigError, RecordError, RunError
from silobench.loop.rounds import rounds
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.types import Algorithm, Local, Memory, Server, Update
from silobench.models import Network

# Functions for workers are made inside others: they travel by value, and no worker has to import these tests.


# --- shipping -----------------------------------------------------------------------------------------


def trip(value: Any, shelf: Shelf | None = None) -> Any:
    return unpacked(packed(value, shelf))


def test_closures_travel_by_value() -> None:
    factor = torch.tensor(3.0)
    assert trip(lambda x: factor * x)(2) == 6


def test_closures_may_speak_of_silobench() -> None:
    """As a plugin does that has ``import silobench as sb``."""
    import silobench as sb

    assert trip(lambda x: sb.Update.of(2.0, delta=x))(torch.ones(1)).mean()["delta"] == 1


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(2.5),
        torch.arange(6),
        torch.zeros(0, 3),
        torch.arange(40_000.0).view(200, 200),
        torch.arange(40_000.0).view(200, 200).T,
        torch.arange(40_000.0)[::2],
        torch.arange(90_000, dtype=torch.uint8),
        torch.ones(70_000, dtype=torch.bool),
        torch.ones(40_000, requires_grad=True),
    ],
    ids=["number", "integers", "empty", "square", "turned", "every second", "bytes", "booleans", "trained"],
)
def test_tensors_arrive_as_they_were_and_can_be_written_to(tensor: torch.Tensor, large: bool) -> None:
    shelf = Shelf() if large else None
    found = trip({"tensor": tensor}, shelf)["tensor"]
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(found, tensor)
    found.fill_(0)
    assert bool(tensor.any()) or not tensor.numel()  # what is written there stays there


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5])
def test_sparse_matrices_arrive_as_they_were(density: float) -> None:
    matrix = sparse.random(1000, 300, density, format="csr", dtype=np.float32, random_state=0)
    shelf = Shelf()
    found = trip(matrix, shelf)
    assert (found.format, found.dtype, found.shape, found.nnz) == ("csr", np.float32, (1000, 300), matrix.nnz)
    assert (found != matrix).nnz == 0
    assert (found[[5, 3, 5]] != matrix[[5, 3, 5]]).nnz == 0


@pytest.mark.parametrize("width", [3, 300])  # sent by value, and mapped
def test_a_network_is_one_vector_again_after_the_trip(width: int) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(width, 100), torch.nn.BatchNorm1d(100), torch.nn.Linear(100, 2))
    network = Network(module)
    network.params.uniform_(-1, 1)
    network.buffers.uniform_(1, 2)
    shelf = Shelf()
    found = trip(network, shelf)
    x = torch.ones(4, width)
    module.eval(), found.module.eval()
    assert found.layout == network.layout
    assert torch.equal(found.params, network.params)
    assert torch.equal(found.buffers, network.buffers)
    assert torch.equal(found.module(x), module(x))
    found.params.zero_()
    assert not found.module(x).any()
    assert module(x).all()
    found.params.fill_(0.1)
    found.module(x).sum().backward()
    assert found.grad.any()
    assert not network.grad.any()


def is_map(array: Any) -> bool:
    """Whether an array is a view of a file in memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


def test_small_arrays_travel_by_value_and_large_ones_as_maps_of_one_file() -> None:
    shelf, small, large = Shelf(), np.arange(10.0), np.arange(100_000.0)
    assert len(packed([small, large], shelf)) < 2_000
    assert len(packed([small, large])) > 800_000
    found = trip([small, large, large, large[50_000:]], shelf)
    assert [is_map(array) for array in found] == [False, True, True, True]
    for array, original in zip(found, [small, large, large, large[50_000:]], strict=True):
        np.testing.assert_array_equal(array, original)


def test_the_same_array_is_stored_once() -> None:
    shelf, array = Shelf(), np.arange(100_000.0)
    contents = [packed(value, shelf) for value in (array, {"again": array}, torch.from_numpy(array))]
    for again in (unpacked(contents[0]), unpacked(contents[1])["again"], unpacked(contents[2]).numpy()):
        np.testing.assert_array_equal(again, array)
    before = len(os.listdir("/proc/self/fd"))
    packed([array, torch.from_numpy(array)], shelf)
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_arrays_at_the_same_address_are_other_arrays() -> None:
    """A freed array's place is taken by the next: the shelf must not take one for the other."""
    shelf = Shelf()
    found = [trip(np.full(100_000, float(number)), shelf).mean() for number in range(10)]
    assert found == list(range(10))


@pytest.mark.parametrize("place", [slice(None), slice(30, 90), slice(400, None)])
@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_an_array_that_is_mapped_from_a_file_is_mapped_from_it_there_too(
    tmp_path: Path, place: slice, mode: Any
) -> None:
    original = np.random.default_rng(0).normal(size=(600, 300)).astype(np.float32)
    np.save(tmp_path / "rows.npy", original)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)[place]
    shelf = Shelf()
    before = len(os.listdir("/proc/self/fd"))
    content = packed(mapped, shelf)
    assert len(os.listdir("/proc/self/fd")) == before  # nothing was copied
    assert len(content) < 1_000
    found = unpacked(content)
    assert str(found.filename) == str(tmp_path / "rows.npy")
    np.testing.assert_array_equal(found, original[place])


def test_a_view_of_a_mapped_array_as_a_plain_one_or_a_tensor_is_mapped_too(tmp_path: Path) -> None:
    original = np.arange(60_000, dtype=np.int64).reshape(300, 200)
    np.save(tmp_path / "rows.npy", original)
    plain = np.asarray(np.load(tmp_path / "rows.npy", mmap_mode="c"))[100:]
    shelf = Shelf()
    for value in (plain, torch.from_numpy(plain)):
        content = packed(value, shelf)
        assert len(content) < 1_000
        np.testing.assert_array_equal(np.asarray(unpacked(content)), original[100:])
    assert isinstance(unpacked(packed(plain, shelf)), np.memmap)


def test_what_is_written_to_an_array_there_is_seen_nowhere_else(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones(100_000))
    for original in (np.load(tmp_path / "rows.npy", mmap_mode="c"), np.ones(100_000)):
        shelf = Shelf()
        content = packed(original, shelf)
        unpacked(content)[:] = 7
        assert original.sum() == unpacked(content).sum() == np.load(tmp_path / "rows.npy").sum() == 100_000


def test_files_vanish_with_the_shelf() -> None:
    before, shelf = len(os.listdir("/proc/self/fd")), Shelf()
    content = packed(np.arange(100_000.0), shelf)
    found = unpacked(content)
    assert len(os.listdir("/proc/self/fd")) > before
    del shelf
    gc.collect()
    with pytest.raises(FileNotFoundError):
        unpacked(content)
    assert found.sum() == 100_000 * 99_999 / 2  # what is mapped stays


def test_what_came_from_another_process_is_copied_when_it_goes_on() -> None:
    """Its file vanishes when that process goes on, and another may get its name."""
    first, second = Shelf(), Shelf()
    found = trip(np.arange(100_000.0), first)
    content = packed(found, second)
    del first, found
    gc.collect()
    others = Shelf()
    packed(np.zeros(100_000), others)
    assert unpacked(content).sum() == 100_000 * 99_999 / 2


# --- workers ------------------------------------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


@pytest.fixture
def one() -> Iterator[Workers]:
    workers = Workers(1)
    yield workers
    workers.close()


def jobs(function: Callable[..., Any], *owns: Any) -> list[Job]:
    return [Job(function, (), (own,)) for own in owns]


def squares(workers: Workers) -> bool:
    """Whether workers do as they should."""
    return list(workers.results(jobs(lambda x: x * x, *range(6)))) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("costs", [(1, 1, 1, 1, 1), (1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (2, 9, 1, 9, 0.5)])
def test_results_come_in_the_order_of_jobs_and_the_dearest_is_begun_first(one, two, tmp_path, costs) -> None:
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


def test_a_result_is_told_before_later_jobs_have_ended(two, tmp_path: Path) -> None:
    def wait_for(file: Path | None) -> str:
        import time

        while file and not file.exists():
            time.sleep(0.005)
        return str(file)

    results = two.results(jobs(wait_for, None, tmp_path / "told"))
    assert next(results) == "None"
    (tmp_path / "told").touch()
    assert next(results) == str(tmp_path / "told")


def test_a_generator_tells_as_it_goes(one, tmp_path: Path) -> None:
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


def test_listeners_may_take_turns(two, tmp_path: Path) -> None:
    def wait_for(file: Path | None) -> str:
        import time

        while file and not file.exists():
            time.sleep(0.005)
        return str(file)

    mine = two.results([Job(wait_for, (), (file,), cost) for file, cost in ((None, 2), (tmp_path / "go", 1))])
    assert next(mine) == "None"
    (tmp_path / "go").touch()
    time.sleep(0.1)  # it has been said, and not yet heard
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


# --- death --------------------------------------------------------------------------------------------


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
from silobench.engines.workers import Job, Workers

def large(number):
    import numpy as np
    return np.full(100_000, float(number))

for _ in range(8):
    workers = Workers(2)
    assert [found[0] for found in workers.results([Job(large, (), (number,)) for number in range(4)])] == [0, 1, 2, 3]
    workers.close()
"""


def test_workers_with_large_results_end_without_a_word(tmp_path: Path) -> None:
    """Also when they are told to end while they are ending."""
    (tmp_path / "quiet.py").write_text(QUIET)
    done = subprocess.run([sys.executable, str(tmp_path / "quiet.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


STOPPED = """
import sys
import time
from silobench.engines.workers import Job, Workers

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

workers = Workers(1)
news = workers.news([Job({"work": work, "outer": outer}[sys.argv[1]], (), ())])
assert next(news).value == 1
time.sleep(0.3)  # it is on its way with the second, or between the two
news.close()
"""


@pytest.mark.parametrize("job", ["work", "outer"])
def test_a_stopped_job_that_cannot_clean_up_ends_without_a_word(tmp_path: Path, job: str) -> None:
    """Also when it was stopped outside its own lines: while what it said was on its way, or in who called it."""
    (tmp_path / "stopped.py").write_text(STOPPED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "stopped.py"), job], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_worker_killed_while_idle_is_replaced(two) -> None:
    def pid(_: int) -> int:
        import os

        return os.getpid()

    for found in set(two.results(jobs(pid, *range(6)))):
        os.kill(found, signal.SIGKILL)
    assert squares(two)


def test_news_of_a_job_begun_again_is_told_again(one, tmp_path: Path) -> None:
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
def test_a_job_that_always_ends_its_worker_is_given_up(two, tmp_path: Path, way: str, said: str) -> None:
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


# --- shared values ------------------------------------------------------------------------------------


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
