"""Quantity skew: parties differ in size. By itself it divides all rows; after a label skew, the rows of each class."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from silobench.data.bins import as_codes
from silobench.data.dataset import Split
from silobench.errors import SpecError
from silobench.partitions.label import MinSize
from silobench.partitions.measures import count
from silobench.partitions.skew import (
    PARTITIONS,
    Partition,
    Skew,
    apportion,
    class_rows,
    deal,
    dirichlet,
    redraw,
    sorted_rows,
)
from silobench.spec.ranges import NonNegative, Positive

Shares = Callable[[int, np.random.Generator], NDArray[np.float64]]


@PARTITIONS.register(added_later=("stratified",))
def quantity_dirichlet(beta: Positive, min_size: MinSize = 10, stratified: bool = False) -> Skew:
    """q ~ Dir(beta) (NIID-Bench): the sizes of parties are drawn from a Dirichlet distribution.

    It is redrawn until every party has `min_size` rows. If it is `stratified`, every class is divided by the same
    shares (OARF), so that labels are distributed alike at all parties; else rows are drawn without regard to labels.
    After a label skew, each class is divided again among the parties that hold it, in proportion to their rows of it
    times their share: sizes change, but not which classes a party holds.
    """
    return _by_shares(
        lambda parties, rng: dirichlet(beta, parties, rng),
        min_size,
        f"quantity-dirichlet(beta={beta:g})",
        stratified,
    )


@PARTITIONS.register(added_later=("alpha",))
def quantity_power_law(exponent: NonNegative = 1.0, min_size: MinSize = 1, alpha: Positive | None = None) -> Skew:
    """Sizes follow a power law: the share of the i-th largest party is proportional to i^-exponent.

    Which party is the i-th largest is drawn. With `alpha` the law is that of OARF's code: party i of N, counted from 1,
    has a share proportional to (i/N)^(alpha - 1), in this order. So alpha = 1 - exponent, and 1 gives equal sizes.
    """
    if alpha is None:
        return _by_shares(
            lambda parties, rng: rng.permutation(np.arange(1, parties + 1) ** -exponent),
            min_size,
            f"quantity-power-law(exponent={exponent:g})",
        )
    if exponent != 1.0:
        raise SpecError(
            f"quantity-power-law has alpha={alpha:g} and exponent={exponent:g}, but alpha is 1 - exponent: give one."
        )
    return _by_shares(
        lambda parties, rng: (np.arange(1, parties + 1) / parties) ** (alpha - 1),
        min_size,
        f"quantity-power-law(alpha={alpha:g})",
    )


def _by_shares(shares: Shares, min_size: int, spec: str, stratified: bool = False) -> Skew:
    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        piles = class_rows(split.y, rng) if stratified else [rng.permutation(len(split))]

        def draw() -> NDArray[np.int64]:
            share = shares(parties, rng)
            return np.stack([apportion(len(pile), share) for pile in piles], axis=1)

        return sorted_rows(Partition(deal(piles, redraw(draw, min_size, spec, len(split), parties))), spec)

    def refine(split: Split, partition: Partition, rng: np.random.Generator) -> Partition:
        """Divide each class again among its holders, in proportion to their rows of it times their new share."""
        codes = as_codes(split.y)
        held = count(partition, codes, int(codes.max()) + 1)
        piles = class_rows(codes, rng)

        def draw() -> NDArray[np.int64]:
            weight = shares(len(partition), rng)[:, None] * held
            return np.stack([apportion(len(pile), weight[:, k]) for k, pile in enumerate(piles)], axis=1)

        counts = redraw(draw, min_size, spec, len(split), len(partition))
        return sorted_rows(replace(partition, rows=deal(piles, counts)), spec)

    return Skew(cut, refine, moves_rows=True)
