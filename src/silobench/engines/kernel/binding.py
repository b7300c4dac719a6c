"""Call the compiled step from Python: arrays in, arrays out. Needs only NumPy, so that the self-test starts fast.

A call releases the interpreter's lock: threads can train several parties at the same time, on the same rows.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Longs: TypeAlias = NDArray[np.int64]

_REFUSALS = {
    1: "it does not support the network's shape",
    2: "a row number is out of range",
    3: "a label is not below the number of classes",
    4: "a column is not below the network's inputs",
    5: "there is not enough memory",
    6: "a batch is empty, or a window is shifted by more than 64 pixels",
}
_KINDS = {"uint8": 0, "float32": 1}
_SPARSE = 2
_LONG, _INT, _SHIFT, _FLOAT, _WORD = map(np.dtype, (np.int64, np.int32, np.int8, np.float32, np.uint32))


class KernelError(RuntimeError):
    """The native step refused a call."""


@dataclass(frozen=True)
class Shape:
    """A network: dense layers, after NIID-Bench's two convolutions if there are `pictures`."""

    widths: tuple[int, ...]  # from the inputs of the first dense layer to the classes
    pictures: tuple[int, int, int] | None = None  # channels, height, width
    padding: int = 0


@dataclass(frozen=True)
class Rows:
    """Features and labels: dense rows of bytes or float32, or CSR arrays (values, columns, begins)."""

    x: NDArray[Any] | tuple[Floats, NDArray[np.int32], NDArray[np.int32]]
    labels: Longs

    @cached_property
    def structure(self) -> "_Rows":
        """The C structure of these rows, checked once."""
        labels, count = _at(self.labels, _LONG), len(self.labels)
        if isinstance(self.x, tuple):
            values, columns, begins = self.x
            if len(begins) != count + 1 or len(values) != len(columns):
                raise KernelError(
                    f"{count} sparse rows need {count + 1} begins and as many columns as values, but "
                    f"{len(begins)} begins, {len(columns)} columns and {len(values)} values were given."
                )
            places = _at(values, _FLOAT), _at(columns, _INT), _at(begins, _INT)
            return _Rows(_SPARSE, count, len(values), *places, labels)
        kind = _KINDS.get(self.x.dtype.name)
        if kind is None:
            raise KernelError(f"rows must be uint8 or float32, but {self.x.dtype} was given.")
        return _Rows(kind, count, 0, _at(self.x, self.x.dtype), None, None, labels)


@dataclass(frozen=True)
class Walk:
    """The rows of all batches in order, the batch sizes, and how pictures are shifted (down, right, mirrored)."""

    order: Longs
    sizes: Sequence[int]
    windows: NDArray[np.int8] | None = None


@dataclass(frozen=True)
class Rule:
    """v ← momentum v + gradient + decay w + strength (w - anchor) + linear, then w ← w - lr (v + drift)."""

    lr: float
    momentum: float = 0.0
    decay: float = 0.0
    strength: float = 0.0
    anchor: Floats | None = None
    linear: Floats | None = None
    drift: Floats | None = None


@dataclass(frozen=True)
class Passes:
    """How often parties visit their rows: `epochs` times in random order, up to `batch` rows in a step.

    The random stream of a party has the words in `key` and then the number of the party, as in `silobench.rng`.
    """

    key: NDArray[np.uint32]
    epochs: int
    batch: int


PARTY = np.dtype(
    [
        ("rows", np.uintp),  # address of its row numbers
        *((name, np.int64) for name in ("count", "number", "status", "steps")),
        ("loss", np.float64),  # mean over its steps
        ("seconds", np.float64),
    ]
)
"""A party of a batch. All but the first three fields are results."""


class PartyError(KernelError):
    """The native step refused the party at this place of a batch."""

    def __init__(self, place: int, status: int) -> None:
        super().__init__(_refusal(status))
        self.place = place


