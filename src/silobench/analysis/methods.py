"""What a study compares: its methods, and the settings in which they meet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.tables import folded, is_baseline, shown, varying
from silobench.runs.label import Label

METHOD_KEYS = (
    "algorithm", "transforms", "broadcast", "exchange", "aggregate", "server", "controller", "selection", "pace",
    "buffers",
)  # fmt: skip
_FIRST = ("dataset", "partition")  # choices that always name a setting
_LAST = ("measure", "metric", "eval_every", "eval_on", "split", "rounds", "solver")  # choices that seldom need to


@dataclass(frozen=True)
class Setting:
    """Cells that differ only in their method, by the name of the method."""

    name: str
    cells: dict[str, CellResult]
    candidates: int  # cells that may be best: those of all methods but baselines, with every mu of a grid

    @property
    def first(self) -> CellResult:
        return next(iter(self.cells.values()))


def settings(cells: Cells) -> list[Setting]:
    """Return what a study compares: the methods of each setting. FedProx over a grid of mu has its best mu.

    A method is named by the choices in which methods of the study differ: algorithms, or transforms, or both.
    """
    chosen = folded(cells) if cells else []
    keys = [key for key in METHOD_KEYS if len({cell.label.text(key) for cell in chosen}) > 1] or ["algorithm"]
    names = setting_choices(chosen, keys)
    candidates = Counter(_place(cell) for cell in cells if not is_baseline(str(cell.label["algorithm"])))
    return [
        Setting(
            setting_name(group[0], names, chosen),
            {_method(cell, keys): cell for cell in group},
            candidates[_place(group[0])],
        )
        for group in grouped(chosen, _place)
    ]


def _place(cell: CellResult) -> Label:
    """Return what the cells of a setting share."""
    return cell.label.without(*METHOD_KEYS)


def setting_choices(cells: Cells, but: Sequence[str] = METHOD_KEYS) -> list[str]:
    """Return as few choices as tell settings apart: the partition, the dataset if there are several, and others."""
    names = [name for name in varying(cells) if name not in but] if cells else []
    names = [name for name in names if len({shown(cell, name, cells) for cell in cells}) > 1] or names[1:2]

    def distinct(by: Sequence[str]) -> int:
        return len({tuple(shown(cell, name, cells) for name in by) for cell in cells})

    for name in [name for name in _LAST if name in names] + [name for name in names[::-1] if name not in _FIRST]:
        others = [other for other in names if other != name]
        names = others if others and distinct(others) == distinct(names) else names
    return names


def setting_name(cell: CellResult, names: Sequence[str], cells: Cells) -> str:
    """Return some choices of a cell as titles and sentences name them: its partition, with others around it."""
    return " · ".join(filter(None, (_choice(cell, name, cells) for name in names)))


def _choice(cell: CellResult, name: str, cells: Cells) -> str:
    """Return a choice; a number has its name beside it."""
    text = shown(cell, name, cells)
    if name == "parties":
        return f"{text} {'party' if cell.parties == 1 else 'parties'}"
    if text == "none":  # such as the adversary
        return f"no {name}"
    return text if isinstance(cell.label.get(name, ""), str) else f"{name} {text}"


def _method(cell: CellResult, keys: Sequence[str]) -> str:
    """Return the choices that are not at their defaults, or the first one if all are."""
    texts = {key: cell.label.text(key) for key in keys}
    chosen = [text for key, text in texts.items() if text != _DEFAULTS.text(key)]
    return " · ".join(chosen) or texts[keys[0]] or f"no {keys[0]}"


_DEFAULTS = Label({})


def by_harm(places: Sequence[Setting]) -> list[Setting]:
    """Return settings in the order of their mean score over methods, the best first: the last ones hurt most."""

    def gain(place: Setting) -> float:
        scores = [cell.score.mean for cell in place.cells.values() if not cell.diverged]
        metric = place.first.metric
        return metric.gain(fmean(scores), 0.0) if scores else metric.gain(metric.failure, 0.0)

    return sorted(places, key=gain, reverse=True)
