"""The parts of a method with their noise: solvers and transforms that state a target epsilon solve for it here."""

from dataclasses import replace

import numpy as np

from silobench.method.selection import Selection, cohort_size, is_secret
from silobench.method.solvers import Solver
from silobench.privacy.mechanism import Sampling
from silobench.training.setting import Setting

_MOST_GROUPS = 64  # of parties with the same rows; the accountant looks at each of them in every round


def calibrated(
    setting: Setting, selection: Selection, participation: float | int, rounds: int, in_step: bool = True
) -> Setting:
    """Return the setting with the noise that its solver and transforms need for their epsilons over these rounds.

    `in_step` is whether the server waits in each round for the parties that were drawn for it.
    """
    method, parties = setting.method, setting.federation.parties
    solver, transforms = method.solver, method.transforms
    if type(solver).calibrated is not Solver.calibrated:
        cohort = cohort_size(len(parties), participation)
        trainings = most_trainings(setting, selection, cohort, rounds) * most_holders(setting)
        solver = solver.calibrated(trainings, [party.samples for party in parties])
    if any(each.calibrated is not None for each in transforms) and not method.algorithm.silent:
        cohort = cohort_size(len(parties), participation)
        rate, sampling = party_sampling(setting, selection, cohort, in_step)
        transforms = tuple(
            each if each.calibrated is None else each.calibrated(rounds, rate, sampling, len(parties), cohort)
            for each in transforms
        )
    if solver is method.solver and transforms is method.transforms:
        return setting
    return replace(setting, method=replace(method, solver=solver, transforms=transforms))


def party_sampling(setting: Setting, selection: Selection, cohort: int, in_step: bool = True) -> tuple[float, Sampling]:
    """Return the share of parties that take part in a round, and how they are drawn, as accountants count it.

    The draw protects nobody where others know it, because it follows from the seed of the run, or because parties
    of a round exchange keys for a secure sum. Nor does it where messages of several draws arrive together (not
    `in_step`). Then it counts as if all parties took part.
    """
    parties = len(setting.federation.parties)
    if not is_secret(selection) or setting.method.hides or not in_step:
        return 1.0, "poisson"
    return cohort / parties, "poisson"


def most_trainings(setting: Setting, selection: Selection, cohort: int, rounds: int) -> int:
    """Return the largest number of rounds in which a party trains; with a secret selection, all of them.

    The draws of a secret selection are others after a kill, so those of this process say nothing.
    """
    federation = setting.federation
    if cohort >= len(federation.parties) or is_secret(selection):
        return rounds
    counts = np.zeros(len(federation.parties), dtype=np.int64)
    for number in range(rounds):
        counts[list(selection(federation, cohort, setting.seed, number))] += 1
    return int(counts.max(initial=0))


def most_holders(setting: Setting) -> int:
    """Return how many parties train on the same row, at most: each of them spends from the privacy of the row."""
    return max((len(parties) for parties in holders(setting)), default=1)


def holders(setting: Setting) -> list[tuple[int, ...]]:
    """Return the groups of parties that train on the same rows; empty if every row is at one party.

    Where there are many groups, it is one of all their parties.
    """
    parties = setting.federation.parties
    rows = np.concatenate([party.rows.numpy() for party in parties]) if parties else np.zeros(0, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])) if len(rows) else rows
    if len(begins) == len(rows):
        return []
    owners = np.repeat(np.arange(len(parties)), [party.samples for party in parties])[order]
    groups = {tuple(np.unique(each).tolist()) for each in np.split(owners, begins[1:]) if len(each) > 1}
    shared = sorted(group for group in groups if len(group) > 1)
    return shared if len(shared) <= _MOST_GROUPS else [tuple(sorted({party for group in shared for party in group}))]


def repeats_rows(setting: Setting) -> bool:
    """Whether a party holds a row several times, so that it may be in one batch more than once."""
    return any(len(party.rows.unique()) < party.samples for party in setting.federation.parties)
