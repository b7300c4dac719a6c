"""Rows of two owners that belong together, by their keys."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.alignment.fuzzy import Pair, similar_pairs
from silobench.data.alignment.keys import Places, places_of, text_key, text_words, without_year
from silobench.data.table.progress import Progress
from silobench.errors import DataError
from silobench.privacy.intersection import intersect, normal_key, points_of

How: TypeAlias = Literal["exact", "normalised", "fuzzy", "psi", "psi-normalised", "order"]


def _letters(text: str) -> str:
    return normal_key(text_key(text))  # a private set intersection compares keys in this form


FORMS: Mapping[How, Callable[[str], str]] = {
    "exact": normal_key,
    "normalised": _letters,
    "fuzzy": text_words,
    "psi": normal_key,
    "psi-normalised": _letters,
    "order": normal_key,
}
PRIVATE: tuple[How, ...] = ("psi", "psi-normalised")
_EXAMPLES = 20  # likely false matches that are shown


@dataclass(frozen=True)
class Keys:
    """The keys of an owner's rows. A key without a character other than spaces is missing.

    With `years`, rows also need a year (NaN is a missing one), and years in parentheses are not part of a key.
    """

    owner: str
    texts: Sequence[str]
    years: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def empty(self) -> int:
        """The number of rows without a key, or without a year that is needed."""
        return len(self) - int(self.usable.sum())

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether each row has a key, and the year that is needed."""
        has_key = np.array([bool(name.strip()) for name in self.names], dtype=bool)
        return has_key if self.years is None else has_key & ~np.isnan(self.years)

    @property
    def names(self) -> Sequence[str]:
        """The texts that are compared."""
        return self.texts if self.years is None else [without_year(text) for text in self.texts]


@dataclass(frozen=True)
class Entries:
    """The distinct keys of an owner in the form in which they are compared, in the order of their first rows."""

    forms: list[str]
    years: list[float]
    first: list[int]  # first row of each entry
    entry_of: NDArray[np.int64]  # entry of each row; -1 for a row without a key

    @classmethod
    def of(cls, keys: Keys, how: How) -> "Entries":
        form = FORMS[how]
        texts = keys.names
        years = [0.0] * len(keys) if keys.years is None else keys.years.tolist()
        numbers: dict[tuple[str, float], int] = {}
        first: list[int] = []
        entry_of = np.full(len(keys), -1, dtype=np.int64)
        for row in np.flatnonzero(keys.usable).tolist():
            entry_of[row] = numbers.setdefault((form(texts[row]), years[row]), len(first))
            if entry_of[row] == len(first):
                first.append(row)
        return cls([text for text, _ in numbers], [year for _, year in numbers], first, entry_of)

    @property
    def repeated(self) -> list[tuple[int, int]]:
        """The first row of each key that several rows have, and the number of its rows; the most frequent first."""
        counts = Counter(self.entry_of[self.entry_of >= 0].tolist())
        return [(self.first[entry], count) for entry, count in counts.most_common() if count > 1]

    @property
    def duplicates(self) -> int:
        """The number of rows that repeat the key of an earlier row."""
        return int((self.entry_of >= 0).sum()) - len(self.first)


@dataclass(frozen=True)
class Matches:
    """The row of another owner for each row of the label holder, and what is doubtful about it."""

    places: Places
    likely_false: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()  # likely false matches, the most doubtful first
    costs: Mapping[str, float] = field(default_factory=dict)  # seconds and bytes of a private set intersection


def match(holder: Keys, other: Keys, how: How, tolerance: float = 1, threshold: float = 0.9) -> Matches:
    """Match each row of the label holder with at most one row of another owner.

    `how` is exact, normalised, fuzzy, psi, psi-normalised or order. A row of the other owner belongs to one key of the
    label holder; of rows with the same key, the first is used. Years differ by at most `tolerance`, and fuzzy keys are
    at least as similar as `threshold`.
    """
    if how == "order":
        return _by_order(holder, other)
    mine, theirs = Entries.of(holder, how), Entries.of(other, how)
    costs: dict[str, float] = {}
    doubtful: list[Mapping[str, Any]] = []
    if how == "fuzzy":
        pairs = _fuzzy_pairs(mine, theirs, tolerance, threshold)
        chosen = {pair.first: pair.second for pair in pairs}
        doubtful = _doubtful(pairs, mine, theirs, holder, other, threshold)
    elif how in PRIVATE:
        chosen, costs = _private_pairs(mine, theirs)
    elif holder.years is not None:
        chosen = _pairs_by_year(mine, theirs, tolerance)
    else:
        places = places_of(mine.forms, theirs.forms).tolist()
        chosen = {entry: place for entry, place in enumerate(places) if place >= 0}
    rows = np.full(len(mine.first) + 1, -1, dtype=np.int64)  # the last is for rows without a key
    for entry, place in chosen.items():
        rows[entry] = theirs.first[place]
    return Matches(rows[mine.entry_of], len(doubtful), tuple(doubtful[:_EXAMPLES]), costs)