class Kernel:
    """A compiled library that trains and tests networks. Its vectors of parameters are in PyTorch's order.

    `reorder` brings vectors into the order of the native step; with `reordered` calls use these as they are.
    """

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self._train, self._score = library.silobench_train, library.silobench_score
        self._train.argtypes = [ctypes.c_void_p] * 7
        self._score.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] + [ctypes.c_void_p] * 3
        self._train_batch, self._order = library.silobench_train_batch, library.silobench_order
        pointer, number, answer = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        self._train_batch.argtypes = [*[pointer] * 6, number, number, answer, pointer]
        self._order.argtypes = [pointer, number, pointer, number, number, pointer]
        self._order.restype = None
        self._reorder = library.silobench_reorder
        self._reorder.restype = ctypes.c_int64
        self._reorder.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int32]
        self.lanes = int(library.silobench_lanes())

    def size(self, shape: Shape) -> int:
        """Return how many numbers a reordered vector has; lines are padded to whole vectors of the processor."""
        size = int(self._reorder(ctypes.byref(_network(shape)), None, None, 0))
        if not size:
            raise KernelError("the parameters of a network with pictures cannot be reordered.")
        return size

    def reorder(self, shape: Shape, flat: Floats, ordered: Floats, back: bool = False) -> None:
        """Fill `ordered` from `flat`, which is in PyTorch's order, except for the padding; or `flat` from it."""
        flat_at, ordered_at = _vector(flat, parameters(shape)), _vector(ordered, self.size(shape))
        self._reorder(ctypes.byref(_network(shape)), flat_at, ordered_at, not back)

    def train(
        self,
        shape: Shape,
        rows: Rows,
        walk: Walk,
        rule: Rule,
        params: Floats,
        velocity: Floats | None = None,
        reordered: bool = False,
    ) -> float:
        """Train `params` (and update `velocity`, unless None) in place; return the mean loss of the steps."""
        loss, sizes = ctypes.c_double(), (ctypes.c_int64 * len(walk.sizes))(*walk.sizes)
        steps = _Walk(_at(walk.order, _LONG), ctypes.addressof(sizes), len(sizes), _at(walk.windows, _SHIFT))
        if walk.windows is not None and shape.pictures is None:
            raise KernelError("windows were given, but only a network with pictures can shift its inputs.")
        visits = sum(walk.sizes)
        if walk.order.size != visits or (walk.windows is not None and walk.windows.size != 3 * visits):
            raise KernelError(
                f"batch sizes add up to {visits}, but {walk.order.size} rows (or not three shifts per row) were given."
            )
        vectors = (params, velocity, rule.anchor, rule.linear, rule.drift)
        size = self.size(shape) if reordered else parameters(shape)
        params_at, velocity_at, *pulls = (_vector(vector, size) for vector in vectors)
        network, row_data, step = _network(shape, reordered), _rows(rows, shape), _step(rule, pulls)
        pointers = (ctypes.byref(steps), ctypes.byref(step), params_at, velocity_at, ctypes.byref(loss))
        _check(self._train(ctypes.byref(network), ctypes.byref(row_data), *pointers))
        return loss.value / max(1, len(sizes))

    def train_batch(
        self,
        shape: Shape,
        rows: Rows,
        passes: Passes,
        rule: Rule,
        start: Floats,
        parties: NDArray[np.void],
        threads: int = 1,
        total: Floats | None = None,
    ) -> Floats:
        """Train parties (an array of `PARTY`) from `start`; return the sum of their changes, weighted by their rows.

        Dense rows and networks without pictures only. Parties are added in their order, to `total` unless it is None;
        the number of threads does not affect the bits. Their losses and seconds are written to `parties`.
        """
        if parties.dtype != PARTY or not parties.flags.c_contiguous:
            raise KernelError("a contiguous array of parties is needed.")
        size, is_first = parameters(shape), total is None
        pulls = [_vector(vector, size) for vector in (rule.anchor, rule.linear, rule.drift)]
        total = np.empty(size, np.float32) if total is None else total
        visits = _Passes(_at(passes.key, _WORD), len(passes.key), passes.epochs, passes.batch)
        network, row_data, step = _network(shape), _rows(rows, shape), _step(rule, pulls)
        inputs = (ctypes.byref(each) for each in (network, row_data, visits, step))
        outputs = parties.ctypes.data, len(parties), threads, is_first, _vector(total, size)
        status = self._train_batch(*inputs, _vector(start, size), *outputs)
        if status and parties["status"].any():
            place = int(np.flatnonzero(parties["status"])[0])
            raise PartyError(place, int(parties["status"][place]))
        _check(status)
        return total

    def order(self, key: NDArray[np.uint32], rows: Longs, passes: int = 1) -> Longs:
        """Return rows in random order, once for each pass: what `Generator.permutation` of NumPy draws from a key."""
        order = np.empty(len(rows) * passes, np.int64)
        self._order(_at(key, _WORD), len(key), _at(rows, _LONG), len(rows), passes, _at(order, _LONG))
        return order

    def score(
        self, shape: Shape, rows: Rows, order: Longs, params: Floats, reordered: bool = False
    ) -> tuple[Longs, float]:
        """Return how many of the rows in `order` are classified correctly, by class, and the sum of their losses."""
        hits, loss = np.zeros(shape.widths[-1], np.int64), ctypes.c_double()
        params_at = _vector(params, self.size(shape) if reordered else parameters(shape))
        network, row_data = _network(shape, reordered), _rows(rows, shape)
        inputs = ctypes.byref(network), ctypes.byref(row_data), _at(order, _LONG), order.size, params_at
        _check(self._score(*inputs, _at(hits, _LONG), ctypes.byref(loss)))
        return hits, loss.value


