"""`Federation`: a dataset cut by a partition. The rows stay in memory once; a party is a list of row numbers."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.data.augment import crop_and_flip
from silobench.data.dataset import Dataset, Features
from silobench.errors import ConfigError
from silobench.partitions import Partition
from silobench.partitions import partition as cut
from silobench.rng import stream

_EVALUATION_NUMBERS = 1 << 19  # of a batch: more leave the processor's cache
_EVALUATION_ROWS = (500, 8000)  # of a batch, at least and at most


@dataclass(frozen=True)
class Party:
    """One silo: its training rows and the rows it keeps aside for validation."""

    id: int
    rows: Tensor  # [n] int64, into the federation's features
    validation: Tensor
    name: str

    @cached_property
    def samples(self) -> int:
        return len(self.rows)

    @cached_property
    def order_of_pass(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        """By (seed, pass), the order in which its rows are visited; only that asked for last."""
        return {}


@dataclass(frozen=True)
class Part:
    """Some rows to score a network on: of a copy of the test set, or (None) of the training rows."""

    rows: Tensor
    copy: int | None


@dataclass(frozen=True)
class Federation:
    """Parties over one shared array of rows.

    >>> from silobench.data import digits
    >>> federation = federate(digits(), "label-count(k=2)", parties=10, seed=0)
    >>> [party.samples for party in federation.parties][:3]
    [96, 193, 117]
    """

    dataset: Dataset
    partition: Partition
    seed: int
    parties: tuple[Party, ...] = field(repr=False)

    @cached_property
    def x(self) -> "Tensor | sparse.csr_matrix":
        """All training rows, seen through the parties' noise where there is any."""
        x = self.dataset.train.x
        if self.partition.noise:
            x = _dense_float(x)
            for party, (rows, deviation) in enumerate(zip(self.partition.rows, self.partition.noise, strict=True)):
                x[rows] += deviation * _standard_normal(x[rows].shape, self.seed, party)
        return _narrow(x) if sparse.issparse(x) else torch.from_numpy(np.ascontiguousarray(x))

    @property
    def is_sparse(self) -> bool:
        """Whether `x` is a CSR matrix; noise makes it dense."""
        return sparse.issparse(self.dataset.train.x) and not self.partition.noise

    @cached_property
    def y(self) -> Tensor:
        return torch.from_numpy(self.dataset.train.y)

    @property
    def shared_rows(self) -> Tensor:
        """The rows that were set aside to be shared, [n]; none unless the partition says so."""
        return _tensor(self.partition.shared)

    @cached_property
    def held(self) -> Tensor:
        """How many rows of each class each party trains on, [parties, classes]."""
        classes = len(self.dataset.classes)
        return torch.stack([torch.bincount(self.y[party.rows], minlength=classes) for party in self.parties])

    def batch(self, rows: Tensor, augmented: bool = False) -> tuple[Tensor, Tensor]:
        """The features and labels of some training rows, ready for a network; augmented if the dataset asks for it."""
        x = as_input(self.x, rows)
        return crop_and_flip(x) if augmented and self.dataset.augment == "crop-flip" else x, self.y[rows]

    def test_parts(self, share: float | int = 1.0) -> list[Part]:
        """The test set in large batches; once for every party's noise under ``noise(test=noisy)``.

        `share` of its rows, or a count if it is an integer: always the same ones, drawn by the seed.
        """
        rows, copies = _share_of(len(self.dataset.test), share, self.seed), range(1)
        if self.partition.noisy_test:
            copies = range(len(self.partition))
        return [Part(some, copy) for copy in copies for some in rows.split(self._evaluation_batch)]

    def test_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The features and labels of all test parts."""
        return map(self.part, self.test_parts())

    def validation_parts(self, party: Party) -> list[Part]:
        """The training rows that a party keeps aside, in large batches."""
        return [Part(some, None) for some in party.validation.split(self._evaluation_batch) if len(some)]

    @cached_property
    def _evaluation_batch(self) -> int:
        least, most = _EVALUATION_ROWS
        return max(least, min(most, _EVALUATION_NUMBERS // self.numbers_in_a_row))

    @cached_property
    def numbers_in_a_row(self) -> int:
        """Of features; where rows are sparse, on average."""
        train = self.dataset.train
        return max(1, train.x.nnz // len(train) if self.is_sparse else math.prod(self.dataset.shape))

    def part(self, part: Part) -> tuple[Tensor, Tensor]:
        """The features and labels of a part, ready for a network."""
        (x, y), rows, begin, end = self.source(part), part.rows, int(part.rows[0]), int(part.rows[-1]) + 1
        if end - begin == len(rows):  # all between the two: there is nothing to gather
            return as_input(x[begin:end]), y[begin:end]
        return as_input(x, rows), y[rows]

    def source(self, part: Part) -> "tuple[Tensor | sparse.csr_matrix, Tensor]":
        """The features and labels that a part's row numbers speak of, as they lie in memory."""
        if part.copy is None:
            return self.x, self.y
        return self._test_copy(part.copy), self._test_labels

    @cached_property
    def _test_labels(self) -> Tensor:
        return torch.from_numpy(self.dataset.test.y)

    def _test_copy(self, copy: int) -> "Tensor | sparse.csr_matrix":
        """The test features as a party sees them. Only the copy asked for last is kept: each may be large."""
        if copy not in self._last_copy:
            x = self.dataset.test.x
            if self.partition.noisy_test:
                noise = _standard_normal(x.shape, self.seed, len(self.partition) + copy)
                x = _dense_float(x) + np.float32(self.partition.noise[copy]) * noise
            self._last_copy.clear()
            self._last_copy[copy] = _narrow(x) if sparse.issparse(x) else torch.from_numpy(np.ascontiguousarray(x))
        return self._last_copy[copy]

    @cached_property
    def _last_copy(self) -> "dict[int, Tensor | sparse.csr_matrix]":
        return {}

    def pooled(self, once: bool = True) -> "Federation":
        """The same rows, noise and all, at one single party; each `once`, or as often as parties have a copy of it."""
        rows = torch.cat([party.rows for party in self.parties])
        if once and len(self.partition.shared):
            rows = rows.unique()
        validation = torch.cat([party.validation for party in self.parties])
        return replace(self, parties=(Party(0, rows, validation, "all"),))


