"""OARF's tables with its numbers beside ours: costs (5 and 6), compression (8), sources (4) and skew (Figure 4)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.cross_tests import CrossLine, cross_lines
from silobench.analysis.groups import Cells, accuracy_json, accuracy_text, dataset_name, settings_of
from silobench.analysis.tables import Entry, Table, accuracy_entry, entries, shown_choices, varying
from silobench.analysis.units import percent, short, size
from silobench.papers.oarf.chains import NONE, Chains, Compression, compressed
from silobench.papers.oarf.compression import families_of_epochs
from silobench.papers.oarf.measures import has_converged
from silobench.papers.oarf.numbers import accuracy_row, compression_row, published_cost, table4
from silobench.papers.oarf.printed import beside, convergence_text, cost_texts, other_networks, paper_text
from silobench.papers.oarf.protection_tables import hybrid_table, privacy_table, sharing_table
from silobench.papers.oarf.settings import COMBINED, FEDERATED, SENTIMENT, SOLO, papers_task
from silobench.papers.oarf.skew import skews
from silobench.papers.published import participation
from silobench.tasks.metrics import Metric

_COSTS = ("rounds", "throughput", "overhead_percent")
_SOURCES = ("imdb", "amazon", "all")


# --- baseline and costs --------------------------------------------------------------------------------------------


def cost_table(cells: Cells) -> Table:
    """Return accuracy, rounds, throughput and overhead of the cells for which the paper prints some of them."""
    plain = [cell for cell in cells if not cell.label.text("transforms")]
    known = [cell for cell in plain if _accuracy_row(cell) or published_cost(cell.label, cell.parties)]
    names = _choices(known)
    rows = [
        [
            *shown_choices(cell, names, known),
            *entries(str(cell.label["algorithm"]), _cohort(cell)),
            _network(cell),
            beside(accuracy_text(cell), _accuracy_row(cell), "accuracy_percent"),
            *_cost_entries(cell),
        ]
        for cell in known
    ]
    columns = [*names, "algorithm", "parties", "network", "accuracy", "rounds", "rows/s", "overhead, %"]
    notes = ["rows/s: in round time, where parties work side by side; the paper's parties have a GPU each"]
    if any(cell.label.clock.name == "device" for cell in known):
        notes.append("with clock=device the speed of parties is stated, not measured")
    if any(participation(cell.label, cell.parties) < 1 for cell in known):
        notes.append("the paper's overhead with sampled parties is a mean over all its algorithms")
    notes += other_networks(known)
    title = "OARF, Tables 4 to 6: accuracy, rounds to convergence, throughput and overhead"
    return Table(title, columns, rows, "; ".join(notes))


def _cohort(cell: CellResult) -> str:
    share = participation(cell.label, cell.parties)
    return f"{round(share * cell.parties)} of {cell.parties}" if share < 1 else f"all {cell.parties}"


def _choices(cells: Cells) -> list[str]:
    """Return the choices in which cells differ; the network has a column of its own."""
    return [name for name in varying(cells) if name != "model"] if cells else []


def _network(cell: CellResult) -> Entry:
    return Entry(cell.label.text("model"))


def _accuracy_row(cell: CellResult) -> dict[str, str] | None:
    return accuracy_row(cell.label, cell.parties)[1]


def _cost_entries(cell: CellResult) -> list[Entry]:
    row = published_cost(cell.label, cell.parties)
    return [beside(text, row, name) for text, name in zip(cost_texts(cell), _COSTS, strict=True)]


# --- compression --------------------------------------------------------------------------------------


def compression_table(cells: Cells) -> Table:
    """Return one row per compression: uplink ratio, accuracy, rounds and end-to-end ratio, with the paper's."""
    families = list(compressed(cells))
    shown = [cell for plain, chains in families for cell in (plain, *chains.values())]
    names = [name for name in _choices(shown) if name != "transforms"]
    rows = [
        [*shown_choices(cell, names, shown), _network(cell), *_compression_entries(how, cell, plain)]
        for plain, chains in families
        for how, cell in _with_plain(plain, chains).items()
    ]
    columns = [*names, "network", "compression", "uplink ratio", "accuracy", "rounds", "end-to-end ratio"]
    notes = [
        "uplink ratio: bytes without compression over those sent",
        "end-to-end: times the rounds without compression over those with it",
        "> and <: bounds, because a run did not converge",
        *other_networks(shown),
    ]
    return Table("OARF, Table 8: compression of what parties send", columns, rows, "; ".join(notes))


def _with_plain(plain: CellResult, chains: Chains) -> Chains:
    return {Compression(NONE): plain, **chains}


def _compression_entries(how: Compression, cell: CellResult, plain: CellResult) -> list[Entry]:
    row = compression_row(cell.label, cell.parties)
    ratio, whole = _ratios(cell, plain)
    return [
        Entry(str(how)),
        beside(_mean_text(ratio), row, "uplink_ratio"),
        beside(accuracy_text(cell), row, "accuracy_percent"),
        beside(convergence_text(cell), row, "rounds"),
        beside(_mean_text(whole), row, "end_to_end_ratio"),
    ]


