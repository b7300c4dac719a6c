"""Histograms of gradients under Paillier encryption."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.privacy.encryption.paillier import Paillier, PaillierPublic, PaillierSecret
from silobench.privacy.encryption.scheme import Ciphertexts
from silobench.vertical.trees.binning import Floats
from silobench.vertical.trees.cipher import HistogramAdder, HistogramCipher
from silobench.vertical.trees.messages import Gradients, Histogram


class PublicPaillier(HistogramAdder):
    """What parties without the key do: add up ciphertexts by bin."""

    def __init__(self, key: PaillierPublic) -> None:
        self.key = key

    def sum_by_bin(self, pairs: Ciphertexts, bins: NDArray[Any], n_bins: int) -> Ciphertexts:
        row, slot = np.nonzero(bins < n_bins)
        entries = tuple(pairs.items[number] for number in row.tolist())
        repeated = replace(pairs, items=entries, shape=(len(entries), 2))
        return self.key.gather(self.key.sum_by_bin(repeated, bins[row, slot], n_bins))

    def take(self, pairs: Ciphertexts, rows: NDArray[Any]) -> Ciphertexts:
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return replace(pairs, items=tuple(pairs.items[number] for number in numbers.tolist()), shape=(len(numbers), 2))


class PaillierHistograms(PublicPaillier, HistogramCipher):
    """The label holder's side: a pair of a row is one ciphertext, and a sum has many pairs in one.

    Derivatives are scaled to magnitudes up to 1 by a power of two, and rounded to the fixed point of the scheme. Their
    sums are exact: trees do not depend on the key, which is new in every process and never stored.

    entries: the largest number of entries (rows times features) of a party, so that no sum can overflow.
    """

    def __init__(self, entries: int, bits: int = 2048) -> None:
        self._scheme = Paillier(range=1.0, terms=entries, bits=bits)
        self._secret: PaillierSecret = self._scheme.generate()
        self._unit = 1.0
        super().__init__(self._secret.public)

    def encrypt_pairs(self, g: NDArray[np.float32], h: NDArray[np.float32] | None) -> Ciphertexts:
        first, second = g.astype(np.float64), np.zeros(len(g)) if h is None else h.astype(np.float64)
        largest = max(float(np.abs(first).max(initial=0.0)), float(second.max(initial=0.0)))
        self._unit = 2.0 ** max(0, math.ceil(math.log2(largest))) if largest > 0 else 1.0
        return self._secret.public.encrypt_pairs(first / self._unit, second / self._unit)

    def decrypt_pairs(self, sums: Ciphertexts) -> tuple[Floats, Floats]:
        g, h = self._secret.decrypt_pairs(sums)
        return g * self._unit, h * self._unit

    def for_parties(self) -> PublicPaillier:
        return PublicPaillier(self._scheme.read_key(self._secret.public.to_bytes()))

    @property
    def key_bytes(self) -> int:
        return len(self._secret.public.to_bytes())

    @property
    def seconds(self) -> dict[str, float]:
        meter = self._secret.public.meter.seconds
        return {Gradients.phase: meter.get("encrypt", 0.0), Histogram.phase: meter.get("decrypt", 0.0)}
