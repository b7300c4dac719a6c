"""Paillier on gmpy2: exact sums of fixed-point numbers, 31 of them in a ciphertext of 2048-bit keys.

Paillier: Public-Key Cryptosystems Based on Composite Degree Residuosity Classes, Eurocrypt 1999. A ciphertext of m is
(1 + n)^m R mod n², with a random n-th power R; a product of ciphertexts is a ciphertext of the sum.

This is home-made cryptography, for measurements. It is tested against the package phe, but nobody has reviewed it:
do not protect real data with it. gmpy2 does not take constant time, so who can measure times or share a processor may
learn secrets. Everybody is taken to follow the protocol (honest but curious): ciphertexts can be changed unnoticed.

Short exponents: R = H^r with a fixed n-th power H = (-x²)^n and 320 random bits r (Damgård, Jurik and Nielsen: A
Generalization of Paillier's Public-Key System, International Journal of Information Security, 2010). That needs an
assumption besides composite residuosity: that nobody can tell powers of H with 320-bit exponents from powers with
exponents of full length. A search for the exponent takes about 2^160 steps (Pollard's kangaroos). As H is fixed, its
powers come from a table: 40 multiplications instead of about 400.

Fixed point: a value becomes the nearest integer of value · 2^fraction. A slot of 64 bits holds one integer with a sign,
and `fraction` is such that `terms` values within the range cannot overflow a slot. So the error of one value is at most
2^-(fraction + 1), plus that of the result as a float64, 2^-53 times the range; sums add no other error.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption.scheme import MOST_TERMS, Ciphertexts, PublicKey, Scheme, SecretKey, package

SLOT_BITS = 64
EXPONENT_BYTES = 40  # 320 bits
_LEAST_BITS = 256  # for tests; 2048 bits are the least that is secure today
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class Paillier(Scheme):
    """Paillier with several values per ciphertext.

    terms: how many arrays, or rows of a histogram, can be added up.
    bits: length of the key; fewer than 2048 are for tests only.
    pack: values per ciphertext, 0 for as many as fit.
    """

    tag: ClassVar[bytes] = b"PAIL"
    terms: int = 1024
    bits: int = 2048
    pack: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits < _LEAST_BITS or self.bits % 16:
            raise ConfigError(
                f"bits={self.bits} of a Paillier key must be a multiple of 16 from {_LEAST_BITS}: try 2048."
            )
        if not 0 <= self.pack <= self.most_slots:
            raise ConfigError(
                f"pack={self.pack} values do not fit into a ciphertext of {self.bits} bits: choose 0 to"
                f" {self.most_slots}."
            )
        if not 1 <= self.terms <= MOST_TERMS:
            raise ConfigError(
                f"terms={self.terms} of an encryption must be from 1 to {MOST_TERMS}: choose such a number."
            )

    @property
    def most_slots(self) -> int:
        """How many values fit into a ciphertext, so that a packed number is below n / 2 in magnitude."""
        return (self.bits - 2) // SLOT_BITS

    @property
    def values_per_ciphertext(self) -> int:
        return self.pack or self.most_slots

    @property
    def fraction(self) -> int:
        """Bits behind the binary point."""
        return SLOT_BITS - 2 - math.ceil(math.log2(self.range) + math.log2(self.terms))

    @property
    def precision(self) -> float:
        return 2.0 ** -(self.fraction + 1) + self.range * 2.0**-53

    @property
    def most_terms(self) -> int:
        return self.terms

    def generate(self) -> "PaillierSecret":
        gmpy2 = package("gmpy2")
        while True:
            p, q = _prime(self.bits // 2), _prime(self.bits // 2)
            if p != q and gmpy2.gcd(p - 1, q - 1) == 2:  # so that -x² generates a large group
                return PaillierSecret(self, p, q)

    def read_key(self, message: bytes) -> "PaillierPublic":
        width = self.bits // 8
        n, power = int.from_bytes(message[:width]), int.from_bytes(message[width:])
        if len(message) != 3 * width or n.bit_length() != self.bits or not 1 < power < n * n:
            raise RunError(f"a message of {len(message)} bytes is not a Paillier key of {self.bits} bits.", "")
        return PaillierPublic(self, n, power)


def _prime(bits: int) -> Any:
    """Return a random prime that is 3 modulo 4; its two highest bits are set, so that a product has 2 · bits."""
    gmpy2 = package("gmpy2")
    while True:
        candidate = gmpy2.mpz(secrets.randbits(bits)) | 3 | 3 << bits - 2
        if gmpy2.is_prime(candidate, 40):
            return candidate


def _offset(slots: int) -> int:
    """Return the number that makes signed slots positive."""
    return sum(1 << SLOT_BITS * slot + 63 for slot in range(slots))


class PaillierPublic(PublicKey):
    """The public key: it encrypts, adds and subtracts, and sums gradients by bins."""

    scheme: Paillier

    def __init__(self, scheme: Paillier, n: int, power: int) -> None:
        super().__init__()
        mpz = package("gmpy2").mpz
        self.scheme, self.n, self.square = scheme, mpz(n), mpz(n) * mpz(n)
        self._power = mpz(power)  # H
        self._width = scheme.bits // 4  # bytes of a ciphertext

    def to_bytes(self) -> bytes:
        return int(self.n).to_bytes(self._width // 2) + int(self._power).to_bytes(self._width)

    @cached_property
    def _table(self) -> list[list[Any]]:
        """Powers of H: row i, column j has the exponent j · 256^i."""
        table, base = [], self._power
        for _ in range(EXPONENT_BYTES):
            row = [package("gmpy2").mpz(1), base]
            for _ in range(254):
                row.append(row[-1] * base % self.square)
            table.append(row)
            base = row[-1] * base % self.square
        return table

    def encrypt_integer(self, message: int) -> Any:
        """Return a ciphertext of an integer modulo n."""
        result = 1 + message % self.n * self.n
        for row, byte in zip(self._table, secrets.token_bytes(EXPONENT_BYTES), strict=True):
            result = result * row[byte] % self.square
        return result

    def _encrypt(self, values: NDArray[np.float64], slots: int) -> list[Any]:
        integers = np.rint(np.ldexp(values, self.scheme.fraction)).astype(np.int64)
        padded = np.zeros(-(-len(integers) // slots) * slots, np.int64)
        padded[: len(integers)] = integers
        content = (padded.view(np.uint64) ^ _SIGN).astype("<u8").tobytes()  # the same as adding 2^63
        offset, width = _offset(slots), SLOT_BITS // 8 * slots
        starts = range(0, len(content), width)
        return [self.encrypt_integer(int.from_bytes(content[at : at + width], "little") - offset) for at in starts]

    def _add(self, item: Any, other: Any) -> Any:
        return item * other % self.square

    def _write(self, item: Any) -> bytes:
        return int(item).to_bytes(self._width)

    def _read(self, message: bytes, count: int) -> list[Any]:
        if len(message) != count * self._width:
            raise ValueError("its length is wrong")
        mpz = package("gmpy2").mpz
        items = [mpz(int.from_bytes(message[at : at + self._width])) for at in range(0, len(message), self._width)]
        if not all(0 < item < self.square for item in items):
            raise ValueError("a number is too large")
        return items

    def encrypt_pairs(self, g: ArrayLike, h: ArrayLike) -> Ciphertexts:
        """Return the encryption of gradients and second derivatives as [rows, 2], one ciphertext per row."""
        return self._packed(np.stack([np.asarray(g), np.asarray(h)], axis=1), slots=2)

    def sum_by_bin(
        self, pairs: Ciphertexts, bins: ArrayLike, n_bins: int, rows: NDArray[np.int64] | None = None
    ) -> Ciphertexts:
        """Return the sums of pairs by bin, as [bins, 2], or [features, bins, 2] for bins of several features.

        pairs: from `encrypt_pairs`.
        bins: the bin of each row, [rows] or [rows, features].
        rows: the numbers of the rows to add up, all of them by default.

        Each sum starts from a new encryption of zero. So the key holder, who knows the randomness of the pairs, cannot
        find out which rows are in a bin.
        """
        table, numbers = np.asarray(bins), np.arange(len(pairs.items)) if rows is None else np.asarray(rows)
        self._check_bins(pairs, table, n_bins)
        items, square = pairs.items, self.square
        terms = self.scheme.check_terms(max(1, pairs.terms * len(numbers)))
        columns = table[numbers].reshape(len(numbers), math.prod(table.shape[1:])).T.tolist()
        chosen = [items[row] for row in numbers.tolist()]
        with self.meter.step("encrypt", n_bins * len(columns)):
            sums = [[self.encrypt_integer(0) for _ in range(n_bins)] for _ in columns]
        with self.meter.step("add", len(chosen) * len(columns)):
            for totals, column in zip(sums, columns, strict=True):
                for place, item in zip(column, chosen, strict=True):
                    totals[place] = totals[place] * item % square
        shape = (*table.shape[1:], n_bins, 2)
        flat = tuple(item for totals in sums for item in totals)
        return Ciphertexts(flat, self, shape, 2, max(1, len(numbers)) * pairs.limit, terms)

    def _check_bins(self, pairs: Ciphertexts, bins: NDArray[Any], n_bins: int) -> None:
        if pairs.slots != 2 or len(pairs.items) != len(bins) or bins.ndim not in (1, 2):
            raise RunError(
                f"bins of shape {bins.shape} do not fit encrypted pairs of shape {pairs.shape}: give one bin, or one"
                " per feature, for each row of encrypt_pairs.",
                "",
            )
        if bins.size and not (bins.min() >= 0 and bins.max() < n_bins):
            raise RunError(f"bins are {bins.min()} to {bins.max()}, but they must be 0 to {n_bins - 1}.", "")

    def subtract(self, first: Ciphertexts, second: Ciphertexts) -> Ciphertexts:
        """Return the encryption of a difference, such as the histogram of a node less that of its left child.

        second: sums of some of the rows of `first`, so that the difference is a sum of rows and fits too.
        """
        self._check_same(first, second)
        invert, square = package("gmpy2").invert, self.square
        with self.meter.step("add", len(first.items)):
            pairs = zip(first.items, second.items, strict=True)
            items = tuple(item * invert(other, square) % square for item, other in pairs)
        return Ciphertexts(items, self, first.shape, first.slots, first.limit, first.terms)

    def gather(self, array: Ciphertexts) -> Ciphertexts:
        """Return the same array in fewer ciphertexts: as many values in each as fit.

        Fewer bytes and fewer decryptions are worth the work for sums by bin: moving a value by one slot takes 64
        multiplications, decrypting takes as long as 900 of them.
        """
        group = self.scheme.most_slots // array.slots
        shift, power = 1 << SLOT_BITS * array.slots, package("gmpy2").powmod
        items = []
        with self.meter.step("add", len(array.items)):
            for at in range(0, len(array.items), group):
                *rest, total = array.items[at : at + group]
                for item in reversed(rest):
                    total = power(total, shift, self.square) * item % self.square
                items.append(total)
        return Ciphertexts(tuple(items), self, array.shape, group * array.slots, array.limit, array.terms)


class PaillierSecret(SecretKey):
    """The key of the key holder: two primes p and q. It decrypts modulo p² and q² (Paillier 1999, section 7)."""

    def __init__(self, scheme: Paillier, p: int, q: int) -> None:
        gmpy2 = package("gmpy2")
        self._primes = (gmpy2.mpz(p), gmpy2.mpz(q))
        n = self._primes[0] * self._primes[1]
        square = n * n
        base = -(gmpy2.mpz(secrets.randbelow(int(n) - 2) + 2) ** 2) % n
        self.public: PaillierPublic = PaillierPublic(scheme, n, gmpy2.powmod(base, n, square))
        self._inverses = [gmpy2.invert(self._logarithm(1 + n, prime), prime) for prime in self._primes]
        self._joint = gmpy2.invert(self._primes[1], self._primes[0])

    def _logarithm(self, item: Any, prime: Any) -> Any:
        square = prime * prime
        return (package("gmpy2").powmod(item % square, prime - 1, square) - 1) // prime

    def _modulo(self, item: Any, which: int) -> Any:
        """Return the message modulo one of the primes."""
        prime = self._primes[which]
        return self._logarithm(item, prime) * self._inverses[which] % prime

    def decrypt_integer(self, item: Any, bits: int | None = None) -> int:
        """Return the integer of least magnitude; one of fewer than `bits` bits may need only half of the work."""
        p, q = self._primes
        if bits is not None and bits <= self.public.scheme.bits // 2 - 2:
            message, modulus = self._modulo(item, 0), p
        else:
            low, modulus = self._modulo(item, 1), p * q
            message = low + q * ((self._modulo(item, 0) - low) * self._joint % p)
        return int(message if 2 * message < modulus else message - modulus)

    def _decrypt(self, items: Sequence[Any], slots: int, size: int) -> NDArray[np.float64]:
        offset, width = _offset(slots), SLOT_BITS // 8 * slots
        numbers = [self.decrypt_integer(item, SLOT_BITS * slots) + offset for item in items]
        if any(number < 0 or number >> 8 * width for number in numbers):
            raise ValueError("a number does not fit the slots")
        content = b"".join(number.to_bytes(width, "little") for number in numbers)
        integers = (np.frombuffer(content, "<u8").astype(np.uint64) ^ _SIGN).view(np.int64)[:size]
        return np.ldexp(integers.astype(np.float64), -self.public.scheme.fraction)

    def decrypt_pairs(self, sums: Ciphertexts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums of gradients and of second derivatives, each with the shape of the sums but the last axis."""
        pairs = self.decrypt(sums)
        return pairs[..., 0], pairs[..., 1]
