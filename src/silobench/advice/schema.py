"""`Schema`: the bins of all columns that parties agree on before they count anything.

A private profile is private only if its bins do not follow from the rows. So a coordinator states ranges and
categories, and every party counts in the same bins.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.atomic import replace_atomically
from silobench.data.table.cells import BadCells, RawColumn
from silobench.data.table.matching import places_of
from silobench.errors import ConfigError, DataError, listed

MISSING = "(missing)"  # the category of empty cells
UNCOUNTED = -1  # the bin of a cell that no bin of the schema fits
_VERSION = 1


@dataclass(frozen=True)
class NumberBins:
    """Bins of a column of numbers. Numbers beyond the first and the last cut are in the first and the last bin."""

    name: str
    cuts: tuple[float, ...]  # where each bin but the first begins, ascending
    has_missing: bool = False  # whether one more bin counts empty cells

    def __post_init__(self) -> None:
        if not self.cuts or any(not math.isfinite(cut) for cut in self.cuts) or list(self.cuts) != sorted({*self.cuts}):
            raise ConfigError(
                f"the column '{self.name}' has the cuts {list(self.cuts)}: give at least one, finite and ascending."
            )

    def __len__(self) -> int:
        return len(self.cuts) + 1 + self.has_missing

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each bin: where it begins or ends."""
        bins = (f"<{self.cuts[0]:.4g}", *(f">={cut:.4g}" for cut in self.cuts))
        return (*bins, MISSING) if self.has_missing else bins

    def codes(self, column: RawColumn) -> NDArray[np.int64]:
        """Return the bin of each cell; -1 for an empty cell that no bin counts."""
        numbers = column.numbers()
        if numbers is None or isinstance(numbers, BadCells):
            raise DataError(
                f"the column '{self.name}' has cells that are no finite numbers, but the schema has ranges for it: "
                "correct the cells, or state its categories."
            )
        codes = np.searchsorted(np.array(self.cuts), numbers, side="right")
        return np.where(np.isnan(numbers), len(self.cuts) + 1 if self.has_missing else UNCOUNTED, codes)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "cuts": list(self.cuts), "has_missing": self.has_missing}


@dataclass(frozen=True)
class CategoryBins:
    """Bins of a column of categories: one per category. Other texts are not counted."""

    name: str
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise ConfigError(
                f"the column '{self.name}' has the categories {listed(self.categories) or 'none'}: give each once."
            )

    def __len__(self) -> int:
        return len(self.categories)

    @property
    def names(self) -> tuple[str, ...]:
        return self.categories

    def codes(self, column: RawColumn) -> NDArray[np.int64]:
        """Return the bin of each cell; -1 for a text that is no category."""
        places = places_of(column, self.categories)
        if MISSING in self.categories and "" in column.factor.texts:
            places[column.factor.texts.index("")] = self.categories.index(MISSING)
        return np.array(places, np.int64)[column.factor.codes]

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "categories": list(self.categories)}


ColumnBins = NumberBins | CategoryBins


@dataclass(frozen=True)
class Schema:
    """The bins of the label and of each feature."""

    label: ColumnBins
    features: tuple[ColumnBins, ...]

    def __post_init__(self) -> None:
        names = [self.label.name, *(feature.name for feature in self.features)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"the schema has the column {listed(twice)} more than once: state each column once.")
        if len(self.label) < 2:
            raise ConfigError(f"the label '{self.label.name}' has one class: state at least two.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, the label first."""
        return (self.label.name, *(feature.name for feature in self.features))

    @property
    def digest(self) -> str:
        """A hash that tells schemas apart."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "label": self.label.as_json(),
            "features": [feature.as_json() for feature in self.features],
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], source: str) -> "Schema":
        """Return the schema of `as_json`; refuse facts that have another form."""
        try:
            if facts["version"] != _VERSION:
                raise ValueError(f"version {facts['version']}")
            return cls(_bins(facts["label"]), tuple(_bins(feature) for feature in facts["features"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{source} has no schema that can be read ({type(error).__name__}: {error}): write one with "
                "`silobench advise schema`."
            ) from error

    def write(self, path: Path) -> None:
        write_object(path, json.dumps(self.as_json(), indent=1))

    @classmethod
    def read(cls, path: Path) -> "Schema":
        return cls.from_json(read_object(path, "a schema"), str(path))


def write_object(path: Path, text: str) -> None:
    """Write a JSON file; refuse a path that is no file's."""
    if not path.name or path.is_dir():
        raise ConfigError(f"{path} is a directory: give the path of a file with --out.")
    replace_atomically(path, text.encode() + b"\n")


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON file that has one object; `what` says in messages what it should be."""
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): give the path of {what}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON, so it is not {what}: write it again.") from error
    if not isinstance(facts, dict):
        raise DataError(f"{path} is JSON, but not {what}: write it again.")
    return facts


def _bins(facts: Mapping[str, Any]) -> ColumnBins:
    if "categories" in facts:
        return CategoryBins(str(facts["name"]), tuple(map(str, facts["categories"])))
    return NumberBins(str(facts["name"]), tuple(map(float, facts["cuts"])), bool(facts.get("has_missing", False)))


# --- stated by a coordinator --------------------------------------------------------------------------


def stated_bins(text: str, bins: int) -> ColumnBins:
    """Return the bins of ``age=0:100`` (a range, cut into equal parts) or of ``sex=f,m`` (categories).

    >>> stated_bins("age=0:100", 4).names
    ('<25', '>=25', '>=50', '>=75')
    >>> stated_bins("sex=f, m", 4).names
    ('f', 'm')
    """
    name, equals, stated = (part.strip() for part in text.partition("="))
    if not (name and equals and stated):
        raise ConfigError(f"'{text}' states no bins: write COLUMN=LEAST:MOST for numbers, or COLUMN=CATEGORY,CATEGORY.")
    limits = _limits(stated)
    if limits is None:
        return CategoryBins(name, tuple(part.strip() for part in stated.split(",")))
    least, most = limits
    if not least < most:
        raise ConfigError(f"the range {stated} of '{name}' is empty: write the smaller number first, as in 0:100.")
    return NumberBins(name, tuple(np.linspace(least, most, bins + 1)[1:-1].tolist()))


def _limits(stated: str) -> tuple[float, float] | None:
    """Return the two numbers of a range; None if the text is a list of categories."""
    try:
        least, most = map(float, stated.split(":"))
    except ValueError:
        return None
    if not (math.isfinite(least) and math.isfinite(most)):
        raise ConfigError(f"the range {stated} has a limit that is no finite number: write one such as 0:100.")
    return least, most


def stated_schema(label: str, features: Sequence[str], bins: int) -> Schema:
    """Return the schema that a coordinator states, column by column."""
    return Schema(stated_bins(label, bins), tuple(stated_bins(feature, bins) for feature in features))
