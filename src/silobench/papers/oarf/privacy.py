"""Findings 16 to 19 of OARF: differential privacy of examples (appendix B.4)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import Evidence, Gap, accuracy_gap, gap, if_learnt, larger, pair_text, point_apart
from silobench.analysis.groups import Cells, by_seed, grouped, setting_name
from silobench.papers.oarf.measures import (
    OVERHEAD,
    POINT,
    BySeed,
    correlation,
    has_converged,
    is_weak,
    mean_of,
    rounds_of,
    rounds_text,
    two_shares_text,
    two_text,
)
from silobench.papers.oarf.settings import FEDERATED, NAME, solver_of
from silobench.papers.published import participation
from silobench.runs.label import Label

FINDINGS = Findings(NAME)
PRIVATE = "dp-sgd"
_STRONG = 0.7  # a correlation
_MUCH, _LITTLE = 0.1, 0.02  # of accuracy
_WORK = ("epochs", "steps", "batch")  # arguments that decide how long training takes
Ladder: TypeAlias = dict[float, CellResult]


def epsilon_of(cell: CellResult) -> float | None:
    """Return the epsilon for which a cell's noise was solved; None if it trains without noise, or states the noise."""
    solver = solver_of(cell)
    is_target = cell.label.solver.name == PRIVATE and solver.get("noise") is None
    return float(solver["epsilon"]) if is_target and solver.get("epsilon") is not None else None


def ladders(cells: Cells) -> Iterator[tuple[Ladder, CellResult | None]]:
    """Yield cells that differ in epsilon only, the smallest first, with training without noise where it was run.

    Training without noise is `sgd` with the same epochs and batches; its learning rate and its rounds may differ.
    """
    federated = [
        cell
        for cell in cells
        if cell.label["algorithm"] == FEDERATED
        and participation(cell.label, cell.parties) == 1
        and not cell.label.text("transforms")
    ]
    private = [cell for cell in federated if epsilon_of(cell) is not None]
    plain = {_plain_key(cell): cell for cell in federated if cell.label.solver.name == "sgd"}
    for group in grouped(private, lambda cell: (cell.label.without("solver"), repr(_without(cell, "epsilon")))):
        by_epsilon = {epsilon: cell for cell in group if (epsilon := epsilon_of(cell)) is not None}
        yield dict(sorted(by_epsilon.items())), plain.get(_plain_key(group[0]))


def _without(cell: CellResult, *names: str) -> dict[str, Any]:
    return {name: value for name, value in solver_of(cell).items() if name not in names}


def _plain_key(cell: CellResult) -> tuple[Label, str]:
    solver = solver_of(cell)
    return cell.label.without("solver", "rounds"), repr([(name, solver.get(name)) for name in _WORK])


def _task(cell: CellResult) -> str:
    """Return the dataset and its partition, and the network, because a suite may have several."""
    return f"{setting_name(cell)}, {cell.label.text('model')}"


def is_text(cell: CellResult) -> bool:
    """Whether a cell classifies texts; the other task of the paper classifies pictures."""
    return cell.label.model.name in ("bag", "lstm")


# --- accuracy -----------------------------------------------------------------------------------------


@FINDINGS.add(
    "oarf-16",
    "Accuracy grows with epsilon.",
    {"it is higher at the largest epsilon than at the smallest": "most", "it falls at no step": "most"},
    "oarf-privacy",
)
def accuracy_grows(cells: Cells) -> Iterator[Evidence]:
    """Compare the ends of each ladder of epsilons, and each step of it."""
    for ladder, _ in ladders(cells):
        if len(ladder) < 2:
            continue
        (low, worst), *_, (high, best) = ladder.items()
        part = "it is higher at the largest epsilon than at the smallest"
        names = f"{_task(worst)}: epsilon {high:g} against {low:g}"
        yield point_apart(part, names, best, worst, "is more than 1 point higher")
        for (small, before), (large, after) in pairwise(ladder.items()):
            holds = if_learnt(accuracy_gap(before, after, best).at_most(POINT), best)
            names = f"{_task(before)}: epsilon {large:g} against {small:g}"
            test = "correlated t-test: accuracy falls by at most 1 point, only if the model at the end has learnt"
            yield Evidence("it falls at no step", names, pair_text(after, before), test, holds)


