"""Text tables: read fast in C, and line by line only to name what could not be read; columns filled and scaled."""

import bz2
import gzip
import itertools
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import DataError

Sides: TypeAlias = tuple[Split, Split]  # training and test rows

_PUBLISHED = "use the published file, or correct that line"
_LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 8192  # rows that are scaled at a time: float64 copies of a whole table would outweigh it


# --- reading -----------------------------------------------------------------------------------------


def numbers(
    path: Path,
    columns: int,
    *,
    separator: str = ",",
    skip: int = 0,
    labelled: bool = False,
    dtype: type[np.float32] | type[np.float64] = np.float32,
) -> NDArray[Any]:
    """The rows ``[n, columns]`` of a text table of numbers, after `skip` lines; a `labelled` one has a column before.

    NumPy parses in C and reads the file itself, unpacking .gz and .bz2.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of no rows at all: said below
            table: NDArray[Any] = np.loadtxt(
                str(path) if len(separator) == 1 else _with_tabs(path, separator),
                dtype=dtype,
                comments=None,
                delimiter=separator if len(separator) == 1 else "\t",
                converters={0: _nothing} if labelled else None,
                skiprows=skip,
                ndmin=2,
                encoding="latin-1",
            )
    except ValueError as error:
        problem = _first_bad_cell(path, columns, separator, skip, labelled)
        raise problem or DataError(f"{path} cannot be read as numbers ({error}): {_PUBLISHED}.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if not len(table):
        raise DataError(f"{path} has no rows: at least one is needed; use the published file.")
    if table.shape[1] != columns + labelled or not np.isfinite(table).all():
        problem = _first_bad_cell(path, columns, separator, skip, labelled)
        raise problem or DataError(f"{path} has a cell that is no number a float32 can hold: {_PUBLISHED}.")
    return table[:, 1:] if labelled else table


def _nothing(cell: str) -> float:
    return 0.0


def _with_tabs(path: Path, separator: str) -> Iterator[str]:
    with _opened(path) as file:
        for line in file:
            yield line.replace(separator, "\t")


def _first_bad_cell(path: Path, columns: int, separator: str, skip: int, labelled: bool) -> DataError | None:
    """The first line with another number of cells, or with one that is no finite number."""
    width = columns + labelled
    for number, line in lines(path, skip):
        cells = line.split(separator)
        if len(cells) != width:
            return bad_line(path, number, f"{len(cells)} cells", f"{width} are needed")
        for place, cell in enumerate(cells[int(labelled) :], 1 + labelled):
            if not is_number(cell):
                given = f"'{shown(cell.strip())}' in column {place}"
                return bad_line(path, number, given, "a finite number is needed")
    return None


def records(
    path: Path, separator: str, width: int, header: tuple[str, ...] = (), encoding: str = "latin-1"
) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line that is not blank, and the line's number; the header is checked and left out."""
    if header:
        check_header(path, separator, header)
    for number, line in lines(path, len(header) and 1, encoding):
        cells = line.split(separator)
        if len(cells) != width:
            raise bad_line(path, number, f"{len(cells)} cells", f"{width} are needed")
        yield number, cells


def check_header(path: Path, separator: str, header: tuple[str, ...]) -> None:
    found = first_lines(path, 1)[0]
    if found != separator.join(header):
        raise bad_line(path, 1, f"the header '{shown(found)}'", f"{', '.join(header)} are needed")


def first_lines(path: Path, count: int) -> list[str]:
    """Up to so many lines of the beginning; at least one, if only an empty one."""
    try:
        with _opened(path) as file:
            return [line.rstrip("\n") for line in itertools.islice(file, count)] or [""]
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def lines(path: Path, skip: int = 0, encoding: str = "latin-1") -> Iterator[tuple[int, str]]:
    """Every line that is not blank, after the first `skip`, with its number from 1."""
    try:
        with _opened(path, encoding) as file:
            for number, line in enumerate(file, 1):
                if number > skip and line.strip():
                    yield number, line.rstrip("\n")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _opened(path: Path, encoding: str = "latin-1") -> IO[str]:
    packed: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    file: IO[str] = packed.get(path.suffix, open)(path, "rt", encoding=encoding)
    return file


def is_number(cell: str) -> bool:
    """Whether a cell is a number that a float32 can hold."""
    try:
        return abs(float(cell)) <= _LARGEST
    except ValueError:
        return False


def is_whole(cell: str) -> bool:
    """Whether a cell is a whole number that an int64 can hold."""
    return cell.isascii() and cell.isdigit() and len(cell) <= 18


def shown(text: str) -> str:
    """A text of the file as a sentence may quote it: on one line, and not for ever."""
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    return text if len(text) <= 60 else text[:57] + "..."


def bad_line(path: Path, line: int, given: str, needed: str) -> DataError:
    return DataError(f"{path} has {given} in line {line}: {needed}; {_PUBLISHED}.")


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"there is no file {path}: check the path.")
    return DataError(f"{path} cannot be read ({error}): use the published file.")


# --- parting and scaling -----------------------------------------------------------------------------


def permuted(path: Path, whole: Split, parts: int) -> Sides:
    """One part of so many held out by a fixed permutation; both sides keep the file's order."""
    count = len(whole) // parts
    if not count:
        raise DataError(f"{path} gives {len(whole)} rows: at least {parts} are needed to hold one out; give more rows.")
    held = np.zeros(len(whole), dtype=bool)
    held[np.random.default_rng(0).permutation(len(whole))[:count]] = True
    return whole.take(np.flatnonzero(~held)), whole.take(np.flatnonzero(held))


def fill_mean(train: Split, test: Split, column: int) -> int:
    """In place, the training mean where a column is NaN; how often it was."""
    missing = [np.isnan(split.x[:, column]) for split in (train, test)]
    known = train.x[~missing[0], column]
    mean = known.mean(dtype=np.float64) if len(known) else 0
    for split, gone in zip((train, test), missing, strict=True):
        split.x[gone, column] = mean
    return sum(int(gone.sum()) for gone in missing)


def scale_columns(train: Split, test: Split, columns: slice, how: str) -> str:
    """Scale columns in place by the training rows, and say so."""
    x = train.x[:, columns]
    if how == "none":
        return "columns as they are in the file"
    if how == "unit":
        shift = x.min(0).astype(np.float64)
        scale = x.max(0) - shift
        scale[scale == 0] = 1  # a constant becomes 0
        note = "numeric columns scaled to [0, 1] by the pooled training rows"
    else:
        shift, scale = moments(x)
        note = "numeric columns standardised by the pooled training rows"
    for split in (train, test):
        rescale(split.x[:, columns], shift, scale)
    return note


def moments(x: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each column; of a constant, the deviation is 1."""
    mean = x.mean(0, dtype=np.float64)
    squares = sum(((x[i : i + _BLOCK] - mean) ** 2).sum(0) for i in range(0, len(x), _BLOCK))
    deviation = np.sqrt(squares / len(x))
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1)


def rescale(x: NDArray[np.float32], shift: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
    for i in range(0, len(x), _BLOCK):
        x[i : i + _BLOCK] = (x[i : i + _BLOCK] - shift) / scale
