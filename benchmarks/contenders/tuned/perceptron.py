"""The multilayer perceptron on dense rows: one process per core, each with its parties stacked."""

import numpy as np
import torch
from torch import Tensor

from contenders.gate import Gate
from contenders.networks import tensors
from contenders.tuned import team
from contenders.tuned.stack import Batches, Stack, hits, layers_of, one_hot, with_bias
from workloads import Material


class Worker:
    def __init__(self, material: Material, rank: int, size: int) -> None:
        self.workload = material.workload
        mine = material.parties[rank::size]
        x, y = tensors(material.train.take(np.concatenate(mine)))
        self.widths = (x.shape[1], *material.workload.widths, material.classes)
        # One row has all that a step needs of a sample (features, a one, the target), so one gather is enough.
        self.table = torch.cat([x, torch.ones(len(x), 1), one_hot(y, material.classes)], 1)
        self.batches = Batches([len(party) for party in mine], self.workload.batch)
        self.stack = Stack(len(mine), self.widths, self.workload.batch)
        gathered = torch.empty(len(mine) * self.workload.batch, self.table.shape[1])
        columns = gathered.view(len(mine), self.workload.batch, -1).transpose(1, 2)
        self.gathered, self.x, self.targets = gathered, columns[:, : x.shape[1] + 1], columns[:, x.shape[1] + 1 :]
        self.test = [team.share(part, rank, size) for part in tensors(material.test)]

    def train(self, model: Tensor, cohort: list[int], total: int, out: Tensor) -> None:
        self.stack.load(model)
        for _ in range(self.workload.epochs):
            for rows, weights in zip(self.batches.draw(), self.batches.weights, strict=True):
                torch.index_select(self.table, 0, rows, out=self.gathered)
                self.stack.learn(self.x, self.targets, weights)
                self.stack.move()
        self.stack.sum(torch.tensor(self.batches.sizes) / total, out)

    def hits(self, model: Tensor) -> int:
        return hits(*self.test, layers_of(model, self.widths))


def run(material: Material, gate: Gate) -> None:
    widths = (*material.shape, *material.workload.widths, material.classes)
    initial = with_bias(torch.from_numpy(material.initial), widths)
    team.run(material, gate, initial, lambda rank, size: Worker(material, rank, size))
