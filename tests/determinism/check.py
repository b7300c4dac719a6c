"""Stored digests against runs made now: equal on the same CPU type, within a stated tolerance on another one.

On another type three things are compared, from the sharpest to the bluntest:

1. What does not depend on rounding (cohorts, steps, rows, sizes of dense messages) is equal.
2. The training loss and the test loss of rounds 1 and 2 agree to `FLOOR`, or to `GROWTH` times the sensitivity of the
   cell where that is more.
3. The last score is in the band of late rounds of `silobench leaderboard check` for 99 of 100 cells, and the mean over
   all cells shifts by no more than chance explains. Some parties with one class exchange after every minibatch: their
   accuracy jumps from round to round, and which jump is the last one is a matter of rounding.

FLOOR is the bound of 3000 roundings (`tests/precision.py`): a loss is a sum over some hundred rows through some layers.
The sensitivity of a cell is what one rounding of each weight at the start does. Each of T steps adds roundings of its
own, which have fewer steps to grow. As their signs are random, all together do at most what the root of T of them would
do at the start. A party takes at most 200 steps in a round, so the root is below 16. GROWTH is twice that, because the
sensitivity is the larger of two draws and not the largest of all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from determinism.cpu import type_facts
from determinism.digests import Digest, differing_facts, digest_of, read_digests, recorded_types
from determinism.sensitivity import relative
from determinism.suite_cells import SuiteCell
from precision import bound
from silobench.runs.agreement import LATE, shift_limit
from silobench.runs.execute import execute
from silobench.runs.prepare import is_complete, prepare

FLOOR = bound(3000)
GROWTH = 32.0
STRAYING = 0.01  # share of the cells whose last score may be out of the band
BLUNT = 0.5  # a round with a larger tolerance is not compared, because nothing would fail


@dataclass
class Outcome:
    """The result of a check: how cells were compared, and what differs."""

    type_name: str  # the file whose digests were used
    differs_in: list[str]  # facts of the CPU type; none if bits are compared
    cells: dict[str, int] = field(default_factory=dict)  # by paper
    equal: dict[str, int] = field(default_factory=dict)  # cells with the same bits, by paper
    problems: list[str] = field(default_factory=list)
    blunt: int = 0  # cells whose losses depend so much on rounding that they are not compared
    shifts: list[float] = field(default_factory=list)

    @property
    def way(self) -> str:
        return "within a tolerance" if self.differs_in else "to the bit"


def nearest(facts: Mapping[str, str], files: Sequence[Path]) -> tuple[str, list[str], dict[str, Digest]]:
    """Return the recorded type that differs least from this one: its name, the differing facts and its digests."""
    known = [(path.stem, *read_digests(path)) for path in files]
    name, others, digests = min(known, key=lambda each: len(differing_facts(facts, each[1])))
    return name, differing_facts(facts, others), digests


def made(cell: SuiteCell, runs: Path) -> Digest:
    """Make a run and the one that it starts from, unless they are finished; return its digest."""
    for each in (cell.plan.origin, cell.plan):
        if each is not None and not is_complete(each, runs):
            for _ in execute(prepare(each), runs, "auto(workers=1)"):
                pass
    return digest_of(runs / cell.plan.id, cell.suite)


def check(
    cells: Iterable[SuiteCell],
    runs: Path,
    sensitivities: Mapping[str, tuple[float, ...]],
    report: Callable[[str], object] = id,
    files: Sequence[Path] | None = None,
) -> Outcome:
    """Make cells again in `runs` and compare them with the digests of the nearest CPU type."""
    name, differs, digests = nearest(type_facts(), recorded_types() if files is None else files)
    outcome = Outcome(name, differs)
    for cell in cells:
        if (stored := digests.get(cell.plan.id)) is None:
            outcome.problems.append(f"{cell.suite}: {cell.plan.name} ({cell.plan.id}) has no digest: record it")
            continue
        compare(outcome, cell, stored, made(cell, runs), sensitivities.get(cell.plan.id, (0.0, 0.0)))
        report(cell.plan.name)
    if problem := shift_problem(outcome.shifts):
        outcome.problems.append(problem)
    return outcome


def compare(
    outcome: Outcome, cell: SuiteCell, stored: Digest, repeated: Digest, sensitivity: tuple[float, ...]
) -> None:
    """Add a cell to an outcome."""
    paper, is_equal = cell.paper, stored == repeated
    outcome.cells[paper] = outcome.cells.get(paper, 0) + 1
    outcome.equal[paper] = outcome.equal.get(paper, 0) + is_equal
    if is_equal:
        outcome.shifts += [0.0] * bool(outcome.differs_in)
        return
    limits = tuple(tolerance(each) for each in sensitivity)
    outcome.blunt += bool(outcome.differs_in) and max(limits) > BLUNT
    problem = out_of_tolerance(stored, repeated, limits) if outcome.differs_in else other_bits(stored, repeated)
    if problem:
        outcome.problems.append(f"{cell.suite}: {cell.plan.name} ({stored.id}): {problem}")
    if outcome.differs_in and "-" not in (stored.score, repeated.score):
        outcome.shifts.append((float(stored.score) - float(repeated.score)) / max(1.0, abs(float(stored.score))))


def tolerance(sensitivity: float) -> float:
    """Return how far a loss may be from the stored one, relative, on another CPU type."""
    return max(FLOOR, GROWTH * sensitivity)


def other_bits(stored: Digest, repeated: Digest) -> str:
    """Return the first part of a digest that differs."""
    names = (name for name in vars(stored) if vars(stored)[name] != vars(repeated)[name])
    return next((f"{name} is {vars(repeated)[name]}, and {vars(stored)[name]} is stored" for name in names), "")


def out_of_tolerance(stored: Digest, repeated: Digest, limits: tuple[float, ...]) -> str:
    """Return the first difference that rounding does not explain; empty if there is none."""
    if stored.exact != repeated.exact:
        return "cohorts, steps, rows or sizes of messages differ"
    for number, limit in enumerate(limits, 1):
        for one, other in zip(stored.losses(number), repeated.losses(number), strict=True):
            if limit <= BLUNT and not _near(one, other, limit):
                return f"a loss of round {number} is {other}, and {one} is stored; {limit:.1e} is allowed"
    if "-" in (stored.score, repeated.score):
        return "" if stored.score == repeated.score else f"the score is {repeated.score}, and {stored.score} is stored"
    return ""


def strays(shift: float) -> bool:
    """Whether a last score is out of the band of late rounds."""
    return abs(shift) > LATE.score


def _near(one: str, other: str, limit: float) -> bool:
    return one == other if "-" in (one, other) else relative(float(one), float(other)) <= limit


def shift_problem(shifts: Sequence[float]) -> str:
    """Return a sentence if the scores of all cells together shift by more than chance explains."""
    if not shifts:
        return ""
    straying, allowed = sum(map(strays, shifts)), int(STRAYING * len(shifts))
    if straying > allowed:
        return f"the last score of {straying} cells is off by more than {LATE.score}; {allowed} of {len(shifts)} may be"
    mean, limit = sum(shifts) / len(shifts), shift_limit(len(shifts))
    return (
        f"the mean score of {len(shifts)} cells shifts by {-mean:+.4f}; {limit:.4f} is allowed"
        if abs(mean) > limit
        else ""
    )
