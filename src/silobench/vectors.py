"""A model is one flat float32 vector, and its `Layout` knows where each tensor is."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Vector: TypeAlias = Tensor  # [..., d]
Memory: TypeAlias = Mapping[str, Vector]  # the state of a party, or of a part of the loop, between rounds
_SAMPLE = 50_021  # entries, at a step that is seldom a multiple of the sizes of layers
_MANY = 1 << 17  # entries of a vector from which on a sample pays


@dataclass(frozen=True)
class Layout:
    """The position of each named tensor in a network's flat vector: trainable tensors first, buffers last.

    >>> layout = Layout(("weight", "bias"), (torch.Size([2, 3]), torch.Size([2])), trainable=8)
    >>> layout.size, layout.slices["bias"]
    (8, slice(6, 8, None))
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    trainable: int  # entries [trainable:] are buffers, such as BatchNorm statistics
    norms: frozenset[str] = frozenset()  # the tensors of normalisation layers: weights, biases and buffers

    @cached_property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The position of each tensor, by name."""
        slices, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            slices[name] = slice(start, start + shape.numel())
            start += shape.numel()
        return slices

    def views(self, vector: Vector) -> dict[str, Tensor]:
        """Return the named tensors as views of a vector ``[..., d]``; a vector without buffers has no views of them."""
        return {
            name: vector[..., place].view(vector.shape[:-1] + shape)
            for (name, place), shape in zip(self.slices.items(), self.shapes, strict=True)
            if place.stop <= vector.shape[-1]
        }

    @property
    def layers(self) -> dict[str, tuple[str, ...]]:
        """The trainable tensors of each layer: of each module that has any, in the order of definition."""
        layers: dict[str, tuple[str, ...]] = {}
        for name, place in self.slices.items():
            if place.stop <= self.trainable:
                module = name.rpartition(".")[0]
                layers[module] = (*layers.get(module, ()), name)
        return layers

    def without(self, names: Collection[str]) -> "Layout":
        """Return the layout of vectors that lack these trainable tensors."""
        rest = [pair for pair in zip(self.names, self.shapes, strict=True) if pair[0] not in names]
        removed = sum(place.stop - place.start for name, place in self.slices.items() if name in names)
        return Layout(
            tuple(name for name, _ in rest),
            tuple(shape for _, shape in rest),
            self.trainable - removed,
            self.norms.difference(names),
        )


def largest(vector: Tensor, share: float) -> Tensor:
    """Return a mask of the largest `share` of a vector's entries, by magnitude; at least one entry.

    >>> largest(torch.tensor([0.1, -3.0, 2.0, 0.0]), 0.5)
    tensor([False,  True,  True, False])
    """
    count = max(1, round(share * vector.numel()))
    if count >= vector.numel():
        return torch.ones_like(vector, dtype=torch.bool)
    magnitudes = vector.abs().flatten()
    if vector.numel() >= _MANY and not magnitudes.sum().isnan():  # `topk` takes what is not a number as the largest
        chosen = magnitudes >= _bound_of_largest(magnitudes, count)
        if int(chosen.count_nonzero()) == count:  # otherwise there are equal magnitudes
            return chosen.view(vector.shape)
    chosen = torch.zeros_like(magnitudes, dtype=torch.bool)
    chosen[magnitudes.topk(count, sorted=False).indices] = True
    return chosen.view(vector.shape)


def _bound_of_largest(magnitudes: Tensor, count: int) -> Tensor:
    """Return the smallest of the `count` largest entries.

    A sample gives bounds below and above it, so that only the few entries between them need to be ordered. With
    `topk` in its place, the largest 1% of ten million entries take four times as long.
    """
    sample = magnitudes[:: magnitudes.numel() // _SAMPLE]
    expected = sample.numel() * count / magnitudes.numel()
    margin = 5 * math.sqrt(expected) + 5
    low, high = (min(max(sample.numel() - round(expected + each), 1), sample.numel()) for each in (margin, -margin))
    above = magnitudes >= sample.kthvalue(high).values
    between = magnitudes[(magnitudes >= sample.kthvalue(low).values) & ~above]
    wanted = count - int(above.count_nonzero())
    if not 0 < wanted <= between.numel():  # the sample was not like the rest
        between, wanted = magnitudes, count
    return between.kthvalue(between.numel() - wanted + 1).values


def moved(value: T, device: torch.device) -> T:
    """Return a value with all of its vectors on a device; the value itself if that is the CPU.

    A value is a vector, a mapping or a dataclass; anything else stays as it is.

    >>> moved({"a": torch.ones(2)}, torch.device("meta"))["a"].device
    device(type='meta')
    """
    return value if device.type == "cpu" else _moved(value, device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _moved(each, device) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _moved(getattr(value, each.name), device) for each in fields(value)})
    return value
