"""Additive encryption of arrays: what a scheme is, who holds which key, and what crosses the network.

    scheme = Ckks()                             # or Paillier(); parameters only, so it can be stored and compared
    secret = scheme.generate()                  # at the key holder
    public = scheme.read_key(secret.public.to_bytes())      # at everybody else
    total = public.encrypt(mine) + public.read(message)     # a message is the bytes of `Ciphertexts.to_bytes`
    secret.decrypt(total)                       # the sum, within `scheme.precision * total.terms`

A key is never written into a checkpoint or a record: pickling it fails. Ciphertexts refer to their key, so they cannot
be pickled either; `to_bytes` is their form on the network.

Everybody is taken to follow the protocol (honest but curious). Anyone can change an additive ciphertext so that it
decrypts to another value, and no signature is attached that would reveal it.
"""

import hashlib
import importlib
import math
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from silobench.errors import ConfigError, RunError

_HEADER = struct.Struct(">4s8sIdIHBB")  # scheme, key, ciphertexts, limit, terms, slots, depth, dimensions
_MOST_DIMENSIONS = 8
MOST_TERMS = 2**32 - 1  # that a header can name


def package(name: str) -> Any:
    """Return an optional package, or raise one sentence that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"encryption needs the package {name}, which is not installed: install it with"
            " pip install 'silobench[encryption]'."
        ) from error


class Meter:
    """Seconds and numbers of ciphertexts by step: encrypt, add, multiply, decrypt, serialise.

    clock: returns seconds; wall-clock time by default.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self.ciphertexts: dict[str, int] = {}

    @contextmanager
    def step(self, name: str, ciphertexts: int) -> Iterator[None]:
        """Add the time of a block to a step."""
        start = self._clock()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - start
        self.ciphertexts[name] = self.ciphertexts.get(name, 0) + ciphertexts

    def clear(self) -> None:
        """Start again from zero."""
        self.seconds.clear()
        self.ciphertexts.clear()


@dataclass(frozen=True)
class Scheme(ABC):
    """Parameters of an additive encryption.

    range: the largest magnitude of a value that is encrypted; larger ones are refused.
    """

    tag: ClassVar[bytes]  # four bytes that name the scheme on the network
    range: float = 1024.0

    def __post_init__(self) -> None:
        if not 0 < self.range < math.inf:
            raise ConfigError(f"range={self.range} of an encryption must be positive and finite: choose such a number.")

    @property
    @abstractmethod
    def values_per_ciphertext(self) -> int:
        """How many values share a ciphertext."""

    @property
    @abstractmethod
    def precision(self) -> float:
        """The largest absolute error of a value within the range; a sum of n values has n times this error."""

    @property
    @abstractmethod
    def most_terms(self) -> int:
        """How many arrays can be added without overflow."""

    @abstractmethod
    def generate(self) -> "SecretKey":
        """Return a new key from the operating system's random numbers."""

    @abstractmethod
    def read_key(self, message: bytes) -> "PublicKey":
        """Return the public key that `PublicKey.to_bytes` wrote."""

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return values as float64; refuse those that are not finite or beyond the range."""
        array = np.asarray(values, np.float64)
        outside = array[~(np.abs(array) <= self.range)]  # true for NaN too
        if outside.size:
            raise RunError(
                f"a value is {outside.flat[0]:.6g}, but the encryption is set up for magnitudes up to"
                f" {self.range:.6g}: clip the values, or raise the range of the encryption.",
                "",
            )
        if array.ndim > _MOST_DIMENSIONS:
            raise RunError(f"an array has {array.ndim} dimensions, but at most {_MOST_DIMENSIONS} are possible.", "")
        return array

    def check_terms(self, terms: int) -> int:
        """Return a number of terms; refuse more than fit without overflow."""
        if terms > self.most_terms:
            raise RunError(
                f"a sum under encryption has {terms} terms, but {self.most_terms} fit with range={self.range:g}:"
                " lower the range, or set up the encryption for more terms.",
                "",
            )
        return terms


class _Unstored:
    """A key, or a value that refers to one: it has no stored form."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("keys of an encryption, and arrays that refer to them, are never stored: use to_bytes.")


@dataclass(frozen=True, eq=False)
class Ciphertexts(_Unstored):
    """An encrypted array, or a sum of several.

    slots: values in each ciphertext, in the order of the flat array.
    limit: the largest magnitude that a value can have.
    terms: how many encrypted arrays were added up. The error grows with it, and a scheme limits it.
    depth: how many times the array was multiplied by plain numbers, 0 or 1. Only arrays of one depth can be added.
    """

    items: tuple[Any, ...]
    key: "PublicKey"
    shape: tuple[int, ...]
    slots: int
    limit: float
    terms: int = 1
    depth: int = 0

    def __add__(self, other: "Ciphertexts") -> "Ciphertexts":
        return self.key.add(self, other)

    @cached_property
    def _message(self) -> bytes:
        return self.key.write(self)

    def to_bytes(self) -> bytes:
        """Return the form on the network, with the array's shape and the mark of the key."""
        return self._message

    @property
    def nbytes(self) -> int:
        """Bytes on the network."""
        return len(self._message)


