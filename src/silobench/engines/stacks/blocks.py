"""Vectors of many parties as one flat array: block by block, and within a block party by party.

A block is a layer's weights with its bias as a last column. Where the first layer's weights are kept elsewhere, its
bias is a block of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from silobench.method.types import Layout, Vector


def flattened(rows: Vector, layout: Layout) -> Tensor:
    """Vectors, [parties, d], as one flat array."""
    order, count = _order(layout), len(rows)
    found = torch.empty(rows.numel())
    same = rows.stride(0) == 0  # one vector for all of them
    ordered = (rows[:1] if same else rows).index_select(1, order.forth)
    for lines, (_, place) in zip(_lines(found, count, layout), order.blocks, strict=True):
        lines.copy_(ordered[:, place])
    return found


def rows_of(flat: Tensor, count: int, layout: Layout) -> Vector:
    """The vectors again, [parties, d]."""
    return torch.cat(_lines(flat, count, layout), 1).index_select(1, _order(layout).back)


def some_of(flat: Tensor, count: int, layout: Layout, places: slice) -> Tensor:
    """The flat array of some of the parties."""
    return torch.cat([lines[places].reshape(-1) for lines in _lines(flat, count, layout)])


def sum_of_deltas(ends: Tensor, starts: Vector, weights: Sequence[float], layout: Layout) -> Vector:
    """Σ weight · (end - start) over the parties, of a flat array of ends, which it uses up."""
    count, by_party, order = len(weights), torch.tensor(weights), _order(layout)
    begins = flattened(starts[:1] if starts.stride(0) == 0 else starts, layout)
    lines = zip(_lines(ends, count, layout), _lines(begins, len(begins) // layout.trainable, layout), strict=True)
    summed = torch.cat([by_party @ end.sub_(begin) for end, begin in lines])
    return summed.index_select(0, order.back)


def blocks(flat: Tensor, count: int, layout: Layout) -> list[Tensor]:
    """Blocks [parties, outputs, columns] as views."""
    spans = _order(layout).blocks
    return [flat[count * at.start : count * at.stop].view(count, outputs, -1) for outputs, at in spans]


def _lines(flat: Tensor, count: int, layout: Layout) -> list[Tensor]:
    """Blocks with a line for each party."""
    return [flat[count * at.start : count * at.stop].view(count, -1) for _, at in _order(layout).blocks]


@dataclass(frozen=True)
class _Order:
    """How the numbers of a vector are ordered by blocks."""

    blocks: list[tuple[int, slice]]  # the number of outputs of each, and where it lies
    forth: Tensor
    back: Tensor


@cache
def _order(layout: Layout) -> _Order:
    numbers = list(layout.views(torch.arange(layout.trainable)).values())
    found: list[Tensor] = []
    spans = []
    while numbers:
        parts = [numbers.pop(0)]
        if parts[0].dim() > 1:
            parts.append(numbers.pop(0))  # a bias goes with the weights of its layer
        outputs = len(parts[0])
        block = torch.cat([part.view(outputs, -1) for part in parts], 1)
        begin = sum(map(len, found))
        spans.append((outputs, slice(begin, begin + block.numel())))
        found.append(block.flatten())
    forth = torch.cat(found)
    return _Order(spans, forth, forth.argsort())
