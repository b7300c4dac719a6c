"""How a command ends: one that has read many runs does not free them one by one."""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

MANY = 1_000  # runs from which on freeing them takes a tenth of a second or more
_has_many = False


def expect(runs: int) -> None:
    """Remember how many runs a command has read."""
    global _has_many
    _has_many = _has_many or runs >= MANY


def leave(code: int) -> NoReturn:
    """End the process. After many runs its memory goes back at once, when all output is written and all exits ran."""
    if _has_many:
        atexit._run_exitfuncs()
        with suppress(OSError):  # such as a closed pipe, which Python itself reports
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
