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
    """Return why these transforms cannot follow each other, or None."""
    pairs = [(one, other) for place, one in enumerate(transforms) for other in transforms[place + 1 :]]
    problems = (_packing_problem(*pair) or _settling_problem(*pair) for pair in pairs)
    return next(filter(None, problems), None)


def _packing_problem(one: Transform, other: Transform) -> str | None:
    """Return why two transforms, one before the other, cannot pack the same message, or None."""
    first, second = (part_name(each, "transform") for each in (one, other))
    if one.packs == "values" and other.packs:
        return f"{first} rounds the values that are sent, so {second} cannot come after it: let it come last, and once."
    if "matrices" in (one.packs, other.packs) and {one.packs, other.packs} <= {"matrices", "entries"}:
        return (
            f"{first} and {second} cannot both choose what is sent, because low_rank needs whole matrices: leave one "
            "of them out."
        )
    if one.packs == other.packs == "entries" and not (one.mostly_zeros and other.mostly_zeros):
        return f"{first} and {second} cannot both choose what is sent: leave one of them out."
    return None


def _settling_problem(one: Transform, other: Transform) -> str | None:
    """Return why one of two transforms cannot compare what it produced with what arrives, or None."""
    if other.settle is not None and one.scales:  # its values are scaled when they are packed, which is after both
        one, other = other, one
    if one.settle is None:
        return None
    first, second = (part_name(each, "transform") for each in (one, other))
    if other.keeps_rest:
        can_stop = one.packs or other.packs  # error_feedback does nothing else, so it has no argument for that
        remedy = "write feedback=false in one of them, or leave one out" if can_stop else "leave one of them out"
        return (
            f"{first} keeps what later transforms leave out, and {second} keeps it too, so it would be sent twice: "
            f"{remedy}."
        )
    if other.scales:
        return (
            f"{first} sends later what is left out now, but {second} scales the values that it sends to make up for "
            "that: write scale=false in it, or leave one of them out."
        )
    if other.needs_decoding or other.reveal is not None:
        return (
            f"{first} needs to know what arrives, but {second} hides it until the server has decoded the sum: leave "
            "one of them out."
        )
    return None
