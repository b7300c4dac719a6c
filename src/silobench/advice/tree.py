"""The decision tree that stored runs give: which method loses least, by what is known of the parties."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.advice.components import Regime
from silobench.advice.evidence import TRAIT_WORDS, Setting, Traits
from silobench.advice.figure7 import published_method
from silobench.advice.standing import SIMPLEST, preferred
from silobench.rng import stream

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

DEPTH = 2  # deeper trees were not better on datasets that they had not seen
MARGIN = 0.05  # points of accuracy by which a tree must be better than one method for all
LEAST_LEAF = 3  # settings
LEAST_SETTINGS = 8  # fewer are not enough to divide them
RESAMPLES = 200


@dataclass(frozen=True)
class Leaf:
    """A recommendation: the method that loses least in the settings that lead here."""

    method: str
    regret: float  # mean points of accuracy below the best, in the settings that ran it; 0 if it ties
    settings: int  # that ran it
    reason: str = ""


@dataclass(frozen=True)
class Branch:
    """A question with its answers, each with what follows."""

    question: str
    answers: tuple[tuple[str, "Node"], ...]


Node: TypeAlias = Leaf | Branch


@dataclass(frozen=True)
class Validation:
    """Mean regret in settings that were left out, of the tree, of the best constant method and of Figure 7."""

    left_out: str  # datasets or settings
    folds: int
    tree: float
    constant: float
    figure7: float

    @property
    def tree_wins(self) -> bool:
        """Whether the tree is better than one method for all."""
        return self.tree < self.constant - MARGIN

    @property
    def runs_win(self) -> bool:
        """Whether stored runs, by the tree or by one method for all, are at least as good as Figure 7."""
        return min(self.tree, self.constant) <= self.figure7


# --- regrets as a table -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Settings that ran the reference, as arrays.

    The reference is the method that most settings have. Where another method was not run, it has the regret of the
    reference there, plus the mean difference between both in settings that ran both. So methods are compared in
    settings that they share with the reference, and one that was run in easy settings only gains nothing by that.
    """

    methods: tuple[str, ...]
    traits: NDArray[np.float64]  # [settings, traits]
    regrets: NDArray[np.float64]  # [settings, methods]
    was_run: NDArray[np.bool_]  # [settings, methods]


