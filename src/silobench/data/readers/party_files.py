"""Tables of several parties, one file per party, with keys that tell which rows belong together."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.alignment.keys import year_in
from silobench.data.alignment.leaks import label_in_key
from silobench.data.alignment.matching import Entries, How, Keys, Matches
from silobench.data.alignment.matching import match as match_keys
from silobench.data.readers.checks import file_path, shorten
from silobench.data.readers.joined import texts_of
from silobench.data.table.cells import RawColumn
from silobench.data.table.files import PARQUET, Table, read_csv, read_parquet
from silobench.errors import DataError, listed, suggest

Duplicates: TypeAlias = Literal["refuse", "first"]
_IN_KEY = "key"  # instead of the name of a column of years: the year is in the key, as in "Heat (1995)"
_NORMALISED = " after they are normalised"
_LARGEST = 2.0**53  # whole numbers up to this are exact as floats


# --- the files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Party:
    """The table of a party. `key` and `year` are names of columns; "" if there is none."""

    name: str
    path: str
    table: Table
    key: str
    year: str

    @cached_property
    def keys(self) -> Keys:
        """The keys of the rows; without a key, all are empty."""
        texts = _key_texts(self) if self.key else [""] * max(map(len, self.table.columns.values()))
        return Keys(self.name, texts, _years(self, texts) if self.year else None)

    @property
    def features(self) -> dict[str, RawColumn]:
        """The columns of the table except for the key and a column without a name."""
        return {name: column for name, column in self.table.columns.items() if name not in ("", self.key)}


def read_parties(
    files: Sequence[str], label: str, keys: Sequence[str], years: Sequence[str], how: How, drop: Sequence[str] = ()
) -> list[Party]:
    """Return the parties, that of the label first."""
    if len(files) < 2:
        number = "1 file" if len(files) == 1 else "no file"
        raise DataError(f"linked has {number}: one per party is needed, so write files=[bank.csv, shop.csv].")
    for role, names in (("label", [label]), ("key", keys), ("year", years)):
        if "" in names:
            raise DataError(f"linked has an empty name as {role}: name a column, as in {role}=COLUMN.")
    if not keys and how != "order":
        raise DataError(f"linked has no key, but match={how} needs one: write key=COLUMN, or match=order.")
    if years and how not in ("normalised", "fuzzy"):
        raise DataError(f"linked has a year with match={how}: write match=normalised or fuzzy, or leave year out.")
    if label in keys:
        raise DataError(
            f"linked has '{label}' as the label and as a key, so every party would know the label: choose another key."
        )
    _check_files(files)
    key_of, year_of = _one_per_file("key", keys, files), _one_per_file("year", years, files)
    names = [_name_of(path) for path in files]
    roles = zip(files, key_of, year_of, strict=True)
    tables = [_read(path, [label, key], {*drop}, {label, key, year}) for path, key, year in roles]
    parties = [Party(*fields) for fields in zip(names, files, tables, key_of, year_of, strict=True)]
    for party in parties:
        _check_columns(party)
    holders = [party for party in parties if label in party.table.columns]
    if len(holders) != 1:
        raise _label_error(label, parties, holders)
    if label == holders[0].year:
        raise DataError(
            f"linked has '{label}' as the label and as a year that rows are matched by, so every party would know the "
            "label: leave year out."
        )
    return [*holders, *(party for party in parties if party is not holders[0])]


def _check_files(files: Sequence[str]) -> None:
    """Refuse a file that is given twice, and two files of the same name."""
    known: dict[Path, str] = {}
    names: dict[str, str] = {}
    for path in files:
        place, name = file_path(path).resolve(), _name_of(path)
        if place in known:
            raise DataError(f"linked has the file {path} twice: every party needs a file of its own, so give another.")
        if name in names:
            raise DataError(
                f"linked has the files {names[name]} and {path}, which would both be the party {name}: rename one."
            )
        known[place], names[name] = path, path


def _name_of(path: str) -> str:
    """Return the name of a party: a point separates it from a column, and a plus from other parties."""
    return re.sub(r"[.+]", "-", Path(path).stem)


def _one_per_file(role: str, names: Sequence[str], files: Sequence[str]) -> list[str]:
    if len(names) not in (0, 1, len(files)):
        raise DataError(
            f"linked has {len(names)} columns as {role} for {len(files)} files: give one for all files, or one per "
            "file."
        )
    return [*names] if len(names) == len(files) else [*names, ""][:1] * len(files)


def _read(path: str, wanted: Sequence[str], drop: Collection[str], roles: Collection[str]) -> Table:
    """Read a table; columns of a Parquet file that are dropped, and have none of the roles, may have any type."""
    file, prefix = file_path(path), f"{_name_of(path)}."
    if file.suffix.lower() in PARQUET:
        return read_parquet(file, drop=sorted({name.removeprefix(prefix) for name in drop} - {*roles}))
    try:
        return read_csv(file, wanted)
    except DataError as error:  # the encoding is an argument of `csv`, but not of `linked`
        raise DataError(re.sub(r"write encoding=.*", "save it as UTF-8.", str(error))) from error


def _check_columns(party: Party) -> None:
    """Refuse a table without the columns of key and year."""
    known = party.table.columns
    for role, name in (("key", party.key), ("year", party.year)):
        if name and name not in known and (role, name) != ("year", _IN_KEY):
            raise DataError(
                f"{party.path} has no column '{name}' for the {role} (write {role}=[A, B] if the files have different "
                f"names for it): {suggest(name, known)}"
            )


def _label_error(label: str, parties: Sequence[Party], holders: Sequence[Party]) -> DataError:
    if not holders:
        known = dict.fromkeys(name for party in parties for name in party.features)
        return DataError(
            f"{listed([party.path for party in parties])} have no column '{label}': one of them needs the label; "
            f"{suggest(label, known)}"
        )
    return DataError(
        f"{listed([party.path for party in holders])} have the label '{label}', but it must be at one party: remove "
        "the column from the other files, or rename it there."
    )


def complete(party: Party, name: str, role: str) -> RawColumn:
    """Return the column of the label or of a group; refuse one with missing cells."""
    known = party.table.columns
    if name not in known:
        raise DataError(
            f"{party.path}, which has the label, has no column '{name}' for the {role}: {suggest(name, known)}"
        )
    column = known[name]
    missing = column.factor.missing_rows(f"the {role} column '{name}'", party.table.place)
    if missing:
        raise DataError(f"{party.path} has {missing}: fill in or remove them.")
    return column


# --- keys --------------------------------------------------------------------------------------------


def _key_texts(party: Party) -> list[str]:
    """Return the keys as texts: the number 1.0 is "1". A missing key is empty."""
    column = party.table.columns[party.key]
    if column.kind == "number" and (np.abs(column.values) >= _LARGEST).any():
        raise DataError(
            f"{party.path} has numbers of 2^53 or more as keys in '{party.key}', which are not exact: store the keys "
            "as texts."
        )
    texts = texts_of(column)
    return [_plain_number(text) for text in texts] if _numeric_share(column) == 1 else texts


def _plain_number(text: str) -> str:
    """Return a number without a fraction of zeros; digits stay as they are, so 007 is not 7.

    >>> [_plain_number(text) for text in ("7.0", "007", "-3", "1e3", "0.5", "")]
    ['7', '007', '-3', '1000', '0.5', '']
    """
    if not text or re.fullmatch(r"-?\d+", text):
        return text
    number = float(text)
    return str(int(number)) if number % 1 == 0 else repr(number)


def _numeric_share(column: RawColumn) -> float:
    """Return the share of numbers among the different keys of a column."""
    if column.kind == "number":
        return 1.0
    texts = [text for text in column.factor.texts if text]
    return sum(_is_number(text) for text in texts) / max(len(texts), 1)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _years(party: Party, texts: Sequence[str]) -> NDArray[np.float64]:
    if party.year == _IN_KEY:
        return np.array([year_in(text) for text in texts])
    numbers = party.table.columns[party.year].numbers()
    if not isinstance(numbers, np.ndarray):
        raise DataError(f"{party.path} has a cell that is not a number in the year '{party.year}': correct it.")
    return numbers


def _check_types(parties: Sequence[Party]) -> None:
    """Refuse numbers as keys of one party and texts as those of another."""
    shares = {party.path: _numeric_share(party.table.columns[party.key]) for party in parties}
    by_path = {party.path: party for party in parties}
    most, least = max(shares, key=lambda path: shares[path]), min(shares, key=lambda path: shares[path])
    if shares[most] == 1 and shares[least] < 0.5:
        one, other = by_path[most], by_path[least]
        raise DataError(
            f"{one.path} has numbers as keys in '{one.key}' ({_example(one)}), but {other.path} has texts in "
            f"'{other.key}' ({_example(other)}): keys need the same type, so correct one of the columns."
        )
    coded = [party for party in parties if any(re.match(r"0\d", text) for text in party.keys.texts)]
    typed = [party for party in parties if party.table.columns[party.key].kind == "number"]
    if coded and typed:
        raise DataError(
            f"{coded[0].path} has keys with zeros in front in '{coded[0].key}' ({_example(coded[0])}), but "
            f"{typed[0].path} has numbers in '{typed[0].key}', which lost them: store these keys as texts."
        )


def _check_filled(party: Party) -> None:
    """Refuse a table in which no row has a key, or the year that is needed."""
    if party.keys.usable.any():
        return
    rows = len(party.keys)
    if any(map(str.strip, party.keys.texts)):
        raise DataError(
            f"{party.path} has no row with both a key and a year among its {rows} rows (a key is such as "
            f"{_example(party)}): rows are matched by both, so check year='{party.year}', or leave year out."
        )
    raise DataError(
        f"{party.path} has no keys: all {rows} cells of '{party.key}' are empty, so fill in the column, or name "
        "another one as key."
    )


def _example(party: Party) -> str:
    return f"'{shorten(next(filter(None, party.keys.texts), ''))}'"


def _check_duplicates(party: Party, how: How) -> None:
    repeated = Entries.of(party.keys, how).repeated
    if repeated:
        row, count = repeated[0]
        number = "1 key" if len(repeated) == 1 else f"{len(repeated)} keys"
        equal = {"fuzzy": " as words", "normalised": _NORMALISED, "psi-normalised": _NORMALISED}.get(how, "")
        raise DataError(
            f"{party.path} has {number} in '{party.key}' that several rows share{equal}, such as "
            f"'{shorten(party.keys.texts[row])}' in {count} rows: every row needs its own key, so remove rows, or "
            "write duplicates=first."
        )


def _plain_label(text: str) -> str:
    """Return a label as a key would contain it: the number 1960.0 is 1960.

    >>> [_plain_label(text) for text in ("1960.0", "1960,0", "1,500", "0.5", "07", "inf", "yes", "")]
    ['1960', '1960', '1,500', '0.5', '07', 'inf', 'yes', '']
    """
    point = re.sub(r"^([+-]?\d+),0{1,2}$", r"\1.0", text)  # a decimal comma
    return _plain_number(point) if _is_number(point) else text


def _check_leak(holder: Party, label: str) -> None:
    """Refuse keys that contain the label."""
    labels = [_plain_label(text) for text in texts_of(holder.table.columns[label])]
    leak = label_in_key(holder.keys.texts, labels)
    if leak is not None:
        share, row = leak
        raise DataError(
            f"{holder.path} has the label in its key: {share:.0%} of the keys in '{holder.key}' contain the value of "
            f"'{label}' in their row, such as '{shorten(holder.keys.texts[row])}' for '{shorten(labels[row])}', so "
            "every party that shares a key would know the label; choose a key without it."
        )


def match_parties(
    parties: Sequence[Party], label: str, how: How, tolerance: float, threshold: float, duplicates: Duplicates
) -> list[Matches]:
    """Return the rows of every party but the first, for each row of the first."""
    holder = parties[0]
    if all(party.key for party in parties):
        for party in parties:
            _check_filled(party)
        _check_types(parties)
        if how != "order":
            _check_leak(holder, label)
            for party in parties if duplicates == "refuse" else ():
                _check_duplicates(party, how)
    matches = []
    for party in parties[1:]:
        result = match_keys(holder.keys, party.keys, how, tolerance, threshold)
        if (result.places < 0).all():
            raise DataError(
                f"{party.path} has no row whose key is in {holder.path} (its keys are such as {_example(party)}, and "
                f"those of {holder.path} such as {_example(holder)}): {_advice(party, holder)}"
            )
        matches.append(result)
    return matches


def _advice(party: Party, holder: Party) -> str:
    """Return what to do about files without a shared key."""
    first, second = ({text.lstrip("0") for text in each.keys.texts} - {""} for each in (party, holder))
    if first & second:
        return "some keys differ only by zeros in front, so write them with the same number of digits in all files."
    return "shared keys are needed, so check the columns of the key, or choose another match."
