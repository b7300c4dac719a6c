"""Activations under encryption: the label holder learns the sum over the other parties.

The label holder makes a key. Every other party rounds its activations to a grid, encrypts them and sends them to the
first of these parties, which adds the ciphertexts and sends the sum to the label holder. Only the label holder can
decrypt it, and it never gets the ciphertexts of a single party. That holds as long as the two do not work together,
and everybody follows the protocol. Of two parties in all, the sum is what the other party sent: then encryption hides
it from the network only. The same is true of a row that only one of the other parties has, because the rest send what
their networks compute from zeros: the same constant for every such row.

Sums on the grid are exact: an error of decryption is below half a step, and is rounded away. The grid depends on the
number of parties only. So runs repeat bit for bit, whatever the key and whatever the scheme.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from silobench.errors import RunError
from silobench.privacy.encryption.ckks import Ckks
from silobench.privacy.encryption.paillier import Paillier
from silobench.privacy.encryption.scheme import Ciphertexts, Scheme, SecretKey
from silobench.vertical.crossing import Batch, Carried, Crossing

Encryption: TypeAlias = Literal["none", "ckks", "paillier", "paillier-unpacked"]
_RANGE = 1024.0  # the largest magnitude of an activation
_FINEST = 2.0**-20  # the smallest step of the grid of activations
SCHEMES: Mapping[str, Scheme] = {
    "ckks": Ckks(range=_RANGE),
    "paillier": Paillier(range=_RANGE),
    "paillier-unpacked": Paillier(range=_RANGE, pack=1),
}
PACKAGES: Mapping[str, str] = {"ckks": "tenseal", "paillier": "gmpy2", "paillier-unpacked": "gmpy2"}


def grid_step(parties: int) -> float:
    """Return the distance of two neighbours on the grid of activations that `parties` parties add up.

    It is 2^-20 for up to 4 parties, 2^-19 for up to 9, 2^-18 for up to 19 and so on: the smallest power of two, from
    2^-20 on, whose half is more than the error of a sum under CKKS. Paillier has smaller errors and the same grid, so
    both schemes give the same bits.
    """
    step, precision = _FINEST, max(scheme.precision for scheme in SCHEMES.values())
    while step / 2 <= parties * precision:
        step *= 2
    return step


@dataclass(frozen=True)
class EncryptedCrossing(Crossing):
    """A crossing that adds up activations under encryption. Gradients go back in the clear."""

    scheme: Scheme = field(default_factory=lambda: Ckks(range=_RANGE))
    names: tuple[str, ...] = ()  # of parties, for errors

    @cached_property
    def secret(self) -> SecretKey:
        """The key of the label holder: a new one for every process, and never stored."""
        return self.scheme.generate()

    @property
    def key_size(self) -> int:
        """The bytes of the public key, which the label holder sends to every other party before the first round."""
        return len(self.secret.public.to_bytes())

    def up(self, activations: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry the sum of activations: it arrives in the place of the first party, and zeros in those of others."""
        step, encrypt, messages = grid_step(len(activations)), dict[int, float](), list[bytes]()
        for party, each in activations.items():
            since = time.perf_counter()
            on_grid = np.rint(self.defended(each, batch, party).numpy().astype(np.float64) / step) * step
            messages.append(self._encrypted(on_grid, party).to_bytes())
            encrypt[party] = time.perf_counter() - since
        since = time.perf_counter()
        total = self._added(messages)
        collected = total.to_bytes()
        spent, since = time.perf_counter() - since, time.perf_counter()
        decrypted = np.rint(self.secret.decrypt(self.secret.public.read(collected)) / step) * step
        decode = time.perf_counter() - since
        first, *others = activations
        arrived = {party: torch.zeros_like(activations[party]) for party in others}
        arrived[first] = torch.from_numpy(decrypted.astype(np.float32))
        # The first party sends the sum, and each of the others its own message to the first.
        sizes = dict(zip((*others, first), (*map(len, messages[1:]), len(collected)), strict=True))
        dense = sum(each.nbytes for each in activations.values())
        relays = frozenset([first]) if others else frozenset()
        return Carried(arrived, sizes, dense, {first: spent}, encrypt, {first: decode}, relays=relays)

    def seen(self, arrived: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Return what the label holder sees of the activations of each party: the sum of all."""
        total = sum(arrived.values())
        assert isinstance(total, Tensor)
        return dict.fromkeys(arrived, total)

    def _encrypted(self, values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", party: int) -> Ciphertexts:
        try:
            return self.secret.public.encrypt(values)
        except RunError as error:
            largest = float(np.abs(values).max())
            name = self.names[party] if self.names else f"party {party}"
            raise RunError(
                f"an activation of {name} is {largest:.3g}, but encryption has room for magnitudes up to {_RANGE:g}: "
                "lower the learning rate, or scale the columns.",
                error.details,
            ) from error

    def _added(self, messages: Sequence[bytes]) -> Ciphertexts:
        total = self.secret.public.read(messages[0])
        for message in messages[1:]:
            total = total + self.secret.public.read(message)
        return total
