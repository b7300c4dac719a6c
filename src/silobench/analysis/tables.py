"""Tables as values: NIID-Bench's Table III form (settings down, algorithms across) and what each run cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.paper import PAPER_SETTING
from silobench.record import distinguishing
from silobench.units import duration, size

_BASELINES = ("solo", "combined")  # what methods are compared with: they win no row


@dataclass(frozen=True)
class Entry:
    """One cell of a table: its text, whether it is the best of its row, and the paper's number beside it."""

    text: str
    best: bool = False
    paper: str = ""


@dataclass(frozen=True)
class Table:
    """Column names and rows of entries, for a terminal, a page or a file."""

    title: str
    columns: list[str]
    rows: list[list[Entry]]
    note: str = ""  # how to read it, below the table


def accuracy_table(cells: Sequence[CellResult]) -> Table:
    """Accuracy in percent by setting and algorithm: mean ± std over trials, the best of each row marked."""
    algorithms = list(dict.fromkeys(cell.label["algorithm"] for cell in cells))
    names = varying(cells)
    rows = []
    for setting in settings_of(cells):
        by_algorithm = {cell.label["algorithm"]: cell for cell in setting}
        rivals = {name: round(c.accuracy.mean, 3) for name, c in by_algorithm.items() if name not in _BASELINES}
        row = [Entry(shown(setting[0], name, cells)) for name in names]
        for algorithm in algorithms:
            cell = by_algorithm.get(algorithm)
            best = len(rivals) > 1 and rivals.get(algorithm) == max(rivals.values())
            row.append(Entry(_accuracy(cell), best, _paper(cell)) if cell else Entry(""))
        rows.append(row)
    marked = any(entry.best for row in rows for entry in row)
    return Table(_title(cells), [*names, *algorithms], rows, _reading(cells) if marked else "")


def _reading(cells: Sequence[CellResult]) -> str:
    if max(len(cell.seeds) for cell in cells) == 1:
        return "* best of its row in one trial, with no spread to judge it by: --trials 3 or more gives one"
    return "* best mean of its row; a difference within the spread over trials says little"


def _title(cells: Sequence[CellResult]) -> str:
    trials = sorted({len(cell.seeds) for cell in cells})
    upto = "" if len(trials) == 1 else "up to "
    over = f"mean ± std over {upto}{trials[-1]} trials" if trials[-1] > 1 else "one trial"
    beside = f"; paper: {PAPER_SETTING}" if any(cell.paper for cell in cells) else ""
    lost = "; † diverged, the loss is not finite" if any(cell.diverged for cell in cells) else ""
    return f"Test accuracy in the last round, percent ({over}{beside}{lost})"


def shown(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """A choice as tables show it; a dataset by its plain name, where no other has the same."""
    if name != "dataset":
        return str(cell.label.get(name, ""))
    plain = cell.runs[0].facts["dataset"]["name"]
    others = {other.label["dataset"] for other in cells if other.runs[0].facts["dataset"]["name"] == plain}
    return plain if len(others) == 1 else str(cell.label["dataset"])


def cost_table(cells: Sequence[CellResult]) -> Table:
    """Rounds, bytes and time of a run by dataset and algorithm; bytes are the whole run's, over all parties."""
    names = [name for name in varying(cells) if name not in ("partition", "rounds")] + ["algorithm"]
    alike: dict[str, list[CellResult]] = {}
    for cell in cells:
        alike.setdefault(repr([cell.label.get(name) for name in (*names, "rounds")]), []).append(cell)
    rows = []
    for group in alike.values():
        choices = [shown(group[0], name, cells) for name in (*names, "rounds")]
        up, down = (size(fmean(getattr(c, key) for c in group)) for key in ("bytes_up", "bytes_down"))
        computing, network = (duration(fmean(getattr(c, key) for c in group)) for key in ("seconds", "clock"))
        rows.append([Entry(text) for text in (*choices, up, down, computing, network)])
    columns = [*names, "rounds", "sent up", "sent down", "computing", "network"]
    return Table("Cost of a run (mean over partitions and trials)", columns, rows)


def _accuracy(cell: CellResult) -> str:
    text = f"{100 * cell.accuracy.mean:.1f}"
    if cell.accuracy.std is not None:
        text += f" ± {100 * cell.accuracy.std:.1f}"
    return text + (" †" if cell.diverged else "")


def _paper(cell: CellResult) -> str:
    return f"paper {100 * cell.paper['mean']:.1f} ± {100 * cell.paper['std']:.1f}" if cell.paper else ""


def settings_of(cells: Sequence[CellResult]) -> list[list[CellResult]]:
    """Cells that differ only in the algorithm, together."""
    found: dict[str, list[CellResult]] = {}
    for cell in cells:
        key = repr({name: value for name, value in cell.label.items() if name != "algorithm"})
        found.setdefault(key, []).append(cell)
    return list(found.values())


def varying(cells: Sequence[CellResult]) -> list[str]:
    """Dataset, partition, and whatever else differs between cells of one dataset."""
    always = ["dataset", "partition"]
    return always + distinguishing([cell.label for cell in cells], but=(*always, "algorithm"))
