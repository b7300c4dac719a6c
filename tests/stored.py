"""Runs as a results directory would give them, made by hand, so that every number in them is known."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Claim, judge
from silobench.analysis.tables import Table
from silobench.papers import FINDINGS, collect_cells, paper_pages
from silobench.papers.zhao2018.sharing import sharing_of
from silobench.report.site import write_site
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun, run_id

SOLVER = "sgd(lr=0.01, epochs=10, batch=64)"
PLAIN = {
    "dataset": "mnist", "partition": "iid", "model": "cnn", "algorithm": "fedavg", "solver": "sgd",
    "transforms": "", "server": "step", "participation": 1.0, "parties": 10,
}  # fmt: skip


def stored(
    accuracies: Sequence[float | None],
    seed: int = 0,
    records: Sequence[Mapping[str, Any]] = (),
    *,
    every: Mapping[str, Any] | None = None,
    counts: Sequence[Sequence[int]] | None = None,
    dataset_facts: Mapping[str, Any] | None = None,
    partition_facts: Mapping[str, Any] | None = None,
    objective: Mapping[str, Any] | None = None,
    vertical: Mapping[str, Any] | None = None,
    out: Path | None = None,
    **choices: Any,
) -> StoredRun:
    """Return a finished run with these accuracies by round.

    `choices` are those of its experiment, `every` is what each round records besides, `records` the same round by
    round, `counts` are the rows by party and class, `dataset_facts` and `partition_facts` are more facts of these,
    `objective` and `vertical` are these keys of run.json. The run is written into the directory `out`, if there is one.
    """
    label = {**PLAIN, "rounds": len(accuracies), **choices}
    parties, dealt = int(label["parties"]), str(label["partition"])
    alone = "label-count(k=1)" in dealt or "shards(per_party=1)" in dealt
    held = counts if counts is not None else one_class_each(parties) if alone else [[20, 20]] * parties
    classes = [chr(ord("a") + place) for place in range(len(held[0]))]
    solver = label["solver"] if "(" in str(label["solver"]) else SOLVER
    facts = {
        "id": repr((label, seed)), "status": "complete", "created": "", "label": {**label, "seed": seed},
        "config": {**label, "solver": solver, "seed": seed, "checksum": "0" * 8}, "made_by": {"silobench": "0"},
        "dataset": {
            "name": str(label["dataset"]).split("(")[0], "train": 6000, "test": 1000, "classes": classes,
            "licence": "none", "notes": [], **(dataset_facts or {}),
        },
        "partition": {
            "sizes": [sum(rows) for rows in held], "counts": held, "emd_weighted": emd_of(dealt),
            "parties": [str(party) for party in range(parties)], "jensen_shannon": 0.0, "gini": 0.0,
            "feature_shift": 0.0, **_shared(label), **(partition_facts or {}),
        },
        **({"objective": objective} if objective else {}),
        **({"vertical": vertical} if vertical else {}),
    }  # fmt: skip
    taking_part = 0 if label["algorithm"] == "combined" else round(parties * float(label["participation"]))
    cohort = list(range(taking_part))
    said = [*records, *[{}] * (len(accuracies) - len(records))]
    rows = [
        {
            "round": number, "accuracy": accuracy, "loss": 1.0, "cohort": cohort, "bytes_up": 10, "bytes_down": 10,
            "clock": float(number), "seconds": {"train": 1.0}, "engine": "native", "workers": 1, **(every or {}),
            **more,
        }
        for number, (accuracy, more) in enumerate(zip(accuracies, said, strict=True), 1)
    ]  # fmt: skip
    if out:
        write_run(out, facts, rows)
    return StoredRun.from_json(Path("runs") / str(seed), facts, rows)


def write_run(out: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the directory of a finished run."""
    folder = out / run_id(facts["config"])
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    seal = {"rounds": len(rows), "bytes": len(lines), "sha256": hashlib.sha256(lines).hexdigest()}
    (folder / "rounds.jsonl").write_bytes(lines)
    (folder / "run.json").write_text(json.dumps({"format": 1, **facts, "id": folder.name, "records": seal}))


