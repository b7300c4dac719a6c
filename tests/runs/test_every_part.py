"""Runs with many parts at once, killed in the middle and resumed: the same bits as runs never interrupted."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call, execute_killed, write
from laws import lasting
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_json, read_runs, run_paths

ASYNCHRONOUS = """
dataset = "csv(path=PEOPLE, label=age, unit=years)"
objective = "regression(loss=huber)"
split = "10:1:1"
partition = "label-dirichlet(beta=0.5)"
model = "mlp(6)"
parties = 12
participation = 0.75
solver = "adam(lr=warmup(plateau(0.01, factor=0.5, patience=1, drops=9), over=5), steps=2, batch=8, keep_moments=True)"
transforms = "clip(norm=5) | top_k(fraction=0.2)"
pace = "buffered(size=3)"
clock = "device(speed=100, spread=0.8)"
network = "link(bandwidth=1Mbps, latency=0.01, server=4Mbps, spread=0.5)"
availability = "dropout(rate=0.2)"
server = "adam(lr=0.05)"
rounds = 20
"""

GOSSIP = """
dataset = "csv(path=PEOPLE, label=rich)"
objective = "binary"
split = "4:1:1"
partition = "label-dirichlet(beta=0.5)"
model = "mlp(6)"
parties = 12
participation = 0.75
algorithm = "fedprox(mu=0.1)"
solver = "adam(lr=plateau(0.01, factor=0.5, patience=1, drops=9), steps=2, batch=8, keep_moments=True)"
exchange = "gossip(graph=EDGES)"
clock = "device(speed=100, spread=0.8)"
availability = "dropout(rate=0.2)"
rounds = 20
"""

ROBUST = """
dataset = "csv(path=PEOPLE, label=age)"
objective = "regression(loss=absolute)"
validation = 0.1
model = "mlp(6)"
parties = 12
participation = 10
algorithm = "scaffold(option=1, momentum=inside)"
solver = "adam(lr=warmup(0.01, over=10), steps=2, batch=8, keep_moments=True)"
aggregate = "krum(byzantine=2)"
adversary = "noise(share=0.2, deviation=3)"
availability = "dropout(rate=0.2)"
clock = "device(speed=100)"
server = "momentum(lr=0.5)"
rounds = 20
"""

LATE = """
dataset = "csv(path=PEOPLE, label=rich)"
split = "4:1"
model = "linear"
parties = 12
algorithm = "scaffold"
solver = "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)"
transforms = "top_k(fraction=0.5)"
pace = "fedasync"
clock = "device(speed=100, spread=0.8)"
rounds = 20
"""

PERSONAL = """
dataset = "csv(path=PEOPLE, label=rich)"
split = "4:1"
model = "mlp(6)"
parties = 12
algorithm = "ditto(lam=0.5, epochs=1)"
solver = "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)"
transforms = "top_k(fraction=0.5)"
pace = "buffered(size=3)"
clock = "device(speed=100, spread=0.8)"
rounds = 20
"""

MIXED = """
dataset = "csv(path=PEOPLE, label=rich)"
split = "4:1:1"
model = "mlp(6)"
parties = 12
participation = 0.5
algorithm = "apfl(alpha=0.5, adaptive=True)"
solver = "adam(lr=0.01, steps=2, batch=8, keep_moments=True)"
availability = "dropout(rate=0.2)"
rounds = 20
"""

TUNED = """
dataset = "csv(path=PEOPLE, label=rich)"
split = "4:1:1"
model = "mlp(6)"
parties = 12
participation = 0.5
algorithm = "finetune(fedrep(head_epochs=1), epochs=2)"
solver = "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)"
eval_every = 4
rounds = 20
"""

WORDS = """
dataset = "synthetic-reviews"
split = "10:1:1"
model = "lstm(hidden=4, layers=2, vectors=random-6d)"
algorithm = "fedavg"
solver = "adam(lr=plateau(0.01, patience=1, drops=30), steps=2, batch=8, keep_moments=True)"
transforms = "top_k(fraction=0.2) | quantize(bits=4)"
eval_every = 2
rounds = 20
"""

COMPRESSED = """
dataset = "csv(path=PEOPLE, label=rich)"
split = "4:1"
model = "mlp(6)"
parties = 12
participation = 0.5
algorithm = "scaffold"
solver = "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)"
transforms = "CHAIN"
broadcast = "CHAIN"
rounds = 20
"""
CHAINS = [
    "low_rank(rank=1, decay=0.5) | quantize(bits=4)",
    "rand_k(fraction=0.3, scale=false, feedback=true) | sign",
    "error_feedback(decay=0.1) | top_k(fraction=0.2, feedback=false, index=int64) | quantize(bits=2)",
]


def experiment(text: str, folder: Path) -> dict[str, Any]:
    """Write a dataset and a graph; return the choices of an experiment on them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    age = 40 + 8 * x[:, 0] - 5 * x[:, 1] * x[:, 2] + rng.normal(size=400)
    lines = [",".join(f"{value:.4f}" for value in row) for row in x]
    rich = np.where(x[:, 3] + 0.3 * rng.normal(size=400) > 0.5, "yes", "no")
    rows = [f"{line},{years:.2f},{answer}" for line, years, answer in zip(lines, age, rich, strict=True)]
    people = write(folder / "people.csv", "\n".join(["a,b,c,d,age,rich", *rows, ""]))
    edges = write(folder / "edges", "".join(f"{p} {(p + 1) % 12}\n{p} {(p + 5) % 12}\n" for p in range(12)))
    return tomllib.loads(text.replace("PEOPLE", str(people)).replace("EDGES", str(edges)))


