"""Datasets for predicting the year of a song: YearPredictionMSD (UCI) and the Free Music Archive."""

import csv
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from silobench.data.dataset import Dataset, Split
from silobench.data.readers.checks import bad_line, is_number, shorten, unreadable
from silobench.data.readers.delimited import first_lines, hold_out_part, numbers, scale_columns
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError

_YEAR_TRAIN, _YEAR_ROWS = 463_715, 515_345
_TIMBRES = (*(f"timbre-mean-{i}" for i in range(1, 13)), *(f"timbre-covariance-{i}" for i in range(1, 79)))
_MOST_HEADER_LINES = 6
_FMA_HEADER = "a header of several lines with equally many cells, the last of them starting with track_id, is needed"


def year_prediction() -> Dataset:
    """UCI's YearPredictionMSD: the year of 515,345 songs, 1922 to 2011, from 90 standardised timbre features.

    The published split is used, which has all songs of an artist on one side: the first 463,715 rows are for training.
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
        "year-prediction", train, test, (), files.entry.licence, (note,), task="regression", columns=_TIMBRES,
        target="year", unit="years",
    )  # fmt: skip


def fma() -> Dataset:
    """The Free Music Archive: the year of release of a track's album, from 518 standardised features of the track.

    Of the 106,574 tracks, those whose album has no release date are left out. A twelfth of the rows is held out.
    """
    return stored("fma", _read_fma)


def _read_fma(files: Files) -> Dataset:
    path = files["features.csv"]
    columns, skip = _fma_columns(path)
    table = numbers(path, 1 + len(columns), skip=skip, dtype=np.float64)  # float32 would round large ids
    years = _release_years(files["tracks.csv"])
    y = np.array([years.get(track, np.nan) for track in table[:, 0].tolist()], dtype=np.float32)
    x, dated = table[:, 1:].astype(np.float32), np.flatnonzero(~np.isnan(y))
    undated = len(y) - len(dated)
    del table  # 440 MB of float64
    train, test = hold_out_part(path, Split(x, y).take(dated), 12)
    notes = (
        f"{undated} of {len(y)} tracks left out, because their album has no release date",
        scale_columns(train, test, slice(None), "standard"),
    )
    return Dataset(
        "fma", train, test, (), files.entry.licence, notes, task="regression", columns=columns, target="year",
        unit="years",
    )  # fmt: skip


def _fma_columns(path: Path) -> tuple[tuple[str, ...], int]:
    """Return the names of the features, such as mfcc-mean-01, and the number of header lines; the last has track_id."""
    lines = [line.split(",") for line in first_lines(path, _MOST_HEADER_LINES)]
    ends = [number for number, cells in enumerate(lines) if cells[0] == "track_id"]
    if not ends or len({len(cells) for cells in lines[: ends[0] + 1]}) > 1 or not ends[0]:
        raise bad_line(path, 1, f"'{shorten(','.join(lines[0]))}'", _FMA_HEADER)
    return tuple("-".join(parts) for parts in zip(*lines[: ends[0]], strict=True))[1:], ends[0] + 1


def _release_years(path: Path) -> dict[float, float]:
    """Return the release year of the album of each track, by track id."""
    limit = csv.field_size_limit(2**31 - 1)  # one cell may hold the long description of an album
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return _years_of_rows(path, csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise unreadable(path, error, "CSV") from error
    finally:
        csv.field_size_limit(limit)


def _years_of_rows(path: Path, reader: Any) -> dict[float, float]:
    header = list(itertools.islice(reader, 3))  # two levels of names, then track_id
    names = list(zip(*header[:2], strict=False))
    if len(header) < 3 or header[2][:1] != ["track_id"] or ("album", "date_released") not in names:
        raise bad_line(
            path, 1, "an unknown header", "two lines with album above date_released, then track_id, are needed"
        )
    column, years = names.index(("album", "date_released")), {}
    for row in filter(None, reader):
        if not is_number(row[0]) or len(row) != len(names):
            problem = f"{len(row)} cells ('{shorten(','.join(row))}') in the row that ends"
            raise bad_line(path, reader.line_num, problem, f"a track id and {len(names) - 1} more cells are needed")
        date = re.match(r"(\d{4})-|$", row[column])
        if date is None:
            problem = f"the date '{shorten(row[column])}' in the row that ends"
            raise bad_line(path, reader.line_num, problem, "year-month-day or an empty cell is needed")
        if date[1]:
            years[float(row[0])] = float(date[1])
    return years
