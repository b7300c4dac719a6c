"""Every random stream of a run, derived from (seed, purpose, round, party) and never global.

Two streams with different keys are independent; the same key gives the same bits whoever asks, in
whatever order, on whatever worker. That is why a resumed run needs no generator state.
"""

import zlib

import numpy as np
import torch
from numpy.typing import NDArray


def stream(seed: int, purpose: str, round: int = 0, party: int = 0) -> np.random.Generator:
    """The generator of one purpose, for example ``stream(seed, "order", round=3, party=7)``.

    >>> int(stream(0, "cohort", round=1).integers(100)) == int(stream(0, "cohort", round=1).integers(100))
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(_key(seed, purpose, round, party))))


def torch_seed(seed: int, purpose: str, round: int = 0, party: int = 0) -> int:
    """A 63-bit seed for `torch.manual_seed`, for the few places where torch itself draws."""
    words = np.random.SeedSequence(_key(seed, purpose, round, party)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def torch_stream(seed: int, purpose: str, round: int = 0, party: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(torch_seed(seed, purpose, round, party))


def _key(seed: int, purpose: str, round: int, party: int) -> "list[int] | NDArray[np.uint32]":
    # crc32 names the purpose: stable across processes and versions, unlike hash().
    words = [seed, zlib.crc32(purpose.encode()), round, party]
    # An array means the same and is taken in twice as fast, but has no room for a seed of more than 32 bits.
    return np.array(words, dtype=np.uint32) if seed < 1 << 32 else words
