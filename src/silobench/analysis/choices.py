"""The choices of cells (dataset, partition, solver and the like): which of them a table shows, and as which text."""

import functools
from collections.abc import Iterable, Mapping, Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.specs import arguments, arguments_text
from silobench.runs.label import distinguishing
from silobench.spec import Spec, Value


class _Others:
    """The cells of a table, and what `shown` compares a cell with: each part is computed once for a table."""

    def __init__(self, cells: Sequence[CellResult]) -> None:
        self.cells, self.count = cells, len(cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Others) and self.cells is other.cells and self.count == other.count

    def __hash__(self) -> int:
        return id(self.cells)  # no other list gets this id, because the cache below keeps this one

    @functools.cached_property
    def solvers(self) -> dict[str, "_Solvers"]:
        """The solvers by dataset."""
        solvers: dict[str, dict[Spec, None]] = {}
        for cell in self.cells:
            solvers.setdefault(cell.label["dataset"], {})[cell.config.solver] = None
        return {dataset: _Solvers(each) for dataset, each in solvers.items()}

    @functools.cached_property
    def datasets(self) -> dict[str, set[str]]:
        """The specs of datasets by their plain name."""
        datasets: dict[str, set[str]] = {}
        for cell in self.cells:
            datasets.setdefault(cell.dataset.name, set()).add(cell.label["dataset"])
        return datasets

    @functools.cached_property
    def controllers(self) -> dict[str, list[dict[str, Value]]]:
        """The arguments of controllers by name, each controller once."""
        controllers: dict[str, list[dict[str, Value]]] = {}
        for spec in dict.fromkeys(cell.label.controller for cell in self.cells):
            controllers.setdefault(spec.name, []).append(arguments(spec))
        return controllers


class _Solvers:
    """The names of some solvers, and the values of each of their arguments as text."""

    def __init__(self, solvers: Iterable[Spec]) -> None:
        each = {solver: arguments(solver) for solver in solvers}
        keys = {key for one in each.values() for key in one}
        self.names = {solver.name for solver in each}
        self.values = {key: {str(one.get(key)) for one in each.values()} for key in keys}
        self._absent = {str(None)} if each else set()  # what they have of other keys

    def has_other(self, key: str, value: Value) -> bool:
        """Whether some solver has another value of an argument, or does not have it."""
        return not self.values.get(key, self._absent) <= {str(value)}


@functools.lru_cache(maxsize=16)
def _same(others: _Others) -> _Others:
    """Return the others of an earlier call with the same list."""
    return others


def shown(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """Return a choice as tables show it.

    A dataset has its plain name where no other has the same; a spec has those arguments that differ between cells.
    """
    if name == "solver":
        return _solver(cell, _same(_Others(cells)).solvers.get(cell.label["dataset"], _Solvers(())))
    if name == "controller":
        return _controller(cell, _same(_Others(cells)).controllers.get(cell.label.controller.name, ()))
    if name == "parties":
        return str(cell.parties)
    if name != "dataset":
        return cell.label.text(name)
    plain = cell.dataset.name
    datasets = _same(_Others(cells)).datasets.get(plain, ())
    return plain if len(datasets) == 1 else str(cell.label["dataset"])


def _solver(cell: CellResult, others: _Solvers) -> str:
    """Return the arguments that are not the same in all solvers; the whole spec where these are of several kinds.

    An argument without a value, as `noise` of a solver that has an epsilon, is left out.
    """
    solver = cell.config.solver
    if not others.names <= {solver.name}:
        return str(cell.label["solver"])
    return arguments_text(
        (key, value) for key, value in solver.kwargs if value is not None and others.has_other(key, value)
    )


def _controller(cell: CellResult, rivals: Sequence[Mapping[str, Value]]) -> str:
    """Return the name, and the arguments that are not the same in all controllers of that name."""
    controller = cell.label.controller
    different = [
        (key, value)
        for key, value in controller.kwargs
        if value is not None and any(str(rival.get(key)) != str(value) for rival in rivals)
    ]
    return str(Spec(controller.name, (), tuple(different)))


def method_choices(cells: Sequence[CellResult]) -> list[str]:
    """Return the columns for cells that also differ in their method: dataset, partition and what else differs.

    How cells were tested is left out; solver and rounds are shown only where nothing else tells cells apart.
    """
    method = ("algorithm", "transforms", "measure", "eval_every", "eval_on")
    labels = [cell.label for cell in cells]
    names = ["dataset", "partition", *distinguishing(labels, but=("dataset", "partition", *method))]
    if len({str(label.get("controller")) for label in labels} - {"fixed", "None"}) < 2:
        names = [name for name in names if name != "controller"]

    def distinct(by: Sequence[str]) -> int:
        return len({repr([label.get(name) for name in (*by, *method[:2])]) for label in labels})

    for name in ("solver", "rounds"):
        others = [other for other in names if other != name]
        names = others if distinct(others) == distinct(names) else names
    return names


def varying(cells: Sequence[CellResult]) -> list[str]:
    """Return dataset, partition, and whatever else differs between cells of one dataset."""
    return list(_varying(_Members(tuple(cells))))


class _Members:
    """Cells as a key: lists of the same cells are equal, and comparing them looks at none of their choices."""

    def __init__(self, cells: tuple[CellResult, ...]) -> None:
        self.cells, self.ids = cells, tuple(map(id, cells))  # ids of these, because the key keeps the cells

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Members) and self.ids == other.ids

    def __hash__(self) -> int:
        return hash(self.ids)


@functools.lru_cache(maxsize=32)
def _varying(members: _Members) -> list[str]:
    cells = members.cells
    always = ["dataset", "partition"]
    others = distinguishing([cell.label for cell in cells], but=(*always, "algorithm"))
    if "parties" not in others and _party_counts_differ(cells):
        others = ["parties", *others]
    return always + _without_metric(others, cells)


def _without_metric(names: Sequence[str], cells: Sequence[CellResult]) -> list[str]:
    """Leave out the key `metric`, which does not change what is trained, unless only it tells cells apart."""
    without = len({cell.label.without("metric") for cell in cells})
    return [name for name in names if name != "metric" or without < len(cells)]


def _party_counts_differ(cells: Sequence[CellResult]) -> bool:
    """Whether partitions of one dataset have different numbers of parties, which the data decided."""
    counts = {(cell.label["dataset"], cell.parties) for cell in cells}
    return len(counts) > len({dataset for dataset, _ in counts})
