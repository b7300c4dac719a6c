"""Who takes part in a round. A selection draws parties from a federation; it knows nothing of training."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from silobench.errors import ConfigError
from silobench.federation import Federation
from silobench.rng import stream
from silobench.spec import Registry

Cohort: TypeAlias = tuple[int, ...]
Selection: TypeAlias = Callable[[Federation, int, int, int], Cohort]  # (federation, count, seed, round), ascending

SELECTIONS: Registry[Selection] = Registry("selection")


def draw_cohort(parties: int, participation: float | int, seed: int, round: int) -> Cohort:
    """The parties of a round, drawn uniformly without replacement, in ascending order."""
    return _uniform(parties, cohort_size(parties, participation), seed, round)


def cohort_size(parties: int, participation: float | int) -> int:
    """How many take part, of a fraction of the parties or a count."""
    if participation <= 0:
        raise ConfigError(
            f"participation {participation} draws no party: give a fraction above 0 or a count of at least 1."
        )
    if isinstance(participation, int) and participation > parties:
        raise ConfigError(
            f"participation {participation} is a count above the {parties} parties: give at most that many."
        )
    size = participation if isinstance(participation, int) else max(1, round_half_up(participation * parties))
    return min(size, parties)


def round_half_up(value: float) -> int:
    return int(value + 0.5)


@SELECTIONS.register
def uniform() -> Selection:
    """Every party with the same probability, without replacement."""
    return lambda federation, count, seed, round: _uniform(len(federation.parties), count, seed, round)


@SELECTIONS.register
def by_size() -> Selection:
    """Without replacement, each draw by the rows that parties have: large ones take part more often."""

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        sizes = np.array([party.samples for party in federation.parties])
        return _ascending(stream(seed, "cohort", round).choice(len(sizes), count, replace=False, p=sizes / sizes.sum()))

    return select


@SELECTIONS.register
def round_robin() -> Selection:
    """In turns, in an order that the seed shuffles once: everyone takes part equally often."""

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        order = stream(seed, "turns").permutation(len(federation.parties))
        return _ascending(order[(round * count + np.arange(count)) % len(order)])

    return select


@SELECTIONS.register
def stratified() -> Selection:
    """One party from each of as many groups as there are places; parties of a group have similar labels.

    NIID-Bench (section VI) asks for a selection that knows the parties' distributions. Ours clusters the proportions of
    their labels by Ward's method and draws uniformly within a group; a party of a small group comes oftener.
    """

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        held = federation.held.numpy()
        groups = _groups(held.tobytes(), held.shape, count)
        draw = stream(seed, "cohort", round)
        return _ascending(np.array([draw.choice(group) for group in groups]))

    return select


def _uniform(parties: int, count: int, seed: int, round: int) -> Cohort:
    if count >= parties:
        return tuple(range(parties))
    return _ascending(stream(seed, "cohort", round).choice(parties, count, replace=False))


def _ascending(parties: NDArray[np.int64]) -> Cohort:
    return tuple(np.sort(parties).tolist())


@lru_cache(maxsize=8)  # the same in every round
def _groups(held: bytes, shape: tuple[int, int], count: int) -> list[list[int]]:
    """So many groups of parties, from the table of how many rows of each class they have."""
    parties = shape[0]
    groups = {party: [party] for party in range(parties)}
    if count < parties:
        counts = np.frombuffer(held, dtype=np.int64).reshape(shape)
        merges = linkage(counts / counts.sum(1, keepdims=True), "ward")
        for made, (a, b) in enumerate(merges[: parties - count, :2].astype(int).tolist(), start=parties):
            groups[made] = groups.pop(a) + groups.pop(b)
    return list(groups.values())
