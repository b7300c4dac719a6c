"""The decision tree that stored runs give: which method loses least, by what is known of the parties."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.advice.evidence import TRAIT_WORDS, Setting, Traits
from silobench.advice.figure7 import published_method
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
    regret: float  # mean points of accuracy below the best; 0 if it ties
    settings: int
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
    """Settings as arrays. A method that a setting lacks has its mean regret elsewhere there."""

    methods: tuple[str, ...]
    traits: NDArray[np.float64]  # [settings, traits]
    regrets: NDArray[np.float64]  # [settings, methods]


def methods_of(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return the methods that at least half of the settings have, fedavg first: it wins ties."""
    names = dict.fromkeys(name for setting in settings for name in setting.regrets)
    known = [name for name in names if 2 * sum(name in setting.regrets for setting in settings) >= len(settings)]
    return tuple(sorted(known, key=lambda name: (name != "fedavg", known.index(name))))


def table_of(settings: Sequence[Setting], methods: Sequence[str]) -> Table:
    """Return settings as arrays."""
    regrets = np.array([[setting.regrets.get(name, np.nan) for name in methods] for setting in settings])
    means = np.nan_to_num(np.nanmean(np.vstack([regrets, np.full(len(methods), np.nan)]), axis=0, keepdims=True))
    filled = np.where(np.isnan(regrets), means, regrets)
    return Table(tuple(methods), np.array([setting.traits.vector for setting in settings]), filled)


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
    if not is_divided:
        return _best(table, table.regrets.mean(0), len(settings))
    return _node(_fitted(table).tree_, 0, table.methods)


def _best(table: Table, regrets: NDArray[np.float64], settings: int) -> Leaf:
    best = int(np.argmin(regrets))
    return Leaf(table.methods[best], float(regrets[best]), settings)


def _node(tree: Any, place: int, methods: Sequence[str]) -> Node:
    regrets = tree.value[place].reshape(-1)
    best = int(np.argmin(regrets))
    leaf = Leaf(methods[best], float(regrets[best]), int(tree.n_node_samples[place]))
    left, right = int(tree.children_left[place]), int(tree.children_right[place])
    if left < 0:
        return leaf
    below, above = _node(tree, left, methods), _node(tree, right, methods)
    if isinstance(below, Leaf) and isinstance(above, Leaf) and below.method == above.method:
        return Leaf(below.method, float(regrets[methods.index(below.method)]), leaf.settings)
    name, cut = Traits.names()[tree.feature[place]], float(tree.threshold[place])
    return Branch(TRAIT_WORDS[name], ((f"at most {cut:.3g}", below), (f"more than {cut:.3g}", above)))


def recommended(settings: Sequence[Setting], traits: Traits, is_divided: bool = True) -> Leaf:
    """Return the leaf that traits lead to."""
    table = table_of(settings, methods_of(settings))
    here = len(settings)
    if is_divided:
        fitted = _fitted(table)
        here = int((fitted.apply(table.traits) == fitted.apply(np.array([traits.vector]))[0]).sum())
    return _best(table, _predicted(table, traits, is_divided), here)


def runner_up(settings: Sequence[Setting], traits: Traits, method: str, is_divided: bool = True) -> str:
    """Return the method that loses least beside another one; empty if there is none."""
    table = table_of(settings, methods_of(settings))
    regrets = _predicted(table, traits, is_divided)
    others = [name for name in table.methods if name != method]
    return min(others, key=lambda name: regrets[table.methods.index(name)], default="")


def agreement(settings: Sequence[Setting], traits: Traits, method: str, is_divided: bool = True) -> float:
    """Return in which share of resampled collections of settings the tree recommends a method."""
    draw, table = stream(0, "advice-agreement"), table_of(settings, methods_of(settings))
    place = table.methods.index(method)
    same = 0
    for _ in range(RESAMPLES):
        rows = draw.integers(0, len(settings), len(settings))
        sample = Table(table.methods, table.traits[rows], table.regrets[rows])
        regrets = _predicted(sample, traits, is_divided)
        same += bool(regrets[place] <= regrets.min() + 1e-9)
    return same / RESAMPLES


# --- validation ---------------------------------------------------------------------------------------


def validated(settings: Sequence[Setting]) -> Validation:
    """Return the regret of three ways to recommend in settings that they have not seen.

    Whole datasets are left out, if there are three or more; else single settings.
    """
    by_dataset = len({setting.dataset for setting in settings}) >= 3
    regrets: list[tuple[float, float, float]] = []
    folds = list(_folds(settings, (lambda setting: setting.dataset) if by_dataset else (lambda setting: setting.name)))
    for rest, held_out in folds:
        table = table_of(rest, methods_of(rest))
        constant = table.regrets.mean(0)
        for setting in held_out:
            of_tree = _predicted(table, setting.traits, is_divided=True)
            rule = published_method(setting.regime, setting.traits.participation, setting.traits.gini).method
            regrets.append(
                (
                    _regret(setting, table.methods, of_tree),
                    _regret(setting, table.methods, constant),
                    _family_regret(setting, rule),
                )
            )
    tree, constant_mean, figure = (float(np.mean(column)) for column in zip(*regrets, strict=True))
    return Validation("datasets" if by_dataset else "settings", len(folds), tree, constant_mean, figure)


def _folds(settings: Sequence[Setting], key: Callable[[Setting], str]) -> Iterator[tuple[list[Setting], list[Setting]]]:
    for value in dict.fromkeys(map(key, settings)):
        rest = [setting for setting in settings if key(setting) != value]
        if len(rest) >= LEAST_LEAF:
            yield rest, [setting for setting in settings if key(setting) == value]


def _regret(setting: Setting, methods: Sequence[str], expected: NDArray[np.float64]) -> float:
    """Return what the method that is expected to lose least loses, among those that the setting has."""
    known = [(regret, name) for regret, name in zip(expected, methods, strict=True) if name in setting.regrets]
    if not known:
        return float(np.mean(list(setting.regrets.values())))
    return setting.regrets[min(known, key=lambda pair: pair[0])[1]]


def _family_regret(setting: Setting, method: str) -> float:
    """Return what a method loses on average over its arguments; what FedAvg or the mean does, if it was not run."""
    family = method.partition("(")[0]
    own = [regret for name, regret in setting.regrets.items() if name.partition("(")[0] == family]
    return float(np.mean(own or setting.regrets.get("fedavg", list(setting.regrets.values()))))
