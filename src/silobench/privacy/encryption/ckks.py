"""CKKS by TenSEAL (Microsoft SEAL): approximate numbers, thousands of them in one ciphertext.

Cheon, Kim, Kim and Song: Homomorphic Encryption for Arithmetic of Approximate Numbers, Asiacrypt 2017. Polynomials have
N = 8192 coefficients. Ciphertexts are modulo a 60-bit and a 40-bit prime; a second 60-bit prime P is used for keys
only. 160 bits at this N are more than 128 bits of security need to stay below (218), by the tables of
homomorphicencryption.org.

Where the precision comes from. SEAL encrypts modulo P too, then divides both polynomials of the ciphertext by P and
rounds. So the noise of a ciphertext is t0 + t1 s + t2: the roundings of both polynomials and of the encoding (each
coefficient within 1/2) and the secret s (coefficients -1, 0, 1). The noise before the division adds less than 2^-27.
A slot is the value at a complex root of unity, so t2 adds at most N / 2. Ciphertexts look random, so t0 and t1 are
uniform. Take a polynomial whose N coefficients are independent, of mean 0 and sub-Gaussian with variance v: at a root,
its real part is sub-Gaussian with variance v N / 2, and so is its imaginary part. Uniform roundings have v = 1/12,
uniform coefficients -1, 0, 1 have v = 2/3, and both are sub-Gaussian with their variance. Let 2 exp(-X²) be the chance
of one excess. Then |s|² <= 4/3 X² N, and the noise of a slot is at most X sqrt(N/12 (4/3 X² N + 1)) + N/2, about
X² N / 3. Three such chances in each of 4,096 slots add up to at most 2^-40 per ciphertext if X² = log(6 · 4096 · 2^40)
= 37.8. Divided by the scale 2^40 that is 9.8e-8. Encoding and decoding are Fourier transforms in float64, each with a
relative error in the 2-norm below 8 u log2(N), u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms,
chapter 24), hence below 8 u log2(N) sqrt(N) times the range in one slot.

On the network, ciphertexts and keys are padded to the size that they have without compression. SEAL compresses them,
and compressed sizes differ by some bytes from one encryption to the next, so the bytes of equal runs would differ too.

The key holder must not publish what it decrypts: decrypted values have the noise of the ciphertext in them, from which
the encrypting party could compute the secret key (Li and Micciancio, Eurocrypt 2021).
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from silobench.errors import RunError
from silobench.privacy.encryption.scheme import MOST_TERMS, Ciphertexts, PublicKey, Scheme, SecretKey, package

DEGREE = 8192
SLOTS = DEGREE // 2
MODULI = (60, 40, 60)  # bits; the last one is for keys only
SCALE_BITS = 40
_FAILURE = 2.0**-40  # chance that a ciphertext has a larger error than stated
_ROOM = 2.0 ** (MODULI[0] + MODULI[1] - 2)  # a coefficient must be below half of the product of the first two moduli
_LENGTH = struct.Struct(">I")
_HEADERS = 512  # bytes: more than the headers of SEAL and TenSEAL take, and zstd's three bytes per block of 128 KiB
_WORD = 8  # bytes of a coefficient modulo one prime
CIPHERTEXT_BYTES = 2 * (len(MODULI) - 1) * DEGREE * _WORD + _HEADERS  # two polynomials
KEY_BYTES = 2 * len(MODULI) * DEGREE * _WORD + _HEADERS


@dataclass(frozen=True)
class Ckks(Scheme):
    """CKKS with 4,096 values per ciphertext and an absolute error of about 1e-7."""

    tag: ClassVar[bytes] = b"CKKS"

    @property
    def values_per_ciphertext(self) -> int:
        return SLOTS

    @property
    def precision(self) -> float:
        return _noise() / 2.0**SCALE_BITS + 2 * _transform() * self.range

    @property
    def most_terms(self) -> int:
        return int(min(_ROOM / 2.0**SCALE_BITS / self.range, MOST_TERMS))

    def generate(self) -> "CkksSecret":
        tenseal = package("tenseal")
        context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, DEGREE, -1, list(MODULI), n_threads=1)
        return CkksSecret(self, _configured(context))

    def read_key(self, message: bytes) -> "CkksPublic":
        try:
            context = package("tenseal").context_from(_unpadded(message, KEY_BYTES), n_threads=1)
        except (ValueError, RuntimeError) as error:
            raise RunError(f"a message of {len(message)} bytes is not a CKKS key: send it again.", "") from error
        return CkksPublic(self, _configured(context))


def _noise() -> float:
    """Return the largest noise of a slot, before the division by the scale."""
    excess = math.log(6 * SLOTS / _FAILURE)  # X², see above
    return math.sqrt(excess * DEGREE / 12 * (4 / 3 * excess * DEGREE + 1)) + DEGREE / 2 + 1


def _transform() -> float:
    """Return the largest error of one slot by a Fourier transform, relative to the largest value."""
    return float(8 * 2.0**-53 * math.log2(DEGREE) * math.sqrt(DEGREE))


def _configured(context: Any) -> Any:
    context.global_scale = 2.0**SCALE_BITS
    context.auto_rescale = False  # `linear` adds products up as they are: one multiplication fits, and takes a quarter
    return context


def _padded(content: bytes, size: int) -> bytes:
    """Return content with its length before it and zeros behind it, `size` bytes in all."""
    padding = size - _LENGTH.size - len(content)
    assert padding >= 0, "compression makes content longer by less than the room for headers"
    return _LENGTH.pack(len(content)) + content + bytes(padding)


def _unpadded(message: bytes, size: int) -> bytes:
    """Return the content that `_padded` got; raise ValueError for anything else."""
    if len(message) != size:
        raise ValueError(f"it has {len(message)} bytes instead of {size}")
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    if end > size or any(message[end:]):
        raise ValueError("its padding is wrong")
    return message[_LENGTH.size : end]


class CkksPublic(PublicKey):
    """The public key: it encrypts, adds, and evaluates a linear layer with plain weights."""

    scheme: Ckks

    def __init__(self, scheme: Ckks, context: Any) -> None:
        super().__init__()
        self.scheme, self._context, self._tenseal = scheme, context, package("tenseal")

    def to_bytes(self) -> bytes:
        content = self._context.serialize(
            save_public_key=True, save_secret_key=False, save_galois_keys=False, save_relin_keys=False
        )
        return _padded(content, KEY_BYTES)

    def _encrypt(self, values: NDArray[np.float64], slots: int) -> list[Any]:
        starts = range(0, len(values), slots)
        return [self._tenseal.ckks_vector(self._context, values[at : at + slots].tolist()) for at in starts]

    def _add(self, item: Any, other: Any) -> Any:
        return item + other

    def _write(self, item: Any) -> bytes:
        return _padded(item.serialize(), CIPHERTEXT_BYTES)

    def _read(self, message: bytes, count: int) -> list[Any]:
        if len(message) != count * CIPHERTEXT_BYTES:
            raise ValueError("its length is wrong")
        starts = range(0, len(message), CIPHERTEXT_BYTES)
        parts = (message[at : at + CIPHERTEXT_BYTES] for at in starts)
        return [self._vector(_unpadded(part, CIPHERTEXT_BYTES)) for part in parts]

    def _vector(self, content: bytes) -> Any:
        try:
            return self._tenseal.ckks_vector_from(self._context, content)
        except RuntimeError as error:  # what SEAL raises for damaged content
            raise ValueError(str(error)) from error

    def encrypt_units(self, values: ArrayLike) -> Ciphertexts:
        """Return the encryption of [rows, units] as [units, rows], one ciphertext per unit, for `linear`."""
        array = np.asarray(values)
        if array.ndim != 2 or not 0 < len(array) <= SLOTS:
            raise RunError(f"units need an array of 1 to {SLOTS} rows, but it has the shape {array.shape}.", "")
        return self._packed(array.T, len(array))

    def linear(self, weights: ArrayLike, units: Ciphertexts) -> Ciphertexts:
        """Return a linear layer of encrypted units: the encryption of weights [out, in] times units [in, rows].

        The layer's result can be decrypted and added, but not given to `linear` again. Its noise depends on the
        weights, which this does not hide from the key holder.
        """
        matrix = np.asarray(weights, np.float64)
        limit = self._check_linear(matrix, units)
        with self.meter.step("multiply", matrix.size):
            items = [self._weighted(row.tolist(), units.items) for row in matrix]
        return Ciphertexts(tuple(items), self, (len(matrix), units.shape[1]), units.slots, limit, units.terms, depth=1)

    def linear_precision(self, weights: ArrayLike, largest: float) -> float:
        """Return the largest error of `linear` for fresh units of magnitude up to `largest`.

        Each weight is rounded to a multiple of 2^-40, and multiplies the error of its unit. A row of zeros becomes a
        fresh encryption of zero.
        """
        sums = np.abs(np.asarray(weights, np.float64)).sum(1).max()
        inputs = np.shape(weights)[1]
        rounding = inputs * 2.0 ** -(SCALE_BITS + 1)
        noise = max(sums + rounding, 1.0) * (_noise() / 2.0**SCALE_BITS + 2 * _transform() * largest)
        return float(noise + rounding * largest)

    def _check_linear(self, matrix: NDArray[np.float64], units: Ciphertexts) -> float:
        """Return the largest magnitude that a layer can have."""
        if matrix.ndim != 2 or len(units.shape) != 2 or matrix.shape[1] != units.shape[0] or 0 in matrix.shape:
            raise RunError(
                f"weights of shape {matrix.shape} do not fit encrypted units of shape {units.shape}: weights are"
                " [out, in], and units come from encrypt_units.",
                "",
            )
        if units.depth:
            raise RunError(
                "units are the result of a layer already, but one layer is possible: decrypt them first.", ""
            )
        limit = float(np.abs(matrix).sum(1).max() * units.limit)
        self._check_limit(limit, depth=1)
        return limit

    def _check_limit(self, limit: float, depth: int) -> None:
        most = _ROOM / 2.0 ** (SCALE_BITS * (1 + depth))  # each multiplication multiplies the scale
        if not limit <= most:
            raise RunError(
                f"a value under encryption could reach {limit:.6g}, but {most:.6g} is the limit: lower the range of the"
                " encryption, or the weights.",
                "",
            )

    def _weighted(self, weights: list[float], units: Sequence[Any]) -> Any:
        total = None
        for weight, unit in zip(weights, units, strict=True):
            if abs(weight) >= 2.0 ** -(SCALE_BITS + 1):  # a smaller one is rounded to zero
                product = unit * weight
                total = product if total is None else total.add_(product)
        return units[0] * 0.0 if total is None else total


class CkksSecret(SecretKey):
    """The key of the key holder."""

    def __init__(self, scheme: Ckks, context: Any) -> None:
        self._context = context
        public = context.copy()
        public.make_context_public()
        self.public: CkksPublic = CkksPublic(scheme, _configured(public))

    def _decrypt(self, items: Sequence[Any], slots: int, size: int) -> NDArray[np.float64]:
        parts = [np.array(item.decrypt(self._context.secret_key()), np.float64) for item in items]
        values = np.concatenate([*parts, np.zeros(0)])
        if len(values) != size:
            raise ValueError("the number of values does not fit the shape")
        return values
