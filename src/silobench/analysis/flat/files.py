"""Flat tables as files: Parquet and CSV. One reading finds the columns, a second writes the rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from silobench.analysis.flat.columns import TABLES
from silobench.analysis.flat.tables import Runs, batches_of, schema_of
from silobench.safety.texts import cell

_Open = Callable[[Path, pa.Schema], AbstractContextManager[Any]]


def write_parquet(runs: Runs, folder: Path) -> list[Path]:
    """Write runs.parquet, rounds.parquet and parties.parquet."""
    return _write(runs, folder, "parquet", lambda path, schema: pa.parquet.ParquetWriter(path, schema))


def write_csv(runs: Runs, folder: Path) -> list[Path]:
    """Write runs.csv, rounds.csv and parties.csv; an empty cell is a value that is absent."""
    return _write(runs, folder, "csv", _CsvWriter)


class _CsvWriter:
    """A writer of CSV whose texts and names no spreadsheet computes."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = pa.schema([field.with_name(cell(field.name)) for field in schema])
        self._file = pa.csv.CSVWriter(path, self._schema)

    def __enter__(self) -> "_CsvWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [_cells_of(column) if pa.types.is_string(column.type) else column for column in batch.columns]
        self._file.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _cells_of(column: pa.Array) -> pa.Array:
    known = {text: cell(text) for text in column.unique().to_pylist() if text is not None}
    return pa.array([known.get(text) for text in column.to_pylist()], pa.string())


def _write(runs: Runs, folder: Path, suffix: str, open_file: _Open) -> list[Path]:
    """Write every table into a new file, which takes its place when all are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {table: runs.survey.columns.of(table) for table in TABLES}
    paths = {table: folder / f"{table}.{suffix}" for table in TABLES}
    parts = {table: path.with_name(f".{path.name}.part") for table, path in paths.items()}
    with ExitStack() as open_files:
        files = {}
        for table, part in parts.items():
            part.unlink(missing_ok=True)  # of an export that was cut off, or a link to somewhere else
            files[table] = open_files.enter_context(open_file(part, schema_of(columns[table])))
        for table, batch in batches_of(runs, columns):
            files[table].write_batch(batch)
    for table, part in parts.items():
        part.replace(paths[table])
    return list(paths.values())
