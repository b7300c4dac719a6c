"""The plain PyTorch loop of FedAvg, as a competent user writes it: nothing clever, and nothing silly.

Rows are resident float tensors, one per party; torch has its default number of threads. Sparse rows (W5) are a CSR
matrix and become dense batch by batch, because all of them would take 3.8 GB.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders import networks
from contenders.gate import Gate
from workloads import LR, MOMENTUM, Rows, read


def train(model: nn.Module, x, y: Tensor, epochs: int, batch: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(batch):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


@torch.no_grad()
def evaluate(model: nn.Module, x, y: Tensor, batch: int = 1000) -> float:
    hits = 0
    for rows in torch.arange(len(y)).split(batch):
        hits += int((model(x[rows]).argmax(1) == y[rows]).sum())
    return hits / len(y)


def average(states: list[dict[str, Tensor]], weights: list[int]) -> dict[str, Tensor]:
    total = sum(weights)
    return {
        name: sum(state[name] * (weight / total) for state, weight in zip(states, weights, strict=True))
        for name in states[0]
    }


class DenseBatches:
    """Sparse rows; indexing returns a dense batch."""

    def __init__(self, matrix) -> None:
        self.matrix = matrix

    def __getitem__(self, rows: Tensor) -> Tensor:
        return torch.from_numpy(self.matrix[rows.numpy()].toarray())


def tensors(rows: Rows, shape: tuple[int, ...]):
    if not isinstance(rows.x, tuple):
        return networks.tensors(rows)
    from scipy import sparse  # Flower's environment, which also imports this module, need not have scipy

    return DenseBatches(sparse.csr_matrix(rows.x, (len(rows), *shape))), torch.from_numpy(rows.y)


def main(folder: Path) -> None:
    gate = Gate(int(sys.argv[2]))
    material = read(folder)
    workload = material.workload
    torch.manual_seed(0)
    model = networks.build(material)
    parties = [tensors(material.party(number), material.shape) for number in range(workload.parties)]
    test = tensors(material.test, material.shape)
    for done, cohort in enumerate(material.cohorts(), 1):
        start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        states = []
        for party in cohort:
            model.load_state_dict(start)
            train(model, *parties[party], workload.epochs, workload.batch)
            states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        model.load_state_dict(average(states, [len(parties[party][1]) for party in cohort]))
        gate.lap(evaluate(model, *test) if material.evaluates(done) else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
