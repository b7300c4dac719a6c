"""Reading of delimited text tables, and holding out rows, filling and scaling columns in place.

NumPy parses a table in C. Only if that fails, the file is read line by line to name the first bad line.
"""

import csv as csv_reader
import io
import itertools
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.data.readers.checks import (
    PUBLISHED,
    bad_line,
    few_lines,
    is_number,
    need_distinct_names,
    shorten,
    unreadable,
)
from silobench.data.store.archives import PACKED
from silobench.data.table.scaling import nonzero_scale
from silobench.errors import DataError

Sides: TypeAlias = tuple[Split, Split]  # training and test rows

_BLOCK = 8192  # rows that are scaled at a time: a float64 copy of the whole table would need twice its memory


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
    """Read the rows ``[n, columns]`` of a text table of numbers; .gz and .bz2 are decompressed.

    `skip` is the number of lines before the first row. A `labelled` table has one more column first, which is dropped.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # warning about an empty table, which raises an error below
            table: NDArray[Any] = np.loadtxt(
                str(path) if len(separator) == 1 else _tab_separated(path, separator),
                dtype=dtype,
                comments=None,
                delimiter=separator if len(separator) == 1 else "\t",
                converters={0: _zero} if labelled else None,
                skiprows=skip,
                ndmin=2,
                encoding="latin-1",
            )
    except ValueError as error:
        problem = _first_bad_cell(path, columns, separator, skip, labelled)
        raise problem or DataError(f"{path} cannot be read as numbers ({error}): {PUBLISHED}.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error
    if not len(table):
        raise DataError(f"{path} has no rows: at least one is needed; use the published file.")
    if table.shape[1] != columns + labelled or not np.isfinite(table).all():
        problem = _first_bad_cell(path, columns, separator, skip, labelled)
        raise problem or DataError(f"{path} has a cell that is not a finite float32 number: {PUBLISHED}.")
    return table[:, 1:] if labelled else table


def _zero(cell: str) -> float:
    return 0.0


def _tab_separated(path: Path, separator: str) -> Iterator[str]:
    with _open_text(path) as file:
        for line in file:
            yield line.replace(separator, "\t")


def _first_bad_cell(path: Path, columns: int, separator: str, skip: int, labelled: bool) -> DataError | None:
    """Return an error for the first line with a wrong number of cells, or with a cell that is not a finite number."""
    width = columns + labelled
    for number, line in lines(path, skip):
        cells = line.split(separator)
        if len(cells) != width:
            return bad_line(path, number, f"{len(cells)} cells", f"{width} are needed")
        for place, cell in enumerate(cells[int(labelled) :], 1 + labelled):
            if not is_number(cell):
                problem = f"'{shorten(cell.strip())}' in column {place}"
                return bad_line(path, number, problem, "a finite number is needed")
    return None


def records(
    path: Path, separator: str, width: int, header: tuple[str, ...] = (), encoding: str = "latin-1"
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of every line that is not blank; check and skip the header."""
    if header:
        check_header(path, separator, header)
    for number, line in lines(path, len(header) and 1, encoding):
        cells = line.split(separator)
        if len(cells) != width:
            raise bad_line(path, number, f"{len(cells)} cells", f"{width} are needed")
        yield number, cells


def check_header(path: Path, separator: str, header: tuple[str, ...]) -> None:
    first = first_lines(path, 1)[0]
    if first != separator.join(header):
        raise bad_line(path, 1, f"the header '{shorten(first)}'", f"{', '.join(header)} are needed")


def first_lines(path: Path, count: int) -> list[str]:
    """Return up to `count` lines from the start of a file; one empty line if the file is empty."""
    try:
        with _open_text(path) as file:
            return [line.rstrip("\n") for line in itertools.islice(file, count)] or [""]
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def lines(path: Path, skip: int = 0, encoding: str = "latin-1") -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of every line that is not blank, after the first `skip` lines."""
    try:
        with _open_text(path, encoding) as file:
            for number, line in enumerate(file, 1):
                if number > skip and line.strip():
                    yield number, line.rstrip("\n")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise unreadable(path, error) from error


def _open_text(path: Path, encoding: str = "latin-1") -> IO[str]:
    file: IO[str] = PACKED.get(path.suffix, open)(path, "rt", encoding=encoding)
    return file


# --- tables of texts ---------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Return the content of a text file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte, or bytes that are not UTF-8
        raise unreadable(path, error, "text", "save it as UTF-8") from error


def read_table(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """Return the columns of a CSV file as text, by name, and the line where each row starts."""
    reader = csv_reader.reader(io.StringIO(read_text(path), newline=""))
    rows, lines, start = [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv_reader.Error as error:
        raise DataError(
            f"{path} cannot be read as CSV ({error} in line {reader.line_num}): correct that line."
        ) from error
    if len(rows) < 2:
        raise few_lines(path, len(rows))
    header = [name.strip() for name in rows[0]]
    need_distinct_names(path, header)
    for number, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{path} has {len(row)} cells in line {number} but {len(header)} in the header: correct that line."
            )
    return {name: list(cells) for name, cells in zip(header, zip(*rows[1:], strict=True), strict=True)}, lines[1:]


# --- holding out, filling and scaling ----------------------------------------------------------------


def hold_out_part(path: Path, whole: Split, parts: int) -> Sides:
    """Hold out one of `parts` equal parts, chosen by a fixed permutation; both splits keep the order of the file."""
    count = len(whole) // parts
    if not count:
        raise DataError(f"{path} has {len(whole)} rows: at least {parts} are needed to hold one out; give more rows.")
    held = np.zeros(len(whole), dtype=bool)
    held[np.random.default_rng(0).permutation(len(whole))[:count]] = True
    return whole.take(np.flatnonzero(~held)), whole.take(np.flatnonzero(held))


def fill_mean(train: Split, test: Split, column: int) -> int:
    """Replace NaN in a column by its training mean, in place; return how many values were replaced."""
    missing = [np.isnan(split.x[:, column]) for split in (train, test)]
    known = train.x[~missing[0], column]
    mean = known.mean(dtype=np.float64) if len(known) else 0
    for split, rows in zip((train, test), missing, strict=True):
        split.x[rows, column] = mean
    return sum(int(rows.sum()) for rows in missing)


def scale_columns(train: Split, test: Split, columns: slice, how: str) -> str:
    """Scale columns in place by the training rows and return a note; `how` is none, unit or standard."""
    x = train.x[:, columns]
    if how == "none":
        return "columns not scaled"
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
    """Return the mean and the standard deviation of each column; the deviation of a constant column is 1."""
    mean = x.mean(0, dtype=np.float64)
    squares = sum(((x[i : i + _BLOCK] - mean) ** 2).sum(0) for i in range(0, len(x), _BLOCK))
    deviation = np.sqrt(squares / len(x))
    return mean, nonzero_scale(mean, deviation)


def rescale(x: NDArray[np.float32], shift: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
    """Subtract `shift` and divide by `scale`, in place."""
    for i in range(0, len(x), _BLOCK):
        x[i : i + _BLOCK] = (x[i : i + _BLOCK] - shift) / scale
