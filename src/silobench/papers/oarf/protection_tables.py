"""OARF's numbers on secret sharing (Table 7), privacy (Figure 5) and the hybrid example (Figure 7), beside ours."""

from collections.abc import Iterator

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.costs import PARTIES, PARTS, SERVER
from silobench.analysis.groups import Cells, accuracy_text, by_seed
from silobench.analysis.tables import Entry, Table, entries, shown_choices
from silobench.analysis.units import percent, short, size
from silobench.papers.oarf.encryption import Sharing, sent_models, shared
from silobench.papers.oarf.hybrid import hybrids, model_bytes, protections, seconds, share, task_name
from silobench.papers.oarf.measures import mean_of
from silobench.papers.oarf.numbers import model_sizes, privacy_cost, privacy_row, published_cost, sharing_row
from silobench.papers.oarf.printed import beside, cost_texts, other_networks
from silobench.papers.oarf.privacy import ladders
from silobench.papers.oarf.settings import task_of

_BARS = {SERVER: "server", PARTIES: "mean party"}


# --- secret sharing -----------------------------------------------------------------------------------


def sharing_table(cells: Cells) -> Table:
    """Return accuracy, rounds, throughput, overhead and bytes by the number of shares."""
    groups = list(shared(cells))
    lines = [(how, cell) for plain, ways in groups for how, cell in ((Sharing(""), plain), *ways.items())]
    some = [cell for _, cell in lines]
    solvers = {(task_name(cell), cell.label.text("solver")) for cell in some}
    choices = ["solver"] if len(solvers) > len({task for task, _ in solvers}) else []  # of some task there are several
    rows = [
        [*entries(task_name(cell)), *shown_choices(cell, choices, some), *_sharing_numbers(how, cell)]
        for how, cell in lines
    ]
    columns = [
        "task", *choices, "sum", "accuracy", "rounds", "rows/s", "overhead, %", "sent up, models", "encryption, %",
    ]  # fmt: skip
    notes = [
        "sent up: bytes that a party sends, shares and keys included, over those of its model",
        "encryption: of the mean party's time",
        *other_networks(some),
    ]
    return Table("OARF, Table 7: sums of secret shares", columns, rows, "; ".join(notes))


def _sharing_numbers(how: Sharing, cell: CellResult) -> list[Entry]:
    row = (
        sharing_row(cell.label, cell.parties, how.splits) if how.protocol else published_cost(cell.label, cell.parties)
    )
    rounds, rate, overhead = cost_texts(cell)
    return [
        *entries(str(how), accuracy_text(cell)),
        beside(rounds, row, "rounds"),
        beside(rate, row, "throughput"),
        beside(overhead, row, "overhead_percent"),
        *entries(_mean_sent(cell), _encrypted(cell)),
    ]


def _mean_sent(cell: CellResult) -> str:
    mean = costs.mean_of(cell.runs, sent_models)
    return short(mean.mean) if mean else "-"


def _encrypted(cell: CellResult) -> str:
    mean = costs.mean_of(cell.runs, share(PARTIES, "encrypt"))
    return percent(mean.mean) if mean else "-"


# --- privacy ------------------------------------------------------------------------------------------


def privacy_table(cells: Cells) -> Table:
    """Return accuracy, rounds, throughput and overhead by epsilon, as in Figure 5."""
    groups = list(ladders(cells))
    rows = [
        [
            *entries(task_name(cell), "none" if epsilon is None else f"{epsilon:g}"),
            beside(accuracy_text(cell), privacy_row(cell.label, cell.parties, epsilon), "accuracy_percent"),
            *_privacy_costs(epsilon, cell),
        ]
        for ladder, plain in groups
        for epsilon, cell in _with_plain(ladder, plain)
    ]
    columns = ["task", "epsilon", "accuracy", "rounds", "rows/s", "overhead, %"]
    notes = [
        "the paper's throughput and overhead are means over all its epsilons",
        "the paper clips means of batches, so its epsilons are no guarantees",
        *other_networks([cell for ladder, _ in groups for cell in ladder.values()], task_of),
    ]
    return Table("OARF, Figure 5: accuracy by epsilon", columns, rows, "; ".join(notes))


def _with_plain(ladder: dict[float, CellResult], plain: CellResult | None) -> Iterator[tuple[float | None, CellResult]]:
    yield from ladder.items()
    if plain:
        yield None, plain


def _privacy_costs(epsilon: float | None, cell: CellResult) -> list[Entry]:
    row = None if epsilon is None else privacy_cost(cell.label, cell.parties)
    rounds, rate, overhead = cost_texts(cell)
    return [Entry(rounds), beside(rate, row, "throughput"), beside(overhead, row, "overhead_percent")]


# --- hybrid -------------------------------------------------------------------------------------------


def hybrid_table(cells: Cells) -> Table:
    """Return the seconds of a round by part, of server and mean party, as in Figure 7."""
    used = _used_parts(cells)
    rows = [
        [
            *entries(task_name(cell), protections(cell) or "baseline", _model_size(cell), accuracy_text(cell), name),
            *entries(*(_seconds(cell, bar, part) for part in used), _seconds(cell, bar)),
        ]
        for cell in hybrid_cells(cells)
        for bar, name in _BARS.items()
    ]
    columns = ["task", "protection", "model", "accuracy", "of whom", *used, "all, s per round"]
    sizes = " and ".join(f"{megabytes:g} MB ({task})" for task, megabytes in model_sizes().items())
    note = f"the paper's models have {sizes}; its figure has no numbers"
    return Table("OARF, Figure 7: time of a round with and without protection", columns, rows, note)


def hybrid_cells(cells: Cells) -> list[CellResult]:
    """Return baselines, each followed by its hybrid cells."""
    by_baseline: dict[int, list[CellResult]] = {}
    for pair in hybrids(cells):
        by_baseline.setdefault(id(pair.baseline), [pair.baseline]).append(pair.cell)
    return [cell for group in by_baseline.values() for cell in group]


def _used_parts(cells: Cells) -> list[str]:
    """Return the parts of which some bar has any."""
    every = [times for cell in hybrid_cells(cells) for times in costs.mean_decomposition(cell.runs).values()]
    return [part for part in PARTS if any(times[part] for times in every)]


def _seconds(cell: CellResult, bar: str, *parts: str) -> str:
    values = by_seed(cell, seconds(bar, *parts))
    return short(mean_of(values)) if values else "-"


def _model_size(cell: CellResult) -> str:
    values = by_seed(cell, model_bytes)
    return size(mean_of(values)) if values else "-"
