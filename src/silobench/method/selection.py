"""Selections: which parties take part in a round. They depend on the federation only, not on training."""

import secrets
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.errors import ConfigError
from silobench.federation import Federation
from silobench.privacy.randomness import Randomness
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described

Cohort: TypeAlias = tuple[int, ...]
Reads: TypeAlias = Literal["rows", "labels"]
_SECRET, _READS, _VARIES = "secret", "reads", "varies"  # attributes of a selection
Selection: TypeAlias = Callable[[Federation, int, int, int], Cohort]  # (federation, count, seed, round) -> ascending


def _is_cohort(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the cohort that a selection returns."""
    federation, count = arguments[:2]
    return no_cohort(value, range(len(federation.parties)), f"{count} parties", count)


def no_cohort(value: Any, parties: Collection[int], text: str, count: int | None = None) -> str | None:
    """Return what is wrong with the numbers of parties; None if nothing is. `text` says which are expected."""
    expected = f"but a tuple with the numbers of {text} is expected, as int and ascending"
    if not isinstance(value, tuple) or not all(type(party) is int for party in value):
        kinds = f" with {described(value[0])}" if isinstance(value, tuple | list) and value else ""
        return f"{described(value)}{kinds}, {expected}"
    is_right = list(value) == sorted(set(value)) and set(value) <= set(parties)
    return None if is_right and count in (None, len(value)) else f"{value}, {expected}"


_ARGUMENTS = "federation, count, seed, round"
_CONTRACT = Contract(None, f"a function ({_ARGUMENTS})", {"select": Form(_ARGUMENTS, _is_cohort)})
SELECTIONS: Registry[Selection] = Registry("selection", _CONTRACT)


def cohort_size(parties: int, participation: float | int) -> int:
    """Return how many parties take part; `participation` is a fraction of the parties, or a count if an integer."""
    if not participation > 0:  # also NaN
        raise ConfigError(
            f"participation {participation} selects no party: give a fraction above 0 or a count of at least 1."
        )
    if isinstance(participation, int) and participation > parties:
        raise ConfigError(
            f"participation {participation} is above the {parties} parties: give at most {parties}, or a fraction."
        )
    size = participation if isinstance(participation, int) else max(1, int(participation * parties + 0.5))
    return min(size, parties)


@SELECTIONS.register
def uniform() -> Selection:
    """Draw without replacement; every party has the same probability."""

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        parties = len(federation.parties)
        if count >= parties:
            return tuple(range(parties))
        return _ascending(stream(seed, "cohort", round).choice(parties, count, replace=False))

    return select


@SELECTIONS.register(added_later=("reproducible",))
def poisson(reproducible: bool = False) -> Selection:
    """Let every party join with the same probability, independently of the others.

    The probability is the number of parties that `participation` means, over all parties. Rounds have more or fewer
    parties than that, and some may have none. The draws follow from a secret key that is made with the selection, so
    two runs differ, and accountants of differential privacy count the probability. With `reproducible` the draws follow
    from the seed of the run. Whoever knows it knows who takes part, so accountants count every party in every round.
    """
    key = None if reproducible else secrets.randbits(256)

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        parties = len(federation.parties)
        if key is None:
            joins = stream(seed, "cohort", round).random(parties) < count / parties
        else:
            joins = Randomness.seeded(key, "cohort", seed, round).chosen(count / parties, parties)
        return tuple(np.flatnonzero(joins).tolist())

    setattr(select, _SECRET, key is not None)
    setattr(select, _VARIES, True)
    return select


@SELECTIONS.register
def by_size() -> Selection:
    """Draw without replacement, with probability proportional to rows: large parties take part more often."""

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        sizes = np.array([party.samples for party in federation.parties])
        return _ascending(stream(seed, "cohort", round).choice(len(sizes), count, replace=False, p=sizes / sizes.sum()))

    setattr(select, _READS, "rows")
    return select


@SELECTIONS.register
def round_robin() -> Selection:
    """Take parties in turn, in an order that the seed shuffles once: all take part equally often."""

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        order = stream(seed, "turns").permutation(len(federation.parties))
        return _ascending(order[(round * count + np.arange(count)) % len(order)])

    return select


@SELECTIONS.register
def stratified() -> Selection:
    """Draw one party from each of `count` groups of parties with similar labels.

    NIID-Bench (section VI) asks for a selection that uses the parties' label distributions. This one clusters the label
    proportions by Ward's method and draws uniformly within a group, so parties in small groups take part more often.
    """

    def select(federation: Federation, count: int, seed: int, round: int) -> Cohort:
        held = federation.class_counts.numpy()
        groups = _groups(held.tobytes(), held.shape, count)
        draw = stream(seed, "cohort", round)
        return _ascending(np.array([draw.choice(group) for group in groups]))

    setattr(select, _READS, "labels")
    return select


def is_secret(selection: Selection) -> bool:
    """Whether a selection draws each party independently, at one rate, by a key that nobody knows."""
    return getattr(selection, _SECRET, False)


def varies(selection: Selection) -> bool:
    """Whether rounds have different numbers of parties, each of them drawn independently."""
    return getattr(selection, _VARIES, False)


def reads(selection: Selection) -> Reads | None:
    """Return which exact numbers of parties decide the draw: those of their rows, or of rows by class; else None."""
    return getattr(selection, _READS, None)


def _ascending(parties: NDArray[np.int64]) -> Cohort:
    return tuple(sorted(parties.tolist()))


@lru_cache(maxsize=8)  # because it is the same in every round
def _groups(held: bytes, shape: tuple[int, int], count: int) -> list[list[int]]:
    """Cluster parties into `count` groups; `held` are the bytes of their rows by class, [parties, classes]."""
    parties = shape[0]
    groups = {party: [party] for party in range(parties)}
    if count < parties:
        from scipy.cluster.hierarchy import linkage  # which every command would wait for

        counts = np.frombuffer(held, dtype=np.int64).reshape(shape)
        merges = linkage(counts / counts.sum(1, keepdims=True), "ward")
        for merged, (a, b) in enumerate(merges[: parties - count, :2].astype(int).tolist(), start=parties):
            groups[merged] = groups.pop(a) + groups.pop(b)
    return list(groups.values())
