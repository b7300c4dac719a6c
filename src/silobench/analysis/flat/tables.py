"""Flat tables as Arrow data: streamed run by run, so that many runs need no more memory than few."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from silobench.analysis.flat.columns import Column, Columns, TableName, columns_of
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
        yield from self._read([])

    @cached_property
    def survey(self) -> "Survey":
        """The number of runs, their columns and their problems, from one reading of all runs."""
        count, columns, problems = 0, Columns(), list[str]()
        for run in self._read(problems):
            count += 1
            columns.add(run)
        return Survey(count, columns, problems)

    def _read(self, problems: list[str]) -> Iterator[StoredRun]:
        seen: set[str] = set()
        for run in read_archive(self.root) if is_archive(self.root) else self._from_directory(problems):
            if run.facts.id not in seen:
                seen.add(run.facts.id)
                yield run

    def _from_directory(self, problems: list[str]) -> Iterator[StoredRun]:
        for path in run_paths(self.root):
            try:
                yield read_run(path)
            except RecordError as error:
                problems.append(str(error))


@dataclass(frozen=True)
class Survey:
    """The number of runs that can be read, the columns of their tables, and a sentence about each other run."""

    count: int
    columns: Columns
    problems: list[str]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of columns; the unit and the meaning of each are in its metadata."""
    return pa.schema(
        [pa.field(each.name, _TYPES[each.kind], metadata={"unit": each.unit, "about": each.about}) for each in columns]
    )


def batches_of(runs: Runs, columns: Mapping[TableName, Sequence[Column]]) -> Iterator[tuple[TableName, pa.RecordBatch]]:
    """Yield the rows of tables in large batches, from one reading of the runs; `columns` are those of each table."""
    schemas = {table: schema_of(each) for table, each in columns.items()}
    rows: dict[TableName, list[dict[str, Any]]] = {table: [] for table in columns}
    for run in runs:
        for table, waiting in rows.items():
            waiting.extend(rows_of(table, run, columns[table]))
            if len(waiting) >= _ROWS_AT_ONCE:
                yield table, pa.RecordBatch.from_pylist(waiting, schemas[table])
                rows[table] = []
    yield from ((table, pa.RecordBatch.from_pylist(rest, schemas[table])) for table, rest in rows.items() if rest)


def arrow_table(table: TableName, runs: Runs) -> pa.Table:
    """Return a whole table."""
    columns = columns_of(table, ()) if table == "parties" else runs.survey.columns.of(table)
    batches = [batch for _, batch in batches_of(runs, {table: columns})]
    return pa.Table.from_batches(batches, schema_of(columns))