def federate(
    dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0, validation: float = 0.0
) -> Federation:
    """Cut a dataset among parties; each keeps a share of its rows aside for `validation`."""
    if not 0 <= validation < 1:
        raise ConfigError(f"validation {validation} is no share of a party's rows: give 0 or a fraction below 1.")
    partition = cut(dataset, spec, parties, seed)
    made = []
    for party, rows in enumerate(partition.rows):
        own = np.setdiff1d(rows, partition.shared) if validation else rows  # what is shared, others train on
        order = stream(seed, "validation", party=party).permutation(own) if validation else own
        aside = np.sort(order[: min(round(validation * len(own)), len(own) - 1)])
        name = partition.names[party] if partition.names else str(party)
        made.append(Party(party, _tensor(np.setdiff1d(rows, aside, assume_unique=True)), _tensor(aside), name))
    return Federation(dataset, partition, seed, tuple(made))


def as_input(x: "Tensor | sparse.csr_matrix", rows: Tensor | None = None) -> Tensor:
    """Rows (all, or some) as float tensors: bytes become 0..1, CSR rows a sparse tensor."""
    if isinstance(x, Tensor):
        taken = x if rows is None else x.index_select(0, rows)
        return taken.float().div_(255) if taken.dtype == torch.uint8 else taken
    part = x if rows is None else x[rows.numpy()]
    indptr, indices, data = (torch.from_numpy(array) for array in (part.indptr, part.indices, part.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, data, part.shape, check_invariants=False)


def fill_input(x: Tensor, rows: Tensor, out: Tensor) -> None:
    """The same of dense rows, flat, into an array that is there."""
    if x.dtype != torch.uint8:
        torch.index_select(x.flatten(1), 0, rows, out=out)
    else:
        out.copy_(x.index_select(0, rows).flatten(1)).div_(255)


def _share_of(rows: int, share: float | int, seed: int) -> Tensor:
    count = share if isinstance(share, int) else max(1, round(share * rows))
    if count >= rows:
        return torch.arange(rows)
    return _tensor(np.sort(stream(seed, "evaluate").choice(rows, count, replace=False)))


def _tensor(rows: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows))


def _narrow(x: "sparse.csr_matrix") -> "sparse.csr_matrix":
    """The same rows with column numbers of four bytes, which is what engines read, as long as these suffice."""
    if x.indptr.dtype == np.int32 or max(x.nnz, x.shape[1]) > np.iinfo(np.int32).max:
        return x
    return sparse.csr_matrix((x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32)), x.shape)


def _dense_float(x: Features) -> NDArray[np.float32]:
    dense: NDArray[np.float32] = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    return dense


def _standard_normal(shape: tuple[int, ...], seed: int, party: int) -> NDArray[np.float32]:
    return stream(seed, "noise", party=party).standard_normal(shape, dtype=np.float32)
