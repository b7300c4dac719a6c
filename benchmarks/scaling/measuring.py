"""The cases that are measured, each group of them in a process of its own."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import MARK
from scaling.material import write
from scaling.model import Case, Point

ROOT = Path(__file__).parents[1]
TESTED = 2000  # test rows
_LINEAR, _SMALL, _LARGE = "linear", "mlp(64, 32)", "mlp(256, 128)"
_MODULES = {
    "whole": ["scaling.points", "whole"],
    "native": ["scaling.points", "rounds"],
    "inline": ["scaling.points", "rounds"],
    "ray": ["scaling.ray_points"],
}
_FEW = {"rows": 20, "batch": 10}


def jobs(beyond: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and the content of every job; `beyond` adds 100,000 and a million parties, which take minutes."""
    for parties, rows in ((10, 20), (10, 2_000), (10, 20_000), (100, 20), (1_000, 20), (1_000, 200), (10_000, 5)):
        yield "whole", _whole(parties, rows)
    yield "whole", _whole(10_000, 20)
    yield "whole", _whole(10_000, 20, cohort=1_000)
    for model in (_SMALL, _LARGE):
        yield "whole", _whole(100, 20, model)
    for parties, model in ((100, _LINEAR), (1_000, _LINEAR), (1_000, _SMALL), (10_000, _LINEAR), (10_000, _SMALL)):
        yield "whole", _whole(parties, 20, model, "scaffold", cohort=parties // 10, rounds=11)
    for engine in ("native", "inline"):
        for parties in (10, 100, 1_000, 10_000):
            yield engine, {**_FEW, "parties": parties, "variants": list(_variants(parties))}
        yield engine, {"parties": 100, "rows": 200, "batch": 10, "variants": list(_larger())}
    for workers in (1, 2, 3, 4):
        yield "ray", {"parties": 1_000, "rows": 20, "batch": 10, "workers": workers, "variants": list(_clustered())}
    for workers in (1, 2):
        yield "ray", {"parties": 100, "rows": 200, "batch": 50, "workers": workers, "variants": list(_long_tasks())}
    if beyond:
        yield "whole", _whole(100_000, 5, cohort=100)
        yield "native", {"parties": 100_000, "rows": 5, "batch": 10, "variants": list(_beyond())}
        yield "whole", _whole(1_000_000, 2, cohort=1_000)
        of_million = [{"cohort": cohort, "model": _LINEAR, "algorithm": "fedavg"} for cohort in (1_000, 10_000)]
        yield "native", {"parties": 1_000_000, "rows": 2, "batch": 10, "variants": of_million}


def _whole(
    parties: int, rows: int, model: str = _LINEAR, algorithm: str = "fedavg", cohort: int = 10, rounds: int = 6
) -> dict[str, Any]:
    """Return a run that is measured from its start to its end. In ten rounds of SCAFFOLD every party takes part."""
    fields = {"parties": parties, "rows": rows, "batch": 10, "model": model, "algorithm": algorithm}
    return {**fields, "cohort": cohort, "rounds": rounds, "selection": "round_robin"}


def _variants(parties: int) -> Iterator[dict[str, Any]]:
    """Yield the methods whose rounds are measured on a federation."""
    for cohort in (10, 100, 1_000):
        if cohort <= parties:
            for model in (_LINEAR, _SMALL):
                for algorithm in ("fedavg", "scaffold"):
                    yield {"cohort": cohort, "model": model, "algorithm": algorithm}
    yield {"cohort": 10, "model": _SMALL, "algorithm": "fedavg", "eval_every": 1}


def _larger() -> Iterator[dict[str, Any]]:
    """Yield methods with more rows per party, larger batches and larger networks."""
    for model in (_LINEAR, _SMALL, _LARGE):
        for batch in (10, 50):
            yield {"cohort": 10, "model": model, "algorithm": "fedavg", "batch": batch}
        yield {"cohort": 10, "model": model, "algorithm": "fedavg", "batch": 50, "eval_every": 1}
    yield {"cohort": 100, "model": _SMALL, "algorithm": "scaffold", "batch": 50}
    yield {"cohort": 10, "model": _LARGE, "algorithm": "scaffold", "batch": 50}


def _beyond() -> Iterator[dict[str, Any]]:
    for cohort in (100, 1_000):
        for algorithm in ("fedavg", "scaffold"):
            yield {"cohort": cohort, "model": _LINEAR, "algorithm": algorithm}


def _clustered() -> Iterator[dict[str, Any]]:
    """Yield the methods whose rounds are measured on Ray: few and many parties, small and large messages."""
    for model in (_LINEAR, _SMALL, _LARGE):
        for cohort in (10, 100, 400):
            if (model, cohort) != (_LARGE, 400):
                yield {"cohort": cohort, "model": model, "algorithm": "fedavg"}


def _long_tasks() -> Iterator[dict[str, Any]]:
    for model in (_LINEAR, _SMALL, _LARGE):
        for batch in (10, 50):
            yield {"cohort": 20, "model": model, "algorithm": "fedavg", "batch": batch}


def measured(kind: str, job: dict[str, Any]) -> Iterator[Point]:
    """Yield the points of one job, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="sb-scale-") as scratch:
        spec = write(Path(scratch), job["parties"] * job["rows"], TESTED)
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-m", *_MODULES[kind], json.dumps({**job, "engine": kind, "spec": spec})],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": paths, MARK: uuid.uuid4().hex},
        )
    yield from (Point.from_json(json.loads(line)) for line in done.stdout.splitlines())


def least(points: Iterable[Point]) -> list[Point]:
    """Return one point per cost and case: the least of its repeats, which others on the machine disturbed least."""
    values: dict[tuple[str, Case], float] = {}
    for point in points:
        key = point.cost, point.case
        values[key] = min(point.value, values.get(key, point.value))
    return [Point(cost, case, value) for (cost, case), value in values.items()]


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {name: metadata.version(name) for name in ("silobench", "torch", "numpy")}
    return {"cpu": names[0], "cores": os.cpu_count(), "memory": memory, "python": platform.python_version(), **versions}