def methods_of(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return the methods that at least half of the settings have (else the commonest), fedavg first: it wins ties."""
    runs = Counter(name for setting in settings for name in setting.regrets)
    least = min(len(settings) / 2, max(runs.values()))
    known = [name for name in runs if runs[name] >= least]
    return tuple(sorted(known, key=lambda name: (name != SIMPLEST, known.index(name))))


def _runs(settings: Sequence[Setting], method: str) -> int:
    return sum(method in setting.regrets for setting in settings)


def table_of(settings: Sequence[Setting], methods: Sequence[str]) -> Table:
    """Return settings as arrays, without methods that were never run beside the reference."""
    reference = max(methods, key=lambda name: _runs(settings, name))
    rows = [setting for setting in settings if reference in setting.regrets]
    shared = [name for name in methods if _runs(rows, name)]
    regrets = np.array([[setting.regrets.get(name, np.nan) for name in shared] for setting in rows])
    base = regrets[:, [shared.index(reference)]]
    was_run = ~np.isnan(regrets)
    filled = np.where(was_run, regrets, base + np.nanmean(regrets - base, axis=0))
    return Table(tuple(shared), np.array([setting.traits.vector for setting in rows]), filled, was_run)


def _fitted(table: Table) -> "DecisionTreeRegressor":
    from sklearn.tree import DecisionTreeRegressor  # takes a second to import

    return DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=LEAST_LEAF, random_state=0).fit(
        table.traits, table.regrets
    )


def _predicted(table: Table, traits: Traits, is_divided: bool) -> NDArray[np.float64]:
    """Return the mean regret of each method in the leaf that traits lead to, or in all settings if undivided."""
    if not is_divided:
        return np.asarray(table.regrets.mean(0))
    return np.asarray(_fitted(table).predict(np.array([traits.vector]))).reshape(-1)


# --- the tree as a value ------------------------------------------------------------------------------


def derived_tree(settings: Sequence[Setting], is_divided: bool = True) -> Node:
    """Return the tree that these settings give: one leaf, unless it `is_divided`.

    Branches that agree on the method are one leaf.
    """
    table = table_of(settings, methods_of(settings))
    everywhere = np.full(len(table.traits), True)
    if not is_divided:
        return _leaf(table, everywhere)
    return _node(_fitted(table).tree_, 0, table, everywhere)


def _leaf(table: Table, here: NDArray[np.bool_]) -> Leaf:
    """Return the method that loses least in some settings, with what it loses in those that ran it."""
    means = np.where(table.was_run[here].any(0), table.regrets[here].mean(0), np.inf)
    best = int(np.argmin(means))
    runs = here & table.was_run[:, best]
    return Leaf(table.methods[best], float(table.regrets[runs, best].mean()), int(runs.sum()))


def _node(tree: Any, place: int, table: Table, here: NDArray[np.bool_]) -> Node:
    left, right = int(tree.children_left[place]), int(tree.children_right[place])
    if left < 0:
        return _leaf(table, here)
    column, cut = int(tree.feature[place]), float(tree.threshold[place])
    is_below = table.traits[:, column].astype(np.float32) <= cut  # as scikit-learn compares
    below, above = _node(tree, left, table, here & is_below), _node(tree, right, table, here & ~is_below)
    if isinstance(below, Leaf) and isinstance(above, Leaf) and below.method == above.method:
        settings = below.settings + above.settings
        regret = (below.regret * below.settings + above.regret * above.settings) / settings
        return Leaf(below.method, regret, settings)
    words = TRAIT_WORDS[Traits.names()[column]]
    return Branch(words, ((f"at most {cut:.3g}", below), (f"more than {cut:.3g}", above)))


def recommended(settings: Sequence[Setting], traits: Traits, is_divided: bool = True) -> Leaf:
    """Return the leaf that traits lead to."""
    table = table_of(settings, methods_of(settings))
    return _leaf(table, _like(table, traits, is_divided))


def _like(table: Table, traits: Traits, is_divided: bool) -> NDArray[np.bool_]:
    """Return which settings are in the leaf that traits lead to: all, if undivided."""
    if not is_divided:
        return np.full(len(table.traits), True)
    fitted = _fitted(table)
    return np.asarray(fitted.apply(table.traits) == fitted.apply(np.array([traits.vector]))[0])


def runner_up(settings: Sequence[Setting], traits: Traits, method: str, is_divided: bool = True) -> str:
    """Return the method that loses least beside another one; empty if no other is in half of the settings."""
    table = table_of(settings, methods_of(settings))
    regrets = _predicted(table, traits, is_divided)
    others = [name for name in table.methods if name != method]
    return min(others, key=lambda name: regrets[table.methods.index(name)], default="")


def agreement(
    settings: Sequence[Setting], regime: Regime, traits: Traits, method: str, is_divided: bool = True
) -> float:
    """Return in which share of resampled collections of datasets the same method is recommended.

    Settings of one dataset resemble each other, so whole datasets are drawn: with fewer than three, settings.
    """
    draw = stream(0, "advice-agreement")
    groups = [group for _, group in _folds(settings)]
    same = 0
    for _ in range(RESAMPLES):
        sample = [setting for place in draw.integers(0, len(groups), len(groups)) for setting in groups[place]]
        table = table_of(sample, methods_of(sample))
        best = _leaf(table, _like(table, traits, is_divided)).method
        same += preferred(sample, regime, best) == method
    return same / RESAMPLES


# --- validation ---------------------------------------------------------------------------------------


def validated(settings: Sequence[Setting]) -> Validation | None:
    """Return the regret of three ways to recommend in settings that they have not seen; None if none can be left out.

    Whole datasets are left out, if there are three or more; else all settings with one dataset and partition. None can
    be left out where all have the same, or where the others ran none of their methods.
    """
    regrets: list[tuple[float, float, float]] = []
    folds = [(rest, held_out) for rest, held_out in _folds(settings) if len(rest) >= LEAST_LEAF]
    for rest, held_out in folds:
        table = table_of(rest, methods_of(rest))
        for setting in held_out:
            if not setting.regrets.keys() & {*table.methods}:
                continue  # nothing that could be recommended was run there
            of_tree, constant = (_predicted(table, setting.traits, is_divided) for is_divided in (True, False))
            rule = published_method(setting.regime, setting.traits.participation, setting.traits.gini).method
            regrets.append(
                (
                    _regret(setting, table.methods, of_tree, rest),
                    _regret(setting, table.methods, constant, rest),
                    _published_regret(setting, rule),
                )
            )
    if not regrets:
        return None
    tree, constant_mean, figure = (float(np.mean(column)) for column in zip(*regrets, strict=True))
    return Validation(unit(settings), len(folds), tree, constant_mean, figure)


def unit(settings: Sequence[Setting]) -> str:
    """Return what is left out and resampled: datasets, if there are three or more; else settings."""
    return "datasets" if len({setting.dataset for setting in settings}) >= 3 else "settings"


def _folds(settings: Sequence[Setting]) -> list[tuple[list[Setting], list[Setting]]]:
    """Return the settings of each dataset, or of each dataset and partition, after all others."""
    keys = [setting.dataset if unit(settings) == "datasets" else setting.name for setting in settings]
    pairs = list(zip(keys, settings, strict=True))
    return [
        ([setting for key, setting in pairs if key != value], [setting for key, setting in pairs if key == value])
        for value in dict.fromkeys(keys)
    ]


def _regret(
    setting: Setting, methods: Sequence[str], expected: NDArray[np.float64], others: Sequence[Setting]
) -> float:
    """Return what the method that other settings recommend loses, among those that the setting has."""
    known = [(regret, name) for regret, name in zip(expected, methods, strict=True) if name in setting.regrets]
    best = min(known, key=lambda pair: pair[0])[1]
    return setting.regrets.get(preferred(others, setting.regime, best), setting.regrets[best])


def _published_regret(setting: Setting, method: str) -> float:
    """Return what a method loses with its default arguments.

    If these were not run, it is the mean over other arguments; else what FedAvg loses, or the mean of all.
    """
    if method in setting.regrets:
        return setting.regrets[method]
    family = [regret for name, regret in setting.regrets.items() if name.partition("(")[0] == method]
    return float(np.mean(family or setting.regrets.get(SIMPLEST, list(setting.regrets.values()))))