def facts_of(out: Path) -> tuple[object, ...]:
    """Return everything of the only run but its timings."""
    (path,) = run_paths(out)
    facts, rows = read_json(path)
    rounds = [{key: value for key, value in lasting(row).items() if key != "workers"} for row in rows]
    return path.name, facts["model_sha256"], facts["state_sha256"], rounds


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (ASYNCHRONOUS, {"replied", "reports", "computing", "metrics", "validation_loss"}),
        (GOSSIP, {"replied", "computing", "metrics", "validation_loss"}),
        (ROBUST, {"replied", "computing", "metrics", "validation_loss"}),
        (LATE, {"replied", "reports", "computing"}),
        (PERSONAL, {"replied", "reports", "computing", "final"}),
        (MIXED, {"replied", "validation_loss", "final"}),
        (TUNED, {"validation_loss", "final"}),
        (WORDS, {"validation_loss", "knobs", "final"}),
        *((COMPRESSED.replace("CHAIN", chain), {"bytes_up", "reports"}) for chain in CHAINS),
    ],
    ids=[
        "asynchronous",
        "gossip",
        "robust",
        "late",
        "personal",
        "mixed",
        "tuned",
        "words",
        *("low-rank", "random", "feedback"),
    ],
)
def test_a_killed_run_ends_as_one_never_interrupted(text: str, keys: set[str], tmp_path: Path) -> None:
    choices, killed, whole = experiment(text, tmp_path), tmp_path / "killed", tmp_path / "whole"
    (planned,) = plan(choices)
    execute_killed(choices, killed, 4)
    stopped = execute(prepare(planned), killed)
    while next(stopped).round < 10:
        pass
    stopped.close()  # this commits round 10
    execute_killed(choices, killed, 14)
    assert 10 <= len(read_runs(killed)[0].rounds) < 20
    list(execute(prepare(planned), killed))
    list(execute(prepare(planned), whole))
    ours, expected = facts_of(killed), facts_of(whole)
    assert ours == expected
    rows = expected[-1]
    assert isinstance(rows, list)
    assert len(rows) == 20
    assert keys <= {key for row in rows for key in row}


def test_a_command_runs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file, with two workers, and shown afterwards; a second command has nothing left to do."""
    choices = {**experiment(ASYNCHRONOUS, tmp_path), "rounds": 3}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in choices.items())
    command = ["run", write(tmp_path / "e.toml", text), "--workers", "2", "--out", tmp_path / "runs"]
    assert call(capsys, *command).code == 0
    shown = call(capsys, "show", tmp_path / "runs")
    assert shown.code == 0
    assert "MAE" in shown.out
    first = facts_of(tmp_path / "runs")
    assert call(capsys, *command).code == 0
    assert facts_of(tmp_path / "runs") == first
