"""Every random stream of a run, derived from (seed, purpose, round, party) and never global.

Streams with different keys are independent. The same key gives the same bits, whichever worker asks and in
whatever order. A resumed run therefore needs no generator state.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from silobench.errors import ConfigError


def stream(seed: int, purpose: str, round: int = 0, party: int = 0) -> np.random.Generator:
    """Return the generator for one purpose, for example ``stream(seed, "order", round=3, party=7)``.

    >>> int(stream(0, "cohort", round=1).integers(100)) == int(stream(0, "cohort", round=1).integers(100))
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(_key(seed, purpose, round, party))))


def torch_seed(seed: int, purpose: str, round: int = 0, party: int = 0) -> int:
    """Return a 63-bit seed for `torch.manual_seed`, for the few places where torch itself draws."""
    words = np.random.SeedSequence(_key(seed, purpose, round, party)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def key_words(seed: int, purpose: str, round: int = 0) -> NDArray[np.uint32]:
    """Return the words that the generator of `stream` is derived from, without the last one, which is the party.

    >>> [int(word) for word in key_words((1 << 32) + 7, "order", round=3)]
    [7, 1, 4113142680, 3]
    """
    words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(1, seed.bit_length()), 32)]
    return np.array([*words, zlib.crc32(purpose.encode()), round], dtype=np.uint32)


def _key(seed: int, purpose: str, round: int, party: int) -> "list[int] | NDArray[np.uint32]":
    if seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, but {seed} was given.")
    # crc32 names the purpose: stable across processes and versions, unlike hash().
    words = [seed, zlib.crc32(purpose.encode()), round, party]
    # An array gives the same stream and is read twice as fast, but cannot hold a seed of more than 32 bits.
    return np.array(words, dtype=np.uint32) if seed < 1 << 32 else words
