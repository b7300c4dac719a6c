"""Steps that may take long show that they are alive. A quick step costs nothing: bars are loaded after two seconds."""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from silobench.cli.progress import Waiting

SILENT = 2.0  # seconds


@dataclass
class _Step:
    """A step in progress: its text, how much of a total is done, and whether it is over."""

    text: str
    done: int = 0
    total: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    since: float = field(default_factory=time.monotonic)
    stream: TextIO = field(default_factory=lambda: sys.stderr)  # also while a library's output is silenced
    bar: "Waiting | None" = None

    def watch(self) -> None:
        """Show the step from time to time until it is over; the first time after two seconds."""
        if self.over.wait(SILENT):
            return
        from silobench.cli.progress import Waiting

        bar = self.bar = Waiting(self.stream, self.since)
        while True:
            bar.show(self.text, self.done, self.total)
            if self.over.wait(bar.pause):
                break
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
    """Move the bar of the current step by a log record with a progress, and print another record above the bar.

    Return False if the record was not shown, because there is no step or its bar is not visible yet.
    """
    facts, step = vars(record), _steps[-1] if _steps else None
    if step is not None and "total" in facts:
        step.text, step.done, step.total = facts["step"], facts["done"], facts["total"]
    elif step is not None and step.bar is not None:
        step.bar.print(record.getMessage())
    else:
        return False
    return True
