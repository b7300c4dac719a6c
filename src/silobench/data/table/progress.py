"""Progress of steps that may take longer than two seconds."""

import logging
import time

_LOG = logging.getLogger("silobench")


class Progress:
    """Log how far a slow step is, every two seconds."""

    def __init__(self, what: str, total: int, unit: str = "columns"):
        self.what, self.total, self.unit, self.done, self.last = what, total, unit, 0, time.monotonic()

    def step(self, count: int = 1) -> None:
        """Count steps that are done."""
        self.done += count
        if time.monotonic() - self.last > 2:
            self.last = time.monotonic()
            progress = {"step": self.what, "done": self.done, "total": self.total}
            _LOG.info("%s: %d of %d %s", self.what, self.done, self.total, self.unit, extra=progress)
