"""Findings 25 to 27 of OARF: shares, noise and compression together on a slow link (appendix B.6)."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.costs import PARTIES, SERVER
from silobench.analysis.evidence import Evidence, gap, larger
from silobench.analysis.groups import Cells, by_seed, grouped, setting_name
from silobench.analysis.units import size
from silobench.papers.oarf.encryption import SECURE
from silobench.papers.oarf.measures import mean_of, share_text, too_few_text, two_shares_text, two_text
from silobench.papers.oarf.privacy import PRIVATE, epsilon_of
from silobench.papers.oarf.settings import FEDERATED, NAME, is_fast, is_federated
from silobench.runs.stored import StoredRun

FINDINGS = Findings(NAME)
_COMPRESSIONS = ("rand-k", "top-k", "low-rank")
_NEGLIGIBLE = 0.01  # a share of the time
_LARGER = 2.0  # times the bytes of a model


class Hybrid(NamedTuple):
    """A cell with shares, noise and compression, beside plain federated training on the same slow link."""

    cell: CellResult
    baseline: CellResult

    @property
    def name(self) -> str:
        return f"{task_name(self.cell)}: {protections(self.cell)}"


def protections(cell: CellResult) -> str:
    """Return the protections of a cell in words; empty for plain training."""
    epsilon = epsilon_of(cell)
    names = ["noise" if epsilon is None else f"epsilon {epsilon:g}"] if cell.label.solver.name == PRIVATE else []
    return ", ".join([*names, *(str(term) for term in cell.label.transforms)])


def task_name(cell: CellResult) -> str:
    return f"{setting_name(cell)}, {cell.label.text('model')}"


def is_hybrid(cell: CellResult) -> bool:
    """Whether a cell has all three: noise in training, compression, and a sum of shares."""
    names = [term.name for term in cell.label.transforms]
    is_compressed = any(name in _COMPRESSIONS for name in names)
    return cell.label.solver.name == PRIVATE and is_compressed and names[-1] == SECURE


def hybrids(cells: Cells) -> Iterator[Hybrid]:
    """Yield hybrid cells on slow links, each with plain federated training on the same link."""
    slow = [cell for cell in cells if cell.label["algorithm"] == FEDERATED and not is_fast(cell.label)]
    for group in grouped(slow, lambda cell: cell.label.without("solver", "transforms", "rounds")):
        plain = [cell for cell in group if is_federated(cell) and not protections(cell)]
        if len(plain) == 1:
            yield from (Hybrid(cell, plain[0]) for cell in group if is_hybrid(cell))


# --- numbers of a run -----------------------------------------------------------------------------------


def seconds(bar: str, *parts: str) -> Callable[[StoredRun], float | None]:
    """Return a function from a run to the seconds per round that a bar spends on some parts; all of them if empty."""

    def number(run: StoredRun) -> float | None:
        times = costs.decomposition(run).get(bar)
        return sum(times[part] for part in parts or times) / len(run.rounds) if times else None

    return number


def share(bar: str, *parts: str) -> Callable[[StoredRun], float | None]:
    """Return a function from a run to the share of a bar that is spent on some parts."""

    def number(run: StoredRun) -> float | None:
        times = costs.decomposition(run).get(bar)
        total = sum(times.values()) if times else 0.0
        return sum(times[part] for part in parts) / total if times and total else None

    return number


def _lead_of_training(run: StoredRun) -> float | None:
    """Return the share of training in a party's time, less that of the longest other part."""
    train, other = share(PARTIES, "train")(run), _longest_other(run)
    return None if train is None or other is None else train - other


def _longest_other(run: StoredRun) -> float | None:
    """Return the share of the longest part of a party's time besides training."""
    shares = [share(PARTIES, part)(run) for part in costs.PARTS if part != "train"]
    return max((each for each in shares if each is not None), default=None)


def _training_per_row(run: StoredRun) -> float | None:
    """Return the seconds that parties train per row visit, so that more local epochs do not count as slower."""
    times, rows = costs.decomposition(run).get(PARTIES), sum(row.rows or 0 for row in run.rounds)
    parties = len(run.partition.sizes)
    return times["train"] * parties / rows if times and rows else None


def model_bytes(run: StoredRun) -> float | None:
    """Return the bytes of a party's whole message, without transforms."""
    sent = [(row.dense_up, len(row.cohort)) for row in run.rounds]
    total, messages = sum(size or 0 for size, _ in sent), sum(count for _, count in sent)
    return total / messages if total and messages else None


# --- findings -------------------------------------------------------------------------------------------


