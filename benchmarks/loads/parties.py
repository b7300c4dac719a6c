"""Measure one run of many parties and many rounds: `python -m loads.parties JSON` prints its points as JSON.

Memory and the processor seconds of a round are taken at some rounds on the way: neither may grow.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaling.material import write
from scaling.points import resident
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import checkpoint_file, read_run
from silobench.runs.writer import RunWriter

PARTIES, ROUNDS, ROWS = 10_000, 1_000, 2  # rows of each party
MOMENTS = (100, 250, 500, 750, 990)  # rounds at which memory is measured; the last round has the final test
JOBS: tuple[dict[str, Any], ...] = (
    {"algorithm": "fedavg", "participation": 10, "selection": "uniform"},
    {"algorithm": "fedavg", "participation": 100, "selection": "uniform"},
    {"algorithm": "fedavg", "participation": 1.0, "selection": "uniform"},
    {"algorithm": "scaffold", "participation": 100, "selection": "round_robin"},  # all have a memory after 100 rounds
)


def measured(job: dict[str, Any], out: Path) -> dict[str, Any]:
    """Return the memory at the moments, the seconds of a round before each, the peak, and the sizes of files."""
    spec = write(out, PARTIES * ROWS, 500)
    plan = bind({
        "dataset": spec, "partition": "iid", "parties": PARTIES, "model": "linear", "rounds": ROUNDS,
        "solver": f"sgd(lr=0.01, momentum=0, epochs=1, batch={ROWS})", "eval_every": 10, **job,
    })  # fmt: skip
    points = list(_points(plan, out))
    folder, peak = out / plan.id, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    began = time.process_time()
    run = read_run(folder)
    return {
        "job": job, "points": points, "peak": peak,
        "files": {
            "rounds.jsonl": (folder / "rounds.jsonl").stat().st_size, "run.json": (folder / "run.json").stat().st_size,
            "checkpoint": checkpoint_file(folder).stat().st_size,
        },
        "rounds": len(run.rounds), "reading": time.process_time() - began, "commits": _Commits.count,
    }  # fmt: skip


class _Commits:
    """The number of commits of this process: each writes the checkpoint anew, so there must be few."""

    count = 0

    @classmethod
    def counted(cls, commit: Any) -> Any:
        def counting(writer: RunWriter) -> None:
            cls.count += 1
            commit(writer)

        return counting


def _points(plan: Any, out: Path) -> Iterator[dict[str, Any]]:
    last, since = time.process_time(), 0
    for record in execute(prepare(plan), out, "native(workers=1)"):
        if record.round in MOMENTS:
            now = time.process_time()
            yield {
                "round": record.round, "resident": resident(), "seconds": (now - last) / (record.round - since),
                "memories": len(record.state.memory),
            }  # fmt: skip
            last, since = time.process_time(), record.round


def main() -> None:
    RunWriter.commit = _Commits.counted(RunWriter.commit)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory(prefix="silobench-load-") as out:
        print(json.dumps(measured(json.loads(sys.argv[1]), Path(out))))


if __name__ == "__main__":
    main()
