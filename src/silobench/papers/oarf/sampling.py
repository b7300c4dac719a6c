"""Findings 10 to 12 of OARF: algorithms that sample parties (appendix B.2)."""

from collections.abc import Iterator
from itertools import combinations

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import Evidence, accuracy_gap, gap, if_learnt, larger, nearly_equal, pair_text
from silobench.analysis.groups import Cells, by_seed, dataset_name, grouped, setting_name, settings_of
from silobench.papers.oarf.measures import OVERHEAD, POINT, share_of_overhead, share_text, two_shares_text, two_text
from silobench.papers.oarf.settings import NAME, SAMPLED, is_federated, solver_of
from silobench.papers.published import participation
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

FINDINGS = Findings(NAME)


def _sampled(cells: Cells) -> Iterator[tuple[CellResult, list[CellResult]]]:
    """Yield federated cells with all parties, each with the cells in which some parties train in a round.

    The learning rate and the rounds may differ: with fewer rows per round, schedules are longer.
    """
    plain = [cell for cell in cells if cell.label.algorithm.name in SAMPLED and not cell.label.text("transforms")]
    for group in grouped(plain, _sampling_key):
        everyone = [cell for cell in group if is_federated(cell)]
        some = [cell for cell in group if participation(cell.label, cell.parties) < 1]
        if len(everyone) == 1 and some:
            yield everyone[0], some


def _sampling_key(cell: CellResult) -> tuple[Label, str]:
    solver = {name: value for name, value in solver_of(cell).items() if name != "lr"}
    return cell.label.without("algorithm", "participation", "solver", "rounds"), repr(solver)


def _cohort(cell: CellResult) -> str:
    return f"{cell.label['algorithm']} with {cell.cohort} of {cell.parties} parties"


@FINDINGS.add(
    "oarf-10",
    "Algorithms that sample parties are not more accurate than training with all parties.",
    {"sampling gains nothing": "most"},
    "oarf-algorithms",
)
def sampling_gains_nothing(cells: Cells) -> Iterator[Evidence]:
    """Compare each sampled cell with FedAvg of all parties."""
    for everyone, some in _sampled(cells):
        for cell in some:
            holds = if_learnt(accuracy_gap(cell, everyone).at_most(POINT), everyone)
            test = "correlated t-test: at most 1 point better than with all parties, only if that model has learnt"
            names = f"{setting_name(cell)}: {_cohort(cell)}"
            yield Evidence("sampling gains nothing", names, pair_text(cell, everyone), test, holds)


@FINDINGS.add(
    "oarf-11",
    "With sampled parties, FedAvg, FedNova and FedProx are nearly equal.",
    {"they are nearly equal": "most"},
    "oarf-algorithms",
)
def algorithms_are_alike(cells: Cells) -> Iterator[Evidence]:
    """Compare sampled cells of a setting pair by pair."""
    for _, some in _sampled(cells):
        for setting in settings_of(some):
            for a, b in combinations(setting, 2):
                names = f"{dataset_name(a)}: {a.label['algorithm']} against {b.label['algorithm']}"
                yield nearly_equal("they are nearly equal", names, a, b)


@FINDINGS.add(
    "oarf-12",
    "Sampling lowers the throughput and raises the overhead, because most parties idle.",
    {"lower throughput": "most", "more overhead": "most", "most of it is idling": "most"},
    "oarf-algorithms",
)
def sampling_idles(cells: Cells) -> Iterator[Evidence]:
    """Compare the time of each sampled cell with that of all parties."""
    for everyone, some in _sampled(cells):
        fast, busy = by_seed(everyone, costs.throughput), by_seed(everyone, costs.overhead)
        for cell in some:
            slow, idle = by_seed(cell, costs.throughput), by_seed(cell, costs.overhead)
            names = f"{setting_name(cell)}: {_cohort(cell)}"
            if fast and slow:
                test = "t-test: throughput of all parties is more than a tenth higher"
                numbers = two_text(fast, slow, "rows/s")
                yield Evidence("lower throughput", names, numbers, test, larger(fast, slow))
            if busy and idle:
                difference = gap(idle, busy)
                test = "t-test: overhead is more than 10 points higher"
                numbers = two_shares_text(idle, busy, difference)
                yield Evidence("more overhead", names, numbers, test, difference.more_than(OVERHEAD))
            if shares := by_seed(cell, _idle_share):
                holds = gap(shares, dict.fromkeys(shares, 0.5)).more_than(0)
                test = "t-test: idling is more than half of the time that is neither training nor testing"
                yield Evidence("most of it is idling", names, share_text(shares), test, holds)


def _idle_share(run: StoredRun) -> float | None:
    return share_of_overhead(run, "idle")
