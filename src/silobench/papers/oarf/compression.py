"""Findings 20 to 24 of OARF: local epochs and compression (appendix B.5)."""

from collections.abc import Iterator
from itertools import combinations

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import (
    Evidence,
    accuracy_gap,
    all_hold,
    any_holds,
    gap,
    has_learnt,
    if_learnt,
    larger,
    nearly_equal,
    opposite,
    pair_text,
    point_apart,
)
from silobench.analysis.groups import Cells, Family, by_seed, dataset_name, grouped, setting_name
from silobench.papers.oarf.chains import Chains, compressed, end_to_end, papers_variants
from silobench.papers.oarf.measures import (
    POINT,
    has_converged,
    mean_of,
    more_rounds,
    rounds_text,
    too_few_text,
    two_text,
)
from silobench.papers.oarf.settings import FEDERATED, NAME, solver_of
from silobench.papers.published import participation
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

FINDINGS = Findings(NAME)


@FINDINGS.add(
    "oarf-20",
    "More local epochs per round hardly change accuracy, but save no bytes up to convergence.",
    {"accuracy is nearly the same": "most", "no bytes are saved": "most"},
    "oarf-compression",
)
def local_epochs(cells: Cells) -> Iterator[Evidence]:
    """Compare two to ten local epochs with one, all parties in every round."""
    for family in families_of_epochs(cells):
        one = family[1]
        for epochs, cell in sorted(family.items()):
            if epochs == 1:
                continue
            names = f"{setting_name(cell)}: {epochs} epochs against 1"
            yield nearly_equal("accuracy is nearly the same", names, cell, one, points=2)
            if costs.can_converge(cell.runs[0]):
                a, b = by_seed(one, _bytes), by_seed(cell, _bytes)
                test = (
                    "t-test: bytes up to convergence with one epoch are not more than a tenth higher, only if both "
                    "models have learnt"
                )
                holds = _no_saving(one, cell) if has_learnt(one) and has_learnt(cell) else None
                yield Evidence("no bytes are saved", names, two_text(a, b, "MB", 1e-6), test, holds)


def families_of_epochs(cells: Cells) -> Iterator[Family]:
    """Yield cells of all parties that differ in the local epochs only, by their number; rounds may differ too."""
    plain = [
        cell
        for cell in cells
        if cell.label["algorithm"] == FEDERATED
        and participation(cell.label, cell.parties) == 1
        and not cell.label.text("transforms")
    ]
    longest = {cell.label.without("rounds"): cell for cell in sorted(plain, key=lambda cell: int(cell.label.rounds))}
    same = [(cell, cell.label.without("rounds")) for cell in longest.values()]
    groups: dict[tuple[Label, str], Family] = {}
    for cell, label in same:
        solver = solver_of(cell)
        epochs = solver.pop("epochs", None)
        if isinstance(epochs, int):
            groups.setdefault((label.without("solver"), repr(solver)), {})[epochs] = cell
    yield from (family for family in groups.values() if 1 in family and len(family) > 1)


def _bytes(run: StoredRun) -> float:
    return float(run.totals.bytes_up + run.totals.bytes_down)


def _no_saving(one: CellResult, cell: CellResult) -> bool | None:
    """Whether more epochs save no bytes. The bytes of a cell that did not converge are a lower bound."""
    holds = opposite(larger(by_seed(one, _bytes), by_seed(cell, _bytes)))
    bounded = (holds and not has_converged(one)) or (holds is False and not has_converged(cell))
    return None if bounded else holds


@FINDINGS.add(
    "oarf-21",
    "TopK, LowRank and RandK save bytes at a cost in accuracy; it depends on k, and on the method at a similar ratio.",
    {
        "messages are much shorter": "most",
        "accuracy is lower": "most",
        "a smaller k costs more": "most",
        "methods differ at a similar ratio": "most",
        "top-k 0.3% is better than rand-k 1%": "most",
    },
    "oarf-compression",
)
def compression_costs_accuracy(cells: Cells) -> Iterator[Evidence]:
    """Compare the paper's variants with no compression, TopK's amounts, and methods of similar ratios."""
    for plain, chains in compressed(cells):
        papers = papers_variants(chains)
        for how, cell in papers.items():
            ratio = by_seed(cell, costs.uplink_ratio)
            names = f"{setting_name(cell)}: {how}"
            if ratio:
                holds = gap(ratio, dict.fromkeys(ratio, 5.0)).more_than(0)
                test = "t-test: messages are more than 5 times shorter"
                yield Evidence(
                    "messages are much shorter", names, f"{mean_of(ratio):.1f} times{too_few_text(ratio)}", test, holds
                )
            holds = accuracy_gap(plain, cell).more_than(POINT)
            test = "correlated t-test: accuracy is more than 1 point lower than without compression"
            yield Evidence("accuracy is lower", names, pair_text(plain, cell), test, holds)
        yield from _by_amount(papers, plain)
        yield from _at_similar_ratio(papers, plain)
        yield from _largest_against_random(papers, plain)


def _by_amount(papers: Chains, plain: CellResult) -> Iterator[Evidence]:
    """Yield evidence from the largest and the smallest k of TopK."""
    ladder = sorted((how.amount, cell) for how, cell in papers.items() if how.method == "top-k")
    if len(ladder) > 1:
        (low, few), (high, many) = ladder[0], ladder[-1]
        names = f"{setting_name(few)}: top-k {100 * low:g}% against {100 * high:g}%"
        yield point_apart("a smaller k costs more", names, many, few, "is more than 1 point lower", plain)


