"""Canaries in a gradient by hand: what they add, and the evidence of a step."""

import math

import pytest
import torch

from silobench.privacy.canaries import Canaries

ROWS = torch.tensor([0, 2, 4, 1, 3])  # canaries are 2, 3 and 4


def planted() -> Canaries:
    """Return three canaries, at parameters 2, 0 and 3, of which the second did not join."""
    return Canaries(0, 2, torch.tensor([2, 0, 3]), torch.tensor([True, False, True]), 5.0).watched(None)


def test_rows_from_the_first_one_on_are_canaries() -> None:
    rows, drawn = planted().split(ROWS)
    assert (rows.tolist(), drawn.tolist()) == ([0, 1], [2, 4, 3])
    assert planted().rows.tolist() == [2, 3, 4]


def test_those_that_joined_add_their_length_at_their_parameter() -> None:
    canaries, grad = planted(), torch.tensor([1.0, 2.0, 3.0, 4.0])
    canaries.add(grad, torch.tensor([3, 4]), scale=0.5)
    assert grad.tolist() == [1.0, 2.0, 3.0, 4.0 + 2.5]
    assert canaries.others.tolist() == [3.0, 1.0, 4.0]  # of true rows, at the parameters of the canaries
    canaries.add(grad, torch.tensor([2]))
    assert grad.tolist() == [1.0, 2.0, 8.0, 6.5]


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_evidence_is_the_logarithm_of_a_likelihood_ratio(rate: float) -> None:
    """A density around 1 with the rate, else around 0, over one around 0; all in clips."""
    canaries, grad = planted(), torch.tensor([0.5, 7.0, -1.0, 3.0])
    canaries.add(grad, torch.tensor([2, 4]), scale=0.2)
    canaries.watch(grad, clip=2.0, noise=1.5, rate=rate)

    def ratio(seen: float) -> float:
        here, there = (math.exp(-((seen - mean) ** 2) / (2 * 1.5**2)) for mean in (1.0, 0.0))
        return math.log((rate * here + (1 - rate) * there) / there)

    expected = [ratio(0.5), ratio(0.0), ratio(0.5)]  # 5 * 0.2 / 2 where one joined
    assert canaries.evidence.tolist() == pytest.approx(expected, rel=1e-9)
    assert not canaries.others.any()
    grad.zero_()
    canaries.watch(grad, clip=2.0, noise=1.5, rate=rate)  # a step without canaries counts as well
    assert canaries.evidence.tolist() == pytest.approx([each + ratio(0.0) for each in expected], rel=1e-9)


def test_without_noise_evidence_is_how_often_a_canary_was_seen() -> None:
    canaries, grad = planted(), torch.zeros(4)
    canaries.add(grad, torch.tensor([2, 3]), scale=0.4)
    canaries.watch(grad, clip=2.0, noise=0.0, rate=0.5)
    assert canaries.evidence.tolist() == [1.0, 0.0, 0.0]
    later = canaries.watched(canaries.evidence)
    later.evidence.add_(1)
    assert canaries.evidence.tolist() == [1.0, 0.0, 0.0]  # the evidence from before is a copy
    assert (later.evidence.dtype, later.others.tolist()) == (torch.float64, [0.0] * 3)
