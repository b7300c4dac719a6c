"""Vectors of many parties, [parties, d], as one flat array: block by block, and within a block party by party.

A block is a layer's weights with its bias as a last column; but the weights and the bias of the first layer are blocks
of their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from silobench.types import Layout, Server, Vector


def flattened(rows: Vector, layout: Layout) -> Tensor:
    """Vectors as one flat array."""
    found = torch.empty(rows.numel())
    for part, block in _pieces(rows, found, layout):
        block.copy_(part)
    return found


def rows_of(flat: Tensor, count: int, layout: Layout) -> Vector:
    """The vectors again, [parties, d]."""
    found = torch.empty(count, flat.numel() // count)
    for part, block in _pieces(found, flat, layout):
        part.copy_(block)
    return found


def _pieces(rows: Vector, flat: Tensor, layout: Layout) -> Iterator[tuple[Tensor, Tensor]]:
    """The same columns of the same layers, in vectors and in blocks."""
    for (outputs, places), block in zip(_places(layout), blocks(flat, len(rows), layout), strict=True):
        begin = 0
        for place in places:
            part = rows[:, place].unflatten(1, (outputs, -1))
            yield part, block[:, :, begin : begin + part.shape[2]]
            begin += part.shape[2]


def blocks(flat: Tensor, count: int, layout: Layout) -> list[Tensor]:
    """Blocks [parties, outputs, columns] as views."""
    return [
        flat[count * places[0].start : count * places[-1].stop].view(count, outputs, -1)
        for outputs, places in _places(layout)
    ]


@cache
def _places(layout: Layout) -> list[tuple[int, list[slice]]]:
    """The number of outputs of each block, and where its columns lie in a vector."""
    found: list[tuple[int, list[slice]]] = []
    for place, shape in zip(layout.slices.values(), layout.shapes, strict=True):
        is_bias = len(shape) == 1
        if is_bias and len(found) > 1:
            found[-1][1].append(place)  # to the weights of its layer, unless it is the first
        else:
            found.append((shape[0], [place]))
    return found


def repeated(server: Server, count: int, layout: Layout) -> Server:
    """What a server sends, once for every party, in the order of flat vectors."""

    def repeat(vector: Vector) -> Tensor:
        return flattened(vector.expand(count, -1), layout) if vector.shape == server.params.shape else vector

    extras = {name: repeat(extra) for name, extra in server.extras.items()}
    return replace(server, params=repeat(server.params), extras=extras)
