"""Checks that several readers share, and the errors they raise."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.errors import DataError

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


def unreadable(path: Path, error: Exception, form: str = "", advice: str = "use the published file") -> DataError:
    """Return the error for a file that cannot be opened, or cannot be read as `form`."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"there is no file {path}: check the path.")
    return DataError(f"{path} cannot be read{form and f' as {form}'} ({error}): {advice}.")


def check_labels(path: Path, labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Return labels as int64; raise an error that names the first row whose label is not in 0 to classes - 1."""
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise DataError(
            f"{path} has the label {labels[bad[0]]} in row {bad[0]} (counted from 0): 0 to {classes - 1} are needed, "
            "so fetch the file again."
        )
    return labels.astype(np.int64)
