"""Fully connected layers of several parties, trained by hand with one batched product for all parties.

A layer's bias is the last column of its weights, and its input has a row of ones. Samples are columns, so long axes are
contiguous. The product that computes the gradient also adds the momentum, and the step is one addition over all layers
and parties.
"""

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workloads import LR, MOMENTUM

_if_positive = torch.ops.aten.threshold_backward  # (gradient, x, 0): the gradient where x > 0, else 0


class Stack:
    """Dense layers with ReLU between them and softmax cross-entropy at the end."""

    def __init__(self, parties: int, widths: tuple[int, ...], batch: int) -> None:
        shapes = [(parties, b, a + 1) for a, b in pairwise(widths)]
        sizes = [torch.Size(shape).numel() for shape in shapes]
        self.flat, self.velocity = torch.zeros(sum(sizes)), torch.zeros(sum(sizes))
        self.weights = _views(self.flat, sizes, shapes)
        self._velocities = _views(self.velocity, sizes, shapes)
        self._back = [w[:, :, :-1].transpose(1, 2) for w in self.weights]
        self._inputs = [torch.ones(parties, a + 1, batch) for a in widths[1:-1]]  # of all layers but the first
        self._used = [h[:, :-1] for h in self._inputs]

    def load(self, model: Tensor) -> None:
        """Set all parties to one model, without momentum."""
        sizes = [weight[0].numel() for weight in self.weights]
        for weight, part in zip(self.weights, model.split(sizes), strict=True):
            weight.copy_(part.view(weight.shape[1:]))
        self.velocity.zero_()

    def learn(self, x: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Add the gradient on x [parties, inputs + 1, batch] to the velocities; return that of the first products."""
        layers, inputs, used = self.weights, [x, *self._inputs], [x, *self._used]
        for place in range(len(layers) - 1):
            torch.clamp_min(torch.bmm(layers[place], inputs[place]), 0, out=used[place + 1])
        delta = torch.softmax(torch.bmm(layers[-1], inputs[-1]), 1).sub_(targets).mul_(weights)
        for place in reversed(range(len(layers))):
            self._velocities[place].baddbmm_(delta, inputs[place].transpose(1, 2), beta=MOMENTUM)
            if place:
                delta = _if_positive(torch.bmm(self._back[place], delta), used[place], 0)
        return delta

    def back(self, delta: Tensor) -> Tensor:
        """Return the gradient with respect to x, from that of the first products."""
        return torch.bmm(self._back[0], delta)

    def move(self) -> None:
        self.flat.add_(self.velocity, alpha=-LR)

    def sum(self, shares: Tensor, out: Tensor) -> None:
        """Write the sum of the parties' models, weighted by their shares, to `out`."""
        torch.cat([shares @ weight.flatten(1) for weight in self.weights], out=out)


def _views(flat: Tensor, sizes: list[int], shapes: list[tuple[int, ...]]) -> list[Tensor]:
    return [part.view(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


class Batches:
    """The batches of parties with equal numbers of steps; short batches are padded with rows of weight 0."""

    def __init__(self, sizes: list[int], batch: int) -> None:
        self.sizes, self.batch = sizes, batch
        self.steps = -(-max(sizes) // batch)
        if -(-min(sizes) // batch) != self.steps:
            raise ValueError(
                f"parties must take equal numbers of steps, but they have {min(sizes)} to {max(sizes)} rows"
            )
        place = torch.arange(self.steps * batch).view(self.steps, 1, 1, batch)
        count = torch.tensor(sizes).view(1, -1, 1, 1)
        of_batch = torch.clamp_max(count - torch.arange(self.steps).view(-1, 1, 1, 1) * batch, batch)
        self.weights = (place < count) / of_batch  # [steps, parties, 1, batch]
        self.begins = [0, *np.cumsum(sizes)[:-1].tolist()]

    def draw(self) -> Tensor:
        """Draw the row numbers [steps, parties * batch] of one epoch."""
        orders = []
        for size, begin in zip(self.sizes, self.begins, strict=True):
            order = torch.randperm(size).add_(begin)
            orders.append(torch.cat([order, order[: self.steps * self.batch - size]]))
        return torch.stack(orders).view(len(orders), self.steps, -1).transpose(0, 1).reshape(self.steps, -1)


def with_bias(vector: Tensor, widths: tuple[int, ...]) -> Tensor:
    """Reorder a flat model (weight, bias, weight, ...) so that each bias is the last column of its weight."""
    parts = vector.split([size for a, b in pairwise(widths) for size in (a * b, b)])
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return torch.cat([torch.cat([w.view(len(b), -1), b[:, None]], 1).flatten() for w, b in pairs])


def layers_of(model: Tensor, widths: tuple[int, ...]) -> list[Tensor]:
    """Return the layers [outputs, inputs + 1] of a model that `with_bias` reordered."""
    shapes = [(b, a + 1) for a, b in pairwise(widths)]
    return [part.view(shape) for part, shape in zip(model.split([a * b for a, b in shapes]), shapes, strict=True)]


def hits(x: Tensor, y: Tensor, layers: list[Tensor]) -> int:
    """Return how many samples [n, inputs] the layers classify correctly."""
    count = 0
    for h, labels in zip(x.split(4096), y.split(4096), strict=True):
        for layer in layers[:-1]:
            h = torch.addmm(layer[:, -1], h, layer[:, :-1].t()).clamp_min_(0)
        count += int((torch.addmm(layers[-1][:, -1], h, layers[-1][:, :-1].t()).argmax(1) == labels).sum())
    return count


def one_hot(y: Tensor, classes: int) -> Tensor:
    return F.one_hot(y, classes).float()
