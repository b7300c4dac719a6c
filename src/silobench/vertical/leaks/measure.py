"""`LeakMeasure`: looks at what crosses the cut of a split network, and reports what it reveals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from silobench.spec import Registry
from silobench.spec.contract import Check, Contract, Form, described
from silobench.vertical.leaks.view import CutView

Facts: TypeAlias = dict[str, Any]  # numbers, None, texts, and dictionaries of them: whatever JSON can hold


@dataclass(frozen=True)
class LeakMeasure:
    """A measure of what crosses the cut."""

    measure: Callable[[CutView, np.random.Generator], Facts]
    """(view of some training rows, random numbers) -> facts, as JSON can hold them"""
    every: int = 0
    """Rounds between two measurements; the last round is always measured, and with 0 no other."""
    rows: int = 1000
    """The most rows that the measure uses."""


def largest(parties: dict[str, Facts], name: str) -> Facts | None:
    """Return the largest of a number over parties, and its party; None if no party has the number.

    >>> largest({"bank": {"r2": 0.1}, "shop": {"r2": 0.4}, "mail": {"r2": None}}, "r2")
    {'party': 'shop', 'r2': 0.4}
    """
    known = {party: facts[name] for party, facts in parties.items() if facts.get(name) is not None}
    if not known:
        return None
    party = max(known, key=lambda each: float(known[each]))
    return {"party": party, name: known[party]}


def _are_facts(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if isinstance(value, dict) else f"{described(value)}, but a dictionary of numbers by name is expected"


def _at_least(least: int) -> Check:
    def check(value: Any, arguments: Sequence[Any]) -> str | None:
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if is_count else f"{described(value)}, but a whole number of at least {least} is needed"

    return check


VERTICAL_MEASURES: Registry[LeakMeasure] = Registry(
    "vertical measure",
    Contract(
        LeakMeasure,
        "an sb.LeakMeasure(measure, ...)",
        {"measure": Form("view, rng", _are_facts)},
        {"rows": _at_least(1), "every": _at_least(0)},
    ),
)
