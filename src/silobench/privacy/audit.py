"""A lower bound on epsilon from one run (Steinke, Nasr and Jagielski: Privacy Auditing with One Training Run, 2023).

Each of many canaries joins the training data by a fair coin. An observer of the training ranks them, guesses which of
them joined, and may abstain. Under (epsilon, delta)-differential privacy hardly more guesses than a share of
e^epsilon / (1 + e^epsilon) are correct, so many correct guesses refute a small epsilon.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
_LARGEST = 64.0  # an epsilon that no number of guesses can show
_HALVINGS = 40
_BOTH_SIDES = (0.9, 0.5, 0.25, 0.125, 0.0625)  # guesses over canaries: half of them "joined", half of them "did not"
_TOP = (0.375, 0.25, 0.125, 0.0625)  # guesses over canaries, all of them "joined"


@dataclass(frozen=True)
class Audit:
    """The result of an audit: with probability `confidence` or more, the true epsilon is not below `epsilon`."""

    epsilon: float
    confidence: float
    canaries: int
    guesses: int  # of the rule that gave the largest bound
    correct: int


def audit(scores: Any, joined: Any, delta: float, confidence: float = CONFIDENCE) -> Audit:
    """Return the largest lower bound on epsilon over several rules of guessing.

    Arguments:
        scores: a number by canary; the larger it is, the more it looks as if the canary joined
        joined: whether the coin of each canary let it join
        delta: the delta of the guarantee to be tested

    The rules differ in how many canaries they guess. They are fixed before the scores are seen, and each of them is
    tested at its share of 1 - confidence (Bonferroni), so that the best of them is a valid bound.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(joined, np.bool_)
    if values.shape != truth.shape or values.ndim != 1 or not len(values):
        raise ValueError(
            f"scores have the shape {values.shape} and coins the shape {truth.shape}: give one of each for every canary"
        )
    outcomes = _outcomes(truth[np.argsort(-values, kind="stable")])
    error = (1 - confidence) / len(outcomes)
    tested = [
        Audit(lower_bound(len(values), guesses, correct, delta, error), confidence, len(values), guesses, correct)
        for guesses, correct in outcomes
    ]
    return max(tested, key=lambda each: each.epsilon)


def _outcomes(ranked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the guesses and the correct ones of each rule; `ranked` are the coins, highest score first."""
    count, outcomes = len(ranked), []
    for share in _BOTH_SIDES:
        top = math.ceil(share * count / 2)
        bottom = min(top, count - top)
        correct = ranked[:top].sum() + (~ranked[count - bottom :]).sum()
        outcomes.append((top + bottom, int(correct)))
    for share in _TOP:
        top = math.ceil(share * count)
        outcomes.append((top, int(ranked[:top].sum())))
    return outcomes


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the probability of at least this many correct guesses under (epsilon, delta)-privacy.

    This is Theorem 5.2: f(v) + 2 m delta max_i (f(v - i) - f(v)) / i, where f(v) is the probability that a binomial
    number of r guesses with success rate e^epsilon / (1 + e^epsilon) is at least v.
    """
    from scipy.special import bdtrc, betaln  # takes long to import

    if not 0 <= correct <= guesses <= canaries:
        raise ValueError(f"{correct} of {guesses} guesses on {canaries} canaries are correct: give counts that can be.")
    if correct == 0:
        return 1.0
    rate = 1 / (1 + math.exp(-epsilon))
    fewer = np.arange(correct - 1, -1, -1)  # correct guesses
    choices = -betaln(guesses - fewer + 1, fewer + 1) - math.log(guesses + 1)  # logarithm of the binomial coefficient
    masses = np.exp(choices + guesses * math.log(rate) - (guesses - fewer) * epsilon)
    steepest = float((masses.cumsum() / np.arange(1, correct + 1)).max())
    return min(1.0, float(bdtrc(correct - 1, guesses, rate)) + 2 * canaries * delta * steepest)


def lower_bound(canaries: int, guesses: int, correct: int, delta: float, error: float = 1 - CONFIDENCE) -> float:
    """Return the largest epsilon that these guesses refute, except with probability `error`; 0 if they refute none.

    The p-value grows with epsilon as long as 2 m delta <= 1; beyond that nothing is claimed, and the bound is 0.
    """
    if 2 * canaries * delta > 1 or p_value(canaries, guesses, correct, 0.0, delta) >= error:
        return 0.0
    refuted, standing = 0.0, _LARGEST
    for _ in range(_HALVINGS):
        middle = (refuted + standing) / 2
        if p_value(canaries, guesses, correct, middle, delta) < error:
            refuted = middle
        else:
            standing = middle
    return refuted
