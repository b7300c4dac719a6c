"""The year of a song: the Million Song Dataset's timbres (UCI), and the Free Music Archive's features."""

import csv
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from silobench.data.dataset import Dataset, Split
from silobench.data.readers.delimited import bad_line, first_lines, is_number, numbers, permuted, scale_columns, shown
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
from silobench.errors import DataError

_YEAR_TRAIN, _YEAR_ROWS = 463_715, 515_345
_TIMBRES = (*(f"timbre-mean-{i}" for i in range(1, 13)), *(f"timbre-covariance-{i}" for i in range(1, 79)))
_MOST_HEADER_LINES = 6
_FMA_HEADER = "a header of several lines of equal length, the last of them beginning with track_id, is needed"


def year_prediction() -> Dataset:
    """UCI's YearPredictionMSD: the year of 515,345 songs, 1922 to 2011, by 90 features of their timbre, standardised.

    The published split, which keeps the songs of an artist on one side: the first 463,715 rows are for training.
    """
    return stored("year-prediction", _read_year_prediction)


def _read_year_prediction(files: Files) -> Dataset:
    path = files["YearPredictionMSD.txt"]
    table = numbers(path, 1 + len(_TIMBRES))
    cut = _YEAR_TRAIN if len(table) == _YEAR_ROWS else 9 * len(table) // 10
    if not cut:
        raise DataError(f"{path} has {len(table)} row: at least 2 are needed; use the published file.")
    train, test = (Split(side[:, 1:].copy(), side[:, 0].copy()) for side in (table[:cut], table[cut:]))
    note = scale_columns(train, test, slice(None), "standard")
    return Dataset(
        "year-prediction", train, test, (), files.entry.licence, (note,), task="regression", columns=_TIMBRES
    )


def fma() -> Dataset:
    """The Free Music Archive: the year of release of an album by 518 features of one of its tracks, standardised.

    Of 106,574 tracks, those whose album has no date of release are left out. A twelfth is held out.
    """
    return stored("fma", _read_fma)


def _read_fma(files: Files) -> Dataset:
    path = files["features.csv"]
    columns, skip = _fma_columns(path)
    table = numbers(path, 1 + len(columns), skip=skip, dtype=np.float64)  # float32 would round large ids
    years = _release_years(files["tracks.csv"])
    y = np.array([years.get(track, np.nan) for track in table[:, 0].tolist()], dtype=np.float32)
    x, kept = table[:, 1:].astype(np.float32), np.flatnonzero(~np.isnan(y))
    absent = len(y) - len(kept)
    del table  # of float64, and 440 MB
    train, test = permuted(path, Split(x, y).take(kept), 12)
    notes = (
        f"{absent} of {len(y)} tracks left out, because their album has no date of release",
        scale_columns(train, test, slice(None), "standard"),
    )
    return Dataset("fma", train, test, (), files.entry.licence, notes, task="regression", columns=columns)


def _fma_columns(path: Path) -> tuple[tuple[str, ...], int]:
    """The name of each feature, such as mfcc-mean-01, and how many lines the header has: it ends with track_id."""
    lines = [line.split(",") for line in first_lines(path, _MOST_HEADER_LINES)]
    ends = [place for place, cells in enumerate(lines) if cells[0] == "track_id"]
    if not ends or len({len(cells) for cells in lines[: ends[0] + 1]}) > 1 or not ends[0]:
        raise bad_line(path, 1, f"'{shown(','.join(lines[0]))}'", _FMA_HEADER)
    return tuple("-".join(parts) for parts in zip(*lines[: ends[0]], strict=True))[1:], ends[0] + 1


def _release_years(path: Path) -> dict[float, float]:
    """The year of release of each track's album, by the track's id."""
    limit = csv.field_size_limit(2**31 - 1)  # the story of an album is one cell
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return _years_of_rows(path, csv.reader(file))
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path.") from error
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV ({error}): use the published file.") from error
    finally:
        csv.field_size_limit(limit)


def _years_of_rows(path: Path, reader: Any) -> dict[float, float]:
    header = list(itertools.islice(reader, 3))  # two levels of names, then track_id
    names = list(zip(*header[:2], strict=False))
    if len(header) < 3 or header[2][:1] != ["track_id"] or ("album", "date_released") not in names:
        raise bad_line(path, 1, "another header", "two lines with album above date_released, then track_id, are needed")
    place, years = names.index(("album", "date_released")), {}
    for row in filter(None, reader):
        if not is_number(row[0]) or len(row) != len(names):
            given = f"{len(row)} cells from '{shown(','.join(row))}' on, ending"
            raise bad_line(path, reader.line_num, given, f"a track's id and {len(names) - 1} more cells are needed")
        date = re.match(r"(\d{4})-|$", row[place])
        if date is None:
            given = f"the date '{shown(row[place])}' in the row ending"
            raise bad_line(path, reader.line_num, given, "year-month-day or nothing is needed")
        if date[1]:
            years[float(row[0])] = float(date[1])
    return years
