"""`LeakMeasure`: looks at what crosses the cut of a split network, and reports what it reveals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from silobench.method.checks import finite_number
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described
from silobench.vertical.leaks.view import CutView

Facts: TypeAlias = dict[str, Any]  # numbers, None, texts, and dictionaries of them: whatever JSON can hold


@dataclass(frozen=True)
class LeakMeasure:
    """A measure of what crosses the cut."""

    measure: Callable[[CutView, np.random.Generator], Facts]
    """(view of some training rows, random numbers) -> facts, as JSON can hold them"""
    rows: int = 1000
    """The most rows that the measure uses."""
    every: int = 10
    """Rounds between two measurements; the last round is always measured."""

    def is_due(self, round: int, is_last: bool) -> bool:
        """Whether the measure looks at the cut after this round; rounds count from 1."""
        return is_last or round % self.every == 0


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


def _is_count(value: Any, arguments: Sequence[Any]) -> str | None:
    return finite_number(value, "a number of at least 1") or (
        None if value >= 1 else f"{value}, but at least 1 is needed"
    )


VERTICAL_MEASURES: Registry[LeakMeasure] = Registry(
    "vertical measure",
    Contract(
        LeakMeasure,
        "an sb.LeakMeasure(measure, ...)",
        {"measure": Form("view, rng", _are_facts)},
        {"rows": _is_count, "every": _is_count},
    ),
)
