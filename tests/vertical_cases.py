"""A small table of columns, and problems of vertical learning on it, that several tests share."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from silobench.data import Dataset, Split
from silobench.loop.clocks import measured
from silobench.loop.network import link
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.tasks.objectives import OBJECTIVES
from silobench.training.state import RoundRecord, State
from silobench.vertical.federation import federate_columns
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalProblem
from silobench.vertical.networks import VERTICAL_MODELS
from silobench.vertical.rounds import run_vertical

ROUNDS, SEED = 3, 3
SGD = "sgd(lr=0.1, momentum=0.9, weight_decay=0.001, batch=32, epochs=1)"
COLUMNS = ("user", "film", "age", "job=a", "job=b", "year", "votes", "length", "cost", "income")


def table(rows: int = 100, task: str = "classification", seed: int = 0, test: int = 40) -> Dataset:
    """Return rows with users and films as standardised numbers, two one-hot features and six other numbers."""
    rng = np.random.default_rng(seed)

    def split(count: int) -> Split:
        x = rng.standard_normal((count, len(COLUMNS))).astype(np.float32)
        x[:, 0], x[:, 1] = rng.integers(8, size=count) / 2.3 - 1.5, rng.integers(5, size=count) / 1.4 - 1.4
        x[:, 3] = rng.integers(2, size=count)
        x[:, 4] = 1 - x[:, 3]
        score = (x - x.mean(0)) @ np.linspace(1, 2, len(COLUMNS)) + 0.5 * rng.standard_normal(count)
        return Split(x, (score > 0).astype(np.int64) if task == "classification" else score.astype(np.float32))

    classes = ("no", "yes") if task == "classification" else ()
    return Dataset("table", split(rows), split(test), classes, columns=COLUMNS, task=task)  # type: ignore[arg-type]


def problem(
    partition: str = "columns(by=block)",
    parties: int | None = None,
    model: str = "mlp(hidden=8, top=4)",
    dataset: Dataset | None = None,
    validation: float = 0.0,
    **choices: Any,
) -> VerticalProblem:
    """Return a problem on the table; chains and solvers may be texts."""
    dataset = dataset or table()
    chains = {
        key: tuple(each.build() for each in bind_chain(choices.pop(key))) for key in ("transforms", "broadcast")
        if key in choices
    }  # fmt: skip
    solver = SOLVERS.build(choices.pop("solver", SGD))
    whole = VerticalProblem(
        federate_columns(dataset, partition, parties, SEED, validation), VERTICAL_MODELS.build(model), solver,
        OBJECTIVES.build("auto")(dataset), link(), measured(), SEED, ROUNDS,
    )  # fmt: skip
    return replace(whole, **chains, **choices)


def records(task: VerticalProblem, method: str = "split", state: State | None = None) -> Iterator[RoundRecord]:
    """Yield the rounds of a method, on the part of the federation that it trains on."""
    chosen = VERTICAL_ALGORITHMS.build(method)
    task = replace(task, federation=chosen.restricted(task.federation))
    chosen.check(task)
    return run_vertical(task, chosen, state)


def last(task: VerticalProblem, method: str = "split", state: State | None = None) -> RoundRecord:
    """Return the last round of a method."""
    *_, record = records(task, method, state)
    return record