class PublicKey(_Unstored, ABC):
    """What everybody may know: it encrypts and adds."""

    scheme: Scheme

    def __init__(self) -> None:
        self.meter = Meter()

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the key for the network."""

    @abstractmethod
    def _encrypt(self, values: NDArray[np.float64], slots: int) -> list[Any]:
        """Return ciphertexts of flat, checked values, with `slots` of them in each."""

    @abstractmethod
    def _add(self, item: Any, other: Any) -> Any:
        """Return the ciphertext of a sum."""

    @abstractmethod
    def _write(self, item: Any) -> bytes:
        """Return one ciphertext as bytes."""

    @abstractmethod
    def _read(self, message: bytes, count: int) -> list[Any]:
        """Return `count` ciphertexts that stand one behind the other; raise ValueError for anything else."""

    @cached_property
    def mark(self) -> bytes:
        """Eight bytes that tell keys apart."""
        return hashlib.sha256(self.to_bytes()).digest()[:8]

    def encrypt(self, values: ArrayLike) -> Ciphertexts:
        """Return the encryption of an array of any shape, packed densely."""
        return self._packed(values, self.scheme.values_per_ciphertext)

    def _packed(self, values: ArrayLike, slots: int) -> Ciphertexts:
        array = self.scheme.check_values(values)
        with self.meter.step("encrypt", -(-array.size // slots)):
            items = self._encrypt(array.ravel(), slots)
        return Ciphertexts(tuple(items), self, array.shape, slots, self.scheme.range)

    def add(self, first: Ciphertexts, second: Ciphertexts) -> Ciphertexts:
        """Return the encryption of a sum of two arrays."""
        self._check_same(first, second)
        limit, terms = first.limit + second.limit, self.scheme.check_terms(first.terms + second.terms)
        self._check_limit(limit, first.depth)
        with self.meter.step("add", len(first.items)):
            items = tuple(map(self._add, first.items, second.items))
        return Ciphertexts(items, self, first.shape, first.slots, limit, terms, first.depth)

    def _check_limit(self, limit: float, depth: int) -> None:
        """Refuse a magnitude that does not fit; the number of terms bounds it, unless arrays were multiplied."""

    def _check_same(self, first: Ciphertexts, second: Ciphertexts) -> None:
        if not first.key.mark == second.key.mark == self.mark:
            raise RunError("two arrays are encrypted with different keys: encrypt them with one key to add them.", "")
        forms = [(one.shape, one.slots, one.depth) for one in (first, second)]
        if forms[0] != forms[1]:
            raise RunError(
                "encrypted arrays of (shape, values per ciphertext, depth) {} and {} cannot be added: encrypt arrays of"
                " one shape in one way.".format(*forms),
                "",
            )

    def write(self, ciphertexts: Ciphertexts) -> bytes:
        """Return ciphertexts as bytes."""
        with self.meter.step("serialise", len(ciphertexts.items)):
            return b"".join([self._header(ciphertexts), *map(self._write, ciphertexts.items)])

    def _header(self, array: Ciphertexts) -> bytes:
        numbers = (len(array.items), array.limit, array.terms, array.slots, array.depth, len(array.shape))
        return _HEADER.pack(self.scheme.tag, self.mark, *numbers) + struct.pack(f">{len(array.shape)}I", *array.shape)

    def read(self, message: bytes) -> Ciphertexts:
        """Return the ciphertexts that `Ciphertexts.to_bytes` wrote; refuse damaged ones and those of another key."""
        try:
            tag, mark, count, limit, terms, slots, depth, dimensions = _HEADER.unpack_from(message)
            shape = struct.unpack_from(f">{dimensions}I", message, _HEADER.size)
            if (tag, mark) != (self.scheme.tag, self.mark):
                raise ValueError("it has the mark of another key")
            if not slots or count != -(-math.prod(shape) // slots):
                raise ValueError("the number of ciphertexts does not fit the shape")
            with self.meter.step("serialise", count):
                items = self._read(message[_HEADER.size + 4 * dimensions :], count)
        except (ValueError, struct.error) as error:
            raise RunError(
                f"a message of {len(message)} bytes is not an encrypted array for this key ({error}): send it again.",
                "",
            ) from error
        return Ciphertexts(tuple(items), self, shape, slots, limit, self.scheme.check_terms(terms), depth)


class SecretKey(_Unstored, ABC):
    """What only the key holder has: it decrypts. `public` is the key for everybody else."""

    public: PublicKey

    @abstractmethod
    def _decrypt(self, items: Sequence[Any], slots: int, size: int) -> NDArray[np.float64]:
        """Return `size` flat values; raise ValueError where a ciphertext holds something else than values."""

    def decrypt(self, ciphertexts: Ciphertexts) -> NDArray[np.float64]:
        """Return the array, or the sum; refuse ciphertexts that this key cannot decrypt.

        Ciphertexts that were damaged, or encrypted with another key, decrypt to noise far beyond the range. That is
        noticed almost always. Ciphertexts that somebody changed on purpose are not.
        """
        size = math.prod(ciphertexts.shape)
        with self.public.meter.step("decrypt", len(ciphertexts.items)):
            try:
                values = self._decrypt(ciphertexts.items, ciphertexts.slots, size)
                if values.size and not np.abs(values).max() <= 2 * ciphertexts.limit + 1:  # room for errors
                    raise ValueError("values are beyond the range")
            except ValueError as error:
                raise RunError(
                    "ciphertexts do not decrypt to values within the range: they are damaged, or were encrypted with"
                    " another key.",
                    "",
                ) from error
        return values.reshape(ciphertexts.shape)
