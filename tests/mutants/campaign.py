"""All mutants of a folder tried, one after another; results are stored as they come."""

import contextlib
import gc
import os
import shutil
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

from mutants import swaps, trial
from mutants.plan import ROOT, Folder, targets
from mutants.sources import Mutant
from mutants.surveys import Footprint, Repeatable, Survey, options, survey


@dataclass(frozen=True)
class Campaign:
    """Mutants of a folder, the tests that may notice them, and where results are stored."""

    folder: Folder
    mutants: list[Mutant]
    surveys: list[Survey]
    place: Path
    limit: float  # seconds of processor time for one mutant

    def tests(self, mutant: Mutant, lines: Iterable[int] | None) -> list[Footprint]:
        """Return the tests that run one of some lines of the file of a mutant, or any line."""
        name, wanted = str(mutant.file.relative_to(ROOT)), None if lines is None else set(lines)
        return [
            test
            for survey in self.surveys
            for test in survey.tests
            if name in test.lines and (wanted is None or wanted.intersection(test.lines[name]))
        ]

    def seconds(self) -> dict[str, float]:
        return {test.nodeid: test.seconds for survey in self.surveys for test in survey.tests}

    def runs_at_import(self, mutant: Mutant, lines: Iterable[int]) -> bool:
        name = str(mutant.file.relative_to(ROOT))
        return any(set(lines).intersection(survey.imported.get(name, ())) for survey in self.surveys)


def plan(folder: Folder, mutants: list[Mutant], place: Path, limit: float) -> Campaign:
    """Survey the tests of a folder for some of its mutants."""
    place.mkdir(parents=True, exist_ok=True)
    files, surveys = targets(), []
    for file in folder.test_files():
        print(f"survey of {file.relative_to(ROOT)}", flush=True)
        surveys.append(survey(file, files, place))
    return Campaign(folder, mutants, surveys, place, limit)


def run(campaign: Campaign, again: bool) -> None:
    """Try the mutants that have no result yet; with `again`, those that survived as well."""
    with database(campaign.place, campaign.folder) as db:
        results = dict(db.results)
        known = {item.job_id for item in db.work_items}
        db.add_work_items(m.work_item() for m in campaign.mutants if m.identity() not in known)
    waiting = [mutant for mutant in campaign.mutants if is_open(results.get(mutant.identity()), again)]
    print(f"{campaign.folder.name}: {len(waiting)} mutants to try", flush=True)
    loaded, unloaded = [], []
    for mutant in waiting:
        source = mutant.source()
        if source is None:
            continue
        pairs = swaps.changed_functions(mutant.file, source)
        lines = swaps.statement_lines(mutant.file.read_text("utf-8"), mutant.start[0])
        if pairs is None or campaign.runs_at_import(mutant, lines):
            unloaded.append((mutant, source))
        else:
            loaded.append((mutant, pairs, campaign.tests(mutant, lines)))
    if loaded and os.fork() == 0:
        _try_loaded(campaign, loaded)
    elif loaded:
        os.wait()
    for mutant, source in unloaded:
        _store(campaign, mutant, _try_unloaded(campaign, mutant, source))


def is_open(result: WorkResult | None, again: bool) -> bool:
    """Return whether a mutant is to be tried: it has no valid result, or survived and is tried again."""
    return result is None or result.test_outcome is None or (again and result.test_outcome is TestOutcome.SURVIVED)


def confirm(campaign: Campaign) -> None:
    """Run the tests that noticed mutants once more without a change, and forget what a failing one had noticed."""
    with database(campaign.place, campaign.folder) as db:
        results = [(job, result) for job, result in db.results if result.output in campaign.seconds()]
    witnesses = sorted({str(result.output) for _, result in results})
    failures = _failures(campaign, witnesses) if witnesses else []
    with database(campaign.place, campaign.folder) as db:
        for job, result in results:
            if result.output in failures:
                db.set_result(job, WorkResult(WorkerOutcome.SKIPPED, f"{result.output} fails without a change"))
    print(
        f"{campaign.folder.name}: of {len(witnesses)} tests that noticed mutants, {len(failures)} fail without a change"
    )


def _failures(campaign: Campaign, nodeids: list[str]) -> list[str]:
    """Return which tests fail in a process of their own without any change."""
    place = campaign.place / f"{campaign.folder.name}.failures"

    def work() -> None:
        witness = trial.Witness()
        files = sorted({ROOT / nodeid.split("::")[0] for nodeid in nodeids})
        pytest.main(options(place.with_suffix(".tmp"), files), plugins=[trial.Selection(nodeids), witness])
        place.write_text("\n".join(sorted(witness.nodeids)), "utf-8")

    place.unlink(missing_ok=True)
    trial.result_of(work)
    return place.read_text("utf-8").splitlines()


@contextlib.contextmanager
def database(place: Path, folder: Folder) -> Iterator[WorkDB]:
    """Open cosmic-ray's database of a folder."""
    db = WorkDB(place / f"{folder.name}.sqlite", WorkDB.Mode.create)
    try:
        yield db
    finally:
        db.close()


class Server(Repeatable):
    """A plugin of pytest that tries mutants in children of a session which has imported and collected everything."""

    def __init__(self, campaign: Campaign, mutants: list[tuple[Mutant, Any, list[Footprint]]]):
        self.campaign, self.mutants = campaign, mutants

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        bodies = swaps.live_bodies(self.campaign.folder.files())
        gc.collect()
        gc.freeze()  # children would copy every page on which they look for garbage
        session.config.pluginmanager.register(trial.Limits(self.campaign.seconds()))
        for mutant, pairs, tests in self.mutants:
            items = trial.in_order(session.items, trial.choose(tests, self.campaign.limit))

            def work(pairs: Any = pairs, items: list[pytest.Item] = items) -> str | None:
                swaps.swap(pairs, bodies)
                return _witness(session, items)

            _store(self.campaign, mutant, trial.result_of(work) if items else trial.no_tests(mutant))
        return True


def _witness(session: pytest.Session, items: list[pytest.Item]) -> str | None:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return item.nodeid
    return None


def _try_loaded(campaign: Campaign, mutants: list[tuple[Mutant, Any, list[Footprint]]]) -> None:
    files = sorted({ROOT / test.nodeid.split("::")[0] for _, _, tests in mutants for test in tests})
    folder = campaign.place / f"{campaign.folder.name}.tmp"
    try:
        pytest.main(options(folder, files), plugins=[Server(campaign, mutants)])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _try_unloaded(campaign: Campaign, mutant: Mutant, source: str) -> WorkResult:
    chosen = trial.choose(campaign.tests(mutant, None), campaign.limit)
    files = sorted({ROOT / nodeid.split("::")[0] for nodeid in chosen})
    folder = campaign.place / f"{campaign.folder.name}.tmp"

    def work() -> str | None:
        swaps.import_instead(mutant.file, source)
        witness = trial.Witness()
        plugins = [trial.Selection(chosen), trial.Limits(campaign.seconds()), witness]
        code = pytest.main(["-x", *options(folder, files)], plugins=plugins)
        return trial.noticed(witness, code)

    return trial.result_of(work) if chosen else trial.no_tests(mutant)


def _store(campaign: Campaign, mutant: Mutant, result: WorkResult) -> None:
    with database(campaign.place, campaign.folder) as db:
        db.set_result(mutant.identity(), result)
    name = mutant.file.relative_to(ROOT / "src")
    with (campaign.place / f"{campaign.folder.name}.log").open("a", encoding="utf-8") as log:
        print(result.test_outcome.value, f"{name}:{mutant.start[0]}", mutant.operator, result.output, file=log)
