"""How far two calculations of one number may lie apart, by the precision of the numbers and the count of roundings."""

import torch


def bound(roundings: int, dtype: torch.dtype = torch.float32) -> float:
    """Return the relative difference that two chains of so many roundings may have.

    Each rounding is off by at most half an epsilon of the numbers it adds or multiplies, and there are two chains. The
    factor 4 is for sums whose terms are larger than what they add up to. A term that is left out, a wrong sign or a
    wrong factor is a difference of at least a percent in these tests, so a bound has to stay far below that.
    """
    allowed = 4 * roundings * torch.finfo(dtype).eps
    assert allowed < 1e-3, f"{roundings} roundings of {dtype} hide too much: calculate in double precision"
    return allowed


def bound_of_steps(steps: int, longest_sum: int, dtype: torch.dtype = torch.float32) -> float:
    """Return the bound for steps of SGD, each of which adds up this many terms (rows of a batch, inputs of a layer).

    A step multiplies and adds forward and backward, takes a softmax and moves the weights: 20 roundings beside the sums.
    """
    return bound(steps * (longest_sum + 20), dtype)
