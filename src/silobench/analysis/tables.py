"""Tables as values: NIID-Bench's Table III form (settings down, algorithms across) and what each run cost."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.choices import kinds_of
from silobench.papers.niid_bench.numbers import SETTINGS
from silobench.runs.record import LATER, distinguishing
from silobench.spec import Spec, parse
from silobench.units import duration, size

BASELINES = ("solo", "combined")  # what methods are compared with: they win no row
GRID = "fedprox (best mu)"
_SKEWS = ("label", "feature", "quantity", "natural", "mixed", "homogeneous")  # in the order of Table III


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


def accuracy_table(cells: Sequence[CellResult], every: bool = False) -> Table:
    """Accuracy in percent by setting and algorithm, in the form of NIID-Bench's Table III.

    Mean ± std over trials, the paper's number and the difference to it, and the best mean of each row where there is a
    deviation to judge it by. FedProx over a grid of mu is one column with the best of them, unless `every` is wanted.
    """
    chosen, column = (list(cells) if every else best_of_grids(cells)), _columns(cells, every)
    algorithms, names = list(dict.fromkeys(map(column, chosen))), varying(chosen)
    kinds = [kind for kind in _SKEWS if any(skew_of(cell) == kind for cell in chosen)]
    rows = []
    for kind in kinds:
        won: Counter[str] = Counter()
        settings = [group for group in settings_of(chosen) if skew_of(group[0]) == kind]
        for setting in settings:
            by_algorithm = {column(cell): cell for cell in setting}
            best = _best(by_algorithm)
            won.update(best)
            told = [_entry(by_algorithm.get(name), name in best, name == GRID) for name in algorithms]
            rows.append([Entry(kind), *(Entry(shown(setting[0], name, cells)) for name in names), *told])
        if won and len(settings) > 1:
            blank = [Entry("")] * (len(names) - 1)
            rows.append([Entry(kind), Entry("times best"), *blank, *(Entry(str(won[name])) for name in algorithms)])
    return Table(_title(chosen), ["skew", *names, *algorithms], rows, _reading(chosen, GRID in algorithms))


def skew_of(cell: CellResult) -> str:
    """What kind of skew a cell's partition has, by its name; rows shared with everyone are none."""
    terms = kinds_of(cell.label)
    if len(terms) > 1:
        return "mixed"
    if (cell.label["dataset"], terms[0]) == ("femnist", "by-group"):
        return "feature"  # as the paper has it: its parties are writers
    kinds = {"iid": "homogeneous", "noise": "feature", "octants": "feature", "by-group": "natural"}
    return kinds.get(terms[0], "quantity" if terms[0].startswith("quantity") else "label")


# --- FedProx over a grid of mu ------------------------------------------------------------------------


def best_of_grids(cells: Sequence[CellResult]) -> list[CellResult]:
    """The cells, with FedProx in each setting at the mu that has the best mean accuracy, as the paper reports it."""
    kept = []
    for setting in settings_of(cells):
        proxes = [cell for cell in setting if is_fedprox(cell)]
        best = max(proxes, key=lambda cell: cell.accuracy.mean, default=None)
        kept += [cell for cell in setting if cell is best or cell not in proxes]
    places = {id(cell): place for place, cell in enumerate(cells)}
    return sorted(kept, key=lambda cell: places[id(cell)])


def folded(cells: Sequence[CellResult]) -> list[CellResult]:
    """The same with FedProx by one name in all settings, where there is a grid of mu."""
    column = _columns(cells)
    return [replace(cell, label={**cell.label, "algorithm": column(cell)}) for cell in best_of_grids(cells)]


def is_fedprox(cell: CellResult) -> bool:
    return str(cell.label["algorithm"]).split("(")[0] == "fedprox"


