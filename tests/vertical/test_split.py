"""Split learning: it equals the same network trained in one place, bit for bit."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

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


def in_one_place(task: VerticalProblem) -> Tensor:
    """Train the same network with PyTorch's own autograd and optimiser, in one graph and one step per batch."""
    network, federation = task.network(), task.federation
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.001)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for round in range(ROUNDS):
        rows, sizes = task.solver.visits(federation.visitor, task.seed, round)
        for batch in rows.split(sizes):
            optimiser.zero_grad()
            task.objective.loss(network(federation.x[batch]), federation.y[batch]).backward()
            optimiser.step()
    torch.set_num_threads(threads)
    return torch.cat([each.detach().flatten() for each in network.parameters()])


def records(task: VerticalProblem, method: str = "split", state: Any = None) -> Iterator[RoundRecord]:
    return run_vertical(task, VERTICAL_METHODS.build(method), state)


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("model", ["linear", "mlp(hidden=8, top=4)"])
def test_it_equals_training_in_one_place(parties: int, model: str) -> None:
    task = problem("columns(by=block)", parties, model)
    *_, last = records(task)
    assert torch.equal(last.state.server.params, in_one_place(task))
    assert (last.accuracy or 0) > 0.9
