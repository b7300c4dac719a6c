"""Aggregates that look at every entry: the parts that they have in common."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from silobench.method.types import Update, Vector


def by_entry(updates: Iterable[Update], combine: Callable[[Vector], Vector]) -> Update:
    """Combine messages entry by entry, as a sum that has this mean: ``combine([messages, ...]) -> [...]``.

    Every party counts the same, whatever its weight. A part that a party did not send counts as zero.
    """
    each = list(updates)
    weight = sum(update.weight for update in each)
    means, sums = [update.mean() for update in each], [update.sums for update in each]
    total = {name: combine(part) * weight for name, part in stacks(means)}
    return Update(total, weight, {name: combine(part) * len(each) for name, part in stacks(sums)})


def stacks(each: Sequence[Mapping[str, Vector]]) -> Iterable[tuple[str, Vector]]:
    """Yield every named part as [messages, ...], in the order of names; a part that a message lacks is zero."""
    for name in sorted({name for parts in each for name in parts}):
        like = next(parts[name] for parts in each if name in parts)
        yield name, torch.stack([parts.get(name, torch.zeros_like(like)) for parts in each])


def refusal_of_zeros(method: Any) -> str | None:
    """Return why a method cannot be combined with an aggregate by entry, or None."""
    if not method.sends_mostly_zeros:
        return None
    return (
        "messages of this method are mostly zeros, so the median or the trimmed mean of an entry would be zero too: "
        "use aggregate = mean, or a method that sends whole messages."
    )
