"""Quantity skew: parties differ in how many rows they hold. Alone over all rows; after a label skew within classes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.partitions.label import MinSize
from silobench.partitions.measures import count
from silobench.partitions.partition import Partition, Skew, apportion, checked, class_rows, deal, dirichlet, redraw
from silobench.spec.ranges import NonNegative, Positive

Shares = Callable[[int, np.random.Generator], NDArray[np.float64]]


def quantity_dirichlet(beta: Positive, min_size: MinSize = 10) -> Skew:
    """q ~ Dir(beta) (NIID-Bench): the parties' sizes are drawn from a Dirichlet distribution.

    Redrawn until every party has `min_size` rows. After a label skew it re-deals each class among the parties that hold
    it, in proportion to what they hold times their share: the sizes change, who holds which class does not.
    """
    return _by_shares(
        lambda parties, rng: dirichlet(beta, parties, rng),
        min_size,
        f"quantity-dirichlet(beta={beta:g})",
    )


def quantity_power_law(exponent: NonNegative = 1.0, min_size: MinSize = 1) -> Skew:
    """Sizes fall as a power law (OARF): the i-th largest party holds a share i^-exponent of the rows."""
    return _by_shares(
        lambda parties, rng: rng.permutation(np.arange(1, parties + 1) ** -exponent),
        min_size,
        f"quantity-power-law(exponent={exponent:g})",
    )


def _by_shares(shares: Shares, min_size: int, given: str) -> Skew:
    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        order = rng.permutation(len(split))

        def draw() -> NDArray[np.int64]:
            return apportion(len(split), shares(parties, rng))[:, None]

        return checked(Partition(deal([order], redraw(draw, min_size, given, len(split), parties))), given)

    def refine(split: Split, partition: Partition, rng: np.random.Generator) -> Partition:
        """Re-deal each class among its holders, in proportion to what they hold times their new share of rows."""
        held = count(partition, split.y, int(split.y.max()) + 1)
        piles = class_rows(split.y, rng)

        def draw() -> NDArray[np.int64]:
            weight = shares(len(partition), rng)[:, None] * held
            return np.stack([apportion(len(pile), weight[:, k]) for k, pile in enumerate(piles)], axis=1)

        counts = redraw(draw, min_size, given, len(split), len(partition))
        return checked(replace(partition, rows=deal(piles, counts)), given)

    return Skew(cut, refine, moves_rows=True)
