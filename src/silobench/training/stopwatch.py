"""A stopwatch that measures seconds by phase."""

import time


class Stopwatch:
    """Seconds by phase: `lap` ends a phase, and the next begins."""

    def __init__(self, spent: float = 0.0) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter() - spent

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._since
        self._since = now
