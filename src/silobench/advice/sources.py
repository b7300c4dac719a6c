"""Where profiles come from: tables with a column of parties, a dataset with a partition, and the file of one party."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.advice.profile import Profile, count, count_codes
from silobench.advice.schema import MISSING, CategoryBins, ColumnBins, NumberBins, Schema
from silobench.data.bins import quantile_bins
from silobench.data.encoder import CategoryColumn, DateColumn, NumberColumn
from silobench.data.readers.user_tables import Names, Source, label_targets, plan_table
from silobench.data.table.cells import RawColumn
from silobench.data.table.choices import Choices, Plan, write_spec
from silobench.data.table.files import PARQUET, read_columns, read_csv, read_parquet
from silobench.errors import DataError, listed, suggest
from silobench.federation import Federation
from silobench.rng import stream

BINS = 5  # of numbers, with about equally many rows each
_MOST_CATEGORIES = 20
_MOST_FEATURES = 64  # of an array; more are summarised
_PROJECTIONS = 14  # random directions that summarise wide rows, beside mean and deviation
_BLOCK = 4096  # rows that are summarised at a time


@dataclass(frozen=True)
class BinnedRows:
    """Rows in bins: the party of each, its class, and its bin of each feature."""

    parties: tuple[str, ...]
    party_of_row: NDArray[np.int64]
    labels: NDArray[np.int64]
    features: tuple[NDArray[np.int64], ...]
    schema: Schema
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()  # columns that look like identifiers, or have too many texts
    dates: tuple[str, ...] = ()  # columns of dates that a dataset takes for texts unless its spec names them

    def profiles(self) -> list[Profile]:
        """Return the exact profile of each party."""
        profiles = []
        for place, name in enumerate(self.parties):
            rows = np.flatnonzero(self.party_of_row == place)
            codes = [feature[rows] for feature in self.features]
            profiles.append(count_codes(name, self.labels[rows], codes, self.schema))
        return profiles


# --- tables ------------------------------------------------------------------------------------------


def table_rows(
    path: Path, label: str, party: str, drop: Sequence[str] = (), schema: Schema | None = None
) -> BinnedRows:
    """Read the rows of a CSV or Parquet table whose column `party` says where each row is.

    Without a schema, bins follow from all rows: numbers have quantile bins, and texts their categories.
    """
    if schema is not None:
        return _stated_rows(path, label, party, schema)
    is_parquet = path.suffix.lower() in PARQUET
    table = read_parquet(path, drop=drop) if is_parquet else read_csv(path, (label, party))
    choices = Choices(is_csv=not is_parquet, detects_dates="all", comma_separates=table.sep == ",", many="hash")
    source = Source(str(path), path.stem, write_spec, "texts such as class-1")
    roles: dict[str, Names | None] = {"label": label, "group": (party,), "drop": tuple(drop), "dates": "auto"}
    planned = plan_table(source, table, roles, choices)
    targets = label_targets(source, label, planned.label, "auto", planned.choices)
    if targets.classes:
        label_bins: ColumnBins = CategoryBins(label, targets.classes)
        codes = targets.y.astype(np.int64)
    else:
        bins = quantile_bins(targets.y)
        label_bins, codes = NumberBins(label, bins.edges[1:-1]), bins.codes(targets.y)
    notes, not_compared = list(targets.notes), list[str]()
    features = list(_binned_features(planned.plan, notes, not_compared))
    names, party_of_row = _party_codes(planned.groups[party])
    schema = Schema(label_bins, tuple(bins for bins, _ in features))
    binned = tuple(codes for _, codes in features)
    is_named = not is_parquet  # the dataset of a Parquet file detects all dates itself
    dates = tuple(part.name for part in planned.plan.parts if isinstance(part, DateColumn) and is_named)
    return BinnedRows(names, party_of_row, codes, binned, schema, tuple(notes), tuple(not_compared), dates)


def table_spec(path: str, label: str, drop: Sequence[str] = (), party: str = "", dates: Sequence[str] = ()) -> str:
    """Return the spec of the dataset of a table; with a column of parties, these are its groups."""
    form = "parquet" if Path(path).suffix.lower() in PARQUET else "csv"
    groups: dict[str, Any] = {"group": party} if party else {}
    arguments = {
        "path": path,
        "label": label,
        **groups,
        **({"drop": tuple(drop)} if drop else {}),
        **({"dates": tuple(dates)} if dates else {}),
    }
    return f"{form}({', '.join(write_spec(name, value) for name, value in arguments.items())})"


def _stated_rows(path: Path, label: str, party: str, schema: Schema) -> BinnedRows:
    """Read the columns of a schema, and put their rows into its bins."""
    if schema.label.name != label:
        raise DataError(
            f"the schema has the label '{schema.label.name}', but --label says '{label}': give the label of the schema."
        )
    columns = _schema_columns(path, (*schema.columns, party))
    names, party_of_row = _party_codes(columns[party])
    labels = schema.label.codes(columns[label])
    if (labels < 0).any():
        count(str(path), columns, schema)  # it says which label is unknown
    features = tuple(bins.codes(columns[bins.name]) for bins in schema.features)
    return BinnedRows(names, party_of_row, labels, features, schema)


def _schema_columns(path: Path, wanted: Sequence[str]) -> Mapping[str, RawColumn]:
    columns = read_columns(path, wanted)
    absent = [name for name in wanted if name not in columns]
    if absent:
        hint = suggest(absent[0], columns) if columns else "check the header of the file."
        quoted = listed([f"'{name}'" for name in absent])
        raise DataError(f"{path} has no column{'s' * (len(absent) > 1)} {quoted}: {hint}")
    return columns


def party_profile(path: Path, party: str, schema: Schema) -> Profile:
    """Return the exact profile of a file that has the rows of one party."""
    return count(party, _schema_columns(path, schema.columns), schema)


def _party_codes(column: RawColumn) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    factor = column.factor
    if factor.missing:
        raise DataError(f"{factor.missing} rows have no party: fill in or remove them.")
    return tuple(factor.texts), factor.codes.astype(np.int64)


def _binned_features(
    plan: Plan, notes: list[str], not_compared: list[str]
) -> Iterator[tuple[ColumnBins, NDArray[np.int64]]]:
    """Yield the bins of each column and the bins of its cells; columns that have no bins are noted and named."""
    for part in plan.parts:
        column = plan.columns[part.name]
        if part.name in plan.identifiers:
            notes.append(f"the column '{part.name}' looks like an identifier, so it was not compared")
            not_compared.append(part.name)
        elif isinstance(part, NumberColumn | DateColumn):
            numbers = part.numbers(column)[0]
            bins = number_bins(part.name, numbers)
            if bins:
                yield bins, bins.codes(RawColumn("number", numbers))
        elif isinstance(part, CategoryColumn):
            categories = _frequent(part.name, column)
            yield categories, categories.codes(column)
        else:
            notes.append(f"the column '{part.name}' has too many different texts, so it was not compared")
            not_compared.append(part.name)


def number_bins(name: str, numbers: NDArray[np.float64]) -> NumberBins | None:
    """Return quantile bins of numbers; None if all are equal. Empty cells, where there are any, get one more bin."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return None
    cuts = np.unique(np.quantile(known, np.arange(1, BINS) / BINS, method="higher"))
    cuts = cuts[cuts > known.min()]
    return NumberBins(name, tuple(cuts.tolist()), len(known) < len(numbers)) if len(cuts) else None


