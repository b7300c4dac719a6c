"""The files of all silos on one machine: a rehearsal of what the silos do, each alone, with the same bits."""

from collections.abc import Sequence
from dataclasses import replace

from silobench.data.agreed.columns import Columns
from silobench.data.agreed.rows import SiloRows, dataset_of_rows, read_rows, summary_of_rows
from silobench.data.agreed.summary import joined
from silobench.data.dataset import Dataset, concatenate
from silobench.data.readers.user_tables import Names, as_names
from silobench.data.table.progress import Progress
from silobench.errors import DataError

_NAMED = 4  # silos that the name of the dataset lists


def silos(files: Names, columns: str) -> Dataset:
    """Files of several silos with the same columns: a rehearsal of training between them.

    `files` has a CSV or Parquet file for each silo, or a folder of pictures; a party is named by its file. `columns` is
    the file that states what the silos agree on. Rows are in the order of the files. Their features are those that the
    silos compute from their own rows and the joint sums, bit for bit.
    """
    agreed = Columns.read(columns)
    rows = _read(as_names(files), agreed)
    summary = joined([summary_of_rows(each, agreed) for each in rows])
    parts = [dataset_of_rows(each, agreed, summary) for each in rows]
    return replace(
        parts[0],
        name="+".join(each.name for each in rows) if len(rows) <= _NAMED else f"{len(rows)} silos",
        train=concatenate([part.train for part in parts]),
        test=concatenate([part.test for part in parts]),
        defaults={"partition": "by-group(order=rows)"},
    )


def _read(files: Sequence[str], columns: Columns) -> list[SiloRows]:
    """Return the rows of each file; refuse two files that would be the same silo."""
    if not files:
        raise DataError("silos has no files: one per silo is needed, so write files=[north.csv, south.csv].")
    rows: list[SiloRows] = []
    progress = Progress("reading the rows of silos", len(files), "silos")
    for file in files:
        each = read_rows(file, columns)
        same = next((other for other in rows if other.name == each.name), None)
        if same:
            raise DataError(
                f"silos has the files {same.title} and {each.title}, which would both be the silo {each.name}: rename "
                "one."
            )
        rows.append(each)
        progress.step()
    return rows
