"""Steps that may take long show that they are alive. A quick step costs nothing: bars are loaded after two seconds."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SILENT = 2.0  # seconds


@dataclass
class _Step:
    """A step in progress: its text, how much of a total is done, and whether it is over."""

    text: str
    done: int = 0
    total: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Show the step from time to time until it is over; the first time after two seconds."""
        if self.over.wait(SILENT):
            return
        from silobench.cli.progress import Waiting

        bar = Waiting()
        while not self.over.wait(bar.pause):
            bar.show(self.text, self.done, self.total)
        bar.stop()


_steps: list[_Step] = []  # the last one is shown


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a text and the time while the body runs, if it takes long. The body must not print."""
    step = _Step(text)
    thread = threading.Thread(target=step.watch, daemon=True)
    _steps.append(step)
    thread.start()
    try:
        yield
    finally:
        _steps.remove(step)
        step.over.set()
        thread.join()


def show_progress(record: logging.LogRecord) -> bool:
    """Move the bar of the current step by a log record with a progress; return False for other records."""
    facts = vars(record)
    if not _steps or "total" not in facts:
        return False
    step = _steps[-1]
    step.text, step.done, step.total = facts["step"], facts["done"], facts["total"]
    return True
