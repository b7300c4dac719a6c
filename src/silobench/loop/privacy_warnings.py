"""Warnings about privacy: what a guarantee does not cover, and set-ups in which it does not hold or means little."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.loop.calibration import most_holders, most_trainings, party_sampling
from silobench.loop.schedule import Schedule
from silobench.method.selection import reads, varies
from silobench.method.types import placed
from silobench.privacy.accountant import epsilon
from silobench.privacy.mechanism import Mechanism, Sampling, Unit

_MOST_EPSILON = 20.0  # above it a guarantee says almost nothing
_PAIR = 2
_UNLIKELY = 1e-6  # probability of a number of parties in a round that needs no warning


def privacy_warnings(schedule: Schedule) -> tuple[str, ...]:
    """Return a sentence about each choice of a run that weakens its privacy."""
    facts = _Facts(schedule.pooled())
    every = (
        _of_epsilon,
        _of_noise,
        _of_batches,
        _of_delta,
        _of_start,
        _of_controller,
        _of_selection,
        _of_losses,
        _of_normalisation,
        _of_scaling,
        _of_validation,
        _of_shared_rows,
        _of_sampling,
        _of_augmentation,
        _of_pairs,
    )
    return tuple(filter(None, (warn(facts) for warn in every)))


@dataclass(frozen=True)
class _Facts:
    """What the warnings look at."""

    schedule: Schedule

    @property
    def dataset(self) -> Dataset:
        return self.schedule.setting.federation.dataset

    @property
    def is_silent(self) -> bool:
        return self.schedule.setting.method.algorithm.silent

    @cached_property
    def releases(self) -> list[tuple[Mechanism, int]]:
        """The releases of the whole run: those of the transforms, and those of the party with the fewest rows.

        This party has the highest sampling rate, so with equal noise it has the largest epsilon.
        """
        setting, releases = self.schedule.setting, list[tuple[Mechanism, int]]()
        smallest = min(setting.federation.parties, key=lambda party: party.samples)
        release = setting.solver.release(smallest.id, smallest.samples)
        if release is not None:
            mechanism, steps = release
            releases.append((mechanism, steps * self._trainings))
        releases += [(mechanism, self.schedule.rounds) for mechanism in self._of_transforms()]
        return releases

    def _of_transforms(self) -> Iterator[Mechanism]:
        setting = self.schedule.setting
        if self.is_silent:
            return
        parties = tuple(range(self.schedule.cohort))
        contexts = placed(setting.method.transforms, setting.context(setting.initial_server(), -1, parties, parties))
        for transform, context in zip(setting.method.transforms, contexts, strict=True):
            mechanism = transform.release(context)
            if mechanism is not None:
                rate, sampling = self.sampling
                yield replace(mechanism, rate=rate, sampling=sampling)

    @property
    def _trainings(self) -> int:
        schedule, setting = self.schedule, self.schedule.setting
        rounds = most_trainings(setting, schedule.selection, schedule.cohort, schedule.rounds)
        return rounds * most_holders(setting)

    @cached_property
    def sampling(self) -> tuple[float, Sampling]:
        schedule = self.schedule
        return party_sampling(schedule.setting, schedule.selection, schedule.cohort, schedule.pace.takes is None)

    @property
    def draws_parties(self) -> bool:
        """Whether only some of the parties take part in a round."""
        return self.schedule.cohort < len(self.schedule.setting.federation.parties)

    @property
    def cohorts(self) -> Collection[int]:
        """The numbers of parties that a round may have: the usual one, and small ones of independent draws."""
        cohort, parties = self.schedule.cohort, len(self.schedule.setting.federation.parties)
        if not self.draws_parties or not varies(self.schedule.selection):
            return (cohort,)
        from scipy.stats import binom  # which every command would wait for

        small = range(_PAIR, min(parties, 2 * _PAIR))  # a sum of more parties needs more than two of them
        return cohort, *(each for each in small if binom.pmf(each, parties, cohort / parties) > _UNLIKELY)

    def fewest_messages(self, cohort: int) -> float:
        """Return how many messages a secure sum has at least, of this many parties; infinite if they are refused."""
        try:
            return max(each.least(cohort) for each in self.schedule.setting.method.transforms)
        except ConfigError:
            return math.inf

    def of(self, unit: Unit) -> list[tuple[Mechanism, int]]:
        return [(mechanism, count) for mechanism, count in self.releases if mechanism.unit == unit]

    @property
    def is_private(self) -> bool:
        return bool(self.releases)


# --- guarantees that do not hold, or mean little ------------------------------------------------------


def _of_epsilon(facts: _Facts) -> str | None:
    units: tuple[tuple[Unit, str], ...] = (("example", "a row"), ("party", "a party"))
    for unit, whom in units:
        entries = facts.of(unit)
        total = epsilon(entries, max(mechanism.delta for mechanism, _ in entries)) if entries else 0.0
        if math.isinf(total):
            return f"no noise hides {whom}, so its epsilon is infinite: give noise, or leave the private parts out"
        if total > _MOST_EPSILON:
            return (
                f"epsilon of {whom} comes to {total:.3g} in {facts.schedule.rounds} rounds, and above "
                f"{_MOST_EPSILON:g} it promises almost nothing: give more noise, fewer rounds or a smaller epsilon"
            )
    return None


def _of_noise(facts: _Facts) -> str | None:
    if not any(mechanism.reproducible for mechanism, _ in facts.releases):
        return None
    return (
        "the noise follows from the seed, so whoever knows the seed can subtract it, and epsilon does not hold: leave "
        "out reproducible=true"
    )


def _of_batches(facts: _Facts) -> str | None:
    if not any(mechanism.sampling == "shuffled" for mechanism, _ in facts.releases):
        return None
    return (
        "batches are shuffled, but epsilon is that of Poisson samples and does not hold for them: write "
        "sampling=poisson in dp_sgd"
    )


def _of_delta(facts: _Facts) -> str | None:
    federation = facts.schedule.setting.federation
    sizes = {"example": min(party.samples for party in federation.parties), "party": len(federation.parties)}
    for unit, names in (("example", "rows of the smallest party"), ("party", "parties")):
        deltas = [mechanism.delta for mechanism, _ in facts.releases if mechanism.unit == unit]
        if deltas and max(deltas) * sizes[unit] > 1:
            return (
                f"delta is {max(deltas):g} with {sizes[unit]} {names}, so the guarantee would allow to publish one of "
                f"them: give a delta well below {1 / sizes[unit]:.1g}"
            )
    return None


def _of_start(facts: _Facts) -> str | None:
    if not facts.is_private or not facts.schedule.is_pretrained:
        return None
    return (
        "the run starts from the model of another run, and epsilon does not count what that run learnt from the rows, "
        "so it does not hold: start from random"
    )


def _of_controller(facts: _Facts) -> str | None:
    if not facts.is_private or not facts.schedule.controller.travels:
        return None
    return (
        "the controller sends models to other parties and sets a knob by their exact scores on training rows, so "
        "epsilon does not hold: use controller = fixed"
    )


def _of_selection(facts: _Facts) -> str | None:
    method, numbers = facts.schedule.setting.method, reads(facts.schedule.selection)
    if numbers is None or not facts.draws_parties:
        return None
    if numbers == "labels" and (facts.is_private or method.hides):
        return (
            "the selection draws parties by their exact numbers of rows of each class, which nothing hides and epsilon "
            "does not cover: use selection = uniform or poisson"
        )
    if numbers == "rows" and (method.has_noise or method.hides):
        return (
            "the selection draws parties by their exact numbers of rows, which are then known to the server and can be "
            "inferred from the draws: use selection = uniform or poisson"
        )
    return None


def _of_sampling(facts: _Facts) -> str | None:
    is_counted = any(each.rho is None for each, _ in facts.of("party"))  # Skellam noise never counts the draw
    if not is_counted or not facts.draws_parties:
        return None
    if facts.sampling[0] < 1:
        return (
            "epsilon assumes that nobody knows which parties take part in a round, but rounds.jsonl states it: do not "
            "publish this file"
        )
    if facts.schedule.setting.method.hides:
        reason = "the parties of a secure sum know who takes part in it: leave out secure_sum to count the draw"
    elif facts.schedule.pace.takes is not None:
        reason = "messages of several draws arrive together: use pace = synchronous to count the draw"
    else:
        reason = "the draw follows from the seed, which others may know: use selection = poisson to count the draw"
    return f"some parties are drawn for each round, but epsilon counts all of them, because {reason}"


def _of_pairs(facts: _Facts) -> str | None:
    if not facts.schedule.setting.method.hides:
        return None
    if facts.schedule.cohort <= _PAIR:
        return (
            "two parties share a secure sum, so each can subtract its own message from the sum and read the other's: "
            "let at least three take part"
        )
    if not any(facts.fewest_messages(cohort) <= _PAIR for cohort in facts.cohorts):
        return None
    return (
        "a secure sum may have the messages of two parties only, so each can subtract its own and read the other's: "
        "write threshold=3 with protocol=pairwise, or splits=3"
    )


# --- what a guarantee does not cover ------------------------------------------------------------------


def _of_losses(facts: _Facts) -> str | None:
    if not facts.is_private or facts.is_silent:
        return None
    if facts.schedule.setting.method.hides:
        return (
            "the mean training loss of a round and what clip reports have no noise, and epsilon does not cover them: "
            "do not publish them"
        )
    hide = "let secure_sum hide those of single parties, and " if facts.schedule.has_server else ""
    return (
        "training losses and what clip reports are sent in the clear, without noise, and epsilon does not cover them: "
        f"{hide}do not publish them"
    )


def _of_normalisation(facts: _Facts) -> str | None:
    setting = facts.schedule.setting
    if not setting.task.buffers.numel() or setting.buffers != "average" or facts.is_silent:
        return None
    if setting.method.has_noise:
        return (
            "BatchNorm statistics get the same noise as the update, and a variance may fall to 0: use norm=group, or "
            "buffers = local"
        )
    if facts.is_private:
        return (
            "BatchNorm statistics are sent in the clear, without noise, and epsilon does not cover them: use "
            "norm=group, or buffers = local"
        )
    return None


def _of_scaling(facts: _Facts) -> str | None:
    dataset = facts.dataset
    scales = dataset.scaler is not None or (dataset.encoder is not None and bool(dataset.encoder.scales))
    if not facts.is_private or not scales or any("with noise of epsilon" in note for note in dataset.notes):
        return None
    return (
        "numbers of the table are scaled or filled by exact statistics of the training rows, which the run stores and "
        "epsilon does not cover: use scale=private where the dataset has it"
    )


def _of_validation(facts: _Facts) -> str | None:
    if not facts.is_private or not facts.schedule.setting.federation.has_validation:
        return None
    if getattr(facts.schedule.setting.solver.lr, "needs_validation", False):
        return (
            "the learning rate follows the exact loss on the validation rows of parties, so the model depends on these "
            "rows, and epsilon does not cover them: use another schedule"
        )
    return (
        "scores on the validation rows of parties are recorded without noise, and epsilon does not cover these rows: "
        "do not publish the scores, or leave out validation"
    )


def _of_shared_rows(facts: _Facts) -> str | None:
    if not facts.is_private or not len(facts.schedule.setting.federation.partition.shared):
        return None
    return "the partition sends some rows to all parties in the clear, and epsilon does not cover that: leave out share"


def _of_augmentation(facts: _Facts) -> str | None:
    module = facts.schedule.setting.task.network.module
    if not facts.is_private or (facts.dataset.augment == "none" and getattr(module, "crop", None) is None):
        return None
    return (
        "images are cropped and mirrored at random: epsilon counts an image once for all its variants, but attacks "
        "are measured on images as they are, so they look weaker than they may be: compare with augment=false"
    )
