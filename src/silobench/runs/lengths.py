"""Whether parts of a record agree about the numbers of parties and classes: one that was written by hand may not."""

from collections.abc import Iterator, Sequence
from typing import Any

from silobench.runs.facts import CrossFacts, RoundRow, RunFacts


def wrong_length(facts: RunFacts, rounds: Sequence[RoundRow]) -> str | None:
    """Return the first field whose length does not fit to the parties or classes of its run; None if all do."""
    return next((name for name, fits in (*_of_facts(facts), *_of_rounds(facts, rounds)) if not fits), None)


def _of_facts(facts: RunFacts) -> Iterator[tuple[str, bool]]:
    dealt, classes = facts.partition, facts.dataset.classes
    for name, values in (("sizes", dealt.sizes), ("counts", dealt.counts), ("emd", dealt.emd)):
        yield name, len(values) in (0, dealt.party_count)
    yield "parties", len(dealt.parties) in (0, dealt.party_count)
    yield "counts", len({len(row) for row in dealt.counts} | ({len(classes)} if classes else set())) < 2
    yield "classes", bool(classes) or facts.dataset.task != "classification"
    yield "test", facts.dataset.test > 0


def _of_rounds(facts: RunFacts, rounds: Sequence[RoundRow]) -> Iterator[tuple[str, bool]]:
    parties, classes = facts.partition.party_count, len(facts.dataset.classes)
    has_membership = "membership" not in facts.label.replaced_measures
    # A model may have more outputs than the data has classes, and pairs of pictures have two.
    yield "class_accuracy", len({len(row.class_accuracy) for row in rounds if row.class_accuracy is not None}) < 2
    is_short = facts.dataset.task == "classification" and any(
        row.class_accuracy is not None and len(row.class_accuracy) < classes for row in rounds
    )
    yield "class_accuracy", not is_short
    for row in rounds:
        # Where all rows are combined, there is one party.
        numbers = parties if row.party_accuracy is None else len(row.party_accuracy)
        yield "party_accuracy", numbers in (1, parties) and max(row.cohort, default=0) < numbers
        if has_membership and (attack := row.measures.get("membership")):
            yield "membership", len(attack.get("parties", ())) <= len(facts.partition.parties)
        final, test = row.final, row.final.calibration
        yield "confusion", not final.confusion or _is_table(final.confusion, classes, classes)
        yield "cross", final.cross is None or _is_whole(final.cross)
        if test is not None:
            yield "calibration", len(test.rows) == len(test.confidence) == len(test.accuracy)


def _is_whole(cross: CrossFacts) -> bool:
    return _is_table(cross.scores, len(cross.models), len(cross.tests))


def _is_table(rows: Sequence[Sequence[Any]], height: int, width: int) -> bool:
    return len(rows) == height and all(len(row) == width for row in rows)
