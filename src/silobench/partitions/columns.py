"""Parties hold different columns of the same rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from silobench.data.dataset import Dataset, Split
from silobench.data.feature_names import columns_of, owners_of
from silobench.errors import PartitionError, listed, suggest
from silobench.partitions.skew import PARTITIONS, Absent, Deal, Partition, Skew
from silobench.spec.ranges import Share

Numbers: TypeAlias = NDArray[np.int64]  # of features
Presence: TypeAlias = NDArray[np.bool_]  # [parties, rows]: whether a party has a row
_OTHERS = "*"  # in a list of columns: all columns that no list names
_PARTIES = 2  # without a number of parties
_POOLED = re.compile(r"by the pooled training rows(, so every party learns the mean and deviation of all)?")
_BY_OWNER = "by the training rows of their owner, so no other party needs their statistics"


def _lists(value: Any) -> Any:
    """Return one of the three words, or lists of names as tuples."""
    if value in ("owner", "block", "random"):
        return value
    lists = value if isinstance(value, tuple | list) and value else (None,)
    if all(isinstance(names, tuple | list) for names in lists):
        lists = tuple(tuple(str(name) if type(name) is int else name for name in names) for names in lists)
        if all(isinstance(name, str) for names in lists for name in names):
            return lists
    raise PydanticCustomError(
        "by", "owner, block, random, or a list of columns per party such as [[age, sex], [income]]"
    )


By: TypeAlias = Annotated[str | tuple[tuple[str, ...], ...], BeforeValidator(_lists)]


@PARTITIONS.register
def columns(
    by: By = "owner",
    label: str = "",
    overlap: Share = 1.0,
    absent: Absent = "zeros",
    names: tuple[str, ...] = (),
    hybrid: bool = False,
) -> Skew:
    """Every party has other columns of the same rows; one party, the first by default, has the labels.

    `by=owner` follows the owners of a dataset (airline, weather service). `by=block` deals consecutive columns, and
    `by=random` random ones, to two parties or as many as the experiment states. Lists name the columns of each party:
    `by=[[Elevation, Slope], [Soil*], [*]]` of covtype, where `Soil*` are all columns that start with Soil, and `*` all
    that no list names.
    Features of one column of the source table (education=Masters) stay together.

    `names` are those of the parties, and `label` is the name of the one with the labels. Every other party has a random
    share `overlap` of the rows; with `hybrid`, so has the party with the labels, which still has all labels. `absent`
    is what replaces the columns of a row that a party does not have: zeros, or a learnt embedding; with drop, only rows
    that every party has are used.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        raise PartitionError(
            "columns divides columns among parties, but this federation divides rows: use federate_columns (in an "
            'experiment, algorithm = "split"), or choose another partition.'
        )

    def deal(dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Deal:
        table = _Table.of(dataset)
        groups = table.dealt(by, parties, rng)
        known = _names(names, list(groups), by != "owner")
        holder = _label(label, known)
        numbers = tuple(groups.values())
        partial = [party for party in range(len(known)) if hybrid or party != holder]
        train, test = (
            _drawn(_presence(split, table, numbers), partial, overlap, rng) for split in (dataset.train, dataset.test)
        )
        _need_rows(known, train, test, absent)
        notes = tuple(_notes(train, test, overlap < 1 and is_scaled(dataset)))
        return Deal(known, numbers, train, test, holder, absent, notes)

    return Skew(cut, deal=deal)


# --- columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """The columns of a dataset, as they are dealt: the features of a column stay together."""

    dataset: Dataset
    columns: tuple[str, ...]  # the column of each feature; empty if features have no names
    units: tuple[Numbers, ...]  # the features of each column

    @classmethod
    def of(cls, dataset: Dataset) -> "_Table":
        if dataset.vocabulary or dataset.task == "verification":
            rows = "texts" if dataset.vocabulary else "pairs for verification"
            raise PartitionError(
                f"{dataset.name} has {rows} as rows, which have no columns to deal: choose a table or images."
            )
        columns, width = columns_of(dataset), int(np.prod(dataset.shape))
        if columns and len(columns) != width:
            raise PartitionError(
                f"{dataset.name} has {len(columns)} names of columns for {width} features: give one name per feature."
            )
        return cls(dataset, columns, tuple(_units(columns, dataset.shape)))

    def dealt(
        self, by: str | tuple[tuple[str, ...], ...], parties: int | None, rng: np.random.Generator
    ) -> dict[str, Numbers]:
        """Return the features of each party, in ascending order."""
        if by == "owner":
            owners = owners_of(self.dataset)
            if len(owners) < 2:
                raise PartitionError(
                    f"{self.dataset.name} does not state owners of its columns: write by=block, by=random or lists of "
                    "columns."
                )
            groups = self._listed(list(owners.values()), list(owners))
        elif isinstance(by, tuple):
            groups = self._listed(by, [f"party-{party}" for party in range(len(by))])
        else:
            return self._divided(by, _PARTIES if parties is None else parties, rng)
        if parties not in (None, len(groups)):
            raise PartitionError(
                f"columns deals columns to {len(groups)} parties, but parties = {parties}: leave parties out."
            )
        return groups

    def _divided(self, by: str, parties: int, rng: np.random.Generator) -> dict[str, Numbers]:
        """Return blocks of columns of equal size, in the order of the table or in a random order."""
        count = len(self.units)
        if not 2 <= parties <= count:
            most = "2" if count == 2 else f"2 to {count}"
            advice = f"take {most} parties" if count > 1 else "choose a table with more columns"
            raise PartitionError(
                f"parties = {parties} does not fit {self.dataset.name}, whose number of columns is {count}: {advice}."
            )
        order = rng.permutation(count) if by == "random" else np.arange(count)
        blocks = np.array_split(order, parties)
        return {
            f"party-{party}": np.sort(np.concatenate([self.units[unit] for unit in block]))
            for party, block in enumerate(blocks)
        }

    def _listed(self, lists: Sequence[Sequence[str]], parties: Sequence[str]) -> dict[str, Numbers]:
        """Return the features of lists of names; refuse lists that leave out a feature, or that name it twice."""
        if not self.columns:
            raise PartitionError(
                f"{self.dataset.name} has no names of columns: write by=block or by=random instead of lists."
            )
        if len(lists) < 2:
            raise PartitionError(
                "columns needs at least 2 parties, but by has 1 list: write one list of columns per party."
            )
        party_of = np.full(len(self.columns), -1)
        for party, names in enumerate(lists):
            for places in map(self._places, (name for name in names if name != _OTHERS)):
                taken = places[(party_of[places] >= 0) & (party_of[places] != party)]
                if len(taken):
                    raise PartitionError(
                        f"column '{self.columns[taken[0]]}' is at the parties {parties[party_of[taken[0]]]} and "
                        f"{parties[party]}: list it once."
                    )
                party_of[places] = party
        rest = [party for party, names in enumerate(lists) if _OTHERS in names]
        if len(rest) > 1:
            raise PartitionError(
                f"{_OTHERS} (all other columns) is at the parties {parties[rest[0]]} and {parties[rest[1]]}: write it "
                "in one list."
            )
        return self._complete(party_of, rest, parties)

    def _complete(self, party_of: Numbers, rest: Sequence[int], parties: Sequence[str]) -> dict[str, Numbers]:
        """Return the features by party, after the party in `rest` has got all others."""
        others = np.flatnonzero(party_of < 0)
        if len(others) and not rest:
            columns = list(dict.fromkeys(self.columns[place] for place in others))
            raise PartitionError(
                f"{self.dataset.name} has columns without a party ({listed(columns, 3)}): list them, or write "
                f"{_OTHERS} in one list for all other columns."
            )
        party_of[others] = rest[0] if rest else -1
        groups = {name: np.flatnonzero(party_of == party) for party, name in enumerate(parties)}
        for name, numbers in groups.items():
            if not len(numbers):
                raise PartitionError(f"party {name} has no columns: give it one, or leave its list out.")
        return groups

    def _places(self, name: str) -> Numbers:
        """Return the features of a column, the feature of this name, or those that match a pattern such as soil*."""
        both = list(zip(self.dataset.columns, self.columns, strict=True))
        places = [place for place, known in enumerate(both) if name in known]
        if not places and _OTHERS in name:
            pattern = re.compile(".*".join(map(re.escape, name.split(_OTHERS))), re.DOTALL)
            places = [place for place, known in enumerate(both) if any(map(pattern.fullmatch, known))]
        if not places:
            raise PartitionError(
                f"{self.dataset.name} has no column '{name}': {suggest(name, dict.fromkeys(self.columns))}"
            )
        return np.array(places, dtype=np.int64)


def source_columns(dataset: Dataset, parties: Sequence[Numbers]) -> list[int]:
    """Return the number of columns of the source table that the features of each party come from."""
    units = _Table.of(dataset).units
    unit_of = np.empty(sum(map(len, units)), dtype=np.int64)
    for unit, places in enumerate(units):
        unit_of[places] = unit
    return [len(np.unique(unit_of[features])) for features in parties]


def _units(columns: Sequence[str], shape: Sequence[int]) -> Iterator[Numbers]:
    """Yield the features of each column; without names, those of each pixel or single features."""
    if columns:
        places: dict[str, list[int]] = {}
        for place, column in enumerate(columns):
            places.setdefault(column, []).append(place)
        yield from (np.array(numbers, dtype=np.int64) for numbers in places.values())
        return
    channels = shape[0] if len(shape) == 3 else 1  # an image is [channels, height, width]
    yield from np.arange(np.prod(shape), dtype=np.int64).reshape(channels, -1).T


# --- parties -----------------------------------------------------------------------------------------


def _names(names: tuple[str, ...], known: Sequence[str], are_numbered: bool) -> tuple[str, ...]:
    """Return the names of parties: those that were given, or those that are known."""
    if not names:
        return tuple(known)
    if len(names) != len(known):
        owners = "" if are_numbered else f" ({listed(known)})"
        raise PartitionError(
            f"the {len(known)} parties of columns{owners} need as many names, but names has {len(names)}: give one "
            "name per party."
        )
    return names


def _label(label: str, names: Sequence[str]) -> int:
    if label and label not in names:
        raise PartitionError(f"columns has no party '{label}' for the labels: {suggest(label, names)}")
    return names.index(label) if label else 0


# --- rows --------------------------------------------------------------------------------------------


def _presence(split: Split, table: _Table, numbers: Sequence[Numbers]) -> Presence:
    """Return which rows each party has: those that an owner of one of its columns has, all without known sources."""
    owners = owners_of(table.dataset)
    everywhere = np.ones((len(numbers), len(split)), dtype=bool)
    if not owners or "sources" not in split.groups:
        return everywhere
    values, inverse = np.unique(split.groups["sources"], return_inverse=True)
    sources = [set(str(value).split("+")) for value in values]
    if not set().union(*sources) <= set(owners):
        return everywhere  # a level of another meaning
    owner_of = {feature: owner for owner, features in owners.items() for feature in features}
    held = [{owner_of.get(table.dataset.columns[number]) for number in features} for features in numbers]
    known = np.array([[bool(owners & source) for source in sources] for owners in held])
    return known[:, inverse.reshape(-1)]


def _drawn(presence: Presence, partial: Sequence[int], overlap: float, rng: np.random.Generator) -> Presence:
    """Return the rows of parties after each party in `partial` has kept a random share of its rows."""
    if overlap == 1:
        return presence
    drawn = presence.copy()
    for party in partial:
        rows = np.flatnonzero(presence[party])
        drawn[party] = False
        drawn[party, rng.choice(rows, round(overlap * len(rows)), replace=False)] = True
    return drawn


def _need_rows(names: Sequence[str], train: Presence, test: Presence, absent: Absent) -> None:
    """Refuse parties without rows, and parties that have no test row in common (with drop, also no training row)."""
    for part, rows in (("training", train), ("test", test)):
        counts = rows.sum(1)
        for name, count in zip(names, counts, strict=True):
            if not count:
                raise PartitionError(
                    f"party {name} has none of the {rows.shape[1]} {part} rows: take a larger overlap or more data."
                )
        if not rows.all(0).any() and (part == "test" or absent == "drop"):
            shown = listed([f"{name} {count}" for name, count in zip(names, counts, strict=True)])
            raise PartitionError(
                f"none of the {rows.shape[1]} {part} rows is at every party ({shown}): take a larger overlap, more "
                f"data or fewer parties{', or absent=zeros' if part == 'training' else ''}."
            )


def is_scaled(dataset: Dataset) -> bool:
    """Whether the notes of a dataset say that training rows determine how its columns are scaled."""
    return any(_BY_OWNER in note for note in notes_for_columns(dataset))


def notes_for_columns(dataset: Dataset) -> tuple[str, ...]:
    """Return the notes of a dataset, for parties that hold columns: the owner of a column scales it by itself."""
    return tuple(_POOLED.sub(_BY_OWNER, note) for note in dataset.notes)


def _notes(train: Presence, test: Presence, has_wider_scales: bool) -> Iterator[str]:
    parts = (("training", train), ("test", test))
    if not (train.all() and test.all()):
        shown = [f"{int(rows.all(0).sum())} of {rows.shape[1]} {part} rows" for part, rows in parts]
        yield f"every party has {' and '.join(shown)}"
    if not (train.any(0).all() and test.any(0).all()):
        shown = [f"{int((~rows.any(0)).sum())} {part} rows" for part, rows in parts]
        yield f"no party has {' and '.join(shown)}, which are not used"
    if has_wider_scales:
        yield "columns were scaled before rows were drawn, also by training rows that overlap takes from their owner"