def _ratios(cell: CellResult, plain: CellResult) -> tuple[costs.Mean | None, costs.Mean | None]:
    """Return the ratios of the uplink and end to end, as `show` and `compare` have them."""
    return costs.mean_of(cell.runs, costs.uplink_ratio), costs.end_to_end_ratio(cell.runs, plain.runs)


def _mean_text(mean: costs.Mean | None) -> str:
    return f"{mean.bound}{short(mean.mean)}" if mean else "-"


def compression_json(cells: Cells) -> list[dict[str, Any]]:
    """Return the rows of the table of compression as plain values."""
    return [
        _compression_fact(how, cell, plain)
        for plain, chains in compressed(cells)
        for how, cell in _with_plain(plain, chains).items()
    ]


def _compression_fact(how: Compression, cell: CellResult, plain: CellResult) -> dict[str, Any]:
    ratio, whole = _ratios(cell, plain)
    return {
        "dataset": dataset_name(cell), "transforms": cell.label.text("transforms"), "compression": str(how),
        "accuracy": accuracy_json(cell), "uplink_ratio": ratio and ratio.mean,
        "rounds": cell.rounds, "converged": has_converged(cell),
        "end_to_end_ratio": whole and whole.mean, "end_to_end_bound": (whole and whole.bound) or None,
    }  # fmt: skip


# --- local epochs -------------------------------------------------------------------------------------


def epochs_table(cells: Cells) -> Table:
    """Return accuracy, rounds and bytes by the number of local epochs, as in Figure 6."""
    rows = [
        [
            *entries(dataset_name(cell), str(epochs)),
            accuracy_entry(cell),
            *entries(convergence_text(cell), size(_bytes(cell))),
        ]
        for family in families_of_epochs(cells)
        for epochs, cell in sorted(family.items())
    ]
    columns = ["dataset", "local epochs", "accuracy", "rounds", "bytes in all"]
    return Table("OARF, Figure 6: local epochs per round", columns, rows)


def _bytes(cell: CellResult) -> float:
    return cell.bytes_up + cell.bytes_down


# --- sources ------------------------------------------------------------------------------------------


def source_table(cells: Cells) -> Table:
    """Return each model on the test rows of each source, beside Table 4(b), for the paper's sentiment task."""
    plain = [cell for cell in cells if _is_source_test(cell)]
    names = _choices(plain)
    rows = [
        [
            *shown_choices(setting[0], names, plain),
            _network(setting[0]),
            Entry(_trained_on(line)),
            *(_source_entry(line, test, setting[0].metric) for test in _SOURCES),
        ]
        for setting in settings_of(plain)
        for line in cross_lines(setting)
        if set(line.tests) == set(_SOURCES)
    ]
    title = "OARF, Table 4: accuracy of each model on the test rows of each source"
    columns = [*names, "network", "trained on", *_SOURCES]
    return Table(title, columns, rows, "; ".join(other_networks(plain)))


def _is_source_test(cell: CellResult) -> bool:
    """Whether a cell has the training of Table 4(b): all parties in every round, and whole messages."""
    return (
        papers_task(cell.label, cell.parties) == SENTIMENT
        and cell.label["algorithm"] in (SOLO, COMBINED, FEDERATED)
        and participation(cell.label, cell.parties) == 1
        and not cell.label.text("transforms")
    )


def _trained_on(line: CrossLine) -> str:
    return line.party or {FEDERATED: "federated"}.get(line.algorithm, line.algorithm)


def _source_entry(line: CrossLine, test: str, metric: Metric) -> Entry:
    printed = table4(SENTIMENT).get((_trained_on(line), test))
    return Entry(line.text(list(line.tests).index(test), metric), paper=paper_text(printed, "accuracy_percent"))


# --- skew ---------------------------------------------------------------------------------------------


def skew_table(cells: Cells) -> Table:
    """Return accuracy, throughput and overhead by kind of skew and alpha, as in Figure 4."""
    rows = [
        [
            *entries(dataset_name(cell), kind, alpha),
            Entry(percent(cell.score.mean, cell.score.std)),
            *entries(*cost_texts(cell)[1:]),
        ]
        for iid, by_label, by_quantity in skews(cells)
        if by_label or by_quantity
        for kind, alpha, cell in (("none", "", iid), *_rungs("label", by_label), *_rungs("quantity", by_quantity))
    ]
    columns = ["dataset", "skew", "alpha", "accuracy, %", "rows/s", "overhead, %"]
    return Table("OARF, Figure 4: label skew and quantity skew against alpha", columns, rows)


def _rungs(kind: str, ladder: Mapping[float, CellResult]) -> Iterator[tuple[str, str, CellResult]]:
    yield from ((kind, f"{alpha:g}", cell) for alpha, cell in ladder.items())


TABLES: tuple[Callable[[Cells], Table], ...] = (
    source_table,
    cost_table,
    skew_table,
    sharing_table,
    privacy_table,
    epochs_table,
    compression_table,
    hybrid_table,
)
