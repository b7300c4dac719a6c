"""What run.json and the last round state about a vertical run. Nothing here needs torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict


@dataclass(frozen=True, slots=True)
class ColumnParty:
    """What a party of a vertical run holds."""

    columns: int
    rows: int  # training rows that it has
    test_rows: int
    features: int | None = None  # numbers that its columns are as input of a model; None for an older run

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "ColumnParty":
        return cls(facts["columns"], facts["rows"], facts["test_rows"], facts.get("features"))


@dataclass(frozen=True, slots=True)
class MaskFacts:
    """The main metric of a model that knows only which parties have a row, beside that of a constant answer."""

    metric: str
    score: float | None
    constant: float | None
    patterns: int  # sets of parties that have the same row

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "MaskFacts":
        return cls(facts["metric"], facts["score"], facts["constant"], facts["patterns"])


class Alignment(TypedDict, total=False):
    """How rows were matched."""

    match: str
    rows: Mapping[str, int]  # of the files, by party
    unmatched: Mapping[str, int]
    likely_false: int | Mapping[str, int]
    seconds: float  # of a private set intersection
    bytes: int | float


@dataclass(frozen=True, slots=True)
class VerticalFacts:
    """Who holds which columns and rows, in numbers. Only vertical runs have it."""

    parties: Mapping[str, ColumnParty]  # by name
    label: str  # the party with the labels
    absent: str  # what replaces the columns of a row that a party does not have: zeros, drop or embedding
    rows: int  # training rows that are used, validation rows among them
    aligned_train: int  # training rows that every party has
    aligned_test: int
    alignment: Alignment = field(default_factory=Alignment)  # empty if rows need no match
    mask: MaskFacts | None = None  # None where every party has every row

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "VerticalFacts":
        aligned, mask = facts["aligned"], facts.get("mask")
        return cls(
            {name: ColumnParty.from_json(party) for name, party in facts["parties"].items()},
            facts["label"],
            facts["absent"],
            facts["rows"],
            aligned["train"],
            aligned["test"],
            facts.get("alignment", {}),
            MaskFacts.from_json(mask) if mask else None,
        )


@dataclass(frozen=True, slots=True)
class RowSet:
    """The main metric on a set of test rows."""

    rows: int
    score: float | None  # None where the metric is undefined

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "RowSet":
        return cls(facts["rows"], facts["score"])