@FINDINGS.add(
    "oarf-17",
    "Tasks differ in what noise costs: pictures lose more than 10 points from epsilon 16 to 0.5, texts hardly any.",
    {"pictures lose more than 10 points": "most", "texts lose at most 2 points": "most"},
    "oarf-privacy",
)
def tasks_differ(cells: Cells) -> Iterator[Evidence]:
    """Compare the ends of the ladders from 16 to 0.5 of both tasks."""
    for ladder, _ in ladders(cells):
        if not {0.5, 16.0} <= ladder.keys():
            continue
        best, worst = ladder[16.0], ladder[0.5]
        names = f"{_task(best)}: epsilon 16 against 0.5"
        loss = accuracy_gap(best, worst)
        if is_text(best):
            test = "correlated t-test: accuracy is at most 2 points higher, only if the model at 16 has learnt"
            holds = if_learnt(loss.at_most(_LITTLE), best)
            yield Evidence("texts lose at most 2 points", names, pair_text(best, worst), test, holds)
        else:
            test = "correlated t-test: accuracy is more than 10 points higher"
            part, holds = "pictures lose more than 10 points", loss.more_than(_MUCH)
            yield Evidence(part, names, pair_text(best, worst), test, holds)


# --- costs --------------------------------------------------------------------------------------------


@FINDINGS.add(
    "oarf-18",
    "The amount of noise changes neither throughput nor overhead; private training itself costs throughput.",
    {
        "throughput does not depend on epsilon": "most",
        "overhead does not depend on epsilon": "most",
        "private training has a lower throughput": "most",
    },
    "oarf-privacy",
)
def noise_costs_no_time(cells: Cells) -> Iterator[Evidence]:
    """Compare the costs of each epsilon with those of the largest, and all of them with training without noise."""
    for ladder, plain in ladders(cells):
        *smaller, (high, most) = ladder.items()
        rate, overhead = by_seed(most, costs.throughput), by_seed(most, costs.overhead)
        for epsilon, cell in smaller:
            names = f"{_task(cell)}: epsilon {epsilon:g} against {high:g}"
            rates, overheads = by_seed(cell, costs.throughput), by_seed(cell, costs.overhead)
            if rate and rates:
                test, part = "t-test: they differ by at most a tenth", "throughput does not depend on epsilon"
                holds = _relative(rates, rate).within(0.1)
                yield Evidence(part, names, two_text(rates, rate, "rows/s"), test, holds)
            if overhead and overheads:
                difference, part = gap(overheads, overhead), "overhead does not depend on epsilon"
                test, numbers = "t-test: they differ by at most 10 points", two_shares_text(overheads, overhead)
                yield Evidence(part, names, numbers, test, difference.within(OVERHEAD))
        if plain and rate and (fast := by_seed(plain, costs.throughput)):
            test, part = (
                "t-test: it is more than a tenth higher without noise",
                "private training has a lower throughput",
            )
            names = f"{_task(most)}: epsilon {high:g} against training without noise"
            yield Evidence(part, names, two_text(rate, fast, "rows/s"), test, larger(fast, rate))


def _relative(a: BySeed, b: BySeed) -> Gap:
    """Return a - b relative to the mean of b."""
    mean = mean_of(b)
    return gap({seed: value / mean for seed, value in a.items()}, {seed: value / mean for seed, value in b.items()})


@FINDINGS.add(
    "oarf-19",
    "The rounds to convergence have no strong correlation with the amount of noise.",
    {"the correlation is not strong": "all"},
    "oarf-privacy",
)
def convergence_ignores_noise(cells: Cells) -> Iterator[Evidence]:
    """Rank the rounds to convergence against epsilon over all trials; one run that did not converge leaves it open."""
    for ladder, _ in ladders(cells):
        if len(ladder) < 3 or not all(costs.can_converge(cell.runs[0]) for cell in ladder.values()):
            continue
        points = [(epsilon, rounds) for epsilon, cell in ladder.items() for rounds in rounds_of(cell).values()]
        rank = correlation([epsilon for epsilon, _ in points], [rounds for _, rounds in points])
        is_complete = all(has_converged(cell) and len(cell.runs) > 1 for cell in ladder.values())
        first, *_, last = ladder.values()
        holds = if_learnt(is_weak(rank, len(points), _STRONG) if is_complete else None, last)
        numbers = f"Spearman {rank:+z.2f} over {len(points)} trials, {rounds_text(first)} to {rounds_text(last)} rounds"
        test = f"Fisher's test: between -{_STRONG:g} and {_STRONG:g}, only if the model at the end has learnt"
        yield Evidence("the correlation is not strong", _task(first), numbers, test, holds)
