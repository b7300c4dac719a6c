"""Flat tables as Arrow data: streamed run by run, so that many runs need no more memory than few."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from silobench.analysis.flat.columns import Column, TableName, columns_of
from silobench.analysis.flat.rows import rows_of
from silobench.errors import RecordError
from silobench.runs.archive import is_archive, read_archive
from silobench.runs.stored import StoredRun, read_run, run_paths

_ROWS_AT_ONCE = 20_000
_TYPES = {"text": pa.string(), "choice": pa.string(), "whole": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}


@dataclass(frozen=True)
class Runs:
    """The runs of a directory or of an archive, to be read as often as needed; damaged runs are left out."""

    root: Path

    def __iter__(self) -> Iterator[StoredRun]:
        """Read one run after the other. A copy of a run counts once."""
        seen: set[str] = set()
        for run in read_archive(self.root) if is_archive(self.root) else self._from_directory([]):
            if run.facts.id not in seen:
                seen.add(run.facts.id)
                yield run

    def problems(self) -> list[str]:
        """Return a sentence about each run that cannot be read."""
        problems: list[str] = []
        if not is_archive(self.root):
            for _ in self._from_directory(problems):
                pass
        return problems

    def _from_directory(self, problems: list[str]) -> Iterator[StoredRun]:
        for path in run_paths(self.root):
            try:
                yield read_run(path)
            except RecordError as error:
                problems.append(str(error))


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of columns; the unit and the meaning of each are in its metadata."""
    return pa.schema(
        [pa.field(each.name, _TYPES[each.kind], metadata={"unit": each.unit, "about": each.about}) for each in columns]
    )


def batches_of(table: TableName, runs: Runs, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in large batches."""
    schema, rows = schema_of(columns), list[dict[str, Any]]()
    for run in runs:
        rows.extend(rows_of(table, run, columns))
        if len(rows) >= _ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def arrow_table(table: TableName, runs: Runs) -> pa.Table:
    """Return a whole table."""
    columns = columns_of(table, runs)
    return pa.Table.from_batches(batches_of(table, runs, columns), schema_of(columns))
