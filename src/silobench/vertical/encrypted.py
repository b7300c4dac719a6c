"""Activations under encryption: the label holder learns the sum over the other parties, and no single activation.

The label holder makes a key. Every other party rounds its activations to a grid, encrypts them and sends them to the
first of these parties, which adds the ciphertexts and sends the sum to the label holder. Only the label holder can
decrypt it, and it never gets the ciphertexts of a single party. That holds as long as the two do not work together,
and everybody follows the protocol. Of two parties in all, the sum is what the other party sent: then encryption hides
it from the network only.

Sums on the grid are exact: an error of decryption is far below half a step, and is rounded away. So runs repeat bit for
bit, whatever the key and whatever the scheme, if their grids are the same.
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
_EXPONENT = 20  # activations are multiples of 2^-20
SCHEMES: Mapping[str, Scheme] = {
    "ckks": Ckks(range=_RANGE),
    "paillier": Paillier(range=_RANGE),
    "paillier-unpacked": Paillier(range=_RANGE, pack=1),
}


@dataclass(frozen=True)
class EncryptedCrossing(Crossing):
    """A crossing that adds up activations under encryption. Gradients go back in the clear."""

    scheme: Scheme = field(default_factory=lambda: Ckks(range=_RANGE))

    @cached_property
    def secret(self) -> SecretKey:
        """The key of the label holder: a new one for every process, and never stored."""
        return self.scheme.generate()

    def step(self, parties: int) -> float:
        """Return the distance of two neighbours on the grid of activations.

        Half of it is more than the error of a decrypted sum over `parties` parties.
        """
        step = 2.0**-_EXPONENT
        while step / 2 <= parties * self.scheme.precision:
            step *= 2
        return step

    def up(self, activations: Mapping[int, Tensor], batch: Batch) -> Carried:
        """Carry the sum of activations: it arrives in the place of the first party, and zeros in those of others."""
        step, encrypt, messages = self.step(len(activations)), dict[int, float](), list[bytes]()
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
            raise RunError(
                f"an activation of party {party} is {largest:.3g}, but encryption has room for magnitudes up to "
                f"{_RANGE:g}: lower the learning rate, or scale the columns.",
                error.details,
            ) from error

    def _added(self, messages: Sequence[bytes]) -> Ciphertexts:
        total = self.secret.public.read(messages[0])
        for message in messages[1:]:
            total = total + self.secret.public.read(message)
        return total
