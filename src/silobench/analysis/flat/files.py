"""Flat tables as files: Parquet and CSV. One reading finds the columns, a second writes the rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from silobench.analysis.flat.columns import TABLES, columns_of
from silobench.analysis.flat.tables import Runs, batches_of, schema_of

_Open = Callable[[Path, pa.Schema], AbstractContextManager[Any]]


def write_parquet(runs: Runs, folder: Path) -> list[Path]:
    """Write runs.parquet, rounds.parquet and parties.parquet."""
    return _write(runs, folder, "parquet", lambda path, schema: pa.parquet.ParquetWriter(path, schema))


def write_csv(runs: Runs, folder: Path) -> list[Path]:
    """Write runs.csv, rounds.csv and parties.csv; an empty cell is a value that is absent."""
    return _write(runs, folder, "csv", lambda path, schema: pa.csv.CSVWriter(path, schema))


def _write(runs: Runs, folder: Path, suffix: str, open_file: _Open) -> list[Path]:
    """Write every table into a new file, which takes its place when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for table in TABLES:
        columns, path = columns_of(table, runs), folder / f"{table}.{suffix}"
        part = path.with_name(f".{path.name}.part")
        with open_file(part, schema_of(columns)) as file:
            for batch in batches_of(table, runs, columns):
                file.write_batch(batch)
        part.replace(path)
        paths.append(path)
    return paths
