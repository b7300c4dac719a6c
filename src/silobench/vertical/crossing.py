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
from silobench.vertical.networks import SplitNetwork

_PART = "cut"  # the name of a message's only part


@dataclass(frozen=True)
class Batch:
    """The place of a batch in a run: its random numbers follow from it."""

    seed: int
    round: int
    step: int  # counted from 0 in the round

    def stream(self, purpose: str, party: int) -> np.random.Generator:
        """Return random numbers for a purpose at a party."""
        return stream(self.seed, f"cut {purpose} {self.step}", self.round, party)


@dataclass
class Carried:
    """Messages of one batch in one direction, by party: what arrives, and what that took."""

    arrived: dict[int, Tensor] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # bytes
    dense: int = 0  # bytes of all messages, if nothing were compressed
    encode: dict[int, float] = field(default_factory=dict)  # seconds of the sender
    encrypt: dict[int, float] = field(default_factory=dict)  # seconds of the sender
    decode: dict[int, float] = field(default_factory=dict)  # seconds of the receiver
    reports: dict[str, list[float]] = field(default_factory=dict)
    relays: frozenset[int] = frozenset()  # parties that send only when the messages of the others have arrived


@dataclass(frozen=True)
class Crossing:
    """The way of activations and gradients: through a defence, through a chain of transforms, and packed.

    Without any of these, tensors arrive as they are, and their bytes are counted.
    """

    transforms: tuple[Transform, ...] = ()
    broadcast: tuple[Transform, ...] = ()
    defence: Defence = field(default_factory=Defence)

    @property
    def key_size(self) -> int:
        """The bytes of a key that every party gets before the first round; 0 without encryption."""
        return 0

    def up(self, activations: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry activations from parties to the label holder."""
        carried = Carried()
        for party, tensor in activations.items():
            since = time.perf_counter()
            _carry(carried, self.defended(tensor, batch, party), self.transforms, batch, party, "activations", since)
        return carried

    def down(self, gradients: Mapping[int, Tensor], y: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry gradients from the label holder to parties; `y` are the labels of their rows."""
        carried, protect = Carried(), self.defence.gradients
        for party, tensor in gradients.items():
            since = time.perf_counter()
            if protect is not None:
                tensor = protect(tensor, y[party], batch.stream("defence of gradients", party))
            _carry(carried, tensor, self.broadcast, batch, party, "gradients", since)
        return carried

    def seen(self, arrived: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        """Return what the label holder sees of the activations of each party."""
        return arrived

    def defended(self, activations: Tensor, batch: Batch, party: int) -> Tensor:
        """Return the activations of a party after the defence."""
        protect = self.defence.activations
        return activations if protect is None else protect(activations, batch.stream("defence of activations", party))


def _carry(
    carried: Carried, tensor: Tensor, chain: Sequence[Transform], batch: Batch, party: int, what: str, since: float
) -> None:
    """Add the message of a party to those that were carried; its sender began to work on it at `since`."""
    carried.dense += tensor.nbytes
    if chain and len(tensor):
        sent = _sent(tensor, chain, batch, party, what)
        carried.arrived[party] = sent.arrived.total[_PART].view(tensor.shape)
        carried.sizes[party], carried.decode[party] = sent.message.nbytes, sent.unpacking
        for name, value in sent.report.items():
            carried.reports.setdefault(f"{what} {name}", []).append(value)
    else:
        carried.arrived[party], carried.sizes[party] = tensor, tensor.nbytes
    carried.encode[party] = time.perf_counter() - since - carried.decode.get(party, 0.0)


def _sent(tensor: Tensor, chain: Sequence[Transform], batch: Batch, party: int, what: str) -> Sent:
    """Run a tensor through a chain of transforms, as the only part of an update."""
    # Each batch has its own random numbers: a transform knows the seed and the round only.
    seed = int(batch.stream(f"transforms of {what}", party).integers(1 << 31))
    layout = Layout((_PART,), (tensor.shape,), tensor.numel())
    context = Context(seed, batch.round, party, layout, {}, (party,))
    return send(Update({_PART: tensor.reshape(-1).contiguous()}, 1.0), chain, [{}] * len(chain), context)


def sent_rows(network: SplitNetwork, x: Tensor, party: int) -> Tensor | None:
    """Return the rows of a batch that a party sends; None for all. Absent rows have a learnt embedding instead."""
    if str(party) not in network.head.absence:
        return None
    known = network.flags(x)[:, party] > 0
    return None if bool(known.all()) else known.nonzero().squeeze(1)


def taken(tensor: Tensor, rows: Tensor | None) -> Tensor:
    """Return some rows of a batch; all for None."""
    return tensor if rows is None else tensor.index_select(0, rows)


def spread(tensor: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """Return a tensor with its rows at their places in a batch of `count` rows, and zeros elsewhere."""
    if rows is None:
        return tensor
    return torch.zeros(count, *tensor.shape[1:], dtype=tensor.dtype).index_copy(0, rows, tensor)