class _Network(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("channels", "height", "width", "padding", "layers")),
        ("widths", ctypes.c_void_p),
        ("reordered", ctypes.c_int32),
    ]


class _Rows(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("count", ctypes.c_int64),
        ("entries", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("values", "columns", "begins", "labels")),
    ]


class _Walk(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("steps", ctypes.c_int64),
        ("windows", ctypes.c_void_p),
    ]


class _Rule(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_float) for name in ("lr", "momentum", "decay", "strength")),
        *((name, ctypes.c_void_p) for name in ("anchor", "linear", "drift")),
    ]


class _Passes(ctypes.Structure):
    _fields_ = [("key", ctypes.c_void_p), *((name, ctypes.c_int64) for name in ("words", "epochs", "batch"))]


def _step(rule: Rule, pulls: Sequence[int | None]) -> _Rule:
    """Return the C structure of a rule; `pulls` are the addresses of its anchor, linear term and drift."""
    step = _Rule(rule.lr, rule.momentum, rule.decay, rule.strength if pulls[0] else 0.0, *pulls)
    if rule.strength and rule.anchor is None:  # a pull to the origin is a decay
        step.decay += rule.strength
    return step


@cache
def _network(shape: Shape, reordered: bool = False) -> _Network:
    widths = (ctypes.c_int32 * len(shape.widths))(*shape.widths)
    layers = len(widths) - 1, ctypes.addressof(widths)
    network = _Network(*(shape.pictures or (0, 0, 0)), shape.padding, *layers, reordered)
    network.owner = widths  # its memory must live as long as the structure that points to it
    return network


@cache
def parameters(shape: Shape) -> int:
    """Return the number of parameters of a network.

    >>> parameters(Shape((784, 10)))
    7850
    """
    dense = sum(a * b + b for a, b in zip(shape.widths, shape.widths[1:], strict=False))
    return dense if shape.pictures is None else dense + 6 * (25 * shape.pictures[0] + 1) + 16 * (25 * 6 + 1)


def _rows(rows: Rows, shape: Shape) -> _Rows:
    width = shape.widths[0] if shape.pictures is None else math.prod(shape.pictures)
    if isinstance(rows.x, np.ndarray) and rows.x.size != rows.structure.count * width:
        needed = rows.structure.count, width
        raise KernelError(f"rows must have the shape {needed}, but {rows.x.shape} was given.")
    return rows.structure


def _vector(vector: Floats | None, size: int) -> int | None:
    if vector is not None and vector.size != size:
        raise KernelError(f"the model has {size} parameters, but a vector of {vector.size} was given.")
    return _at(vector, _FLOAT)


def _at(array: NDArray[Any] | None, dtype: np.dtype[Any]) -> int | None:
    if array is None:
        return None
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise KernelError(f"a contiguous array of {dtype} is needed, but one of {array.dtype} was given.")
    return int(array.__array_interface__["data"][0])


def _check(status: int) -> None:
    if status:
        raise KernelError(_refusal(status))


def _refusal(status: int) -> str:
    return f"the native step refused the call: {_REFUSALS.get(status, f'code {status}')}."
