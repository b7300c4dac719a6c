"""Small vertical problems, for tests."""

from collections.abc import Iterator
from typing import Any

from silobench.data import load
from silobench.loop.clocks import measured
from silobench.loop.network import link
from silobench.method.solvers import SOLVERS
from silobench.tasks.objectives import OBJECTIVES
from silobench.training.state import RoundRecord
from silobench.vertical.federation import federate_columns
from silobench.vertical.methods import VERTICAL_METHODS, VerticalProblem
from silobench.vertical.networks import VERTICAL_MODELS
from silobench.vertical.rounds import run_vertical

ROUNDS = 3


def problem(partition: str, parties: int | None = None, model: str = "mlp", **choices: Any) -> VerticalProblem:
    dataset = load("breast-cancer")
    federation = federate_columns(dataset, partition, parties, seed=3)
    chosen = VERTICAL_MODELS.build(model)
    solver = SOLVERS.build(choices.pop("solver", "sgd(lr=0.1, momentum=0.9, weight_decay=0.001, batch=32, epochs=1)"))
    objective = OBJECTIVES.build("auto")(dataset)
    return VerticalProblem(federation, chosen, solver, objective, link(), measured(), 3, ROUNDS, **choices)


def records(task: VerticalProblem, method: str = "split", state: Any = None) -> Iterator[RoundRecord]:
    return run_vertical(task, VERTICAL_METHODS.build(method), state)
