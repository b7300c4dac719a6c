"""`Randomness`: random numbers that nobody can predict without the key, for noise, masks and secret samples."""

import hashlib
import json
import math
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_KEY_BYTES = 32
_ZEROS = memoryview(bytes(1 << 18))  # encrypted at a time
_SPARSE = 0.1  # a rate below which gaps are faster than single choices
_NORMALS = 1 << 16  # normal numbers that are computed at a time, unless more are needed


class Randomness:
    """The key stream of AES-256 in counter mode, as bytes, integers, choices and normal numbers.

    The key is secret, from the operating system's generator, or it follows from a seed, so that a run can be repeated.
    Numbers are the same in both cases for the same key. Normal numbers have the resolution of float32, which does not
    stop attacks on the last bits of floating-point noise (Mironov, CCS 2012).

    >>> Randomness.seeded(7, "noise", 1).integers(2, np.uint8).tolist() == Randomness.seeded(7, "noise", 1).integers(
    ...     2, np.uint8
    ... ).tolist()
    True
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # takes long to import

        if len(key) != _KEY_BYTES:
            raise ValueError(f"a key has {len(key)} bytes, but {_KEY_BYTES} are needed.")
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._normals, self._block = torch.empty(0), 0

    @classmethod
    def secret(cls) -> "Randomness":
        """Return random numbers that cannot be repeated: their key is from the operating system."""
        return cls(os.urandom(_KEY_BYTES))

    @classmethod
    def seeded(cls, seed: int, purpose: str, *numbers: int) -> "Randomness":
        """Return random numbers that follow from a seed, a purpose and further numbers, such as round and party."""
        return cls(hashlib.sha256(json.dumps([seed, purpose, *numbers]).encode()).digest())

    def bytes(self, count: int) -> bytearray:
        """Return the next bytes of the key stream."""
        content = bytearray(count + 15)  # the cipher needs room for one more block
        view = memoryview(content)
        for begin in range(0, count, len(_ZEROS)):
            size = min(len(_ZEROS), count - begin)
            self._stream.update_into(_ZEROS[:size], view[begin : begin + size + 15])
        view.release()
        del content[count:]
        return content

    def integers(self, count: int, dtype: Any = np.uint64) -> NDArray[Any]:
        """Return uniform integers over all values of an integer type."""
        return np.frombuffer(self.bytes(count * np.dtype(dtype).itemsize), dtype)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1), multiples of 2^-53."""
        return (self.integers(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def chosen(self, rate: float, count: int) -> NDArray[np.bool_]:
        """Return for each of `count` things whether it is chosen, each with probability `rate`, independently."""
        return self.uniform(count) < rate

    def sample(self, rate: float, count: int) -> NDArray[np.int64]:
        """Return which of `count` things are chosen, in order, each with probability `rate`, independently.

        Where few are chosen, the gaps between them are drawn: they follow a geometric distribution.
        """
        if rate > _SPARSE:
            return np.flatnonzero(self.chosen(rate, count))
        chosen = self._places(rate, count)
        while chosen[-1] < count:
            chosen = np.concatenate([chosen, chosen[-1] + 1 + self._places(rate, count)])
        return chosen[: np.searchsorted(chosen, count)]

    def _places(self, rate: float, count: int) -> NDArray[np.int64]:
        """Return places in order, some more than are expected; a gap that is longer than `count` is cut."""
        expected = rate * count
        draws = int(expected + 6 * math.sqrt(expected)) + 8
        gaps = np.log(1 - self.uniform(draws)) / math.log1p(-rate)
        places: NDArray[np.int64] = (np.minimum(gaps, count).astype(np.int64) + 1).cumsum() - 1
        return places

    def normal(self, count: int, deviation: float = 1.0) -> Tensor:
        """Return normal numbers of mean 0 as float32.

        Small requests are served from a block, which doubles with every block: many calls are then as fast as one.
        """
        if count > len(self._normals):
            size = min(max(count, 2 * self._block), _NORMALS)
            self._normals, self._block = self._box_muller(max(count, size)), size
        numbers, self._normals = self._normals[:count], self._normals[count:]
        return numbers if deviation == 1 else numbers.mul_(deviation)

    def _box_muller(self, count: int) -> Tensor:
        """Return standard normal numbers by the method of Box and Muller."""
        pairs = -(-count // 2)
        content = torch.frombuffer(self.bytes(12 * pairs), dtype=torch.uint8)
        shares = (content[: 8 * pairs].view(torch.int64) >> 11).to(torch.float64)  # in [-2^52, 2^52)
        shares.add_(2.0**52 + 1).mul_(2.0**-53)  # in (0, 1], so that the logarithm is finite
        length = shares.log_().mul_(-2).to(torch.float32).sqrt_()
        angle = content[8 * pairs :].view(torch.int32).to(torch.float32).mul_(math.pi * 2.0**-31)
        numbers = torch.empty(2 * pairs, dtype=torch.float32)
        torch.mul(length, angle.cos(), out=numbers[:pairs])
        torch.mul(length, angle.sin_(), out=numbers[pairs:])
        return numbers[:count]
