"""Findings 13 to 15 of OARF: sums of secret shares (appendix B.3)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import Evidence, gap, if_learnt, larger, nearly_equal
from silobench.analysis.groups import Cells, by_seed, families, setting_name
from silobench.analysis.specs import arguments
from silobench.papers.oarf.measures import (
    has_converged,
    mean_of,
    rounds_of,
    rounds_text,
    too_few_text,
    two_shares_text,
    two_text,
)
from silobench.papers.oarf.settings import NAME, is_federated
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

FINDINGS = Findings(NAME)
SECURE = "secure-sum"
_SUBTRACTION = "subtraction"  # the measure
_SPLITS = 2  # by default
_EXACT, _FAR = 0.01, 0.1  # errors relative to the length of an update


@dataclass(frozen=True, order=True)
class Sharing:
    """How the messages of parties are hidden from the server: shares among parties, or pairwise masks."""

    protocol: str  # splits, pairwise, or empty if messages are sent as they are
    splits: int = 0  # shares of a message; 0 if the protocol has none
    chain: str = ""  # all transforms, where several cells share the rest

    def __str__(self) -> str:
        name = f"{self.splits} splits" if self.splits else self.protocol or "none"
        return f"{name}: {self.chain}" if self.chain else name


def sharing_of(label: Label) -> Sharing | None:
    """Return how a run hides its messages; None if it also compresses them or adds noise to them.

    >>> str(sharing_of(Label({"transforms": "secure-sum(splits=2, range=8.0)"})))
    '2 splits'
    >>> sharing_of(Label({"transforms": "clip(norm=1.0) | secure-sum(protocol=pairwise)"}))
    Sharing(protocol='pairwise', splits=0, chain='')
    >>> sharing_of(Label({"transforms": "rand-k | secure-sum(splits=2)"}))
    """
    *before, last = label.transforms or (None,)
    if last is None:
        return Sharing("")
    if last.name != SECURE or label.text("broadcast") or any(term.name != "clip" for term in before):
        return None
    values = arguments(last)
    protocol = values.get("protocol", "splits")
    return Sharing(protocol, int(values.get("splits") or _SPLITS) if protocol == "splits" else 0)


Shared: TypeAlias = dict[Sharing, CellResult]


def shared(cells: Cells) -> Iterator[tuple[CellResult, Shared]]:
    """Yield federated cells that send messages as they are, each with cells that differ in how they are hidden."""
    federated = [cell for cell in cells if is_federated(cell)]
    for family in families(federated, "transforms"):
        every = [(how, cell) for cell in family.values() if (how := sharing_of(cell.label))]
        counts = Counter(how for how, _ in every)
        ways = {
            how if counts[how] == 1 else replace(how, chain=cell.label.text("transforms")): cell for how, cell in every
        }
        plain = ways.pop(Sharing(""), None)
        if plain and ways:
            yield plain, dict(sorted(ways.items()))


def _by_splits(ways: Shared) -> Shared:
    """Return the cells with secret shares, those with the fewest first."""
    return {how: cell for how, cell in ways.items() if how.splits}


@FINDINGS.add(
    "oarf-13",
    "Secret sharing is lossless: it changes neither the accuracy nor the rounds to convergence.",
    {"accuracy is the same": "all", "rounds are the same": "all"},
    "oarf-encryption",
)
def sharing_is_lossless(cells: Cells) -> Iterator[Evidence]:
    """Compare runs with shares to the same runs without; whether curves of all splits are equal is shown aside."""
    for plain, ways in shared(cells):
        for how, cell in ways.items():
            names = f"{setting_name(cell)}: {how} against none"
            yield nearly_equal("accuracy is the same", names, cell, plain)
            if costs.can_converge(cell.runs[0]):
                yield _same_rounds(names, cell, plain)
        for (one, a), (other, b) in pairwise((how, cell) for how, cell in ways.items() if not how.chain):
            equal, every = _equal_rounds(a, b), sum(len(run.rounds) for run in a.runs)
            numbers = f"{equal} of {every} rounds have the same accuracy and loss"
            names, test = f"{setting_name(a)}: {one} against {other}", "equality, round by round"
            part = "any number of shares gives the same bits"
            yield Evidence(part, names, numbers, test, equal == every, counts=False)


def _same_rounds(names: str, cell: CellResult, plain: CellResult) -> Evidence:
    """Return evidence from the rounds to convergence; rounds of a cell that did not converge decide nothing."""
    difference = gap(rounds_of(cell), rounds_of(plain))
    holds = difference.within(10.0) if has_converged(cell) and has_converged(plain) else None
    numbers = f"{rounds_text(cell)} and {rounds_text(plain)}, {difference.text('rounds', 1)}"
    test = "t-test: rounds to convergence differ by at most 10, only if a model has learnt"
    return Evidence("rounds are the same", names, numbers, test, if_learnt(holds, cell, plain))


def _equal_rounds(a: CellResult, b: CellResult) -> int:
    """Return in how many rounds of the same seeds two cells have the same test results, to the last digit."""
    others = dict(zip(b.seeds, b.runs, strict=True))
    pairs = [(run, others[seed]) for seed, run in zip(a.seeds, a.runs, strict=True) if seed in others]
    return sum(
        (one.accuracy, one.loss) == (other.accuracy, other.loss)
        for run, another in pairs
        for one, other in zip(run.rounds, another.rounds, strict=False)
    )


@FINDINGS.add(
    "oarf-14",
    "Secret sharing costs time and bytes, and more of both the more splits there are.",
    {
        "more overhead than without": "most",
        "more overhead with more splits": "most",
        "more bytes with more splits": "all",
        "lower throughput than without": "most",
    },
    "oarf-encryption",
)
def sharing_costs(cells: Cells) -> Iterator[Evidence]:
    """Compare overhead, bytes and throughput of runs without shares, with few and with many."""
    for plain, ways in shared(cells):
        splits = _by_splits(ways)
        for how, cell in splits.items():
            yield from _cost_of_sharing(f"{setting_name(cell)}: {how} against none", cell, plain)
        ladder: list[tuple[Sharing, CellResult]] = [(Sharing(""), plain), *splits.items()]
        for (few, a), (many, b) in pairwise(ladder):
            if few.splits == many.splits:  # they differ in something else
                continue
            names = f"{setting_name(a)}: {many} against {few}"
            less, more = by_seed(a, sent_models), by_seed(b, sent_models)
            numbers = two_text(more, less, "models per party and round")
            test = "t-test: parties send more than a tenth more bytes"
            yield Evidence("more bytes with more splits", names, numbers, test, larger(more, less))
            low, high = by_seed(a, costs.overhead), by_seed(b, costs.overhead)
            if few.splits and low and high:
                test = "t-test: overhead is more than a tenth higher"
                part = "more overhead with more splits"
                yield Evidence(part, names, two_shares_text(high, low), test, larger(high, low))


def _cost_of_sharing(names: str, cell: CellResult, plain: CellResult) -> Iterator[Evidence]:
    low, high = by_seed(plain, costs.overhead), by_seed(cell, costs.overhead)
    if low and high:
        test = "t-test: overhead is more than a tenth higher"
        yield Evidence("more overhead than without", names, two_shares_text(high, low), test, larger(high, low))
    fast, slow = by_seed(plain, costs.throughput), by_seed(cell, costs.throughput)
    if fast and slow:
        test = "t-test: throughput without shares is more than a tenth higher"
        numbers = two_text(slow, fast, "rows/s")
        yield Evidence("lower throughput than without", names, numbers, test, larger(fast, slow))


def sent_models(run: StoredRun) -> float | None:
    """Return the bytes that parties send, relative to a whole model per party and round; None if it is unknown."""
    ratio = costs.uplink_ratio(run)
    return None if ratio is None else 1 / ratio


@FINDINGS.add(
    "oarf-15",
    "Two parties cannot hide from each other: each subtracts its own update from the sum. Three parties can.",
    {"a party of two computes the other's update": "all", "a party of three or more cannot": "all"},
    "oarf-encryption",
)
def two_cannot_hide(cells: Cells) -> Iterator[Evidence]:
    """Read how far a party's guess of another party's update was off, in runs whose messages are hidden."""
    for cell in cells:
        chain = cell.label.transforms
        errors = by_seed(cell, _error_of_guess)
        if not errors or not chain or chain[-1].name != SECURE:
            continue
        names = f"{setting_name(cell)}: {cell.parties} parties"
        numbers = f"error {100 * mean_of(errors):.3g}% of the update's length{too_few_text(errors)}"
        if cell.parties == 2:
            holds = gap(errors, dict.fromkeys(errors, _EXACT)).at_most(0)
            test = "t-test: the error is at most 1%"
            yield Evidence("a party of two computes the other's update", names, numbers, test, holds)
        else:
            holds = gap(errors, dict.fromkeys(errors, _FAR)).more_than(0)
            test = "t-test: the error is more than 10%"
            yield Evidence("a party of three or more cannot", names, numbers, test, holds)


def _error_of_guess(run: StoredRun) -> float | None:
    """Return the smallest error of a party's guess of another's update, in the last round in which it was measured."""
    findings = run.measured(_SUBTRACTION)
    return findings[max(findings)]["error"] if findings else None
