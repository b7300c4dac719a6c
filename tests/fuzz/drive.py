"""A campaign: every target with every driver, each in a process of its own, and the counts."""

import importlib.util
import json
import re
import time
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzz.guard import Finding, strangers
from fuzz.target import Target
from fuzz.worker import record, work

_TRIES = 12  # processes for one target and driver: one that crashes is followed by another
_PATIENCE = 1800.0  # seconds without a new input after which a process hangs; the guards measure CPU time


@dataclass(frozen=True)
class Row:
    """The counts of one target with one driver."""

    target: str
    driver: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    edges: int | None = None  # of the code of silobench, by atheris
    findings: int = 0
    slowest: float = 0.0  # CPU seconds of the slowest input
    megabytes: float = 0.0  # by which the process grew at most while it read one input
    seconds: float = 0.0  # CPU time of all inputs, with the making of them

    def plus(self, counts: dict[str, float]) -> "Row":
        """Return the counts with those of one more process."""
        sums = {key: getattr(self, key) + counts.get(key, 0) for key in ("inputs", "accepted", "refused", "seconds")}
        most = {key: max(getattr(self, key), counts.get(key, 0)) for key in ("slowest", "megabytes")}
        return replace(self, **sums, **most)


def drivers_of(target: Target) -> list[str]:
    """Return the drivers that a target can have on this machine."""
    coverage = ["atheris"] if importlib.util.find_spec("atheris") else []
    return [*coverage, *(["hypothesis"] if target.strategy else []), "mutator"]


def drive(target: Target, driver: str, inputs: int, seed: int, folder: Path) -> Row:
    """Hand so many inputs to a target; findings are written to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    row = Row(target.name, driver)
    for attempt in range(_TRIES):
        if row.inputs >= inputs:
            break
        (folder / "counts.json").unlink(missing_ok=True)
        ended, edges = _run(target.name, driver, inputs - row.inputs, seed + 1000 * attempt, folder)
        counts = folder / "counts.json"
        row = row.plus(json.loads(counts.read_text()) if counts.exists() else {})
        row = replace(row, edges=max(edges, row.edges or 0) if driver == "atheris" else None)
        if ended is not None and not (folder / "current").exists():
            raise RuntimeError(f"the target {target.name} cannot be prepared: {(folder / 'log').read_text()[-2000:]}")
        if ended is not None:
            record(folder / "findings", replace(ended, data=(folder / "current").read_bytes()))
        if ended is None and driver == "hypothesis":
            break  # a strategy may have fewer inputs than were asked for
    for path in strangers(folder / "place" / "output"):
        record(folder / "findings", Finding("breach", str(path.name), f"{path} was written", b""))
    return replace(row, findings=len(list((folder / "findings").glob("*.json"))))


def _run(name: str, driver: str, inputs: int, seed: int, folder: Path) -> tuple[Finding | None, int]:
    """Run a worker to its end; return how it broke down, if it did, and the edges that it covered.

    It is a fork: importing everything anew would take most of the time. This process has no threads and no tensors.
    """
    process = get_context("fork").Process(target=work, args=(name, driver, inputs, seed, folder))
    process.start()
    hangs = not _ended(process, folder / "current")
    text = (folder / "log").read_text(errors="replace")
    edges = max([0, *map(int, re.findall(r"\bcov: (\d+)", text))])
    if process.exitcode == 0:
        return None, edges
    last = text.strip().splitlines()[-1:] or [""]
    what = "hang" if hangs else "crash"
    return Finding(what, f"{name} {process.exitcode}", last[0][:500], b""), edges


def _ended(process: BaseProcess, current: Path) -> bool:
    """Wait for a process; end it and return False if it has had no new input for long."""
    start = time.time()
    while process.is_alive():
        process.join(5)
        since = max(start, current.stat().st_mtime if current.exists() else 0)
        if process.is_alive() and time.time() - since > _PATIENCE:
            process.kill()
            process.join()
            return False
    return True


def findings_of(folder: Path) -> list[Finding]:
    """Return the findings that a campaign wrote to a folder."""
    files = sorted(folder.glob("findings/*.json"))
    return [Finding(**json.loads(file.read_text()), data=file.with_suffix(".bin").read_bytes()) for file in files]


def as_json(rows: list[Row]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]