@FINDINGS.add(
    "oarf-25",
    "On a slow link the server idles most of the time, and parties train most of it, with protections and without.",
    {"the server idles more than half of the time": "most", "parties train more than anything else": "most"},
    "oarf-hybrid",
)
def server_idles(cells: Cells) -> Iterator[Evidence]:
    """Read the bars of server and parties, of hybrid cells and of their baselines."""
    pairs = list(hybrids(cells))
    baselines = {id(pair.baseline): pair.baseline for pair in pairs}.values()
    for cell in (*baselines, *(pair.cell for pair in pairs)):
        names = f"{task_name(cell)}: {protections(cell) or 'baseline'}"
        if idle := by_seed(cell, share(SERVER, "idle")):
            holds = gap(idle, dict.fromkeys(idle, 0.5)).more_than(0)
            test = "t-test: idling is more than half of the server's time"
            yield Evidence("the server idles more than half of the time", names, share_text(idle), test, holds)
        if lead := by_seed(cell, _lead_of_training):
            holds = gap(lead, dict.fromkeys(lead, 0.0)).more_than(0)
            test = "t-test: training takes more of a party's time than any other part"
            numbers = two_shares_text(by_seed(cell, share(PARTIES, "train")), by_seed(cell, _longest_other))
            yield Evidence("parties train more than anything else", names, numbers, test, holds)


@FINDINGS.add(
    "oarf-26",
    "The hybrid takes longer because of noise and compression; encryption is not negligible; it communicates less.",
    {
        "training takes longer per row": "most",
        "training and compression are most of the longer time": "most",
        "encryption is not negligible": "most",
        "communication is shorter": "most",
    },
    "oarf-hybrid",
)
def hybrid_takes_longer(cells: Cells) -> Iterator[Evidence]:
    """Compare the parties' bar of each hybrid cell with that of its baseline."""
    for pair in hybrids(cells):
        slow, fast = by_seed(pair.cell, _training_per_row), by_seed(pair.baseline, _training_per_row)
        if not (slow and fast):
            continue
        test = "t-test: more than a tenth longer"
        numbers = two_text(slow, fast, "ms per row", 1000)
        yield Evidence("training takes longer per row", pair.name, numbers, test, larger(slow, fast))
        yield _part_of_longer_time(pair)
        encrypted = by_seed(pair.cell, share(PARTIES, "encrypt"))
        holds = gap(encrypted, dict.fromkeys(encrypted, _NEGLIGIBLE)).more_than(0)
        test = "t-test: more than 1% of a party's time"
        yield Evidence("encryption is not negligible", pair.name, share_text(encrypted), test, holds)
        few, many = (by_seed(cell, seconds(PARTIES, "communicate")) for cell in pair)
        test = "t-test: that of the baseline is more than a tenth longer"
        numbers = two_text(few, many, "s per round")
        yield Evidence("communication is shorter", pair.name, numbers, test, larger(many, few))


def _part_of_longer_time(pair: Hybrid) -> Evidence:
    """Return evidence on what a round of the hybrid takes longer for."""
    work, total = (_longer(pair, seconds(PARTIES, *parts)) for parts in (("train", "encode"), ()))
    halves = {seed: longer / 2 for seed, longer in total.items()}
    numbers = f"{mean_of(work):+.3g} s of {mean_of(total):+.3g} s per round{too_few_text(work, total)}"
    test = "t-test: more than half of what a round takes longer, if it does"
    longer, most = gap(total, dict.fromkeys(total, 0.0)).more_than(0), gap(work, halves).more_than(0)
    holds = most if longer else longer
    return Evidence("training and compression are most of the longer time", pair.name, numbers, test, holds)


def _longer(pair: Hybrid, number: Callable[[StoredRun], float | None]) -> Mapping[int, float]:
    a, b = by_seed(pair.cell, number), by_seed(pair.baseline, number)
    return {seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}


@FINDINGS.add(
    "oarf-27",
    "With a larger model, the server spends more time on encryption and communication.",
    {"a larger model takes the server more time": "most"},
    "oarf-hybrid",
)
def larger_models_cost_more(cells: Cells) -> Iterator[Evidence]:
    """Compare tasks on the same link whose models differ in size by a factor of 2 and more."""
    pairs = list(hybrids(cells))
    for kind in grouped([pair.cell for pair in pairs], lambda cell: (cell.label.text("network"), protections(cell))):
        for one, other in combinations(kind, 2):
            sizes = [by_seed(cell, model_bytes) for cell in (one, other)]
            if not all(sizes):
                continue
            (few, small), (many, large) = sorted(zip(map(mean_of, sizes), (one, other), strict=True), key=itemgetter(0))
            busy, calm = (by_seed(cell, seconds(SERVER, "communicate", "encrypt")) for cell in (large, small))
            if many < _LARGER * few or not (busy and calm):
                continue
            names = f"{task_name(large)} against {task_name(small)}, {protections(large)}"
            test = "t-test: more than a tenth longer"
            numbers = f"{two_text(busy, calm, 's per round')}, models of {size(many)} and {size(few)}"
            yield Evidence("a larger model takes the server more time", names, numbers, test, larger(busy, calm))
