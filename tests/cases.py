"""Cases of claims: cells with the numbers that make a claim supported, contradicted or undecided, and runs of them.

A case has the cells that a claim looks at and a number for each of them: an accuracy, or a dictionary of whatever its
runs recorded. `undecided` are the numbers of `supported` with trials that scatter widely, unless they are stated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from silobench.papers.hsieh2020.communication import percent_of
from silobench.papers.zhao2018.numbers import ONE_CLASS
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun
from stored import columns_of, dealt_by_label, one_class_each, regression, stored

Number: TypeAlias = float | dict[str, Any]
Noise: TypeAlias = Callable[[int, int, int], float]  # (cell, seed, which number of it) -> what a trial is off by

TRIALS = 3
ORDERS = list(permutations((-1.0, 0.0, 1.0)))
CLOSE, WIDE = 0.002, 0.3
CLASSES = 10
TESTING = 0.2  # seconds of a second in which the server tests


@dataclass(frozen=True)
class Case:
    """The cells of a claim by their choices, and what to put into them for each verdict."""

    cells: Sequence[dict[str, Any]]
    supported: Sequence[Number]
    contradicted: Sequence[Number]
    undecided: Sequence[Number] | None = None  # with trials that scatter little
    wide: float = WIDE  # how far trials scatter where nothing can be told
    null: Number | None = 0.7  # of all cells, where nothing makes a difference; None for a claim that nothing does
    equality: str = ""  # the part that states equality, which models that have learnt nothing show as well


# --- runs ---------------------------------------------------------------------------------------------


def pattern(size: float) -> Noise:
    """Return a noise without chance: three trials are off by -size, 0 and size, in another order in each cell."""
    return lambda cell, seed, which: size * ORDERS[(cell + cell // 3 + which) % 6][seed]


def gauss(size: float, draw: int) -> Noise:
    return lambda cell, seed, which: size * _normal(draw, cell, seed, which)


@cache  # many claims have the same noise
def _normal(*entropy: int) -> float:
    return float(np.random.default_rng(entropy).standard_normal())


def trial(number: Number, off: Callable[[int], float], seed: int, choices: dict[str, Any]) -> StoredRun:
    """Return a trial: shares and accuracies are off by a noise, other numbers by that share of themselves."""
    numbers = number if isinstance(number, dict) else {"accuracy": number}
    if choices.get("partition") == "columns":
        return _vertical_trial(numbers, off, seed, choices)
    accuracy = numbers.get("accuracy", 0.7) + off(0)
    curve = [accuracy] * (
        max(1, round(numbers["until"] * (1 + off(8)))) if "until" in numbers else choices.get("rounds", 5)
    )
    if "wobble" in numbers:
        size = numbers["wobble"] * (1 + off(1))
        curve = [accuracy + size * (-1) ** place for place in range(20)]
    if "swing" in numbers:  # the same by chance
        curve = [accuracy + numbers["swing"] * off(10 + place) for place in range(20)]
    every = {"seconds": {"train": numbers.get("seconds", 2.0) * (1 + off(2))}}
    sent = numbers.get("sent", 100.0)
    every |= {"bytes_up": sent * (1 + off(3)) / len(curve), "bytes_down": 0}
    every |= {"dense_up": numbers.get("dense", sent) / len(curve)}
    parties, measured = choices.get("parties", 10), _measured(numbers, off)
    classes = {"classes": [str(place) for place in range(2 * parties)]} if "known" in numbers else {}
    partition = choices.get("partition", "iid")
    counts = [[4] * CLASSES] * parties
    if classes:
        counts = dealt_by_label(parties, percent_of(Label({"partition": partition})))
    elif "label-count(k=1)" in partition or ONE_CLASS in partition:
        counts = one_class_each(parties, CLASSES)
    records: list[dict[str, Any]] = [{**({"measures": measured} if measured else {}), **_timed(numbers, off)}] * len(
        curve
    )
    records[-1] = {**records[-1], **_final(numbers, off, choices.get("algorithm") == "solo")}
    return stored(curve, seed, records, every=every, counts=counts, dataset_facts=classes, **choices)


def _vertical_trial(
    numbers: dict[str, Any], off: Callable[[int], float], seed: int, choices: dict[str, Any]
) -> StoredRun:
    """Return a trial of parties that hold columns: a regression with an error of 10 for a constant answer.

    A model with an accuracy is one at chance, which has this error.
    """
    error = 10.0 if "accuracy" in numbers else numbers.get("error", 6.0) * (1 + off(0))
    facts = columns_of("audio", "chart")
    return regression([error] * 5, seed, every=_timed(numbers, off), vertical=facts, **choices)


def _measured(numbers: dict[str, Any], off: Callable[[int], float]) -> dict[str, Any]:
    """Return what a run measured of itself."""
    names = ("conv1", "conv2", "fc1", "out")
    found: dict[str, Any] = {}
    if "loss" in numbers:
        found["accuracy-loss"] = {"loss": numbers["loss"] + off(4), "home": 0.9, "away": 0.5}
    if "delta" in numbers:
        found["update-delta"] = {"mean": numbers["delta"] * (1 + off(5)), "ratio": 0.1}
    if "channel" in numbers:
        values = [numbers["channel"] * (1 + off(6))]
        found["norm-divergence"] = {"mean": {"conv1": values}, "variance": {"conv1": values}}
    if "layers" in numbers:
        pairs = zip(names, numbers["layers"], strict=True)
        layers = {
            name: None if value is None else value * (1 + off(20 + place)) for place, (name, value) in enumerate(pairs)
        }
        found["weight-divergence"] = {"layers": layers, "all": 0.02, "distance": 0.5, "sgd_accuracy": None}
    if "subtraction" in numbers:
        found["subtraction"] = {"error": numbers["subtraction"] + off(9), "parties": 2}
    if "known" in numbers:
        own, others = numbers["known"]
        by_class = {
            str(party): {str(c): own + off(7) if c % 2 == party else others for c in range(4)} for party in range(2)
        }
        found["replicas"] = {"accuracy": {"0": 0.5, "1": 0.5}, "by_class": by_class}
    return found


def _timed(numbers: dict[str, Any], off: Callable[[int], float]) -> dict[str, Any]:
    """Return what a round records of its rows and its time: one second, divided among the parts of each bar.

    The server tests for a fifth of it, while parties wait. That is not overhead, nor are the parties idle in it: `idle`
    is the share of waiting in the overhead.
    """
    if "bars" in numbers:
        return _barred(numbers, off)
    if not {"throughput", "overhead"} & numbers.keys():
        return {}
    overhead = min(1 - TESTING, max(0.0, numbers.get("overhead", 0.2) + off(31)))
    idle = min(1.0, numbers.get("idle", 0.9) + off(32))
    waiting = idle * overhead + TESTING
    parties = {"train": 1 - TESTING - overhead, "idle": waiting, "communicate": (1 - idle) * overhead}
    rows = numbers.get("throughput", 1000.0) * (1 + off(30))
    server = {"test": TESTING, "idle": 1 - TESTING}
    return {"rows": rows, "time": {"total": 1.0, "core": 2.0, "server": server, "parties": parties}}


def _barred(numbers: dict[str, Any], off: Callable[[int], float]) -> dict[str, Any]:
    """Return what a round records of its time, if the seconds of each part are given by bar."""
    bars = {
        bar: {part: seconds * (1 + off(60 + place)) for place, (part, seconds) in enumerate(parts.items())}
        for bar, parts in numbers["bars"].items()
    }
    total = max(sum(parts.values()) for parts in bars.values())
    return {"rows": numbers.get("rows", 1000), "time": {"total": total, "core": total, **bars}}


def _final(numbers: dict[str, Any], off: Callable[[int], float], has_party_models: bool) -> dict[str, Any]:
    """Return the final test: of the parties' models on all rows, and of all models on the rows of two parties."""
    final: dict[str, Any] = {}
    if "solo" in numbers:
        scores = [score + off(43 + place) for place, score in enumerate(numbers["solo"])]
        final["parties"] = {str(place): {"rows": 9, "own": score, "all": score} for place, score in enumerate(scores)}
    if "sources" in numbers:
        own, other = numbers["sources"]
        models = ["0", "1"] if has_party_models else ["shared"]
        pairs = [[own if model in (test, "shared") else other for test in "01"] for model in models]
        scores = [[score + off(50 + 2 * a + b) for b, score in enumerate(row)] for a, row in enumerate(pairs)]
        final["cross"] = {"models": models, "tests": ["0", "1", "all"], "scores": [[*row, 0.5] for row in scores]}
    return {"final": final} if final else {}


def runs(case: Case, numbers: Sequence[Number], noise: Noise, place: int = 0) -> list[list[StoredRun]]:
    """Return the trials of all cells; cells of different places have nothing to do with each other."""
    found = []
    for at, (choices, number) in enumerate(zip(case.cells, numbers, strict=True)):
        cell, elsewhere = len(case.cells) * place + at, {"validation": place / 10} if place else {}

        def off(seed: int, cell: int = cell) -> Callable[[int], float]:
            return lambda which: noise(cell, seed, which)

        found.append([trial(number, off(seed), seed, {**choices, **elsewhere}) for seed in range(TRIALS)])
    return found


def all_of(key: str, *values: Any) -> list[Any]:
    """Return cells that differ in one choice."""
    return [{key: value} for value in values]
