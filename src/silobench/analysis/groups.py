"""Groups of cells that differ in one choice only, and numbers of their trials by seed."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from silobench.analysis.cells import CellResult
from silobench.analysis.specs import arguments
from silobench.analysis.statistics import stability
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

Cells: TypeAlias = Sequence[CellResult]
Family: TypeAlias = dict[Any, CellResult]
Item = TypeVar("Item")
SETTLED, LAST_TESTS = 15, 10  # rounds that a run needs to settle, and its last tests, which tell how steady it is
_MEASURABLE = 1.0  # seconds
_SHOWN = ("dataset", "partition", "model", "algorithm", "solver", "rounds", "start")


# --- groups -------------------------------------------------------------------------------------------


def grouped(items: Sequence[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Return items with the same key together, in the order of their first items."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def settings_of(cells: Cells) -> list[list[CellResult]]:
    """Return cells that differ only in the algorithm together."""
    return grouped(cells, lambda cell: cell.label.without("algorithm"))


def families(cells: Cells, choice: str) -> Iterator[Family]:
    """Yield groups of two or more cells that differ in one choice only, by their values of it.

    The value of `parties` is the number of parties that there are.
    """
    groups: dict[Label, Family] = {}
    for cell in cells:
        value = cell.parties if choice == "parties" else cell.label.get(choice, cell.label.text(choice))
        groups.setdefault(cell.label.without(choice), {})[value] = cell
    yield from (family for family in groups.values() if len(family) > 1)


def solver_families(cells: Cells, argument: str) -> Iterator[Family]:
    """Yield groups of two or more cells that differ in one whole number of the solver only, by its values."""
    groups: dict[Hashable, Family] = {}
    for cell in cells:
        others = arguments(cell.config.solver)
        value = others.pop(argument, None)
        if isinstance(value, int):  # not a number where steps are counted instead, or a batch is all rows
            groups.setdefault((cell.label.without("solver"), repr(others)), {})[value] = cell
    yield from (family for family in groups.values() if len(family) > 1)


def by_algorithm(setting: Cells) -> dict[str, CellResult]:
    return {cell.label["algorithm"]: cell for cell in setting}


def of_algorithms(cells: Cells, *algorithms: str) -> list[CellResult]:
    """Return the cells of some algorithms."""
    return [cell for cell in cells if cell.label["algorithm"] in algorithms]


# --- texts --------------------------------------------------------------------------------------------


def dataset_name(cell: CellResult) -> str:
    return cell.dataset.name


def setting_name(cell: CellResult) -> str:
    """Return the dataset and the partition of a cell."""
    return f"{dataset_name(cell)} {cell.label['partition']}"


def by_metric(cells: Cells) -> list[list[CellResult]]:
    """Return cells that are judged by the same metric in the same unit together, those by accuracy first."""
    ordered = sorted(cells, key=lambda cell: not cell.is_accuracy)
    return grouped(ordered, lambda cell: (cell.metric.name, cell.metric.unit))


def mean_accuracy(cell: CellResult) -> float:
    """Return the mean of the main metric: accuracy, in all cells that findings look at."""
    return cell.score.mean


def accuracy_text(cell: CellResult) -> str:
    """Return the main metric as tables show it, such as accuracy in percent, with its deviation over trials."""
    return cell.metric.number(cell.score.mean, cell.score.std)


def accuracy_json(cell: CellResult) -> dict[str, float | None]:
    return {"mean": cell.score.mean, "std": cell.score.std}


def label_json(cell: CellResult) -> dict[str, Any]:
    """Return the choices that identify a cell in JSON."""
    return {name: cell.label[name] for name in _SHOWN if name in cell.label}


# --- numbers by seed ----------------------------------------------------------------------------------


def by_seed(cell: CellResult, number: Callable[[StoredRun], float | None]) -> dict[int, float]:
    """Return a number of each trial; trials that do not have it are left out."""
    values = {seed: number(run) for seed, run in zip(cell.seeds, cell.runs, strict=True)}
    return {seed: value for seed, value in values.items() if value is not None}


def differences(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    """Return a - b for the seeds that both have."""
    return {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()}


def last_accuracy(run: StoredRun) -> float:
    return run.scores(run.metric)[-1]


def late_deviation(run: StoredRun) -> float | None:
    """Return how much the score still moves over the last 10 tests; None for a run too short to have settled."""
    return stability(run.curve(), LAST_TESTS) if is_settled(run) else None


def is_settled(run: StoredRun) -> bool:
    """Whether a run is long enough for a deviation over its last tests, which else would be the rise of the curve."""
    return len(run.rounds) >= SETTLED and len(run.totals.tested) >= LAST_TESTS


def training_seconds(run: StoredRun) -> float | None:
    """Return how long parties trained; None where that is too short to measure, or was split among workers."""
    seconds = run.totals.training
    if seconds is None or seconds < _MEASURABLE or run.totals.workers != (1,):
        return None
    return float(seconds)


def engines_of(cell: CellResult) -> set[str]:
    return {engine for run in cell.runs for engine in run.totals.engines}
