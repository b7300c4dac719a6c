"""A stopwatch that measures seconds by phase."""

import time


class Stopwatch:
    """Wall-clock seconds by phase. It runs from the start; `lap(phase)` stores the seconds since the last lap.

    `spent` seconds are added to the first phase. The seconds of a phase that is timed twice are added up.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter() - spent

    def lap(self, phase: str) -> float:
        """Add the seconds since the last lap to a phase, and return them."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        self.laps[phase] = self.laps.get(phase, 0.0) + seconds
        return seconds
