"""What a page needs before it begins, and what must be true after everything on it was executed."""

from collections.abc import Callable

from documentation.session import Session

BEFORE: dict[str, Callable[[], None]] = {}
CHECKS: dict[str, Callable[[Session], None]] = {}