def _by_order(holder: Keys, other: Keys) -> Matches:
    """Match rows by their numbers; refuse tables that cannot have the same order."""
    if len(holder) != len(other):
        raise DataError(
            f"{holder.owner} has {len(holder)} rows and {other.owner} {len(other)}: match=order needs the same rows in "
            "the same order in every file, so correct the files, or match them by a key."
        )
    form = FORMS["order"]
    differ = [row for row in range(len(holder)) if form(holder.texts[row]) != form(other.texts[row])]
    if differ:
        row = differ[0]
        raise DataError(
            f"{holder.owner} and {other.owner} have different keys in {len(differ)} of {len(holder)} rows, first in "
            f"row {row} (counted from 0: '{holder.texts[row]}' and '{other.texts[row]}'): match=order needs the same "
            "order, so sort the files, or use match=exact."
        )
    return Matches(np.arange(len(holder)))


def _private_pairs(mine: Entries, theirs: Entries) -> tuple[dict[int, int], dict[str, float]]:
    """Return pairs by private set intersection, and its seconds and bytes."""
    began = time.perf_counter()
    progress = Progress("private set intersection", points_of(mine.forms, theirs.forms), "points")
    result = intersect(mine.forms, theirs.forms, progress.step)
    place_of = {text: place for place, text in enumerate(theirs.forms)}
    entry_of = {text: entry for entry, text in enumerate(mine.forms)}
    pairs = {entry_of[text]: place_of[text] for text in result.shared}
    return pairs, {"seconds": round(time.perf_counter() - began, 3), "bytes": result.bytes}


def _pairs_by_year(mine: Entries, theirs: Entries, tolerance: float) -> dict[int, int]:
    """Return pairs of equal keys whose years differ by at most `tolerance`, the nearest years first."""
    rows: dict[str, list[int]] = {}
    for place, text in enumerate(theirs.forms):
        rows.setdefault(text, []).append(place)
    distances = [
        (abs(mine.years[entry] - theirs.years[place]), entry, place)
        for entry, text in enumerate(mine.forms)
        for place in rows.get(text, ())
    ]
    return dict(_one_to_one((entry, place) for distance, entry, place in sorted(distances) if distance <= tolerance))


def _one_to_one(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs whose sides are not in an earlier pair."""
    firsts: set[int] = set()
    seconds: set[int] = set()
    result = []
    for first, second in pairs:
        if first not in firsts and second not in seconds:
            firsts.add(first)
            seconds.add(second)
            result.append((first, second))
    return result


# --- fuzzy keys ---------------------------------------------------------------------------------------


def _fuzzy_pairs(mine: Entries, theirs: Entries, tolerance: float, threshold: float) -> list[Pair]:
    """Return the most similar pairs, such that no key is in two of them."""
    pairs = {
        (pair.first, pair.second): pair
        for pair in similar_pairs(mine.forms, theirs.forms, threshold)
        if abs(mine.years[pair.first] - theirs.years[pair.second]) <= tolerance
    }
    ordered = sorted(pairs.values(), key=lambda pair: (-pair.score, pair.first, pair.second))
    return [pairs[both] for both in _one_to_one((pair.first, pair.second) for pair in ordered)]


def _doubtful(
    pairs: Sequence[Pair], mine: Entries, theirs: Entries, holder: Keys, other: Keys, threshold: float
) -> list[Mapping[str, Any]]:
    """Return likely false matches as facts, the least similar first."""
    margin = (1 - threshold) / 4
    facts: list[Mapping[str, Any]] = []
    for pair in sorted(pairs, key=lambda pair: (pair.score, pair.first)):
        texts = mine.forms[pair.first], theirs.forms[pair.second]
        if pair.score == 1:
            continue
        if re.findall(r"\d+", texts[0]) != re.findall(r"\d+", texts[1]):
            reason = "the numbers in them differ"
        elif pair.score - pair.runner_up_score <= margin:
            reason = "another key is almost as similar"
        elif pair.score < threshold + margin:
            reason = "just above the threshold"
        else:
            continue
        runner_up = other.texts[theirs.first[pair.runner_up]] if pair.runner_up >= 0 else ""
        facts.append(
            {
                "owner": other.owner,
                "key": holder.texts[mine.first[pair.first]],
                "match": other.texts[theirs.first[pair.second]],
                "similarity": round(pair.score, 4),
                "next": runner_up,
                "next_similarity": round(pair.runner_up_score, 4),
                "reason": reason,
            }
        )
    return facts
