"""Small synthetic federations, made directly as values; no files and no downloads."""

import gc
import logging
import os

# One thread each, here and in the processes that tests start. Threads that share small sums wait for each other, and
# where other programs take the cores, a test of one second takes a minute. NumPy and PyTorch read it when imported.
os.environ["OMP_NUM_THREADS"] = "1"
# Ray gives its workers a low priority. Beside other tests they would hardly get a core.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer.main
from _pytest.doctest import DoctestModule
from hypothesis import settings
from torch import Tensor, nn

from laws import Toy
from precision import in_default_precision
from silobench.cli import busy
from silobench.data.dataset import Dataset, Split
from silobench.federation import Federation, Party
from silobench.models import Network
from silobench.partitions import Partition
from silobench.processes import cores
from silobench.runs import archive
from silobench.tasks.task import Task, task
from wrong_inputs.plugins import registries_as_before

settings.register_profile("silobench", deadline=None)  # on a busy machine anything may take long
settings.load_profile("silobench")
torch.set_num_threads(1)  # also where something had imported it before
# They have no doctests, and modules of the same names are imported before.
collect_ignore = ["conftest.py", "gauntlet/site/sitecustomize.py"]
# To each logger that keeps its messages to itself, as 43 of PyTorch do, pytest adds its handlers six times in a test.
for _logger in logging.getLogger().manager.loggerDict.values():
    if isinstance(_logger, logging.Logger):
        _logger.propagate = True
# Dozens of tests read the published runs, which takes a second: they are read and verified once in a process.
_read_archive, _PUBLISHED = archive.read_archive, archive.PUBLISHED_FOLDER
_read_once = cache(_read_archive)
archive.read_archive = lambda path: list(_read_once(path)) if path.parent == _PUBLISHED else _read_archive(path)
# Tests call thousands of commands here. Typer would build all parsers anew for each call, which takes 20 ms.
_parsers_of = cache(typer.main.get_command)
typer.main.get_command = lambda typer_instance: _parsers_of(typer_instance)
busy.SILENT = 60.0  # on a busy machine, a line about a slow step would come before the sentence that a test expects


_LONG = ["deployment", "pages", "ray", "site", "kills", "determinism_matrix"]  # names of modules, the longest first


def pytest_xdist_auto_num_workers() -> int:
    """Run one process more than there are cores: tests of silos, clusters and pages wait for other processes."""
    return cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process of the session begin with tests that take long, so that it does not end with one of them.

    pytest-xdist cuts the list into one stretch per process, and later takes tests from the ends of stretches.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    modules: list[list[pytest.Item]] = [[] for _ in (*_LONG, "all others")]
    for item in items:
        name = item.path.stem.removeprefix("test_")
        modules[_LONG.index(name) if name in _LONG else -1].append(item)
    *long, others = modules
    ordered: list[pytest.Item] = []
    for place in range(processes):
        ordered += chain.from_iterable(long[place::processes])
        size = max(0, len(items) * (place + 1) // processes - len(ordered))
        ordered, others = ordered + others[:size], others[size:]
    items[:] = ordered + others


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect thousands of tests without looking for garbage among them: a third of the time would go to that."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Look for doctests only where there is a prompt: elsewhere, all that a module imports is searched for nothing."""
    collectors = yield
    if file_path.suffix == ".py" and b">>>" not in file_path.read_bytes():
        return [each for each in collectors if not isinstance(each, DoctestModule)]
    return collectors


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    """Forget what a test registers: two plugins of the same name are refused in one process."""
    with registries_as_before():
        yield


def _split(sizes: tuple[int, ...], features: int, classes: int, rng: np.random.Generator) -> Split:
    """Party by party: its own centre and its own rule for labels, so parties disagree strongly."""
    x, y = [], []
    for size in sizes:
        rows = rng.normal(size=(size, features)) + rng.normal(size=features)
        x.append(rows)
        y.append((rows @ rng.normal(size=(features, classes))).argmax(1))
    return Split(np.concatenate(x).astype(np.float32), np.concatenate(y).astype(np.int64))


@pytest.fixture
def in_double() -> Iterator[None]:
    """Let toys and silos, and all that an inline run calculates with them, be of double precision.

    Then a run can be compared with one by hand to many digits, on every processor: nothing that rounding decides (which
    of two numbers is larger, whether a ReLU is on) is decided in two ways.
    """
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def toy() -> Toy:
    """(sizes, model) -> a federation of parties of these sizes that disagree, and a task on it."""

    def make(
        sizes: tuple[int, ...] = (20, 20, 20), model: str = "linear", features: int = 4, classes: int = 3
    ) -> tuple[Federation, Task]:
        rng = np.random.default_rng(7)
        train, test = (_split(s, features, classes, rng) for s in (sizes, (30,)))
        dataset = Dataset("toy", train, test, tuple("abcdefghij"[:classes]), "none")
        return _dealt(dataset, sizes), task(model, dataset)

    return make


@pytest.fixture(scope="session")
def silos() -> Toy:
    """(features, labels, sizes, model) -> a federation of parties that hold these rows in order, and a task on it."""

    def make(x: Any, y: Any, sizes: tuple[int, ...], model: str = "linear", **facts: Any) -> tuple[Federation, Task]:
        split = Split(x, np.asarray(y, dtype=np.int64))
        dataset = Dataset("rows", split, split, tuple("abc"), "none", **facts)
        return _dealt(dataset, sizes), task(model, dataset)

    return make


@pytest.fixture(scope="session")
def normed(toy: Toy) -> Toy:
    """() -> five parties, and linear (4, 5) - BatchNorm - ReLU - linear (5, 3): 53 parameters and 10 statistics.

    The sizes of the parties leave no batch of eight with a single row, which BatchNorm1d refuses.
    """

    def make(sizes: tuple[int, ...] = (20, 12, 30, 52, 16)) -> tuple[Federation, Task]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = Network(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)))
        return toy(sizes)[0], Task(network, network.params.clone(), network.buffers.clone())

    return make


def _dealt(dataset: Dataset, sizes: tuple[int, ...]) -> Federation:
    """The training rows in order: so many for each party."""
    rows = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    nothing = torch.arange(0)
    parties = tuple(Party(i, torch.from_numpy(r), nothing, str(i)) for i, r in enumerate(rows))
    return Federation(in_default_precision(dataset), Partition(tuple(rows)), 0, parties)


@pytest.fixture(scope="session")
def gradient() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """(flat weights, x, y) -> gradient of the mean cross-entropy of a linear model, by plain autograd in its dtype."""

    def of(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
        flat = flat.clone().requires_grad_()
        classes = flat.numel() // (x.shape[1] + 1)
        weight, bias = flat[:-classes].reshape(classes, x.shape[1]), flat[-classes:]
        logits = x.to(flat.dtype) @ weight.T + bias
        chosen = logits[torch.arange(len(y)), y]
        (torch.logsumexp(logits, 1) - chosen).mean().backward()
        assert flat.grad is not None
        return flat.grad

    return of
