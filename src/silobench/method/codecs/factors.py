"""Matrices as products of two thin factors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form
from silobench.method.codecs.dense import DENSE
from silobench.spec.ranges import Count, CountOrZero

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@CODECS.register
def factors(shapes: Shapes, rank: Count = 3, seed: CountOrZero = 0) -> Codec:
    """Send each matrix of a vector as two factors of this rank, and its other tensors as they are.

    `shapes` are those of the tensors that the vector consists of. A tensor of two or more dimensions is a matrix of
    shape[0] rows; where its factors are not shorter, it is sent as it is. The left factor is an orthonormal basis from
    one power iteration, which starts from `seed`; the receiver needs no seed. A matrix with an entry that is not finite
    arrives as not-a-number.
    """
    return Factoring.of(shapes, rank).codec(seed)


class Matrix(NamedTuple):
    """A part of a vector that is sent as two factors."""

    start: int
    rows: int
    columns: int
    rank: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    def view(self, flat: Tensor) -> Tensor:
        return flat[self.start : self.stop].view(self.rows, self.columns)


@dataclass(frozen=True)
class Factoring:
    """The matrices of a vector that are sent as factors, and the number of entries of the vector."""

    matrices: tuple[Matrix, ...]
    size: int

    @classmethod
    def of(cls, shapes: Sequence[Sequence[int]], rank: int) -> "Factoring":
        """Return the matrices of tensors with these shapes that are shorter as factors."""
        matrices, start = list[Matrix](), 0
        for shape in shapes:
            rows, columns = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (0, 0)
            if rank * (rows + columns) < rows * columns:
                matrices.append(Matrix(start, rows, columns, rank))
            start += math.prod(shape)
        return cls(tuple(matrices), start)

    def sketches(self, seed: int) -> list[Tensor]:
        """Return random matrices to start from: one column per rank, as many rows as the matrix has columns."""
        normal = np.random.Generator(np.random.PCG64(seed)).standard_normal
        return [torch.from_numpy(normal((each.columns, each.rank), np.float32)) for each in self.matrices]

    def bases(self, flat: Tensor, sketches: Sequence[Tensor]) -> list[Tensor]:
        """Return the left factors: an orthonormal basis of each matrix times its sketch."""
        return [
            _orthonormal(each.view(flat) @ sketch.to(flat.dtype))
            for each, sketch in zip(self.matrices, sketches, strict=True)
        ]

    def projections(self, flat: Tensor, bases: Sequence[Tensor]) -> list[Tensor]:
        """Return the right factors: each transposed matrix times its left factor."""
        rows = (basis.T.contiguous() for basis in bases)  # products of few rows are several times as fast
        return [(row @ each.view(flat)).T for each, row in zip(self.matrices, rows, strict=True)]

    def codec(self, seed: int = 0, bases: Sequence[Tensor] | None = None) -> Codec:
        """Return the codec; without `bases` it computes left factors for each part that it packs."""
        return _codec(_Factors(self, seed, bases))


@dataclass(frozen=True, eq=False)
class _Factors:
    plan: Factoring
    seed: int
    bases: Sequence[Tensor] | None
    values: Codec = field(default=DENSE)

    def pack(self, part: Array) -> Content:
        flat = torch.from_numpy(part.reshape(-1))
        bases = self.plan.bases(flat, self.plan.sketches(self.seed)) if self.bases is None else self.bases
        pairs = zip(bases, self.plan.projections(flat, bases), strict=True)
        thin = [factor.reshape(-1) for pair in pairs for factor in _balanced(*pair)]
        whole = [flat[start:stop] for start, stop in self._others()]
        return self.values.pack(torch.cat([*thin, *whole, flat[:0]]).numpy())

    def unpack(self, content: Content, form: Form) -> Array:
        others, matrices = self._others(), self.plan.matrices
        thin = sum(each.rank * (each.rows + each.columns) for each in matrices)
        length = thin + sum(stop - start for start, stop in others)
        values, place = torch.from_numpy(np.array(self.values.unpack(content, Form((length,), form.dtype)))), 0
        flat = torch.empty(form.size, dtype=values.dtype)
        for each in matrices:
            middle, end = place + each.rows * each.rank, place + each.rank * (each.rows + each.columns)
            left, right = values[place:middle].view(-1, each.rank), values[middle:end].view(-1, each.rank)
            torch.matmul(left, right.T, out=each.view(flat))
            place = end
        for start, stop in others:
            flat[start:stop] = values[place : place + stop - start]
            place += stop - start
        return flat.numpy().reshape(form.shape)

    def around(self, values: Codec) -> Codec:
        """Return the codec with factors packed by another."""
        return replace(_codec(replace(self, values=values)), values=None)

    def _others(self) -> list[tuple[int, int]]:
        """Return start and stop of what lies between the matrices."""
        starts = [0, *(each.stop for each in self.plan.matrices)]
        stops = [*(each.start for each in self.plan.matrices), self.plan.size]
        return [(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]


def _orthonormal(columns: Tensor) -> Tensor:
    """Return an orthonormal basis that spans the columns; not-a-number where they are not finite.

    It is computed in double precision, in which the squares of all numbers of single precision are normal numbers.
    """
    if not columns.isfinite().all():
        return torch.full_like(columns, torch.nan)
    basis: Tensor = torch.linalg.qr(columns.double())[0]
    return basis.to(columns.dtype)


def _balanced(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return two factors of about the same magnitude, so that a codec that rounds values treats them alike.

    They are scaled by powers of two, so that their product stays as it is.
    """
    ratio = float(right.abs().max()) / float(left.abs().max())
    if not 0 < ratio < math.inf:
        return left, right
    scale = 2.0 ** (math.frexp(ratio)[1] // 2)
    return left * scale, right / scale


def _codec(factors: _Factors) -> Codec:
    return Codec(factors.pack, factors.unpack, values=factors.around)
