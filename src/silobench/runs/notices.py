"""Lines of progress for steps before the first round, which are quick unless an experiment has very many runs."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
_QUIET = 2.0  # seconds between two lines
_OFTEN = 100  # items between two moves of a bar
_log = logging.getLogger(__name__)


def counted(items: Sequence[T], step: str) -> Iterator[T]:
    """Yield items, and move the bar of the current step of a command, if there is one."""
    for place, item in enumerate(items):
        if place and place % _OFTEN == 0:
            _log.info("", extra={"step": step, "done": place, "total": len(items)})
        yield item


def reported(items: Sequence[T], step: str) -> Iterator[T]:
    """Yield items, and log every two seconds how many are done; `step` says what is done with them."""
    last = time.monotonic()
    for place, item in enumerate(items):
        if time.monotonic() - last > _QUIET:
            last = time.monotonic()
            _log.info("%s: %s of %s runs", step, f"{place:,}", f"{len(items):,}")
        yield item
