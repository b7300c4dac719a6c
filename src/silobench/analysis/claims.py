"""Claims: findings of papers as statements that stored runs support, contradict or leave undecided.

A finding collects evidence from cells. Each piece names its cells, its numbers and its test, and holds, does not hold,
or is undecided. A rule turns the pieces for one part of the statement into a verdict. A statement with several parts is
supported if every part is, and contradicted if one part is.

Undecided pieces count: a verdict needs more than half of all pieces, so that one piece that is decided, perhaps by
chance, does not stand for many that are not. What a paper calls a difference has to be larger than what matters
(1 point of accuracy, a tenth of any other number), and what it calls none has to be shown to be smaller than that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from silobench.analysis.bayes import DECIDED, Posterior, correlated_t
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Question, paired
from silobench.analysis.tables import Table, entries

Verdict: TypeAlias = Literal["supported", "contradicted", "undecided"]
_MOST = 0.75  # of the decided pieces
_TENTH = 1.1  # times a number: what is larger by less does not matter


@dataclass(frozen=True)
class Evidence:
    """One comparison: its cells, numbers and test."""

    part: str  # of the statement
    cells: str
    numbers: str
    test: str
    holds: bool | None  # None if undecided
    counts: bool = True  # whether it counts for the verdict, or is shown only


@dataclass(frozen=True)
class Finding:
    """A finding of a paper: its parts with their rules, and a function that collects evidence."""

    id: str
    paper: str
    statement: str
    parts: Mapping[str, Literal["all", "most"]]
    look: Callable[[Sequence[CellResult]], Iterator[Evidence]]
    suite: str  # runs what it needs


@dataclass(frozen=True)
class Claim:
    """A finding with its evidence and verdict."""

    finding: Finding
    evidence: list[Evidence]

    @property
    def verdict(self) -> Verdict:
        parts = [judged(rule, [e for e in self.evidence if e.part == p]) for p, rule in self.finding.parts.items()]
        if "contradicted" in parts:
            return "contradicted"
        return "supported" if set(parts) == {"supported"} else "undecided"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.finding.id,
            "paper": self.finding.paper,
            "statement": self.finding.statement,
            "verdict": self.verdict,
            "evidence": [vars(piece) for piece in self.evidence],
            "suite": self.finding.suite,
        }


def judged(rule: Literal["all", "most"], evidence: Sequence[Evidence]) -> Verdict:
    """Return a verdict from pieces of evidence.

    `all`: every piece must hold; one that does not contradicts, if more than half of the pieces are decided.
    `most`: more than half of the pieces, and three quarters of the decided ones, must agree.

    >>> piece = lambda holds: Evidence("", "", "", "", holds)
    >>> judged("most", [piece(True), piece(True), piece(True), piece(False), piece(None)])
    'supported'
    >>> judged("most", [piece(True), piece(None), piece(None)])
    'undecided'
    >>> judged("all", [piece(True), piece(False)])
    'contradicted'
    """
    pieces = [piece.holds for piece in evidence if piece.counts]
    yes, no, half = pieces.count(True), pieces.count(False), len(pieces) / 2
    if yes + no <= half:
        return "undecided"
    if rule == "all":
        return "contradicted" if no else "supported" if yes == len(pieces) else "undecided"
    most = _MOST * (yes + no)
    return "supported" if yes > half and yes >= most else "contradicted" if no > half and no >= most else "undecided"


def judge(cells: Sequence[CellResult], findings: Sequence[Finding]) -> list[Claim]:
    return [Claim(finding, list(finding.look(cells))) for finding in findings]


# --- tests that findings use --------------------------------------------------------------------------


def more_than(posterior: Posterior | None, least: float, looks: int = 1) -> bool | None:
    """Whether a mean difference is above `least`; None if neither yes nor no has a probability above 0.95.

    `looks` is the number of differences from which this one was picked because it is large: for a yes, the probability
    of a no must then be below 0.05 / `looks` (Bonferroni). Otherwise enough looks at noise would find a difference.
    """
    if posterior is None:
        return None
    probability = posterior.odds(0.0).better_a if least == 0 else _above(posterior, least)
    return True if 1 - probability < (1 - DECIDED) / looks else False if probability < 1 - DECIDED else None


def any_more_than(posteriors: Sequence[Posterior | None], least: float, looks: int) -> bool | None:
    """Whether one of several mean differences is above `least`, picked from `looks` in all; no if none of them is."""
    each = [more_than(posterior, least, looks) for posterior in posteriors]
    return True if True in each else False if each and set(each) == {False} else None


def larger(a: Mapping[int, float], b: Mapping[int, float]) -> bool | None:
    """Whether positive numbers of `a`, by seed, are larger than those of `b` by more than a tenth."""
    return more_than(gap(a, {seed: _TENTH * value for seed, value in b.items()}), 0)


def _above(posterior: Posterior, least: float) -> float:
    return replace(posterior, mean=posterior.mean - least).odds(0.0).better_a


def within(posterior: Posterior | None, rope: float) -> bool | None:
    """Whether a mean difference is at most `rope`, either way; no if it is shown to be larger, in one direction.

    A wide posterior has little mass inside a narrow region, and says neither.
    """
    if posterior is None:
        return None
    above, equal, below = posterior.odds(rope)
    return True if equal > DECIDED else False if max(above, below) > DECIDED else None


def opposite(holds: bool | None) -> bool | None:
    """Return the negation; None stays None."""
    return None if holds is None else not holds


def any_holds(each: Iterable[bool | None]) -> bool | None:
    """Whether at least one holds; None if none holds and some are undecided."""
    known = set(each)
    return True if True in known else None if None in known else False


def accuracy_gap(a: CellResult, b: CellResult) -> Posterior | None:
    """Return the posterior of the accuracy of `a` minus that of `b`; None for fewer than two shared seeds."""
    pairs = paired(a, b, Question())
    return pairs.posterior if pairs else None


def gap(a: Mapping[int, float], b: Mapping[int, float]) -> Posterior | None:
    """Return the posterior of a - b for any number by seed; trials count as independent."""
    differences = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    return correlated_t(differences, 0.0) if len(differences) > 1 else None


def interval_text(posterior: Posterior | None, unit: str = "points", factor: float = 100) -> str:
    """Return a difference with its 95% interval."""
    if posterior is None:
        return "too few trials or rounds"
    low, high = posterior.interval()
    return f"{factor * posterior.mean:+.1f} [{factor * low:+.1f}, {factor * high:+.1f}] {unit}"


# --- tables -------------------------------------------------------------------------------------------


def claims_table(claims: Sequence[Claim], more: str = "--evidence shows every piece") -> Table:
    """Return one row per claim; `more` states where the evidence is shown."""
    rows = []
    for claim in claims:
        pieces = [piece.holds for piece in claim.evidence if piece.counts]
        count = f"{pieces.count(True)} for, {pieces.count(False)} against, {pieces.count(None)} open"
        evidence = count if pieces else f"no runs for it yet: silobench run {claim.finding.suite}"
        rows.append(entries(claim.finding.id, claim.verdict, claim.finding.statement, evidence))
    note = f"for, against: decided by a test, with a probability above 0.95; {more}"
    return Table(
        "Findings of the papers, judged by these runs", ["claim", "verdict", "statement", "evidence"], rows, note
    )


def evidence_table(claim: Claim) -> Table:
    """Return one row per piece of evidence of a claim."""
    parts = list(claim.finding.parts)
    words = {True: "holds", False: "does not hold", None: "undecided"}
    rows = [
        entries(e.part, e.cells, e.numbers, e.test, words[e.holds] + ("" if e.counts else " (aside)"))
        for e in sorted(
            claim.evidence, key=lambda piece: (not piece.counts, parts.index(piece.part) if piece.counts else 0)
        )
    ]
    title = f"{claim.finding.id}, {claim.verdict}: {claim.finding.statement}"
    return Table(title, ["part", "cells", "numbers", "test", ""], rows)
