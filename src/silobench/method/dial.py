"""`Dial`: a knob with its settings."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Dial:
    """A knob that trades traffic for accuracy, with its settings ordered from the most traffic to the least.

    An algorithm or transform reads it as ``knobs.get(name, default)``, because there may be no controller.
    """

    name: str
    grid: tuple[float, ...]
    waits: bool = False  # a setting is the number of rounds from one exchange to the next
    is_valid: Callable[[float], bool] | None = None  # whether a controller may choose a setting; any one without it