def _columns(cells: Sequence[CellResult], every: bool = False) -> Callable[[CellResult], str]:
    """The column of a cell: its algorithm; one for all of FedProx where there are several mu."""
    one = not every and len({cell.label["algorithm"] for cell in cells if is_fedprox(cell)}) > 1
    return lambda cell: GRID if one and is_fedprox(cell) else str(cell.label["algorithm"])


# --- what stands in a cell ----------------------------------------------------------------------------


def _best(by_algorithm: dict[str, CellResult]) -> set[str]:
    """The best means of a row, at the precision that is shown; nobody without rivals, or without a deviation."""
    rivals = {name: cell for name, cell in by_algorithm.items() if name not in BASELINES}
    if len(rivals) < 2 or any(cell.accuracy.std is None for cell in rivals.values()):
        return set()
    means = {name: round(cell.accuracy.mean, 3) for name, cell in rivals.items()}
    return {name for name, mean in means.items() if mean == max(means.values())}


def _entry(cell: CellResult | None, best: bool, of_grid: bool) -> Entry:
    if cell is None:
        return Entry("")
    return Entry(_accuracy(cell) + (f" [{_mu(cell)}]" if of_grid else ""), best, beside(cell))


def _mu(cell: CellResult) -> str:
    algorithm = str(cell.label["algorithm"])
    return algorithm[8:-1] if "(" in algorithm else "mu=0.01"


def _accuracy(cell: CellResult) -> str:
    text = f"{100 * cell.accuracy.mean:.1f}"
    if cell.accuracy.std is not None:
        text += f" ± {100 * cell.accuracy.std:.1f}"
    return text + (" †" if cell.diverged else "")


def beside(cell: CellResult) -> str:
    """The paper's number, and the difference to it."""
    if not cell.paper:
        return ""
    spread = f" ± {100 * cell.paper['std']:.1f}" if cell.paper["std"] is not None else ""
    return f"paper {100 * cell.paper['mean']:.1f}{spread}, {100 * (cell.accuracy.mean - cell.paper['mean']):+.1f}"


def _reading(cells: Sequence[CellResult], of_grid: bool) -> str:
    told = []
    if max(len(cell.seeds) for cell in cells) == 1:
        told.append("one trial has no spread, so no best is marked: --trials 3 or more gives one")
    elif len({cell.label["algorithm"] for cell in cells} - set(BASELINES)) > 1:
        told.append(
            "* best mean of its row; a difference within the spread over trials says little (silobench compare)"
        )
    if of_grid:
        told.append(f"{GRID}: the mu with the best accuracy on the test rows, as in the paper")
    return "; ".join(told)


def _title(cells: Sequence[CellResult]) -> str:
    tables = dict.fromkeys(cell.paper["table"] for cell in cells if cell.paper)
    trials = sorted({len(cell.seeds) for cell in cells})
    upto = "" if len(trials) == 1 else "up to "
    over = f"mean ± std over {upto}{trials[-1]} trials" if trials[-1] > 1 else "one trial"
    papers = "; paper, and the difference to it: " if tables else ""
    papers += "; ".join(SETTINGS[table] for table in tables)
    lost = "; † diverged, the loss is not finite" if any(cell.diverged for cell in cells) else ""
    return f"{_measured(cells)} accuracy in the last round, percent ({over}{papers}{lost})"


def _measured(cells: Sequence[CellResult]) -> str:
    tasks = {cell.runs[0].facts["dataset"].get("task") for cell in cells}
    return "Verification" if tasks == {"verification"} else "Test"


