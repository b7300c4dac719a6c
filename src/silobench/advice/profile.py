"""`Profile`: what is known of one party, as counts in agreed bins. With noise it is differentially private."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.advice.schema import Schema, read_object, write_object
from silobench.data.table.cells import RawColumn
from silobench.errors import ConfigError, DataError, listed
from silobench.privacy.geometric import exact_scale, geometric
from silobench.privacy.randomness import Randomness

LABEL_SHARE = 0.25  # of epsilon, for the histogram of labels; the tables of features share the rest equally
MOST_ROWS = 10**12  # in a count of a file: sums of larger ones could overflow
_FORMAT = "silobench profile 1"


@dataclass(frozen=True)
class Profile:
    """Counts of one party: rows by class, and for each feature rows by class and bin.

    Without `epsilon` the counts are exact. Else they have two-sided geometric noise, so that the whole profile is
    epsilon-differentially private: adding or removing one row changes one count of labels by 1 and at most one count
    of each feature by 1. Counts with noise may be negative.
    """

    party: str
    schema: Schema
    labels: NDArray[np.int64]  # [classes]
    features: tuple[NDArray[np.int64], ...]  # each [classes, bins]
    epsilon: float | None = None

    @property
    def label_scale(self) -> float:
        """The scale of the noise on counts of labels; 0 if they are exact."""
        return 0.0 if self.epsilon is None else _scales(self.epsilon, len(self.features))[0]

    @property
    def feature_scale(self) -> float:
        """The scale of the noise on counts of features; 0 if they are exact."""
        return 0.0 if self.epsilon is None else _scales(self.epsilon, len(self.features))[1]

    def privatised(self, epsilon: float, randomness: Randomness) -> "Profile":
        """Return the profile with noise. The exact counts are nowhere in it."""
        if self.epsilon is not None:
            raise ConfigError("the profile has noise already: make it private once, from exact counts.")
        check_epsilon(epsilon)
        label_scale, feature_scale = _scales(epsilon, len(self.features))
        return replace(
            self,
            labels=_noisy(self.labels, label_scale, randomness),
            features=tuple(_noisy(table, feature_scale, randomness) for table in self.features),
            epsilon=epsilon,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "party": self.party,
            "epsilon": self.epsilon,
            "noise": {"labels": self.label_scale, "features": self.feature_scale},
            "schema": self.schema.as_json(),
            "labels": self.labels.tolist(),
            "features": [table.tolist() for table in self.features],
        }

    def write(self, path: Path) -> None:
        write_object(path, json.dumps(self.as_json()))


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that protects nobody, or that needs noise of unlimited size."""
    if not (math.isfinite(epsilon) and 1e-3 <= epsilon <= 100):
        raise ConfigError(
            f"epsilon is {epsilon:g}, but a number from 0.001 (much noise) to 100 (little) is needed: 1 is common."
        )


def _scales(epsilon: float, features: int) -> tuple[float, float]:
    """Return the scales of the noise on labels and features: 1 over their parts of epsilon, which sum to epsilon."""
    if not features:
        return float(exact_scale(1 / epsilon)), 0.0
    label, feature = 1 / (LABEL_SHARE * epsilon), features / ((1 - LABEL_SHARE) * epsilon)
    return float(exact_scale(label)), float(exact_scale(feature))


def _noisy(counts: NDArray[np.int64], scale: float, randomness: Randomness) -> NDArray[np.int64]:
    return counts + geometric(randomness, scale, counts.size).reshape(counts.shape)


# --- counting ----------------------------------------------------------------------------------------


def count(party: str, columns: Mapping[str, RawColumn], schema: Schema) -> Profile:
    """Return the exact profile of a party's rows."""
    absent = [name for name in schema.columns if name not in columns]
    if absent:
        raise DataError(
            f"the rows of {party} have no column {listed(absent)}, which the schema has: add it, or agree on another "
            "schema."
        )
    labels = schema.label.codes(columns[schema.label.name])
    if (labels < 0).any():
        factor = columns[schema.label.name].factor
        other = factor.texts[factor.codes[int(np.argmax(labels < 0))]]
        raise DataError(
            f"the rows of {party} have the label '{other}' in '{schema.label.name}', which the schema does not have: "
            f"its classes are {listed(schema.label.names)}."
        )
    return count_codes(party, labels, [bins.codes(columns[bins.name]) for bins in schema.features], schema)