def _at_similar_ratio(papers: Chains, plain: CellResult) -> Iterator[Evidence]:
    """Yield evidence from pairs of methods whose messages are about equally long."""
    ratios = {how: mean_of(ratio) for how, cell in papers.items() if (ratio := by_seed(cell, costs.uplink_ratio))}
    for one, other in combinations(ratios, 2):
        if one.method != other.method and max(ratios[one], ratios[other]) < 1.2 * min(ratios[one], ratios[other]):
            a, b = papers[one], papers[other]
            leads = [accuracy_gap(x, y, plain).more_than(POINT, looks=2) for x, y in ((a, b), (b, a))]
            names = f"{setting_name(a)}: {one} ({ratios[one]:.0f}) against {other} ({ratios[other]:.0f} times shorter)"
            test = "correlated t-test: accuracy differs by more than 1 point, either way"
            yield Evidence("methods differ at a similar ratio", names, pair_text(a, b), test, any_holds(leads))


def _largest_against_random(papers: Chains, plain: CellResult) -> Iterator[Evidence]:
    """Yield evidence from the pair in which the paper's methods differ most, at ratios of 111 and 100."""
    named = {how.name: cell for how, cell in papers.items()}
    largest, random = named.get("top-k 0.3%"), named.get("rand-k 1%")
    if largest and random:
        part, names = "top-k 0.3% is better than rand-k 1%", setting_name(largest)
        yield point_apart(part, names, largest, random, "is more than 1 point higher", plain)


@FINDINGS.add(
    "oarf-22",
    "Compressed training needs more rounds, but still saves bytes end to end.",
    {"more rounds": "most", "bytes are saved end to end": "most"},
    "oarf-compression",
)
def saves_end_to_end(cells: Cells) -> Iterator[Evidence]:
    """Compare rounds to convergence with and without compression, and the bytes sent up in all of them."""
    for plain, chains in compressed(cells):
        for how, cell in papers_variants(chains).items():
            if not costs.can_converge(cell.runs[0]):
                continue
            names = f"{setting_name(cell)}: {how}"
            difference, holds = more_rounds(cell, plain)
            numbers = f"{rounds_text(cell)} and {rounds_text(plain)}, {difference.text('rounds', 1)}"
            test = "t-test: more rounds to convergence by more than 10, or a tenth below 100; only if it has learnt"
            yield Evidence("more rounds", names, numbers, test, if_learnt(holds, cell))
            if saved := end_to_end(cell, plain):
                holds = gap(saved, dict.fromkeys(saved, 5.0)).more_than(0)
                bounded = (holds and not has_converged(cell)) or (holds is False and not has_converged(plain))
                test = "t-test: more than 5 times fewer bytes up to convergence; only if it has learnt"
                shown = costs.end_to_end_ratio(cell.runs, plain.runs)
                numbers = f"{shown.bound}{shown.mean:.1f} times" if shown else "neither converged"
                held = if_learnt(None if bounded else holds, cell)
                yield Evidence("bytes are saved end to end", names, numbers, test, held)


@FINDINGS.add(
    "oarf-23",
    "Which compression is better depends on the task: TopK 1% on one, LowRank 3 on another.",
    {"the better one depends on the task": "most"},
    "oarf-compression",
)
def best_depends_on_task(cells: Cells) -> Iterator[Evidence]:
    """Look for tasks in which TopK is better, and for others in which LowRank is."""
    rivals = []
    for plain, chains in compressed(cells):
        papers = {how.name: cell for how, cell in papers_variants(chains).items()}
        if {"top-k 1%", "low-rank 3"} <= papers.keys():
            rivals.append((plain, papers["top-k 1%"], papers["low-rank 3"]))
    for tasks in grouped(rivals, lambda rival: _task_key(rival[0])):
        if len({dataset_name(plain) for plain, *_ in tasks}) < 2:
            continue
        looks = len(tasks)
        top = any_holds(accuracy_gap(a, b, plain).more_than(POINT, looks) for plain, a, b in tasks)
        low = any_holds(accuracy_gap(b, a, plain).more_than(POINT, looks) for plain, a, b in tasks)
        numbers = "; ".join(f"{dataset_name(plain)} {pair_text(a, b)}" for plain, a, b in tasks)
        names = f"top-k 1% against low-rank 3 on {len(tasks)} tasks"
        test = "correlated t-test: each is more than 1 point better somewhere"
        yield Evidence("the better one depends on the task", names, numbers, test, all_hold([top, low]))


def _task_key(cell: CellResult) -> Label:
    """Return the choices that tasks share."""
    return cell.label.without("dataset", "model", "partition", "parties", "solver", "rounds", "transforms")


@FINDINGS.add(
    "oarf-24",
    "With error feedback, compression costs less accuracy (ours; the paper has feedback for LowRank only).",
    {"feedback helps": "most"},
    "oarf-compression",
)
def feedback_helps(cells: Cells) -> Iterator[Evidence]:
    """Compare chains that differ in the feedback only; LowRank is shown aside."""
    for plain, chains in compressed(cells):
        without = {how.without_feedback(): cell for how, cell in chains.items() if not how.feedback}
        for how, cell in chains.items():
            other = without.get(how.without_feedback())
            if not how.feedback or how.is_scaled or other is None:
                continue
            holds = accuracy_gap(cell, other, plain).more_than(POINT)
            test = "correlated t-test: accuracy is more than 1 point higher"
            names, numbers = f"{setting_name(cell)}: {how}", pair_text(cell, other, ", without ")
            counts = how.method != "low-rank"
            yield Evidence(
                "feedback helps" if counts else "feedback helps LowRank", names, numbers, test, holds, counts
            )