def _frequent(name: str, column: RawColumn) -> CategoryBins:
    """Return bins of the most frequent categories of a column."""
    factor = column.factor
    order = np.argsort(-np.bincount(factor.codes, minlength=len(factor.texts)), kind="stable")[:_MOST_CATEGORIES]
    return CategoryBins(name, tuple(factor.texts[place] or MISSING for place in sorted(order.tolist())))


# --- datasets -----------------------------------------------------------------------------------------


def federation_rows(federation: Federation) -> BinnedRows:
    """Return the training rows of a federation in bins, with the noise of its partition.

    Rows with many features, such as images, are summarised by their mean, their deviation and random projections.
    """
    dataset, parties = federation.dataset, federation.parties
    rows = np.concatenate([party.rows.numpy() for party in parties])
    party_of_row = np.repeat(np.arange(len(parties)), [len(party.rows) for party in parties])
    table = _numbers(federation)[rows]
    names = _feature_names(federation, table.shape[1])
    features = [
        (bins, bins.codes(RawColumn("number", values)))
        for name, values in zip(names, table.T, strict=True)
        if (bins := number_bins(name, values))
    ]
    target = dataset.target or "label"
    label = CategoryBins(target, dataset.classes) if dataset.classes else NumberBins(target, dataset.bins.edges[1:-1])
    schema = Schema(label, tuple(bins for bins, _ in features))
    codes = dataset.codes[rows].astype(np.int64)
    return BinnedRows(
        tuple(party.name for party in parties), party_of_row, codes, tuple(codes for _, codes in features), schema
    )


def _feature_names(federation: Federation, width: int) -> list[str]:
    columns = federation.dataset.columns
    if len(columns) == width:
        names = list(columns)
    elif width == _PROJECTIONS + 2:
        names = ["mean of the row", "deviation of the row", *(f"projection {i}" for i in range(_PROJECTIONS))]
    else:
        names = [f"feature {place}" for place in range(width)]
    taken = federation.dataset.target or "label"
    return [f"{name} (feature)" if name == taken else name for name in names]


def _numbers(federation: Federation) -> NDArray[np.float64]:
    """Return the features of all training rows as numbers, [rows, features], summarised if there are many."""
    x: Any = federation.x
    x = x if sparse.issparse(x) else x.numpy().reshape(len(x), -1)
    is_words = bool(federation.dataset.vocabulary)
    if x.shape[1] <= _MOST_FEATURES and not is_words:
        return np.asarray(x.toarray() if sparse.issparse(x) else x, np.float64)
    width = len(federation.dataset.vocabulary) if is_words else x.shape[1]
    directions = stream(0, "advice-projections").standard_normal((width, _PROJECTIONS)) / np.sqrt(width)
    return np.concatenate([_summary(x[at : at + _BLOCK], directions, is_words) for at in range(0, x.shape[0], _BLOCK)])


def _summary(x: Any, directions: NDArray[np.float64], is_words: bool) -> NDArray[np.float64]:
    """Return the mean and the deviation of each row, and its products with some directions."""
    if is_words:
        places, words = np.nonzero(x)
        x = sparse.csr_matrix((np.ones(len(places)), (places, x[places, words])), (len(x), len(directions)))
    x = x.astype(np.float64)
    square = x.multiply(x) if sparse.issparse(x) else x * x
    mean, second = (np.asarray(each.mean(1)).reshape(-1) for each in (x, square))
    deviation = np.sqrt(np.maximum(second - mean**2, 0))
    return np.column_stack([mean, deviation, np.asarray(x @ directions)])
