"""Edits of records that once ended in a traceback: each was sealed with new digests, as its author would."""

import json
from collections.abc import Callable
from typing import Any


def _first_row(rows: list[dict[str, Any]], **values: Any) -> None:
    rows[0].update(values)


def _nested(depth: int) -> Any:
    return {"x": _nested(depth - 1)} if depth else 1.0


EDITS: dict[str, Callable[[dict[str, Any], list[dict[str, Any]]], object]] = {
    "a label without a model": lambda facts, rows: facts["label"].pop("model"),
    "an algorithm that is a number": lambda facts, rows: (
        facts["label"].update(algorithm=7),
        facts["config"].update(algorithm=7),
    ),
    "bytes that are nothing": lambda facts, rows: _first_row(rows, bytes_up=None),
    "seconds beyond floats": lambda facts, rows: _first_row(rows, seconds={"train": 10**400}),
    "seconds as text": lambda facts, rows: _first_row(rows, seconds={"train": "long"}),
    "an accuracy that is no number": lambda facts, rows: _first_row(rows, accuracy=float("nan")),
    "sizes that are a text": lambda facts, rows: facts["partition"].update(sizes=["x"]),
    "findings without a number": lambda facts, rows: _first_row(rows, measures={"update-delta": {"mean": 1.0}}),
    "layers that are a list": lambda facts, rows: _first_row(rows, measures={"weight-divergence": {"layers": [1]}}),
    "an attack on a text": lambda facts, rows: _first_row(rows, measures={"membership": {"auc": "high"}}),
    "a finding of a plugin that is a text": lambda facts, rows: _first_row(rows, measures={"mine": "x"}),
    "a finding of a plugin beyond floats": lambda facts, rows: _first_row(rows, measures={"mine": {"x": [10**400]}}),
    "a finding of a plugin without an end": lambda facts, rows: _first_row(rows, measures={"mine": _nested(30)}),
    "a report beyond floats": lambda facts, rows: _first_row(rows, control={"mine": 10**400}),
    "privacy without delta": lambda facts, rows: _first_row(rows, privacy={"example": {"epsilon": 1.0}}),
    "time as text": lambda facts, rows: _first_row(rows, time={"total": "long"}),
    "fewer counts than parties": lambda facts, rows: facts["partition"]["counts"].pop(),
    "fewer counts than classes": lambda facts, rows: facts["partition"]["counts"][1].pop(),
    "fewer sizes than parties": lambda facts, rows: facts["partition"]["sizes"].pop(),
    "no classes": lambda facts, rows: facts["dataset"].update(classes=[]),
    "no test rows": lambda facts, rows: facts["dataset"].update(test=0),
    "accuracies of no class": lambda facts, rows: _first_row(rows, class_accuracy=[]),
    "accuracies of one party": lambda facts, rows: _first_row(rows, party_accuracy=[0.5]),
    "a confusion of one class": lambda facts, rows: rows[-1]["final"].update(confusion=[[1]]),
    "a cross-test without scores": lambda facts, rows: rows[-1]["final"]["cross"].update(scores=[]),
    "a bin less of accuracies": lambda facts, rows: rows[-1]["final"]["calibration"]["accuracy"].pop(),
    "no rounds": lambda facts, rows: rows.clear(),
    "no tested round": lambda facts, rows: [row.update(accuracy=None, loss=None) for row in rows],
    "half a character": lambda facts, rows: facts["dataset"].update(name="\ud800"),
}


def edited(name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a run after an edit."""
    facts, rows = json.loads(files["run.json"]), [json.loads(line) for line in files["rounds.jsonl"].splitlines()]
    EDITS[name](facts, rows)
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return {**files, "run.json": json.dumps(facts).encode(), "rounds.jsonl": lines}
