"""The compiled step as Python calls it: arrays in, arrays out. Needs NumPy alone, so that a process can check it alone.

A call releases the interpreter's lock: several threads train several parties at the same time, on the same rows.
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
    1: "the network's shape is none that it knows",
    2: "a row number lies outside the rows",
    3: "a label lies outside the classes",
    4: "a column lies outside the network's inputs",
    5: "memory does not suffice",
    6: "a batch is empty, or an image's window lies outside it",
}
_KINDS = {"uint8": 0, "float32": 1}
_SPARSE = 2
_LONG, _INT, _SHIFT, _FLOAT = (np.dtype(kind) for kind in (np.int64, np.int32, np.int8, np.float32))


class KernelError(RuntimeError):
    """The native step refused a call."""


@dataclass(frozen=True)
class Shape:
    """A network: NIID-Bench's convolutions before dense layers if there are `pictures`, else dense layers alone."""

    widths: tuple[int, ...]  # from the inputs of the first dense layer to the classes
    pictures: tuple[int, int, int] | None = None  # channels, height, width
    padding: int = 0


@dataclass(frozen=True)
class Rows:
    """Features and labels: dense rows of bytes or float32, or sparse ones (values, columns, begins) as in CSR."""

    x: NDArray[Any] | tuple[Floats, NDArray[np.int32], NDArray[np.int32]]
    labels: Longs

    @cached_property
    def told(self) -> "_Rows":
        """The same as the library reads it, checked once."""
        labels, count = _at(self.labels, _LONG), len(self.labels)
        if isinstance(self.x, tuple):
            values, columns, begins = self.x
            if len(begins) != count + 1 or len(values) != len(columns):
                raise KernelError("sparse rows, their columns and labels are not as many.")
            places = _at(values, _FLOAT), _at(columns, _INT), _at(begins, _INT)
            return _Rows(_SPARSE, count, len(values), *places, labels)
        if self.x.dtype.name not in _KINDS:
            raise KernelError(f"rows of {self.x.dtype} were given, and bytes or float32 are needed.")
        return _Rows(_KINDS[self.x.dtype.name], count, 0, _at(self.x, self.x.dtype), None, None, labels)


@dataclass(frozen=True)
class Walk:
    """The rows of all batches in their order, the batches' sizes, how pictures are shifted (down, right, mirrored)."""

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


class Kernel:
    """A compiled library. `train` and `score` are the whole of it."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self._train, self._score = library.silobench_train, library.silobench_score
        self._train.argtypes = [ctypes.c_void_p] * 7
        self._score.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] + [ctypes.c_void_p] * 3
        self.lanes = int(library.silobench_lanes())

    def train(
        self, shape: Shape, rows: Rows, walk: Walk, rule: Rule, params: Floats, velocity: Floats | None = None
    ) -> float:
        """Train `params` (and bring up `velocity`, if given) in place; gives the mean loss of the steps."""
        loss, sizes = ctypes.c_double(), (ctypes.c_int64 * len(walk.sizes))(*walk.sizes)
        told = _Walk(_at(walk.order, _LONG), ctypes.addressof(sizes), len(sizes), _at(walk.windows, _SHIFT))
        if walk.windows is not None and shape.pictures is None:
            raise KernelError("only pictures can be seen through shifted windows.")
        visits = sum(walk.sizes)
        if walk.order.size != visits or (walk.windows is not None and walk.windows.size != 3 * visits):
            raise KernelError("the sizes of the batches do not add up to the rows that are visited.")
        vectors = (params, velocity, rule.anchor, rule.linear, rule.drift)
        params_at, velocity_at, *pulls = (_vector(vector, parameters(shape)) for vector in vectors)
        network, own = _network(shape), _rows(rows, shape)
        ruled = _Rule(rule.lr, rule.momentum, rule.decay, rule.strength if pulls[0] else 0.0, *pulls)
        if rule.strength and rule.anchor is None:  # a pull to the origin is a decay
            ruled.decay += rule.strength
        pointers = (ctypes.byref(told), ctypes.byref(ruled), params_at, velocity_at, ctypes.byref(loss))
        _check(self._train(ctypes.byref(network), ctypes.byref(own), *pointers))
        return loss.value / max(1, len(sizes))

    def score(self, shape: Shape, rows: Rows, order: Longs, params: Floats) -> tuple[Longs, float]:
        """How many rows of each class a model gets right, among some, and the sum of its losses on them."""
        hits, loss = np.zeros(shape.widths[-1], np.int64), ctypes.c_double()
        network, own, place = _network(shape), _rows(rows, shape), _vector(params, parameters(shape))
        results = _at(hits, _LONG), ctypes.byref(loss)
        given = ctypes.byref(network), ctypes.byref(own), _at(order, _LONG), order.size, place
        _check(self._score(*given, *results))
        return hits, loss.value


class _Network(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("channels", "height", "width", "padding", "layers")),
        ("widths", ctypes.c_void_p),
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


@cache
def _network(shape: Shape) -> _Network:
    widths = (ctypes.c_int32 * len(shape.widths))(*shape.widths)
    made = _Network(*(shape.pictures or (0, 0, 0)), shape.padding, len(widths) - 1, ctypes.addressof(widths))
    made.kept = widths  # as long as the structure
    return made


@cache
def parameters(shape: Shape) -> int:
    """The numbers of a network.

    >>> parameters(Shape((784, 10)))
    7850
    """
    dense = sum(a * b + b for a, b in zip(shape.widths, shape.widths[1:], strict=False))
    return dense if shape.pictures is None else dense + 6 * (25 * shape.pictures[0] + 1) + 16 * (25 * 6 + 1)


def _rows(rows: Rows, shape: Shape) -> _Rows:
    width = shape.widths[0] if shape.pictures is None else math.prod(shape.pictures)
    if isinstance(rows.x, np.ndarray) and rows.x.size != rows.told.count * width:
        raise KernelError(f"rows of shape {rows.x.shape} were given, and {rows.told.count} of {width} asked for.")
    return rows.told


def _vector(vector: Floats | None, size: int) -> int | None:
    if vector is not None and vector.size != size:
        raise KernelError(f"a vector of {vector.size} numbers was given for a model of {size}.")
    return _at(vector, _FLOAT)


def _at(array: NDArray[Any] | None, dtype: np.dtype[Any]) -> int | None:
    if array is None:
        return None
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise KernelError(f"an array of {array.dtype} was given where {dtype}, contiguous, is needed.")
    return int(array.__array_interface__["data"][0])


def _check(status: int) -> None:
    if status:
        raise KernelError(f"the native step refused: {_REFUSALS.get(status, f'code {status}')}.")
