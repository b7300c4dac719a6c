"""A stopwatch that measures seconds by phase."""

import time


class Stopwatch:
    """Wall-clock seconds by phase. It runs from the start; `lap(phase)` stores the seconds since the last lap.

    `spent` seconds are added to the first phase. A phase that is timed twice has the seconds of its last lap.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter() - spent

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._since
        self._since = now
