"""Numbers of OARF beside ours, as entries of tables."""

from collections.abc import Callable, Mapping

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.tables import Entry
from silobench.analysis.units import percent, short
from silobench.papers.oarf.measures import rounds_text
from silobench.papers.oarf.settings import PAPERS_NETWORKS, has_papers_network, papers_task
from silobench.runs.label import Label

_DEVIATIONS = {  # columns of the published tables
    "rounds": "rounds_std",
    "throughput": "throughput_std",
    "overhead_percent": "overhead_std_percent",
    "accuracy_percent": "std_percent",
    "score": "score_std",
}


def paper_text(row: Mapping[str, str] | None, name: str) -> str:
    """Return a printed number, with its deviation where the table states one."""
    if not row or not row.get(name):
        return ""
    std = row.get(_DEVIATIONS.get(name, ""))
    return f"paper {row[name]}" + (f" ± {std}" if std else "")


def beside(text: str, row: Mapping[str, str] | None, name: str) -> Entry:
    """Return an entry with the printed number; without it where ours is unknown."""
    return Entry(text, paper="" if text == "-" else paper_text(row, name))


def cost_texts(cell: CellResult) -> tuple[str, str, str]:
    """Return rounds to convergence, throughput and overhead as text."""
    rate, overhead = (costs.mean_of(cell.runs, number) for number in (costs.throughput, costs.overhead))
    return convergence_text(cell), short(rate.mean) if rate else "-", percent(overhead.mean) if overhead else "-"


def convergence_text(cell: CellResult) -> str:
    """Return the rounds to convergence; a dash if no schedule may end the run."""
    return rounds_text(cell) if costs.can_converge(cell.runs[0]) else "-"


def other_networks(cells: Cells, task_of: Callable[[Label, int], str | None] = papers_task) -> list[str]:
    """Return a note that names the paper's network, for each task in which some cell has another one."""
    tasks = {
        task
        for cell in cells
        if (task := task_of(cell.label, cell.parties)) and not has_papers_network(cell.label, task)
    }
    return [f"the paper's network for {task}: {network}" for task, network in PAPERS_NETWORKS.items() if task in tasks]
