"""What each test runs: the lines of the product and the seconds of processor time, measured once for each test file."""

import hashlib
import json
import os
import time
import traceback
from collections import defaultdict
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import Phase, settings

from mutants.plan import ROOT

Lines = dict[str, list[int]]  # by file, relative to the repository


@dataclass(frozen=True)
class Footprint:
    """A test that passes: its processor time and the lines that it runs."""

    nodeid: str
    seconds: float
    lines: Lines


@dataclass(frozen=True)
class Survey:
    """The tests of one file, and the lines that run while it is imported."""

    digest: str
    imported: Lines
    tests: list[Footprint]


class Repeatable:
    """A plugin of pytest: hypothesis draws the same few examples in every run, and does not shrink what fails."""

    def pytest_configure(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutants", settings(), derandomize=True, max_examples=20, database=None, phases=phases
        )
        settings.load_profile("mutants")


class Surveyor(Repeatable):
    """A plugin of pytest that notes lines and seconds of each test."""

    def __init__(self, targets: list[Path]):
        self.coverage = coverage.Coverage(data_file=None, include=[str(file) for file in targets], config_file=False)
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, tuple[str, ...]] = {}
        self.failures: set[str] = set()
        self.context = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        self.context, self.fixtures[item.nodeid] = item.nodeid, tuple(getattr(item, "fixturenames", ()))
        self.coverage.switch_context(self.context)
        start = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - start

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Note a fixture of many tests under its own name: it runs in the first of them, and all of them need it."""
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.context)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.failures.add(report.nodeid)

    def survey(self, digest: str) -> Survey:
        lines: dict[str, Lines] = defaultdict(lambda: defaultdict(list))
        data = self.coverage.get_data()
        for file in data.measured_files():
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    lines[context][str(Path(file).relative_to(ROOT))].append(line)
        tests = []
        for nodeid in sorted(self.seconds.keys() - self.failures):
            contexts = [nodeid, *(f"fixture {name}" for name in self.fixtures[nodeid])]
            tests.append(Footprint(nodeid, round(self.seconds[nodeid], 3), _union([lines[key] for key in contexts])))
        return Survey(digest, dict(lines[""]), tests)


def survey(test_file: Path, targets: list[Path], cache: Path) -> Survey:
    """Return the survey of a test file, from a file in `cache` if nothing has changed."""
    place = cache / f"{test_file.parent.name}-{test_file.stem}.json"
    if place.exists():
        old = json.loads(place.read_text("utf-8"))
        stored = Survey(old["digest"], old["imported"], [Footprint(**test) for test in old["tests"]])
        if stored.digest == _digest(test_file, stored):
            return stored
    if os.fork() == 0:
        try:
            _measure(test_file, targets, place)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.wait()
    if status or not place.exists():
        raise SystemExit(f"{test_file} cannot be surveyed: run it with pytest.")
    return survey(test_file, targets, cache)


def _measure(test_file: Path, targets: list[Path], place: Path) -> None:
    surveyor = Surveyor(targets)
    surveyor.coverage.start()
    surveyor.coverage.switch_context("")
    pytest.main(options(place.with_suffix(".tmp"), [test_file]), plugins=[surveyor])
    surveyor.coverage.stop()
    result = surveyor.survey("")
    result = Survey(_digest(test_file, result), result.imported, result.tests)
    place.write_text(json.dumps(asdict(result)), "utf-8")


def options(folder: Path, tests: list[Path]) -> list[str]:
    """Return the arguments of pytest for a quiet session in this process.

    Asserts stay plain: pytest would read a file of doctests itself, in order to rewrite its asserts, and so without the
    change of `swaps.import_instead`.
    """
    quiet = ("-q", "--assert=plain", "-p", "no:cacheprovider", "-o", "timeout=0")
    return [*quiet, f"--basetemp={folder}", f"--rootdir={ROOT}", *map(str, tests)]


def _digest(test_file: Path, survey: Survey) -> str:
    """Return a digest of a test file and of the files of the product that it runs."""
    files = {name for lines in (survey.imported, *(test.lines for test in survey.tests)) for name in lines}
    content = [
        test_file.read_bytes(),
        *((ROOT / name).read_bytes() for name in sorted(files) if (ROOT / name).exists()),
    ]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def _union(parts: list[Lines]) -> Lines:
    files = {file for part in parts for file in part}
    return {file: sorted({line for part in parts for line in part.get(file, ())}) for file in sorted(files)}
