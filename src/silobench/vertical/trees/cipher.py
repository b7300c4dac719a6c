"""Encryption of gradients, so that parties add up histograms of numbers that they cannot read."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.vertical.trees.bin_matrix import BinMatrix
from silobench.vertical.trees.binning import Floats


class HistogramAdder(ABC):
    """What a party without the key has: it adds up pairs (first derivative, second derivative) that it cannot read."""

    @abstractmethod
    def sum_by_bin(self, pairs: Any, bins: NDArray[Any], n_bins: int) -> Any:
        """Return the sum of pairs per bin.

        bins: [rows, slots], the bins that a row belongs to; an entry of n_bins belongs to no bin.
        """

    def take(self, pairs: Any, rows: NDArray[Any]) -> Any:
        """Return the pairs of some rows, by number or as a mask."""
        return pairs[rows]


class HistogramCipher(HistogramAdder):
    """An additively homomorphic encryption of pairs, one per row: the label holder encrypts and decrypts."""

    @abstractmethod
    def encrypt_pairs(self, g: NDArray[np.float32], h: NDArray[np.float32] | None) -> Any:
        """Return an encrypted pair per row; h is None if all second derivatives are 1."""

    @abstractmethod
    def decrypt_pairs(self, sums: Any) -> tuple[Floats, Floats]:
        """Return sums of first and of second derivatives."""

    def for_parties(self) -> HistogramAdder:
        """Return what the other parties get; here the cipher itself."""
        return self

    @property
    def key_bytes(self) -> int:
        """Bytes of the key that other parties need."""
        return 0

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds that encryption and decryption took so far, by the phase of the messages."""
        return {}


class Clear(HistogramCipher):
    """Gradients in the clear: float32 for each row, as scikit-learn rounds them, and sums in float64."""

    def encrypt_pairs(self, g: NDArray[np.float32], h: NDArray[np.float32] | None) -> NDArray[np.float32]:
        return g[:, None].copy() if h is None else np.stack([g, h], axis=1)

    def sum_by_bin(self, pairs: NDArray[Any], bins: NDArray[Any], n_bins: int) -> Floats:
        return BinMatrix(bins, n_bins).sums(pairs.astype(np.float64))

    def decrypt_pairs(self, sums: Floats) -> tuple[Floats, Floats]:
        return sums[:, 0], sums[:, -1]
