"""The parameters of many parties as one flat array, ordered by block and within a block by party.

A block is a layer's weights with its bias as the last column. Where the first layer's weights are stored elsewhere (see
`sparse`), its bias is a block by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from silobench.method.types import Layout, Vector


def flattened(rows: Vector, layout: Layout) -> Tensor:
    """Convert vectors [parties, d] to one flat array."""
    order, count = _order(layout), len(rows)
    flat = torch.empty(rows.numel())
    same = rows.stride(0) == 0  # all parties have the same vector
    ordered = (rows[:1] if same else rows).index_select(1, order.to_blocks)
    for lines, (_, place) in zip(_lines(flat, count, layout), order.blocks, strict=True):
        lines.copy_(ordered[:, place])
    return flat


def rows_of(flat: Tensor, count: int, layout: Layout) -> Vector:
    """Convert a flat array back to vectors [parties, d]."""
    return torch.cat(_lines(flat, count, layout), 1).index_select(1, _order(layout).to_vector)


def some_of(flat: Tensor, count: int, layout: Layout, places: slice) -> Tensor:
    """Return the flat array of some of the parties."""
    return torch.cat([lines[places].reshape(-1) for lines in _lines(flat, count, layout)])


def sum_of_deltas(ends: Tensor, starts: Vector, weights: Sequence[float], layout: Layout) -> Vector:
    """Return Σ weight · (end - start) over the parties; `ends` is a flat array, and is overwritten."""
    count, by_party, order = len(weights), torch.tensor(weights), _order(layout)
    begins = flattened(starts[:1] if starts.stride(0) == 0 else starts, layout)
    lines = zip(_lines(ends, count, layout), _lines(begins, len(begins) // layout.trainable, layout), strict=True)
    summed = torch.cat([by_party @ end.sub_(begin) for end, begin in lines])
    return summed.index_select(0, order.to_vector)


def blocks(flat: Tensor, count: int, layout: Layout) -> list[Tensor]:
    """Return the blocks of a flat array as views [parties, outputs, columns]."""
    spans = _order(layout).blocks
    return [flat[count * at.start : count * at.stop].view(count, outputs, -1) for outputs, at in spans]


def _lines(flat: Tensor, count: int, layout: Layout) -> list[Tensor]:
    """Return the blocks as views [parties, size]."""
    return [flat[count * at.start : count * at.stop].view(count, -1) for _, at in _order(layout).blocks]


@dataclass(frozen=True)
class _Order:
    """The places of a vector's numbers in blocks."""

    blocks: list[tuple[int, slice]]  # number of outputs and range of each block
    to_blocks: Tensor  # permutation from a vector to blocks
    to_vector: Tensor  # its inverse


@cache
def _order(layout: Layout) -> _Order:
    numbers = list(layout.views(torch.arange(layout.trainable)).values())
    ordered: list[Tensor] = []
    spans = []
    while numbers:
        parts = [numbers.pop(0)]
        if parts[0].dim() > 1:
            parts.append(numbers.pop(0))  # the bias of the same layer
        outputs = len(parts[0])
        block = torch.cat([part.view(outputs, -1) for part in parts], 1)
        begin = sum(map(len, ordered))
        spans.append((outputs, slice(begin, begin + block.numel())))
        ordered.append(block.flatten())
    to_blocks = torch.cat(ordered)
    return _Order(spans, to_blocks, to_blocks.argsort())
