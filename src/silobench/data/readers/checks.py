"""Checks that several readers share, and the errors they raise."""

import errno
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.errors import DataError, listed

PUBLISHED = "use the published file, or correct that line"
_LARGEST = float(np.finfo(np.float32).max)


def is_number(cell: str) -> bool:
    """Return whether a cell is a finite number that a float32 can hold."""
    try:
        return abs(float(cell)) <= _LARGEST
    except ValueError:
        return False


def is_whole(cell: str) -> bool:
    """Return whether a cell is a whole number of 0 or more that an int64 can hold."""
    return cell.isascii() and cell.isdigit() and len(cell) <= 18


def shorten(text: str) -> str:
    """Return text of a file as an error message may quote it: printable, on one line, and at most 60 characters."""
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    return text if len(text) <= 60 else text[:57] + "..."


def bad_line(path: Path, line: int, problem: str, needed: str) -> DataError:
    """Return the error for a line: "PATH has PROBLEM in line LINE: NEEDED; use the published file, ..."."""
    return DataError(f"{path} has {problem} in line {line}: {needed}; {PUBLISHED}.")


def need_distinct_names(path: Path, names: Sequence[str]) -> None:
    """Refuse a table with two columns of one name, or with two empty names; one may be that of a saved index."""
    empty = [str(number) for number, name in enumerate(names, 1) if not name]
    if len(empty) > 1:
        raise DataError(f"{path} has empty names in its header (of the columns {listed(empty)}): name these columns.")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError(f"{path} has two columns of the same name in its header ({listed(repeated)}): rename one.")


def file_path(path: str) -> Path:
    """Return the path of a user's file; refuse an empty one, which Python takes for the current folder."""
    if not path:
        raise DataError("the path is empty: give the path of a file.")
    return Path(path)


def check_opens(path: Path) -> None:
    """Refuse a file that cannot be opened."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception, form: str = "", advice: str = "use the published file") -> DataError:
    """Return the error for a file that cannot be opened, or cannot be read as `form`."""
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return DataError(f"there is no file {path.absolute()}: check the path.")
    if isinstance(error, OSError) and path.is_dir():
        return DataError(f"{path} is a folder, not a file: give the path of a file.")
    if code == errno.ELOOP:
        return DataError(f"{path} is a link that leads back to itself, so it cannot be followed: give a file's path.")
    if code == errno.EACCES:
        return DataError(f"{path} may not be read by this user: change its permissions.")
    reason = os.strerror(code) if code else error
    return DataError(f"{path} cannot be read{form and f' as {form}'} ({reason}): {advice}.")


def few_lines(path: Path, count: int) -> DataError:
    """Return the error for a table without rows."""
    lines = "1 line" if count == 1 else f"{count} lines"
    return DataError(f"{path} has {lines}: a header and at least one row are needed, so add them.")


def check_labels(path: Path, labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Return labels as int64; raise an error that names the first row whose label is not in 0 to classes - 1."""
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise DataError(
            f"{path} has the label {labels[bad[0]]} in row {bad[0]} (counted from 0): 0 to {classes - 1} are needed, "
            "so fetch the file again."
        )
    return labels.astype(np.int64)
