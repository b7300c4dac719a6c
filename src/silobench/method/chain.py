"""A chain of transforms at work: an update to its bytes, and what arrives."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from silobench.method.types import Context, Memory, Message, Transform, Update
from silobench.spec.registry import part_name


@dataclass(frozen=True)
class Sent:
    """A message as it is sent and as it arrives, the new memory of each transform, and what they report."""

    message: Message
    arrived: Update
    memories: tuple[Memory, ...]
    report: Mapping[str, float]
    dense: int  # bytes of the message before the chain
    unpacking: float  # seconds that the server takes to unpack it


def send(update: Update, transforms: Sequence[Transform], memories: Sequence[Memory], context: Context) -> Sent:
    """Run an update through a chain, pack it, and let transforms see what arrives."""
    after, produced, report, dense = list(memories), dict[int, Update](), dict[str, float](), update.dense_nbytes
    for place, transform in enumerate(transforms):
        update, after[place], *reported = transform.encode(update, memories[place], replace(context, place=place))
        report |= reported[0] if reported else {}
        if transform.settle is not None:
            produced[place] = update
    message = update.pack()
    since = time.perf_counter()
    arrived = message.unpack()
    unpacking = time.perf_counter() - since
    for place, whole in produced.items():
        settle = transforms[place].settle
        assert settle is not None
        after[place] = settle(whole, arrived, after[place], replace(context, place=place))
    return Sent(message, arrived, tuple(after), report, dense, unpacking)


def chain_problem(transforms: Sequence[Transform]) -> str | None:
    """Return why these transforms cannot follow each other, or None.

    A transform that settles compares what it produced with what arrives.
    """
    for place, transform in enumerate(transforms):
        if transform.settle is None:
            continue
        name = part_name(transform, "transform")
        for later in transforms[place + 1 :]:
            other = part_name(later, "transform")
            if later.keeps_rest:
                return (
                    f"{name} keeps what later transforms leave out, and {other} keeps it too, so it would be sent "
                    "twice: write feedback=false in one of them, or leave one out."
                )
            if later.needs_decoding or later.reveal is not None:
                return (
                    f"{name} needs to know what arrives, but {other} hides it until the server has decoded the sum: "
                    "leave one of them out."
                )
    return None
