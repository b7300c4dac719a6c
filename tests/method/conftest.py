"""Fixtures for tests that compare an algorithm with a slow version by hand."""

import pytest

from laws import ByHand


@pytest.fixture(params=[1.0, 0.5], ids=["all", "half"])
def participation(request) -> float | int:
    """All parties or half of them take part in a round."""
    return request.param


@pytest.fixture
def hand(in_double, toy, gradient) -> ByHand:
    """Five parties of different sizes, for an algorithm that is written by hand."""
    return ByHand(toy((20, 9, 30, 50, 16)), gradient, seed=5)
