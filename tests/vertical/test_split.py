"""Split learning: it equals the same network trained in one place, bit for bit."""

import pytest
import torch
from torch import Tensor

from silobench.vertical.methods import VerticalProblem
from vertical_cases import ROUNDS, problem, records


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


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("model", ["linear", "mlp(hidden=8, top=4)"])
def test_it_equals_training_in_one_place(parties: int, model: str) -> None:
    task = problem("columns(by=block)", parties, model)
    *_, last = records(task)
    assert torch.equal(last.state.server.params, in_one_place(task))
    assert (last.accuracy or 0) > 0.9
