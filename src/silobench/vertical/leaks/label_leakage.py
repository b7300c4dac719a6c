"""Labels from the gradients that cross the cut: norm and direction attacks (Li et al., ICLR 2022)."""

import numpy as np
from numpy.typing import NDArray

from silobench.spec.ranges import Count, CountOrZero
from silobench.tasks.formulas import auc
from silobench.vertical.leaks.measure import VERTICAL_MEASURES, Facts, LeakMeasure
from silobench.vertical.leaks.view import CutView

_SHUFFLES = 20
_DIGITS = 6  # of a cosine: more are rounding errors of gradients in float32, and ties must stay ties
ATTACKS = ("norm", "direction", "directions")


@VERTICAL_MEASURES.register
def label_leakage(rows: Count = 1000, every: CountOrZero = 0, known: Count = 10) -> LeakMeasure:
    """How well a party without labels infers labels from the gradients that it receives, as an AUC (Li et al., 2022).

    `norm` takes rows with long gradients for the rarer class, as the attacker knows which class is rarer. `direction`
    takes rows whose gradient points like that of one row with a known positive label; it is the mean over `known` such
    attackers. `directions` is one attacker who knows `known` positive rows and uses their mean direction. Attacked rows
    are never known rows. An AUC below 0.5 is shown as it is. `null` is the mean AUC of the same attack on shuffled
    labels, and `null_se` the standard error of one AUC there: an AUC within 2 of them of `null` shows no leak.
    Positive is class 1 of two, the rarest class of several, and for a numeric target a label above the median.
    """

    def measure(view: CutView, rng: np.random.Generator) -> Facts:
        view = view.sample(rows, rng)
        positive, name = positive_rows(view)
        parties: dict[str, Facts] = {}
        for party in view.activations:
            gradients = view.gradients[party].detach().double().numpy()
            parties[party] = _facts(gradients, positive, known, rng)
        share = float(positive.mean()) if len(positive) else None
        facts = {"rows": len(view), "positive": name, "share": share, "norms": _orientation(positive)}
        return {**facts, "parties": parties, "largest": _largest(parties)}

    return LeakMeasure(measure, every, rows)


def positive_rows(view: CutView) -> tuple[NDArray[np.bool_], str]:
    """Return which rows are positive, and what positive means."""
    y = view.y.numpy()
    if view.classes == 0:
        return y > np.median(y), "above the median"
    if view.classes == 2:
        return y == 1, "class 1"
    counts = np.bincount(y.astype(np.int64), minlength=view.classes)
    rarest = int(np.argmin(np.where(counts > 0, counts, len(y) + 1)))
    return y == rarest, f"class {rarest}"


def _orientation(positive: NDArray[np.bool_]) -> str:
    """Return which norms the attacker takes for positive: the longer ones, unless positive rows are the majority."""
    return "larger" if 2 * positive.sum() <= len(positive) else "smaller"


def _facts(gradients: NDArray[np.float64], positive: NDArray[np.bool_], known: int, rng: np.random.Generator) -> Facts:
    count = int(positive.sum())
    if count < 2 or count == len(positive) or not np.isfinite(gradients).all():
        return dict.fromkeys(ATTACKS)  # nobody to attack, or a model that diverged
    areas = attack(gradients, positive, known, rng)
    null = [attack(gradients, rng.permutation(positive), known, rng) for _ in range(_SHUFFLES)]
    return {
        name: {
            "auc": areas[name],
            "null": float(np.mean([each[name] for each in null])),
            "null_se": float(np.std([each[name] for each in null], ddof=1)),
        }
        for name in ATTACKS
    }


def attack(
    gradients: NDArray[np.float64], positive: NDArray[np.bool_], known: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the AUC of each attack on gradients [n, k]; there are at least 2 positive rows and 1 other row."""
    norms = np.sqrt(np.square(gradients).sum(1))
    units = gradients / np.where(norms > 0, norms, 1.0)[:, None]
    holders = rng.permutation(np.flatnonzero(positive))
    holders = holders[: min(known, max(1, len(holders) // 2))]  # the others remain to be attacked
    single = [_area(_cosines(units, units[row]), positive, [row]) for row in holders]
    return {
        "norm": _area(norms if _orientation(positive) == "larger" else -norms, positive, []),
        "direction": float(np.mean(single)),
        "directions": _area(_cosines(units, units[holders].mean(0)), positive, holders),
    }


def _cosines(units: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.round(units @ direction, _DIGITS)


def _area(scores: NDArray[np.float64], positive: NDArray[np.bool_], known: "list[int] | NDArray[np.int64]") -> float:
    """Return the AUC of scores on all rows but the known ones."""
    others = np.ones(len(scores), np.bool_)
    others[known] = False
    area = auc(scores[others], positive[others])
    assert area is not None  # rows of both kinds remain
    return area


def _largest(parties: dict[str, Facts]) -> Facts | None:
    """Return the most successful attack over all parties."""
    known = [
        {"party": party, "attack": name, **facts[name]}
        for party, facts in parties.items()
        for name in ATTACKS
        if facts[name] is not None
    ]
    return max(known, key=lambda each: float(each["auc"]), default=None)
