"""Runs as a pandas DataFrame: `sb.results`."""

from pathlib import Path
from typing import Any, Literal

from silobench.analysis.flat.columns import CHOICES, columns_of
from silobench.analysis.flat.tables import Runs, arrow_table
from silobench.errors import ConfigError, suggest
from silobench.spec.arguments import path_of

By = Literal["round and party", "run", "round", "party"]
_BY = ("round and party", "run", "round", "party")
_TABLES = {"run": "runs", "round": "rounds", "party": "parties"}


def results(directory: str | Path, by: By = "round and party") -> Any:
    """Return all runs under a directory, or of a file of records, as a pandas DataFrame.

    `by` is what a row is: a "run", a "round" of a run, or a "party" in a round. By "round and party" it is both: rows
    of rounds have no party. Every row has the choices of its run, as categories; an absent value is NA. docs/export.md
    explains the columns.
    """
    pandas = _pandas()
    if by not in _BY:
        raise ConfigError(f"results cannot be by '{by}': {suggest(str(by), _BY)}")
    runs = Runs(path_of(directory, "the directory of results", "sb.results('runs')"))
    choices = _frame(pandas, "runs", runs)
    if by == "run":
        return choices
    names = ["run", "status", *CHOICES, "participation", "seed", "main_metric"]
    parts = [_frame(pandas, _TABLES[part], runs) for part in by.split(" and ")]
    rows = parts[0] if len(parts) == 1 else _stacked(pandas, parts)
    merged = choices[names].merge(rows, on="run", how="right", sort=False)
    return merged.astype({name: choices[name].dtype for name in names})


def _stacked(pandas: Any, parts: list[Any]) -> Any:
    """Return rows of rounds and of parties below each other, by run and round; a round comes before its parties."""
    both = pandas.concat(parts, ignore_index=True)
    places = {run: place for place, run in enumerate(both["run"].unique())}
    order = both.assign(place=both["run"].map(places)).sort_values(
        ["place", "round", "number"], na_position="first", kind="stable"
    )
    rows = order.drop(columns="place").reset_index(drop=True)
    first = ["run", "round", "party"]
    return rows[[*first, *(name for name in rows.columns if name not in first)]].astype({"party": "category"})


def _frame(pandas: Any, table: Any, runs: Runs) -> Any:
    """Return a table with the types of its columns: numbers that may be absent, and categories for choices."""
    nullable = {
        "int64": pandas.Int64Dtype(), "double": pandas.Float64Dtype(), "bool": pandas.BooleanDtype(),
        "string": pandas.StringDtype(),
    }  # fmt: skip
    frame = arrow_table(table, runs).to_pandas(types_mapper=lambda kind: nullable.get(str(kind)))
    return frame.astype({each.name: "category" for each in columns_of(table, ()) if each.kind == "choice"})


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(
            "results needs the package pandas, which is not installed: run pip install pandas."
        ) from error
    return pandas