def count_codes(
    party: str, labels: NDArray[np.int64], features: Sequence[NDArray[np.int64]], schema: Schema
) -> Profile:
    """Return the exact profile of rows that are in bins already; a cell in bin -1 is not counted."""
    classes = len(schema.label)
    tables = []
    for bins, codes in zip(schema.features, features, strict=True):
        counted = codes >= 0
        places = labels[counted] * len(bins) + codes[counted]
        tables.append(np.bincount(places, minlength=classes * len(bins)).reshape(classes, len(bins)))
    return Profile(party, schema, np.bincount(labels, minlength=classes), tuple(tables))


# --- files -------------------------------------------------------------------------------------------


def read_profile(path: Path) -> Profile:
    """Read a profile file; refuse one that is damaged."""
    facts = read_object(path, "a profile")
    if facts.get("format") != _FORMAT:
        raise DataError(f"{path} is not a profile: write one with `silobench advise profile`.")
    schema = Schema.from_json(facts.get("schema", {}), str(path))
    try:
        profile = Profile(
            str(facts["party"]),
            schema,
            _counts(facts["labels"], (len(schema.label),)),
            tuple(
                _counts(table, (len(schema.label), len(bins)))
                for table, bins in zip(facts["features"], schema.features, strict=True)
            ),
            None if facts["epsilon"] is None else float(facts["epsilon"]),
        )
        _check_counts(profile, facts["noise"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is a damaged profile ({error}): ask its party to write it again.") from error
    return profile


def _counts(values: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    counts = np.array(values)
    if counts.shape != shape or counts.dtype.kind != "i":
        raise ValueError(f"counts of shape {counts.shape}, not {shape} whole numbers")
    if (counts > MOST_ROWS).any() or (counts < -MOST_ROWS).any():
        raise ValueError(f"a count is beyond {MOST_ROWS:.0e}")
    return counts.astype(np.int64)


def _check_counts(profile: Profile, noise: Mapping[str, float]) -> None:
    """Refuse noise that is not that of epsilon, and exact counts that contradict each other."""
    if profile.epsilon is not None:
        check_epsilon(profile.epsilon)
    if (noise["labels"], noise["features"]) != (profile.label_scale, profile.feature_scale):
        raise ValueError("its noise is not that of its epsilon")
    if profile.epsilon is None:
        if profile.labels.min() < 0 or not profile.labels.any():
            raise ValueError("exact counts must be 0 or more, and some must be more")
        if any((table.min() < 0) or (table.sum(1) > profile.labels).any() for table in profile.features):
            raise ValueError("a feature has more rows than the label")


# --- all parties --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profiles:
    """The profiles of all parties, stacked."""

    parties: tuple[str, ...]
    schema: Schema
    labels: NDArray[np.float64]  # [parties, classes]
    features: tuple[NDArray[np.float64], ...]  # each [parties, classes, bins]
    label_scales: NDArray[np.float64]  # noise by party, 0 where counts are exact
    feature_scales: NDArray[np.float64]
    epsilons: tuple[float | None, ...]

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Rows by party, at least 0."""
        return np.asarray(np.maximum(self.labels.sum(1), 0))

    @property
    def is_private(self) -> bool:
        return any(epsilon is not None for epsilon in self.epsilons)


def combine(profiles: Sequence[Profile]) -> Profiles:
    """Return the profiles of all parties together; refuse other bins, and a party that comes twice."""
    names = [profile.party for profile in profiles]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"there are several profiles of the party {listed(twice)}: give one profile per party.")
    if len(profiles) < 2:
        raise DataError(
            f"there is one party ({listed(names)}): a skew is a difference between parties, so give at least two."
        )
    first = profiles[0]
    for profile in profiles[1:]:
        if profile.schema != first.schema:
            raise DataError(
                f"the profiles of {first.party} and {profile.party} have different schemas ({first.schema.digest} and "
                f"{profile.schema.digest}): profile both with one schema file."
            )
    return Profiles(
        tuple(names),
        first.schema,
        np.stack([profile.labels for profile in profiles]).astype(np.float64),
        tuple(
            np.stack(tables).astype(np.float64)
            for tables in zip(*(profile.features for profile in profiles), strict=True)
        ),
        np.array([profile.label_scale for profile in profiles]),
        np.array([profile.feature_scale for profile in profiles]),
        tuple(profile.epsilon for profile in profiles),
    )
