"""A chain of transforms at work: an update to its bytes, and what arrives."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from silobench.method.types import LARGEST_SCALAR, Context, Memory, Message, Transform, Update, placed
from silobench.spec.registry import part_name

_LOSS, _REPORT = "training loss", "report "  # parts of a message that is hidden, besides those of the algorithm


@dataclass(frozen=True)
class Sent:
    """A message as it is sent and as it arrives, the new memory of each transform, and what they report."""

    message: Message
    arrived: Update
    memories: tuple[Memory, ...]
    report: Mapping[str, float]
    dense: int  # bytes of the message before the chain
    unpacking: float  # seconds that the server takes to unpack it


def send(
    update: Update,
    transforms: Sequence[Transform],
    memories: Sequence[Memory],
    context: Context,
    servers: Sequence[Memory] = (),
    loss: float = math.nan,
) -> Sent:
    """Run an update through a chain, pack it, and let transforms see what arrives.

    `servers` are the memories of the transforms at the server. Where a transform hides messages, the loss of the
    training and what earlier transforms report are parts of the message, so that the server learns only their sums.
    """
    after, produced, report, dense = list(memories), dict[int, Update](), dict[str, float](), update.dense_nbytes
    seen, contexts = None, placed(transforms, context, servers)
    for place, transform in enumerate(transforms):
        if transform.hides:
            seen = update.pack().unpack() if produced else None  # the server sees it only as a part of the sum
            if any(each.equal_weights for each in transforms[:place]):  # noise hides whether a message is finite
                loss, report = _small(loss), {name: _small(value) for name, value in report.items()}
            update, report = with_report(update, loss, report), {}
        update, after[place], *reported = transform.encode(update, memories[place], contexts[place])
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
        after[place] = settle(whole, seen or arrived, after[place], contexts[place])
    return Sent(message, arrived, tuple(after), report, dense, unpacking)


def _small(value: float) -> float:
    """Return a value that a transform which hides messages has room for; one that is not finite becomes 0."""
    return min(max(value, -LARGEST_SCALAR), LARGEST_SCALAR) if math.isfinite(value) else 0.0


def with_report(update: Update, loss: float, report: Mapping[str, float]) -> Update:
    """Return a message with the loss of the training and reported values as scalar parts."""
    scalars = {f"{_REPORT}{name}": torch.tensor(value, dtype=torch.float64) for name, value in report.items()}
    weighted = torch.tensor(loss * update.weight, dtype=torch.float64)
    return replace(update, total={**update.total, _LOSS: weighted}, sums={**update.sums, **scalars})


def without_report(update: Update) -> tuple[Update, float, dict[str, float]]:
    """Return the sum of messages without what `with_report` added, the mean loss, and the sums of reported values."""
    total, sums = dict(update.total), dict(update.sums)
    loss = float(total.pop(_LOSS)) / update.weight
    report = {name.removeprefix(_REPORT): float(sums.pop(name)) for name in update.sums if name.startswith(_REPORT)}
    return replace(update, total=total, sums=sums), loss, report


def chain_problem(transforms: Sequence[Transform]) -> str | None:
    """Return why these transforms cannot follow each other, or None."""
    pairs = [(one, other) for place, one in enumerate(transforms) for other in transforms[place + 1 :]]
    problems = (_hiding_problem(*pair) or _packing_problem(*pair) or _settling_problem(*pair) for pair in pairs)
    return next(filter(None, problems), None)


def _hiding_problem(one: Transform, other: Transform) -> str | None:
    """Return why the sum of messages cannot be hidden with these two transforms, or None."""
    first, second = (part_name(each, "transform") for each in (one, other))
    if one.hides:
        return f"{first} hides messages, so {second} cannot come after it: let {first} come last, and once."
    if not other.hides or (one.packs, one.mostly_zeros) in (("", False), ("entries", False)):
        return None
    if one.mostly_zeros:
        return (
            f"with {first} every party chooses the entries that it sends, and their places would tell the server about "
            f"its rows, so {second} cannot hide the message: use rand_k, with places that all parties share."
        )
    return (
        f"{first} sends each party's values in a form of its own, which {second} cannot add up: leave one of them out, "
        "or use rand_k to send less."
    )


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
    if (other.needs_decoding or other.reveal is not None) and not other.hides:
        return (
            f"{first} needs to know what arrives, but {second} hides it until the server has decoded the sum: leave "
            "one of them out."
        )
    return None
