"""Files that a command may replace: those that it wrote itself, and empty ones."""

from collections.abc import Callable
from pathlib import Path

from silobench.errors import RecordError


def need_own(path: Path, is_own: Callable[[Path], bool], what: str) -> None:
    """Refuse to replace a file that somebody else may have made.

    `is_own` looks into a file, and `what` says what it looks for, such as "a page of silobench".
    """
    try:
        if not path.is_file() or not path.stat().st_size or is_own(path):
            return
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): choose another place.") from error
    raise RecordError(f"{path} exists and is not {what}: choose another name with --out, or delete it.")


def head_of(path: Path, most: int) -> bytes:
    """Return the first bytes of a file."""
    with path.open("rb") as file:
        return file.read(most)