def shown(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """A choice as tables show it: a dataset by its plain name, where no other has the same; of specs what differs."""
    if name == "solver":
        return _differing(cell, [other for other in cells if other.label["dataset"] == cell.label["dataset"]])
    if name == "controller":
        return _controller(cell, cells)
    if name != "dataset":
        return str(cell.label.get(name, LATER.get(name, "")))
    plain = cell.runs[0].facts["dataset"]["name"]
    others = {other.label["dataset"] for other in cells if other.runs[0].facts["dataset"]["name"] == plain}
    return plain if len(others) == 1 else str(cell.label["dataset"])


def _solver(cell: CellResult) -> str:
    return str(cell.runs[0].facts["config"]["solver"])


def _differing(cell: CellResult, cells: Sequence[CellResult]) -> str:
    """The arguments of a solver that are not the same in all cells; the whole where another kind is among them."""
    own, *others = (parse(text) for text in dict.fromkeys(_solver(one) for one in (cell, *cells)))
    solvers = [own, *others]
    if len({solver.name for solver in solvers}) > 1:
        return str(cell.label["solver"])
    kept = [
        (key, value) for key, value in own.kwargs if {str(dict(s.kwargs).get(key)) for s in solvers} != {str(value)}
    ]
    return str(Spec("", (), tuple(kept)))[1:-1]


def _controller(cell: CellResult, cells: Sequence[CellResult]) -> str:
    """Its name, and those of its arguments that are not the same in all controllers of that name."""
    own, *others = (parse(str(one.label.get("controller", "fixed"))) for one in (cell, *cells))
    rivals = [dict(other.kwargs) for other in others if other.name == own.name]
    kept = [(key, value) for key, value in own.kwargs if any(str(rival.get(key)) != str(value) for rival in rivals)]
    return str(Spec(own.name, (), tuple(kept)))


def told_choices(cells: Sequence[CellResult]) -> list[str]:
    """Dataset, partition, and what else tells cells apart that differ in their method, too.

    Not how they were tested, and solver and rounds only where nothing else does.
    """
    method = ("algorithm", "transforms", "measure", "eval_every", "eval_on")
    labels = [cell.label for cell in cells]
    names = ["dataset", "partition", *distinguishing(labels, but=("dataset", "partition", *method))]
    if len({str(label.get("controller")) for label in labels} - {"fixed", "None"}) < 2:
        names = [name for name in names if name != "controller"]

    def told(by: Sequence[str]) -> int:
        return len({repr([label.get(name) for name in (*by, *method[:2])]) for label in labels})

    for name in ("solver", "rounds"):
        others = [other for other in names if other != name]
        names = others if told(others) == told(names) else names
    return names


# --- costs --------------------------------------------------------------------------------------------


def cost_table(cells: Sequence[CellResult]) -> Table:
    """What a run sends and takes, and a round of it beside the paper's Table IV, by dataset and algorithm."""
    names = [name for name in varying(cells) if name not in ("partition", "rounds")] + ["algorithm"]
    alike: dict[str, list[CellResult]] = {}
    for cell in cells:
        alike.setdefault(repr([cell.label.get(name) for name in (*names, "rounds")]), []).append(cell)
    rows = []
    for group in alike.values():
        choices = [Entry(shown(group[0], name, cells)) for name in (*names, "rounds")]
        up, down = (size(fmean(getattr(c, key) for c in group)) for key in ("bytes_up", "bytes_down"))
        computing, network = (duration(fmean(getattr(c, key) for c in group)) for key in ("seconds", "clock"))
        rows.append([*choices, *map(Entry, (up, down, computing, network)), *_a_round(group)])
    columns = [*names, "rounds", "sent up", "sent down", "computing", "network", "a round sends", "a round takes"]
    note = (
        "a round sends: all parties' messages and one copy of the server's, as the paper counts; "
        "a round takes: parties and server at work, without tests"
    )
    return Table("Cost of a run (mean over partitions and trials)", columns, rows, note)


def _a_round(group: Sequence[CellResult]) -> list[Entry]:
    sent = fmean((c.bytes_up + c.bytes_down / c.cohort) / c.label["rounds"] for c in group)
    taken = fmean(c.round_seconds for c in group)
    paper = group[0].paper_cost
    beside = (f"paper {size(paper['bytes'])}", f"paper {duration(paper['seconds'])}") if paper else ("", "")
    return [Entry(size(sent), paper=beside[0]), Entry(duration(taken), paper=beside[1])]


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
