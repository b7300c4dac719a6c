"""One mutant tried: a child process with the changed code runs tests until one fails."""

import contextlib
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

from mutants.sources import Mutant
from mutants.surveys import Footprint, Repeatable

TIMEOUT, CRASH, IMPORT = "timeout", "crash", "import"  # what noticed a mutant, if no test did
_MEMORY = 6 * 2**30  # bytes of address space that a mutant may take beyond what its process has
_PATIENCE = 1800  # seconds by the clock on the wall, for what waits for ever without computing


def choose(tests: Iterable[Footprint], limit: float) -> list[str]:
    """Return the ids of the tests to run within a limit of seconds: short ones first, and one case of each function
    before another.
    """
    cases: Counter[str] = Counter()
    ranked = []
    for test in sorted(tests, key=lambda test: (test.seconds, test.nodeid)):
        function = test.nodeid.split("[")[0]
        ranked.append((cases[function], test.seconds, test.nodeid))
        cases[function] += 1
    chosen, total = [], 0.0
    for _, seconds, nodeid in sorted(ranked):
        total += seconds
        if chosen and total > limit:
            break
        chosen.append(nodeid)
    return chosen


class Limits:
    """A plugin of pytest that ends the process when a test takes several times its usual processor time."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        allowed = time.process_time() + 4 + 5 * self.seconds.get(item.nodeid, 1.0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), hard))
        return (yield)


class Selection(Repeatable):
    """A plugin of pytest that runs chosen tests in their order."""

    def __init__(self, nodeids: Sequence[str]):
        self.nodeids = nodeids

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = in_order(items, self.nodeids)


def in_order(items: Iterable[pytest.Item], nodeids: Sequence[str]) -> list[pytest.Item]:
    """Return the items with these ids, in the order of the ids."""
    by_id = {item.nodeid: item for item in items}
    return [by_id[nodeid] for nodeid in nodeids if nodeid in by_id]


class Witness:
    """A plugin of pytest that remembers the tests that fail, in order; a module that cannot be imported is one, too."""

    def __init__(self) -> None:
        self.nodeids: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.nodeids.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.nodeids.append(IMPORT)


def noticed(witness: Witness, code: int) -> str | None:
    """Return what noticed a change in a session of pytest; a session that could not begin has noticed it as well.

    A product that cannot be imported ends the session in a conftest.py, before there is any report.
    """
    could_begin = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return next(iter(witness.nodeids), None if could_begin else IMPORT)


def result_of(work: Callable[[], str | None]) -> WorkResult:
    """Run work in a child process; it returns the test that noticed, or None."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run(work, writer)
    os.close(writer)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(_PATIENCE)
    with os.fdopen(reader, encoding="utf-8") as stream:
        witness = stream.readline()
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    _end_group(child)
    if os.WIFSIGNALED(status):
        is_late = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return WorkResult(WorkerOutcome.NORMAL, TIMEOUT if is_late else CRASH, TestOutcome.KILLED)
    return WorkResult(WorkerOutcome.NORMAL, witness, TestOutcome.KILLED if witness else TestOutcome.SURVIVED)


def no_tests(mutant: Mutant) -> WorkResult:
    """Return the result of a mutant whose line no test runs."""
    return WorkResult(WorkerOutcome.NORMAL, f"no test runs line {mutant.start[0]}", TestOutcome.SURVIVED)


def _run(work: Callable[[], str | None], writer: int) -> None:
    witness: str | None = CRASH  # whatever ends the child early is noticed
    try:
        os.setsid()
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        room = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        witness = work()
    finally:
        os.write(writer, (witness or "").encode())
        os._exit(0)


def _end_group(child: int) -> None:
    """End what the tests of a child have started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
