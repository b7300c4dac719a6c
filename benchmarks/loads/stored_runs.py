"""A results directory of many runs: copies of one real run with other choices and other scores, sealed as a run is."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from pathlib import Path
from typing import Any

from silobench.runs.stored import facts_digest, run_id, sha256

Facts = dict[str, Any]
Rows = list[dict[str, Any]]

DATASETS = ("mnist", "fmnist", "cifar-10", "svhn", "adult")
PARTITIONS = (
    "iid", "label-dirichlet(beta=0.1)", "label-dirichlet(beta=0.5)", "label-count(k=1)", "label-count(k=2)",
    "label-count(k=3)", "feature-noise(sigma=0.1)", "quantity-dirichlet(beta=0.5)", "shards", "label-count(k=4)",
)  # fmt: skip
ALGORITHMS = (
    "fedavg", "fedprox(mu=0.001)", "fedprox(mu=0.01)", "fedprox(mu=0.1)", "fedprox(mu=1)", "scaffold", "fednova",
    "feddyn",
)  # fmt: skip
SOLVERS = ("sgd", "sgd(lr=0.1)", "sgd(lr=0.03)", "sgd(lr=0.003)", "sgd(lr=0.001)")
SEEDS = range(5)

_EXPERIMENT = """
dataset = "digits"
partition = "label-dirichlet(beta=0.5)"
model = "linear"
parties = 10
rounds = {rounds}
"""


def write_runs(out: Path, count: int, rounds: int) -> None:
    """Write a directory of at most 10,000 finished runs: every choice above, in the order of `_choices`."""
    facts, rows = _real_run(out, rounds)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for place, choices in enumerate(islice(_choices(), count)):
        created = (began + timedelta(seconds=place)).isoformat(timespec="microseconds")
        _write(out, *_like(facts, rows, choices, created))


def _choices() -> Iterator[dict[str, Any]]:
    for values in product(DATASETS, PARTITIONS, ALGORITHMS, SOLVERS, SEEDS):
        yield dict(zip(("dataset", "partition", "algorithm", "solver", "seed"), values, strict=True))


def _real_run(out: Path, rounds: int) -> tuple[Facts, Rows]:
    """Make one run and return its description and its rounds."""
    folder = out.parent / f"{out.name}-original"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.toml").write_text(_EXPERIMENT.format(rounds=rounds))
    command = [sys.executable, "-m", "silobench", "run", "one.toml", "--out", "runs", "--workers", "1"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    (path,) = (folder / "runs").glob("*/run.json")
    lines = (path.parent / "rounds.jsonl").read_text().splitlines()
    return json.loads(path.read_text()), [json.loads(line) for line in lines]


def _like(facts: Facts, rows: Rows, choices: Mapping[str, Any], created: str) -> tuple[Facts, Rows]:
    """Return a run like another one, with other choices, and scores that follow from these."""
    config = {**facts["config"], **choices}
    best = _best(choices)
    noise = random.Random(repr(choices))
    scored = [
        {**row, "accuracy": min(1.0, best * (1 - 0.9 ** row["round"]) + noise.gauss(0, 0.002)), "loss": 3 * 0.98**place}
        for place, row in enumerate(rows)
    ]
    described = {
        **facts, "id": run_id(config), "config": config, "label": {**facts["label"], **choices}, "created": created,
        "dataset": {**facts["dataset"], "name": choices["dataset"]},
    }  # fmt: skip
    return described, scored


def _best(choices: Mapping[str, Any]) -> float:
    """Return the accuracy that a run tends to: each choice has its share, and seeds differ by noise."""
    shares = [random.Random(f"{key} {value}").random() for key, value in choices.items() if key != "seed"]
    return 0.5 + 0.1 * sum(shares) + random.Random(repr(choices)).gauss(0, 0.01)


def _write(out: Path, facts: Facts, rows: Rows) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    sealed = {**facts, "records": {"rounds": len(rows), "bytes": len(lines), "sha256": sha256(lines)}}
    folder = out / facts["id"]
    folder.mkdir(parents=True)
    (folder / "rounds.jsonl").write_bytes(lines)
    content = {**sealed, "facts_sha256": facts_digest(sealed)}
    (folder / "run.json").write_text(json.dumps(content, indent=1, ensure_ascii=False))
