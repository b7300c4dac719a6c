"""How far apart two calculations of one number may be, from the precision of the numbers and the count of roundings."""

import math
from dataclasses import replace

import numpy as np
import torch

from silobench.data.dataset import Dataset


def bound(roundings: int, dtype: torch.dtype = torch.float32) -> float:
    """Return the largest relative difference that two chains of this many roundings may have.

    A rounding is off by at most half an epsilon, in either direction, so the error of a chain grows as the square root
    of its length (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). The factor 16 leaves
    room for ten such deviations and for sums whose terms are larger than what they add up to. A term that is left out,
    a wrong sign or a wrong factor changes a result by a percent or more: a bound has to stay far below that.
    """
    allowed = 16 * math.sqrt(roundings) * torch.finfo(dtype).eps
    assert allowed < 1e-3, f"{roundings} roundings of {dtype} hide too much: calculate in double precision"
    return allowed


def bound_of_steps(steps: int, longest_sum: int, dtype: torch.dtype = torch.float32) -> float:
    """Return the bound for steps of SGD, each of which adds up this many terms (rows of a batch, inputs of a layer).

    A step goes forward and backward, takes a softmax and moves the weights: 20 roundings beside the sums.
    """
    return bound(steps * (longest_sum + 20), dtype)


def in_default_precision(dataset: Dataset) -> Dataset:
    """Write the same numbers into a dataset in PyTorch's default precision; a `Dataset` itself has single precision."""
    if torch.get_default_dtype() == torch.float64 and dataset.train.x.dtype == np.float32:
        for side in ("train", "test"):
            split = getattr(dataset, side)
            object.__setattr__(dataset, side, replace(split, x=split.x.astype(np.float64)))
    return dataset
