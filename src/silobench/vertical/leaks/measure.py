"""`LeakMeasure`: what an attacker learns from what crosses the cut."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from silobench.spec import Registry
from silobench.spec.contract import Contract
from silobench.vertical.leaks.view import CutView


@dataclass(frozen=True)
class LeakMeasure:
    """A measure of what the cut leaks: after the last round and, with `every`, after rounds in between."""

    measure: Callable[[CutView, np.random.Generator], Mapping[str, Any]]
    """(view, generator) -> facts for the record."""
    every: int = 0
    rows: int = 1000  # of the view


VERTICAL_MEASURES: Registry[LeakMeasure] = Registry("vertical measure", Contract(LeakMeasure, "an sb.LeakMeasure(...)"))