def regression(errors: Sequence[float | None], seed: int = 0, **more: Any) -> StoredRun:
    """Return a finished regression of an age with these mean absolute errors by round; None in a diverged round."""
    units = [("mae", "MAE", False, "years", 10.0), ("rmse", "RMSE", False, "years", 12.0), ("r2", "R2", True, "", 0.0)]
    objective = {
        "name": "regression", "spec": "regression", "reason": "the label age is numeric", "main": "mae",
        "metrics": [_metric(*unit) for unit in units],
        "target": {"name": "age", "mean": 40.0, "std": 12.0, "bins": [17.0, 31.0, 44.0, 90.0]},
    }  # fmt: skip
    rows = [
        {
            "loss": None if error is None else error / 12, "accuracy": None,
            "metrics": {
                "mae": error, "rmse": error and 1.25 * error, "r2": error and 1 - (error / 12) ** 2,
            },
        }
        for error in errors
    ]  # fmt: skip
    facts = {"classes": [], "task": "regression"}
    counts = [[5, 10, 15]] * int(more.get("parties", 10))
    choices = {"dataset": "people", "counts": counts, "dataset_facts": facts, **more}
    return stored([None] * len(errors), seed, rows, objective=objective, **choices)


def columns_of(*names: str, **more: Any) -> dict[str, Any]:
    """Return the key `vertical` of run.json for parties of which the first has the labels and every row."""
    parties = {
        name: {"columns": 3 + place, "rows": 900 if place else 1000, "test_rows": 90 if place else 100}
        for place, name in enumerate(names)
    }
    facts = {"parties": parties, "label": names[0], "absent": "zeros", "rows": 1000}
    return {**facts, "aligned": {"train": 850, "test": 85}, **more}


def binary(areas: Sequence[float | None], seed: int = 0, **more: Any) -> StoredRun:
    """Return a finished binary classification with these areas under the ROC curve by round; accuracy is 0.9."""
    shares = [("auc", "AUC", 0.5), ("average-precision", "average precision", 0.1), ("accuracy", "accuracy", 0.9)]
    objective = {
        "name": "binary", "spec": "binary", "reason": "", "main": "auc",
        "metrics": [_metric(name, title, True, "%", constant) for name, title, constant in shares],
    }  # fmt: skip
    rows = [
        {"metrics": {"auc": area, "average-precision": 0.4, "accuracy": 0.9}, "class_accuracy": [0.98, 0.2]}
        for area in areas
    ]
    return stored([0.9] * len(areas), seed, rows, objective=objective, **{"dataset": "bank", **more})


def _metric(name: str, title: str, higher: bool, unit: str, constant: float) -> dict[str, Any]:
    factor, digits = (100.0, 1) if unit == "%" else (1.0, 2)
    return {
        "name": name, "title": title, "higher_is_better": higher, "unit": unit, "factor": factor, "digits": digits,
        "constant": constant,
    }  # fmt: skip


def emd_of(partition: str) -> float:
    """Return the EMD that a partition of ten classes has, by its name; 0 where the name does not say."""
    if "share(" in partition:
        return 1.1
    if partition.startswith("target-emd"):
        return float(partition.split("=")[1][:-1])
    return {"iid": 0.02, "shards": 1.6, "shards(per_party=1)": 1.8}.get(partition, 0.0)


def _shared(label: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run states of rows that its parties share."""
    sharing = sharing_of(Label(label))
    if sharing is None:
        return {}
    rows = round(400 * sharing.beta)
    each = round(rows * sharing.alpha)
    facts = {"rows": rows, "each": each, "bytes": 1000 * each, "emd_weighted_before": 1.8, "warmup": sharing.warmup}
    return {"shared": facts}


def dealt_by_label(parties: int, percent: float) -> list[list[int]]:
    """Return the rows by party and class if `percent` of them are dealt by label; two classes belong to each party."""
    share = percent / 100
    rest, own = round(100 * (1 - share)), round(100 * share * parties)
    return [
        [rest + (own + 1 if place % parties == party else 0) for place in range(2 * parties)]
        for party in range(parties)
    ]


def one_class_each(parties: int, classes: int = 2) -> list[list[int]]:
    """Return counts of parties that hold one class each."""
    return [[40 if place == party % classes else 0 for place in range(classes)] for party in range(parties)]


def noises(noise: float, choices: Mapping[str, Any]) -> tuple[float, ...]:
    """Return what three trials are off by; the order depends on the choices, so that pairs of cells have a spread."""
    order = sum(map(ord, repr(sorted(choices.items())))) % 6
    return list(permutations((-noise, 0.0, noise)))[order]


def cells(*groups: Sequence[StoredRun]) -> list[CellResult]:
    return collect_cells([one for group in groups for one in group])


def claim(id: str, *groups: Sequence[StoredRun]) -> Claim:
    (found,) = judge(cells(*groups), [finding for finding in FINDINGS if finding.id == id])
    return found


def texts(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, (entry.text for entry in row), strict=True)) for row in table.rows]


def page(found: Sequence[CellResult], file: Path) -> str:
    """Return the report of some cells as one file, as `silobench report --output FILE.html` writes it."""
    return write_site(found, file, findings=FINDINGS, more=paper_pages(found)).read_text()
