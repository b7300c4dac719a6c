"""Contests: runs in the same setting, by method. The setting is the task; the method is what its author chooses.

Runs are in one setting if they have the same data (checksum), the same partition (spec, and fingerprint by seed), the
same model, rounds and participation, and the same test. A method is the algorithm with its solver, transforms, server
and the other keys in `METHOD`. Keys that only say what is measured are ignored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

from silobench.analysis.budget import Budget, within
from silobench.analysis.cells import NO_REFERENCES, CellResult, References, collect
from silobench.analysis.choices import shown
from silobench.analysis.groups import grouped
from silobench.analysis.tables import is_baseline, skew_of
from silobench.errors import ConfigError, suggest
from silobench.runs.label import Label, distinguishing
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import Metric

METHOD = (
    "algorithm", "transforms", "solver", "server", "exchange", "aggregate", "controller", "pace", "broadcast",
    "selection", "buffers", "start", "start_model", "plugins",
)  # fmt: skip
_NOT_IN_LABELS = ("start_model", "plugins")
_MEASURED = ("eval_every", "measure", "metric", "device")  # they do not change what is trained
_PLANTS = "canaries"  # the one measure that adds rows


@dataclass(frozen=True)
class Contest:
    """One setting, and the cells of the methods that were run in it, by name of the method."""

    choices: tuple[tuple[str, str], ...]  # the setting, as tables show it: dataset, partition and what else differs
    dataset: str
    skew: str
    metric: Metric
    methods: dict[str, CellResult]
    baselines: dict[str, CellResult] = field(default_factory=dict)  # shown, and not ranked
    outside: tuple[str, ...] = ()  # methods without a tested round inside the budget
    other_partition: int = 0  # runs that were left out, because their parties have other rows

    @property
    def name(self) -> str:
        """The setting in one line.

        >>> Contest((("dataset", "digits"), ("partition", "iid"), ("rounds", "5")), "", "", None, {}).name
        'digits / iid / rounds 5'
        """
        return " / ".join(f"{key} {text}" if text[:1].isdigit() else text for key, text in self.choices)


def contests(runs: Iterable[StoredRun], references: References = NO_REFERENCES) -> list[Contest]:
    """Return the settings of all finished runs with their methods, and what `references` has for them."""
    unique = {run.facts.id: run for run in runs if run.complete}
    ordered = sorted(unique.values(), key=lambda run: run.facts.created)
    groups = [_on_one_partition(group) for group in grouped(ordered, _setting_key)]
    cells = [collect(group, references) for group, _ in groups]
    names = _names(cells)
    every = [cell for group in cells for cell in group]
    others = _setting_names([cell.label for cell in every])
    return [_contest(group, left_out, names, every, others) for group, (_, left_out) in zip(cells, groups, strict=True)]


def inside(contest: Contest, budget: Budget) -> Contest:
    """Return a contest with each run until the end of a budget; methods without a score inside it are named."""
    if not budget:
        return contest
    methods, baselines = (
        {name: _inside(cell, budget) for name, cell in cells.items()} for cells in (contest.methods, contest.baselines)
    )
    return replace(
        contest,
        methods={name: cell for name, cell in methods.items() if cell},
        baselines={name: cell for name, cell in baselines.items() if cell},
        outside=tuple(name for name, cell in methods.items() if not cell),
    )


def _setting_key(run: StoredRun) -> Label:
    """Return all choices that the method of a run does not make; parties count by their number, also by default."""
    planted = {"measure": True} if _PLANTS in run.config.text("measure") else {}
    parties = {"parties": run.partition.party_count}
    return Label({**run.config.without("seed", *METHOD, *_MEASURED), **parties, **planted})


def _on_one_partition(runs: Sequence[StoredRun]) -> tuple[list[StoredRun], int]:
    """Return the runs whose parties have the rows that the first run with the same seed has, and how many have not."""
    first: dict[int, str] = {}
    same = [run for run in runs if first.setdefault(run.seed, run.partition.fingerprint) == run.partition.fingerprint]
    return same, len(runs) - len(same)


# --- names --------------------------------------------------------------------------------------------


def _names(groups: Sequence[Sequence[CellResult]]) -> dict[str, str]:
    """Return the name of each cell's method, by the id of its first run: short, but different in its setting.

    Keys that tell no two methods of a setting apart, such as a solver that all of them share, are not in its names. So
    a method has the same name in studies with other solvers.
    """
    return {_id(cell): name for group in groups for cell, name in _names_in(group)}


def _names_in(group: Sequence[CellResult]) -> Iterator[tuple[CellResult, str]]:
    keys = ["algorithm"]
    while lacking := _lacking(group, keys):
        keys.append(lacking[0])
    yield from ((cell, _name(cell, keys, group)) for cell in group)


def _id(cell: CellResult) -> str:
    return cell.runs[0].facts.id


def _lacking(group: Sequence[CellResult], keys: Sequence[str]) -> list[str]:
    """Return the keys that tell cells of a setting apart that the given keys do not tell apart."""
    alike = grouped(group, lambda cell: tuple(cell.config.text(key) for key in keys))
    return [
        key
        for key in METHOD
        if key not in keys and any(len({cell.config.text(key) for cell in cells}) > 1 for cells in alike)
    ]


def _name(cell: CellResult, keys: Sequence[str], cells: Sequence[CellResult]) -> str:
    texts = [_text(cell, key, cells) for key in keys if cell.config.text(key) != Label({}).text(key)]
    return ", ".join(text for text in texts if text)


def _text(cell: CellResult, key: str, cells: Sequence[CellResult]) -> str:
    if key in _NOT_IN_LABELS:
        return cell.config.text(key)
    return "" if cell.label.text(key) == Label({}).text(key) else shown(cell, key, cells)


def _setting_names(labels: Sequence[Label]) -> list[str]:
    """Return the keys of settings in which those of one dataset differ, after dataset and partition."""
    return distinguishing(labels, but=("dataset", "partition", "origin", *METHOD, *_MEASURED))


# --- a contest ----------------------------------------------------------------------------------------


def _contest(
    cells: Sequence[CellResult],
    left_out: int,
    names: dict[str, str],
    every: Sequence[CellResult],
    others: Sequence[str],
) -> Contest:
    first = cells[0]
    stated = [key for key in others if first.label.text(key) != Label({}).text(key)]  # a default says nothing
    choices = [(key, shown(first, key, every)) for key in ("dataset", "partition", *stated)]
    by_name = {names[_id(cell)]: cell for cell in cells}
    for cell in sorted(cells, key=lambda cell: len(cell.runs)):  # of two that differ in what is measured, the larger
        by_name[names[_id(cell)]] = cell
    is_reference = {name: is_baseline(str(cell.label["algorithm"])) for name, cell in by_name.items()}
    return Contest(
        choices=tuple((key, text) for key, text in choices if text),
        dataset=first.dataset.name,
        skew=skew_of(first),
        metric=first.metric,
        methods={name: cell for name, cell in by_name.items() if not is_reference[name]},
        baselines={name: cell for name, cell in by_name.items() if is_reference[name]},
        other_partition=left_out,
    )


def _inside(cell: CellResult, budget: Budget) -> CellResult | None:
    """Return a cell with its runs until the end of a budget; None unless every trial has a score inside it.

    It has no published numbers, which are those of whole runs.
    """
    cut = [within(run, budget) for run in cell.runs]
    whole = [run for run in cut if run]
    return collect(whole)[0] if len(whole) == len(cut) else None


# --- a choice of contests -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The contests and methods to look at: globs of datasets, kinds of skew and methods."""

    dataset: str = "*"
    skew: str = "*"
    method: str = "*"


def chosen(settings: Sequence[Contest], choice: Choice) -> list[Contest]:
    """Return the contests of a choice, with its methods only; a choice that nothing matches is refused."""
    datasets, skews = ({getattr(one, name) for one in settings} for name in ("dataset", "skew"))
    methods = {name for one in settings for name in one.methods}
    for name, known in (("dataset", datasets), ("skew", skews), ("method", methods)):
        pattern = getattr(choice, name)
        if not any(fnmatch(one, pattern) for one in known):
            raise ConfigError(f"--{name} '{pattern}' matches none of these runs: {suggest(pattern, known)}")
    places = [one for one in settings if fnmatch(one.dataset, choice.dataset) and fnmatch(one.skew, choice.skew)]
    filtered = [replace(one, methods=_matching(one.methods, choice.method)) for one in places]
    return [one for one in filtered if one.methods]


def _matching(methods: dict[str, CellResult], pattern: str) -> dict[str, CellResult]:
    return {name: cell for name, cell in methods.items() if fnmatch(name, pattern)}
