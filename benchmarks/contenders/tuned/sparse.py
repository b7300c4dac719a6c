"""The multilayer perceptron on sparse rows, with the first layer trained in the space of samples.

The gradient of the first layer's weights is a sum of a party's rows, x' delta. So one number per row and hidden unit
describes the change of the weights, and SGD with momentum moves it like a weight. The output of the changed weights on
another row follows from the inner products of rows, which are computed once. A party never copies the 1.5 million
weights: a round reads them once for all rows and adds to them once. The maths are the same; a step is a product of
[batch, rows] and [rows, 32].

Times on one core for five parties, in ms per round: this 38, after 0.8 s for the inner products; weights and momentum
updated only in the columns of a batch 180; a plain momentum over all columns 180.
"""

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from contenders.gate import Gate
from contenders.tuned import team
from contenders.tuned.stack import Batches, Stack, hits, layers_of, one_hot, with_bias
from workloads import LR, MOMENTUM, Material, Rows


class Bags:
    """Rows of a sparse matrix, each as a bag of weighted columns, for products with dense matrices."""

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        self.columns, self.begins = (torch.from_numpy(part).long() for part in (matrix.indices, matrix.indptr[:-1]))
        self.values = torch.from_numpy(matrix.data)

    def times(self, dense: Tensor) -> Tensor:
        return F.embedding_bag(self.columns, dense, self.begins, mode="sum", per_sample_weights=self.values)


class Worker:
    def __init__(self, material: Material, rank: int, size: int) -> None:
        self.workload = material.workload
        self.features, hidden = material.shape[0], material.workload.widths[0]
        self.widths = (*material.workload.widths, material.classes)  # of the layers after the first
        train, test = _matrix(material.train, self.features), _matrix(material.test, self.features)
        mine = material.parties[rank::size]
        parts = [train[party] for party in mine]
        self.sizes = [len(party) for party in mine]
        longest = max(self.sizes)
        for part in parts:
            part.resize(longest, self.features)  # with rows of zeros that are in no batch
        self.rows = Bags(sparse.vstack(parts).tocsr())
        self.turned = Bags(sparse.vstack(parts).T.tocsr())
        self.products = torch.stack([torch.from_numpy((part @ part.T).toarray()) for part in parts])
        self.products += 1  # an additional feature of 1, whose weight is the bias

        y = torch.zeros(len(mine), longest, dtype=torch.long)
        for place, party in enumerate(mine):
            y[place, : len(party)] = torch.from_numpy(material.train.y[party])
        self.targets = one_hot(y, material.classes).flatten(0, 1)
        self.batches = Batches(self.sizes, self.workload.batch)
        self.batches.begins = [place * longest for place in range(len(mine))]
        self.stack = Stack(len(mine), self.widths, self.workload.batch)
        self.moved = torch.zeros(len(mine), longest, hidden)  # coefficient of each row in the change of the weights
        self.velocity = torch.zeros(len(mine), longest, hidden)
        self.gathered = torch.empty(len(mine) * self.workload.batch, longest)
        self.activations = torch.ones(len(mine), hidden + 1, self.workload.batch)
        shares = test.shape[0] // size
        own = slice(rank * shares, (rank + 1) * shares if rank < size - 1 else None)
        self.test, self.labels = Bags(test[own]), torch.from_numpy(material.test.y[own])

    def train(self, model: Tensor, cohort: list[int], total: int, out: Tensor) -> None:
        weight, bias, rest = self._parts(model)
        batch, longest = self.workload.batch, self.moved.shape[1]
        before = self.rows.times(weight).add_(bias)
        products, used = self.products.flatten(0, 1), self.activations[:, :-1]
        self.moved.zero_()
        self.velocity.zero_()
        self.stack.load(rest)
        for _ in range(self.workload.epochs):
            for rows, weights in zip(self.batches.draw(), self.batches.weights, strict=True):
                torch.index_select(products, 0, rows, out=self.gathered)
                start = before.index_select(0, rows).view(-1, batch, before.shape[1])
                x = torch.baddbmm(start, self.gathered.view(-1, batch, longest), self.moved)
                torch.clamp_min(x.transpose(1, 2), 0, out=used)
                targets = self.targets.index_select(0, rows).view(-1, batch, self.targets.shape[1])
                delta = self.stack.back(self.stack.learn(self.activations, targets.transpose(1, 2), weights))
                delta = torch.ops.aten.threshold_backward(delta, used, 0).transpose(1, 2).flatten(0, 1)
                self.velocity.mul_(MOMENTUM).flatten(0, 1).index_add_(0, rows, delta, alpha=-LR)
                self.moved.add_(self.velocity)
                self.stack.move()
        shares = torch.tensor(self.sizes) / total
        moved = (self.moved * shares[:, None, None]).flatten(0, 1)
        new_weight, new_bias, new_rest = self._parts(out)
        torch.add(self.turned.times(moved), weight, alpha=float(shares.sum()), out=new_weight)
        torch.add(moved.sum(0), bias, alpha=float(shares.sum()), out=new_bias)
        self.stack.sum(shares, new_rest)

    def hits(self, model: Tensor) -> int:
        weight, bias, rest = self._parts(model)
        return hits(self.test.times(weight).add_(bias).clamp_min_(0), self.labels, layers_of(rest, self.widths))

    def _parts(self, model: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return parts(model, self.features, self.widths[0])


def parts(model: Tensor, features: int, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first layer's weights and bias, and the other layers."""
    weight, bias, rest = model.tensor_split([features * hidden, (features + 1) * hidden])
    return weight.view(features, hidden), bias, rest


def _matrix(rows: Rows, features: int) -> sparse.csr_matrix:
    return sparse.csr_matrix(rows.x, (len(rows), features))


def run(material: Material, gate: Gate) -> None:
    features, widths = material.shape[0], (*material.workload.widths, material.classes)
    vector = torch.from_numpy(material.initial)
    weight, bias, rest = parts(vector, features, widths[0])
    initial = torch.cat([weight.view(-1, features).t().flatten(), bias, with_bias(rest, widths)])
    team.run(material, gate, initial, lambda rank, size: Worker(material, rank, size))
