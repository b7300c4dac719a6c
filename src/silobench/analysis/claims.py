"""Claims: findings of papers as statements that stored runs support, contradict or leave undecided.

A finding collects evidence from cells. Each piece names its cells, its numbers and its test, and holds, does not hold,
or is undecided. A rule turns the pieces for one part of the statement into a verdict. A statement with several parts is
supported if every part is, and contradicted if one part is.

Undecided pieces count: a verdict needs more than half of all pieces, so that one piece that is decided, perhaps by
chance, does not stand for many that are not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from silobench.analysis.evidence import Evidence
from silobench.analysis.groups import Cells
from silobench.analysis.tables import Table, entries

Verdict: TypeAlias = Literal["supported", "contradicted", "undecided"]
Rule: TypeAlias = Literal["all", "most", "any"]
Look: TypeAlias = Callable[[Cells], Iterator[Evidence]]
_MOST = 0.75  # of the decided pieces


@dataclass(frozen=True)
class Finding:
    """A finding of a paper: its parts with their rules, and a function that collects evidence."""

    id: str
    paper: str
    statement: str
    parts: Mapping[str, Rule]
    look: Look
    suite: str  # runs what it needs
    is_vertical: bool = False  # whether it is about parties that hold columns


class Findings(list[Finding]):
    """The findings of a paper, in the order in which `add` decorates the functions that look for their evidence."""

    def __init__(self, paper: str, is_vertical: bool = False) -> None:
        super().__init__()
        self.paper, self.is_vertical = paper, is_vertical

    def add(self, id: str, statement: str, parts: Mapping[str, Rule], suite: str) -> Callable[[Look], Look]:
        """Add a finding with the decorated function; `parts` are those of the statement, each with its rule."""

        def register(look: Look) -> Look:
            self.append(Finding(id, self.paper, statement, parts, look, suite, self.is_vertical))
            return look

        return register


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

    @property
    def parts_without_runs(self) -> list[str]:
        """Parts of the statement that have no evidence; the claim stays undecided until they have some."""
        judged_parts = {piece.part for piece in self.evidence if piece.counts}
        return [part for part in self.finding.parts if part not in judged_parts]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.finding.id,
            "paper": self.finding.paper,
            "statement": self.finding.statement,
            "verdict": self.verdict,
            "evidence": [vars(piece) for piece in self.evidence],
            "suite": self.finding.suite,
        }


def judged(rule: Rule, evidence: Sequence[Evidence]) -> Verdict:
    """Return a verdict from pieces of evidence.

    `all`: every piece must hold; one that does not contradicts, if more than half of the pieces are decided.
    `most`: more than half of the pieces, and three quarters of the decided ones, must agree.
    `any`: one piece that holds supports a statement that there is such a case, and no pieces contradict it.

    >>> piece = lambda holds: Evidence("", "", "", "", holds)
    >>> judged("most", [piece(True), piece(True), piece(True), piece(False), piece(None)])
    'supported'
    >>> judged("most", [piece(True), piece(None), piece(None)])
    'undecided'
    >>> judged("all", [piece(True), piece(False)])
    'contradicted'
    >>> judged("any", [piece(True), piece(False), piece(None)]), judged("any", [piece(False)])
    ('supported', 'undecided')
    """
    pieces = [piece.holds for piece in evidence if piece.counts]
    if rule == "any":
        return "supported" if True in pieces else "undecided"
    yes, no, half = pieces.count(True), pieces.count(False), len(pieces) / 2
    if yes + no <= half:
        return "undecided"
    if rule == "all":
        return "contradicted" if no else "supported" if yes == len(pieces) else "undecided"
    most = _MOST * (yes + no)
    return "supported" if yes > half and yes >= most else "contradicted" if no > half and no >= most else "undecided"


def judge(cells: Cells, findings: Sequence[Finding]) -> list[Claim]:
    """Judge findings by the cells that they are about.

    Findings about parties that hold rows are statements about accuracy, so other cells of that kind decide none.
    """
    plain = [cell for cell in cells if not cell.label.has_replaced_parts]
    horizontal = [cell for cell in plain if cell.is_accuracy and not cell.is_vertical]
    vertical = [cell for cell in plain if cell.is_vertical]
    return [Claim(f, list(f.look(vertical if f.is_vertical else horizontal))) for f in findings]


# --- tables -------------------------------------------------------------------------------------------


def claims_table(
    claims: Sequence[Claim], more: str = "--evidence shows every piece", *, with_untested: bool = True
) -> Table:
    """Return one row per claim; `more` states where the evidence is shown.

    Without `with_untested`, claims that have no evidence in these runs are only counted, below the table.
    """
    shown = [claim for claim in claims if with_untested or claim.evidence]
    rows = [
        entries(claim.finding.id, _verdict_text(claim), claim.finding.statement, evidence_text(claim))
        for claim in shown
    ]
    note = f"for, against: comparisons decided by a test, with a probability above 0.95; {more}"
    if len(shown) < len(claims):
        note += f"; {untested_text(len(claims) - len(shown), len(claims))}"
    return Table(
        "Findings of the papers, judged by these runs", ["claim", "verdict", "statement", "evidence"], rows, note
    )


def untested_text(untested: int, total: int) -> str:
    """Return a line about the claims that these runs say nothing about."""
    some = "1 claim needs" if untested == 1 else f"{untested} of {total} claims need"
    return f"{some} other runs: --all lists them, with the suites that test them"


def _verdict_text(claim: Claim) -> str:
    parts, untested = len(claim.finding.parts), len(claim.parts_without_runs)
    return f"{claim.verdict}: {parts - untested} of {parts} parts tested" if 0 < untested < parts else claim.verdict


def evidence_text(claim: Claim) -> str:
    """Return how many comparisons are for and against each part of the statement, and which parts have no runs.

    >>> finding = Finding("a-1", "A", "Both.", {"x is fast": "most", "y is steady": "most"}, iter, "suite")
    >>> evidence_text(Claim(finding, [Evidence("x is fast", "", "", "", True)] * 9))
    'x is fast: for in 9 comparisons; y is steady: no runs test it, and the claim needs it too (silobench run suite)'
    """
    parts, untested = claim.finding.parts, claim.parts_without_runs
    if len(untested) == len(parts):
        return f"no runs for it yet: silobench run {claim.finding.suite}"
    texts = []
    for part, rule in parts.items():
        name = f"{part}: " if len(parts) > 1 else ""
        pieces = [piece for piece in claim.evidence if piece.part == part and piece.counts]
        needed = f"no runs test it, and the claim needs it too (silobench run {claim.finding.suite})"
        texts.append(name + (_tally(rule, pieces) if pieces else needed))
    return "; ".join(texts)


def _tally(rule: Rule, pieces: Sequence[Evidence]) -> str:
    """Return how many comparisons are for, against and open, and why they do not decide, if they do not."""
    holds = [piece.holds for piece in pieces]
    counts = {"for": holds.count(True), "against": holds.count(False), "open": holds.count(None)}
    parts = [f"{word} in {count}" for word, count in counts.items() if count]
    total = f"of {len(pieces)} " if len(parts) > 1 else ""
    text = f"{', '.join(parts)} {total}comparison{'s' * (len(pieces) > 1)}"
    if judged(rule, pieces) != "undecided":
        return text
    if rule == "any":
        return f"{text}, which leaves open whether there is such a case elsewhere"
    few = counts["for"] + counts["against"] <= len(pieces) / 2
    return f"{text}, {'too few of them decided' if few else 'too mixed to decide'}"


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
    return Table(title, ["part", "cells", "numbers", "test", "result"], rows)
