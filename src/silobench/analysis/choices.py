"""The choices of cells (dataset, partition, solver and the like): which of them a table shows, and as which text."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.specs import arguments, arguments_text
from silobench.runs.label import distinguishing
from silobench.spec import Spec


def shown(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """Return a choice as tables show it.

    A dataset has its plain name where no other has the same; a spec has those arguments that differ between cells.
    """
    if name == "solver":
        return _solver(cell, [other for other in cells if other.label["dataset"] == cell.label["dataset"]])
    if name == "controller":
        return _controller(cell, cells)
    if name == "parties":
        return str(cell.parties)
    if name != "dataset":
        return cell.label.text(name)
    plain = cell.dataset.name
    datasets = {other.label["dataset"] for other in cells if other.dataset.name == plain}
    return plain if len(datasets) == 1 else str(cell.label["dataset"])


def _solver(cell: CellResult, cells: Sequence[CellResult]) -> str:
    """Return the arguments that are not the same in all solvers; the whole spec where these are of several kinds.

    An argument without a value, as `noise` of a solver that has an epsilon, is left out.
    """
    solvers = dict.fromkeys(other.config.solver for other in (cell, *cells))
    if len({solver.name for solver in solvers}) > 1:
        return str(cell.label["solver"])
    others = [arguments(solver) for solver in solvers]
    return arguments_text(
        (key, value)
        for key, value in cell.config.solver.kwargs
        if value is not None and {str(o.get(key)) for o in others} != {str(value)}
    )


def _controller(cell: CellResult, cells: Sequence[CellResult]) -> str:
    """Return the name, and the arguments that are not the same in all controllers of that name."""
    controller = cell.label.controller
    specs = dict.fromkeys(other.label.controller for other in cells)
    rivals = [arguments(spec) for spec in specs if spec.name == controller.name]
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
