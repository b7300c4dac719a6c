"""The user's own tables of several parties: CSV and Parquet files about the same rows, matched by a key."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator

from silobench.data.alignment.matching import PRIVATE, Entries, How, Matches
from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.joined import (
    Owner,
    Rows,
    alignment_facts,
    coverage,
    features_of,
    joined_columns,
    joined_rows,
)
from silobench.data.readers.party_files import Duplicates, Party, complete, match_parties, read_parties
from silobench.data.readers.targets import LabelTask
from silobench.data.readers.user_arrays import ArrayScale
from silobench.data.readers.user_tables import Names, Source, TestShare, as_names, check_roles, group_ids, label_targets
from silobench.data.table.build import POOLED_NOTE, Built, build
from silobench.data.table.cells import BadCells, RawColumn
from silobench.data.table.choices import Choices, Many, Problem, refuse, write_spec
from silobench.data.table.plan import plan_columns
from silobench.errors import DataError, listed, suggest

Years = Annotated[Names | None, BeforeValidator(lambda value: None if value == "none" else value)]
Tolerance = Annotated[float, Ge(0)]
Threshold = Annotated[float, Gt(0), Le(1)]
_EXAMPLES = 20
_SCALED = "numeric columns standardised by the training rows of their owner, so no other party needs their statistics"


def linked(
    files: Names,
    label: str,
    key: Names = (),
    match: How = "exact",
    year: Years = None,
    tolerance: Tolerance = 1,
    threshold: Threshold = 0.9,
    rows: Rows = "all",
    duplicates: Duplicates = "refuse",
    group: Names = (),
    drop: Names = (),
    test: TestShare = 0.2,
    scale: ArrayScale = "standard",
    task: LabelTask = "auto",
    unit: str = "",
    many: Many = "auto",
) -> Dataset:
    """Tables of several parties about the same rows: one CSV or Parquet file per party, matched by `key`.

    A party is named by its file, and a feature PARTY.COLUMN. One file has the column `label`; its party comes first,
    and its rows are the rows of the dataset. `key` is the column of the keys, or one column per file.

    `match` is exact; normalised, which ignores case, accents, punctuation and where an article is; fuzzy, which also
    accepts keys that are at least as similar as `threshold` and reports likely false matches; psi or psi-normalised,
    exact or normalised keys by private set intersection; or order, for files with the same rows in the same order.
    `year` is the column of a year that may differ by `tolerance`, or one per file, where key stands for a year in the
    key, as in "Heat (1995)".

    With `rows` all, the columns of a party that does not have a row are padded: numbers with the mean, which is 0 after
    scaling, and texts with the category (missing). With aligned, only rows that every party has are used. A key that
    several rows have is refused, unless `duplicates` is first: each row of the label's party is then used, and the
    first row of every other party. `group` names columns of the label's party, and `drop` columns of any party. The
    other arguments are those of `csv`.
    """
    drops, levels = as_names(drop), as_names(group)
    check_roles("linked", label, levels, {"drop": drops})
    parties = read_parties(as_names(files), label, as_names(key), as_names(year or ()), match, drops)
    matches = match_parties(parties, label, match, tolerance, threshold, duplicates)
    holder, choices = parties[0], Choices(scale, drop=drops, many=many)
    column = complete(holder, label, "label")
    groups = {level: group_ids(complete(holder, level, "group")) for level in levels}
    source = Source(holder.path, "", write_spec, "task=classification")
    labels = label_targets(source, label, column, task, choices)
    owners = _owners(parties, matches, (label, *levels), drops)
    whole = joined_rows(owners, labels.y, groups, rows)
    if not len(whole):
        title = listed([party.path for party in parties])
        raise DataError(f"{title} have no key that is in all of them, so rows=aligned is empty: use rows=all.")
    train, held = hold_out(whole, test)
    built = _build(joined_columns(owners, rows), train, held, choices)
    features = built.encoder.features
    facts = {**alignment_facts(owners, match), **_doubts(parties, matches, match)}
    notes = (*labels.notes, *_table_notes(parties), *coverage(owners, rows), *_match_notes(facts))
    return Dataset(
        "+".join(party.name for party in parties), replace(train, x=built.train), replace(held, x=built.test),
        labels.classes, notes=(*notes, *_feature_notes(built.notes)), task=labels.task, columns=features, target=label,
        unit=unit, owners=features_of(owners, features), alignment=facts,
    )  # fmt: skip


# --- columns and notes -------------------------------------------------------------------------------


def _owners(
    parties: Sequence[Party], matches: Sequence[Matches], others: Sequence[str], drop: Sequence[str]
) -> list[Owner]:
    """Return the columns of each party that become features; `others` are columns of the first for other uses."""
    known = {name for party in parties for column in party.features for name in (column, f"{party.name}.{column}")}
    unknown = [name for name in drop if name not in known]
    key_names = {name for party in parties for name in (party.key, f"{party.name}.{party.key}")}
    if unknown and unknown[0] in key_names:
        raise DataError(
            f"linked has '{unknown[0]}' as key and as drop: a key is not a feature, so leave it out of drop."
        )
    if unknown:
        raise DataError(f"linked has no column '{unknown[0]}' to drop: {suggest(unknown[0], known)}")
    places = [np.arange(len(parties[0].keys)), *(result.places for result in matches)]
    owners = []
    for party, rows in zip(parties, places, strict=True):
        left_out = {*drop, *(others if party is parties[0] else ())}
        columns = {
            name: _typed(party, name, column)
            for name, column in party.features.items()
            if name not in left_out and f"{party.name}.{name}" not in left_out
        }
        if not columns:
            raise DataError(
                f"{party.path} has no columns for features, only {', '.join(party.table.columns)}: add a column, or "
                "drop fewer of them."
            )
        owners.append(Owner(party.name, columns, rows))
    return owners


def _typed(party: Party, name: str, column: RawColumn) -> RawColumn:
    """Return a column of texts as numbers if all of them are; refuse numbers that are not finite."""
    numbers = column.numbers()
    if isinstance(numbers, BadCells):
        row, text = numbers.cells[0]
        raise DataError(
            f"{party.path} has '{text}' in column '{name}', {party.table.place(row)}: numbers must be finite; leave "
            "the cell empty if the value is missing."
        )
    return column if numbers is None else replace(column, kind="number", values=numbers)


def _build(columns: dict[str, RawColumn], train: Split, held: Split, choices: Choices) -> Built:
    """Return the features of the joined columns; refuse columns that cannot become features."""
    plan = plan_columns("the linked files", columns, choices, "row {} (counted from 0)".format)
    refuse("linked", [_with_remedy(problem) for problem in plan.problems], choices, write_spec)
    return build(plan, train.x, held.x, choices, None, "the linked files")


def _with_remedy(problem: Problem) -> Problem:
    """Return a problem with a remedy that needs no argument of `csv` which `linked` does not have."""
    if problem.remedy == "text":
        return replace(problem, remedy="drop")
    if "date_order=" in problem.remedy:
        return replace(problem, remedy=f"write dates such as 2024-04-03 in {problem.column}, or drop the column")
    return problem


def _doubts(parties: Sequence[Party], matches: Sequence[Matches], how: How) -> dict[str, Any]:
    """Return facts about keys that are repeated or empty, about likely false matches, and about costs."""
    examples = [example for result in matches for example in result.examples]
    has_keys = how != "order"
    facts: dict[str, Any] = {
        "duplicates": {party.name: Entries.of(party.keys, how).duplicates if has_keys else 0 for party in parties},
        "empty": {party.name: party.keys.empty if has_keys else 0 for party in parties},
        "likely_false": sum(result.likely_false for result in matches),
        "examples": sorted(examples, key=lambda example: example["similarity"])[:_EXAMPLES],
    }
    if how in PRIVATE:
        facts |= {cost: round(sum(result.costs[cost] for result in matches), 3) for cost in ("seconds", "bytes")}
    return facts


def _table_notes(parties: Sequence[Party]) -> list[str]:
    notes = [f"{party.path}: {note}" for party in parties for note in party.table.notes]
    unnamed = [party.path for party in parties if "" in party.table.columns]
    return [*notes, *(f"{path}: the column without a name (a saved index) was left out" for path in unnamed)]


def _match_notes(facts: dict[str, Any]) -> list[str]:
    """Return notes about rows without a counterpart, keys that were not used, and likely false matches."""
    private = "private set intersection"
    names = {"order": "order", "psi": private, "psi-normalised": f"{private} of normalised keys"}
    by = names.get(facts["match"], f"{facts['match']} keys")
    counts = [f"{count} of {owner}" for owner, count in facts["unmatched"].items() if count]
    rest = f"rows without a counterpart: {listed(counts)}" if counts else "every row has a counterpart"
    notes = [f"rows matched by {by}; {rest}"]
    reasons = {"duplicates": "repeat the key of an earlier row", "empty": "lack a key or a year, so they have no match"}
    for what, reason in reasons.items():
        counts = [f"{count} of {owner}" for owner, count in facts[what].items() if count]
        notes += [f"rows that {reason}: {listed(counts)}"] if counts else []
    if facts["likely_false"]:
        pairs = [f"'{pair['key']}' and '{pair['match']}' ({pair['reason']})" for pair in facts["examples"][:3]]
        count = facts["likely_false"]
        start = "1 match is likely false:" if count == 1 else f"{count} matches are likely false, such as"
        notes.append(f"{start} {listed(pairs)}")
    if "bytes" in facts:
        notes.append(f"the {private} took {facts['seconds']:,} s and sent {facts['bytes']:,} bytes")
    return notes


def _feature_notes(notes: Sequence[str]) -> list[str]:
    """Return notes about features; one replaces those of single columns with missing values, as padding makes many."""
    filled = [note for note in notes if "missing values in column" in note]
    others = [_SCALED if note == POOLED_NOTE else note for note in notes if note not in filled]
    summary = ["missing numbers are filled with the training mean of their column, and missing texts are a category"]
    return [*others, *(summary if filled else [])]
