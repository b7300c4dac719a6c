"""What crosses the cut: activations to the label holder and gradients back, packed, counted and timed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from silobench.method.chain import Sent, send
from silobench.method.types import Context, Layout, Transform, Update
from silobench.rng import stream
from silobench.vertical.defences import Defence

_PART = "cut"  # the name of a message's only part


@dataclass(frozen=True)
class Batch:
    """The place of a batch in a run: its random numbers follow from it."""

    seed: int
    round: int
    step: int  # counted from 0 in the round

    def stream(self, purpose: str, party: int) -> np.random.Generator:
        return stream(self.seed, f"cut {purpose} {self.step}", self.round, party)


@dataclass(frozen=True)
class Carried:
    """Messages of one batch in one direction: what arrives, and what that took, by party."""

    arrived: Mapping[int, Tensor]
    sizes: Mapping[int, int]  # bytes
    dense: int  # bytes of all messages, if nothing were compressed
    encode: Mapping[int, float] = field(default_factory=dict)  # seconds of the sender
    encrypt: Mapping[int, float] = field(default_factory=dict)
    decode: float = 0.0  # seconds of the receiver, of all messages
    reports: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Crossing:
    """The way of activations and gradients: through a defence, through a chain of transforms, and packed.

    Without any of these, tensors arrive as they are, and their bytes are counted.
    """

    transforms: tuple[Transform, ...] = ()
    broadcast: tuple[Transform, ...] = ()
    defence: Defence = field(default_factory=Defence)

    def up(self, activations: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry activations from parties to the label holder."""
        return self._carried(activations, self.transforms, batch, "activations")

    def down(self, gradients: Mapping[int, Tensor], y: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry gradients from the label holder to parties; `y` are the labels of their rows."""
        return self._carried(gradients, self.broadcast, batch, "gradients", y)

    def seen(self, arrived: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        """Return what the label holder sees of the activations of each party."""
        return arrived

    def _carried(
        self,
        tensors: Mapping[int, Tensor],
        chain: Sequence[Transform],
        batch: Batch,
        what: str,
        y: Mapping[int, Tensor] | None = None,
    ) -> Carried:
        arrived, sizes, encode = dict[int, Tensor](), dict[int, int](), dict[int, float]()
        reports, decode = dict[str, float](), 0.0
        for party, tensor in tensors.items():
            since = time.perf_counter()
            changed = self._defended(tensor, None if y is None else y[party], batch, party)
            if chain and len(changed):
                sent = _sent(changed, chain, batch, party, what)
                arrived[party], sizes[party] = sent.arrived.total[_PART].view(changed.shape), sent.message.nbytes
                reports |= {f"{what} {name}": value for name, value in sent.report.items()}
                decode += sent.unpacking
            else:
                arrived[party], sizes[party] = changed, changed.nbytes
            encode[party] = time.perf_counter() - since
        dense = sum(tensor.nbytes for tensor in tensors.values())
        return Carried(arrived, sizes, dense, encode, {}, decode, reports)

    def _defended(self, tensor: Tensor, y: Tensor | None, batch: Batch, party: int) -> Tensor:
        """Return activations, or gradients if their labels are given, after the defence."""
        if y is None:
            protect = self.defence.activations
            return protect(tensor, batch.stream("defence of activations", party)) if protect else tensor
        change = self.defence.gradients
        return change(tensor, y, batch.stream("defence of gradients", party)) if change else tensor


def _sent(tensor: Tensor, chain: Sequence[Transform], batch: Batch, party: int, what: str) -> Sent:
    """Run a tensor through a chain of transforms, as the only part of an update."""
    # Each batch has its own random numbers: a transform knows the seed and the round only.
    seed = int(batch.stream(f"transforms of {what}", party).integers(1 << 31))
    layout = Layout((_PART,), (tensor.shape,), tensor.numel())
    context = Context(seed, batch.round, party, layout, {}, (party,))
    return send(Update({_PART: tensor.reshape(-1).contiguous()}, 1.0), chain, [{}] * len(chain), context)


def present_rows(flags: Tensor, party: int) -> Tensor | None:
    """Return the rows of a batch that a party has; None if it has all."""
    known = flags[:, party] > 0
    return None if bool(known.all()) else known.nonzero().squeeze(1)


def spread(tensor: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """Return a tensor with its rows at their places in a batch of `count` rows, and zeros elsewhere."""
    if rows is None:
        return tensor
    return torch.zeros(count, *tensor.shape[1:], dtype=tensor.dtype).index_copy(0, rows, tensor)
