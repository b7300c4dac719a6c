"""A study for tests of pages: runs with known numbers and with names that break careless pages, and tiny real runs."""

from itertools import product
from pathlib import Path
from typing import Any

from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from stored import noises, stored

SCRIPT = "<script>alert(1)</script>"  # a class
IMAGE = '"><img src=x onerror=alert(1)>'  # a party
DATASET = "patients & <b>friends</b> 'été' \"</title>\" 患者"
CLASSES = (SCRIPT, "b & c", "{{ 7 * 7 }}")
PARTIES = (IMAGE, "</script><script>alert(2)</script>", "south\nwest", "Ω" * 60)
ALGORITHMS = {"fedavg": 0.0, "fedprox(mu=0.01)": 0.02, "scaffold": 0.08, "fednova": -0.05}
PARTITIONS = {"iid": 0.9, "label-dirichlet(beta=0.5)": 0.75, "label-count(k=1)": 0.5}
ROUNDS = 8
# What real runs state too, so that tables have no columns in which only some runs differ.
STATED = {
    "controller": "fixed", "network": "link", "eval_every": 1, "eval_on": 1.0, "validation": 0.0, "exchange": "star",
}  # fmt: skip
REAL: tuple[dict[str, Any], ...] = (
    {"dataset": "fcube", "partition": "octants", "algorithm": ["fedavg", "scaffold"], "solver": "sgd(epochs=1)"},
    {"dataset": "fcube", "partition": "octants", "solver": "dp_sgd(lr=0.1, noise=2, epochs=1, batch=64)"},
    {"dataset": "fcube", "partition": "octants", "solver": "sgd(epochs=1)", "exchange": "gossip(graph=ring)"},
    {
        "dataset": "breast-cancer", "partition": "columns(by=block)", "parties": 2, "model": "mlp(hidden=4, top=2)",
        "algorithm": ["split", "combined"],
    },
)  # fmt: skip


def write_study(out: Path) -> Path:
    """Write all runs of the study into a directory."""
    write_known(out)
    for choices in REAL:
        for one in plan({"rounds": 3, **choices}):
            for _ in execute(prepare(one), out):
                pass
    return out


def write_known(out: Path, seeds: int = 3) -> None:
    """Write runs whose numbers are known: each algorithm on each partition."""
    for (partition, base), (algorithm, gain), seed in product(PARTITIONS.items(), ALGORITHMS.items(), range(seeds)):
        known(out, partition, algorithm, seed, base + gain)


def known(out: Path, partition: str, algorithm: str, seed: int, score: float) -> None:
    """Write a run that reaches a score, up to a deviation of its trial, in steps that become smaller."""
    off = noises(0.01, {"partition": partition, "algorithm": algorithm})[seed % 3]
    scores = [(score + off) * (1 - 0.5**number) for number in range(1, ROUNDS + 1)]
    parties = {name: {"rows": 50, "own": score - 0.02 * place, "all": None} for place, name in enumerate(PARTIES)}
    last = {"confusion": [[30, 5, 5], [4, 32, 4], [6, 2, 32]], "parties": parties}
    records = [{"class_accuracy": [value, value / 2, None]} for value in scores]
    records[-1] = {**records[-1], "final": last}
    stored(
        scores, seed, records, out=out, dataset="odd", partition=partition, algorithm=algorithm, parties=len(PARTIES),
        counts=[[20 + 7 * place, 10, 40 - 9 * place] for place in range(len(PARTIES))],
        dataset_facts={"name": DATASET, "classes": list(CLASSES), "notes": [f"a note with {SCRIPT}"]},
        partition_facts={"parties": list(PARTIES), "emd_weighted": 1 - score}, **STATED,
    )  # fmt: skip
