"""A network on another device than the server: the solver copies what it needs, and gives back vectors of the CPU."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from devices import DEVICE, Elsewhere, SecondDevice
from laws import Toy
from silobench.method.solvers import SOLVERS, Problem, keep_argument
from silobench.method.types import Pull, Server

SOLVERS_OF_MEANS = [name for name in SOLVERS.factories if name != "dp-sgd"]  # it needs a network and losses of rows
KINDS = {
    **{name: f"{name}(lr=0.1, weight_decay=0.01, steps=5, batch=7)" for name in SOLVERS_OF_MEANS},
    **{f"{name} that keeps its state": f"{name}(steps=5, {keep_argument(name)}=true)" for name in SOLVERS_OF_MEANS},
}


@dataclass
class Loss:
    """Half of the squared distance of the parameters from the mean row; its gradient needs no autograd."""

    network: Any
    x: torch.Tensor
    y: torch.Tensor

    def backward(self) -> None:
        assert self.x.device == self.y.device == self.network.params.device
        self.network.grad.copy_(self.network.params - self.x.mean(0))

    def detach(self) -> torch.Tensor:
        return (self.network.params - self.x.mean(0)).square().sum() / 2


def problem(toy: Toy, device: torch.device) -> Problem:
    federation, _ = toy((20,))
    network = SimpleNamespace(params=torch.zeros(4, device=device), grad=torch.zeros(4, device=device), layout=None)
    task: Any = SimpleNamespace(network=network, loss=lambda x, y: Loss(network, x, y))
    return Problem(task, federation, federation.parties[0], seed=0)


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("correct", [None, lambda grad, params: grad + 0.1 * (params - torch.ones_like(params))])
def test_training_on_another_device_is_that_on_the_cpu(toy: Toy, spec: str, correct: Any) -> None:
    solver = SOLVERS.build(spec)
    vector = torch.linspace(-1, 1, 4)
    pull, server = Pull(0.1, anchor=vector, linear=vector / 2, drift=vector / 4), Server(vector, {}, {}, 0, 1, {})
    ends = []
    for device in (torch.device("cpu"), DEVICE):
        with SecondDevice():
            ours = problem(toy, device)
            assert isinstance(ours.task.network.params, Elsewhere) == (device == DEVICE)
            first, memory = solver.train(ours, vector, server, correct, pull, {})
            second, memory = solver.train(ours, first.end, server, correct, pull, memory)
            gradient = second.gradient(second.end)
        results = [first.end, second.end, gradient, *memory.values()]
        assert not any(isinstance(result, Elsewhere) for result in results)
        assert len(memory) == len(solver.initial(vector)) * solver.keep_momentum
        ends.append((results, first.loss, second.loss))
    (here, *losses), (there, *losses_there) = ends
    assert all(map(torch.equal, here, there))
    assert losses == losses_there


def test_the_second_device_refuses_to_mix() -> None:
    with SecondDevice():
        there, here = torch.zeros(2, device=DEVICE), torch.ones(2)
        with pytest.raises(RuntimeError, match="one device"):
            there + here
        with pytest.raises(RuntimeError, match="one device"):
            torch.zeros(()).add_(there.sum())
        assert torch.equal((there + here.to(DEVICE)).cpu(), here)
