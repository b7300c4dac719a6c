"""`Federation`: a dataset divided among parties. The rows are in memory once; a party is a list of row numbers."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

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
from silobench.partitions.skew import apportion
from silobench.rng import stream
from silobench.spec.arguments import need_share, parties_of, seed_of
from silobench.spec.registry import need_part

_EVALUATION_NUMBERS = 1 << 19  # in a batch for evaluation: more do not fit the processor's cache
_EVALUATION_ROWS = (500, 8000)  # the smallest and the largest number of rows of such a batch


@dataclass(frozen=True)
class Party:
    """One silo: its training rows and the rows it holds out for validation."""

    id: int
    rows: Tensor  # [n] int64, row numbers of the federation's features
    validation: Tensor
    name: str

    @cached_property
    def samples(self) -> int:
        return len(self.rows)

    @cached_property
    def order_of_pass(self) -> dict[tuple[int, str, int], NDArray[np.int64]]:
        """The order of the rows in a pass over them, by (seed, pass); a cache of one entry."""
        return {}


@dataclass(frozen=True)
class Part:
    """Rows to score a network on: from a copy of the test set, or from the training rows if `copy` is None."""

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
    parties: tuple[Party, ...]
    device: str = "cpu"  # where batches and parts are returned; row numbers and stored rows are on the CPU
    labels: NDArray[np.int64] | None = None  # of all training rows, if parties train on others than the dataset's

    def __repr__(self) -> str:
        """Return the dataset and the numbers of parties and rows: the arrays would fill pages."""
        rows = [party.samples for party in self.parties]
        spread = f"{min(rows)} to {max(rows)}" if rows else "no"
        return f"<Federation of {self.dataset.name}: {len(rows)} parties with {spread} training rows, seed {self.seed}>"

    def to(self, device: str) -> "Federation":
        """Return the federation with its batches on a device. The rows are moved there once, if they fit."""
        if device == "mps" and self.is_sparse:
            raise ConfigError(
                f"{self.dataset.name} has sparse rows, which PyTorch cannot store on the device mps: use cpu or cuda."
            )
        if device == "mps" and self.y.is_floating_point():
            raise ConfigError(
                f"{self.dataset.name} has a numeric target, which needs double precision, and the device mps has none: "
                "use cpu or cuda."
            )
        return replace(self, device=device)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it moves the rows to its own device."""
        return {name: value for name, value in vars(self).items() if name != "_on_device"}

    @cached_property
    def x(self) -> "Tensor | sparse.csr_matrix":
        """All training rows, with each party's noise added where the partition has noise."""
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
        return torch.from_numpy(self.dataset.train.y if self.labels is None else self.labels)

    @property
    def shared_rows(self) -> Tensor:
        """Row numbers of the data that all parties share, [n]; empty unless the partition shares rows."""
        return _tensor(self.partition.shared)

    @cached_property
    def has_validation(self) -> bool:
        """Whether a party holds out rows for validation."""
        return any(len(party.validation) for party in self.parties)

    @cached_property
    def class_counts(self) -> Tensor:
        """The number of training rows of each party and class, or bin of a numeric target, [parties, classes]."""
        codes = torch.from_numpy(self.dataset.codes if self.labels is None else self.labels)
        classes = len(self.dataset.label_names)
        return torch.stack([torch.bincount(codes[party.rows], minlength=classes) for party in self.parties])

    def batch(self, rows: Tensor, augmented: bool = False) -> tuple[Tensor, Tensor]:
        """Return the features and labels of some training rows, ready for a network.

        `augmented` applies the augmentation of the dataset, where it has one.
        """
        on_cpu = self.device == "cpu"
        x, y = (as_input(self.x, rows), self.y[rows]) if on_cpu else self._rows_on_device(rows, None)
        return crop_and_flip(x) if augmented and self.dataset.augment == "crop-flip" else x, y

    def test_parts(self, share: float | int = 1.0) -> list[Part]:
        """Return the test set in large batches; one copy for every party under ``noise(test=noisy)``.

        `share` is a fraction of the test rows, or a count if it is an integer. The seed determines which rows.
        """
        rows, copies = _share_of(len(self.dataset.test), share, self.seed), range(1)
        if self.partition.noisy_test:
            copies = range(len(self.partition))
        return [Part(batch, copy) for copy in copies for batch in rows.split(self._evaluation_batch)]

    def test_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return the features and labels of the whole test set, batch by batch: what `Task.evaluate` reads."""
        return map(self.part, self.test_parts())

    def own_test_rows(self, party: int) -> Tensor:
        """Return the row numbers of the test set that belong to a party.

        Every test row belongs to one party. Where parties are groups, it is the one that has the group of the row; a
        row of a group that no party has belongs to none. Otherwise the rows of each class, or bin of a numeric target,
        are dealt in proportion to the parties' own training rows of that class, drawn from the seed. Test pairs of a
        verification belong to none. The parties are those of the partition, also after `pooled`.
        """
        return self._own_test_rows[party]

    @cached_property
    def _own_test_rows(self) -> tuple[Tensor, ...]:
        test, parties, owners = self.dataset.test, len(self.partition), self.partition.owners
        if self.dataset.task == "verification":
            return tuple(torch.zeros(0, dtype=torch.int64) for _ in range(parties))
        owner = owners(test) if owners else None
        if owner is None:
            owner = self._dealt_test_rows()
        order = np.argsort(owner, kind="stable")  # one pass for all parties: there may be a million
        begins = np.searchsorted(owner[order], np.arange(parties + 1))
        return tuple(_tensor(order[begin:end]) for begin, end in pairwise(begins.tolist()))

    def _dealt_test_rows(self) -> NDArray[np.int64]:
        """Return the party of every test row, dealt class by class; -1 for a class that no party has."""
        dataset, draw = self.dataset, stream(self.seed, "own-test")
        codes = dataset.bins.codes(dataset.test.y) if dataset.task == "regression" else dataset.test.y
        counts = self._private_counts
        owner = np.full(len(codes), -1, dtype=np.int64)
        for code in np.unique(codes).tolist():
            rows = draw.permutation(np.flatnonzero(codes == code))
            if counts[:, code].any():
                owner[rows] = np.repeat(np.arange(len(counts)), apportion(len(rows), counts[:, code]))
        return owner

    @property
    def _private_counts(self) -> NDArray[np.int64]:
        """The rows of each party and class, [parties, classes]; shared rows count for a class that only they have."""
        partition, codes, classes = self.partition, self.dataset.codes, len(self.dataset.label_names)
        every = np.stack([np.bincount(codes[rows], minlength=classes) for rows in partition.rows])
        if not len(partition.shared):
            return every
        private = (np.setdiff1d(rows, partition.shared, assume_unique=True) for rows in partition.rows)
        counts = np.stack([np.bincount(codes[rows], minlength=classes) for rows in private])
        return np.where(counts.any(0), counts, every)

    def validation_parts(self, party: Party) -> list[Part]:
        """Return a party's validation rows in large batches."""
        return [Part(batch, None) for batch in party.validation.split(self._evaluation_batch) if len(batch)]

    @cached_property
    def _evaluation_batch(self) -> int:
        return evaluation_batch(self.numbers_per_row)

    @cached_property
    def numbers_per_row(self) -> int:
        """How many numbers the features of a row have; the average of the nonzero ones if rows are sparse."""
        train = self.dataset.train
        return max(1, train.x.nnz // len(train) if self.is_sparse else math.prod(self.dataset.shape))

    def part(self, part: Part) -> tuple[Tensor, Tensor]:
        """Return the features and labels of a part, ready for a network."""
        if self.device != "cpu":
            return self._rows_on_device(part.rows, part.copy)
        (x, y), rows, begin, end = self.source(part), part.rows, int(part.rows[0]), int(part.rows[-1]) + 1
        if end - begin == len(rows):  # consecutive rows: slice instead of gathering
            return as_input(x[begin:end]), y[begin:end]
        return as_input(x, rows), y[rows]

    def source(self, part: Part) -> "tuple[Tensor | sparse.csr_matrix, Tensor]":
        """Return the stored features and labels that a part's row numbers refer to."""
        if part.copy is None:
            return self.x, self.y
        return self._test_copy(part.copy), self._test_labels

    def _rows_on_device(self, rows: Tensor, copy: int | None) -> tuple[Tensor, Tensor]:
        """Return the features and labels of some rows on the device; `copy` is that of a `Part`."""
        x, y = self._moved(copy)
        taken = as_input(x, rows.to(x.device) if isinstance(x, Tensor) else rows)
        return taken.to(self.device), y[rows.to(self.device)]

    def _moved(self, copy: int | None) -> "tuple[Tensor | sparse.csr_matrix, Tensor]":
        """Return stored features and labels on the device; sparse features, and those that do not fit, on the CPU.

        The training rows and one copy of the test rows are cached.
        """
        kind = "train" if copy is None else "test"
        if kind not in self._on_device or self._on_device[kind][0] != copy:
            self._on_device.pop(kind, None)
            x, y = self.source(Part(torch.empty(0), copy))
            fits = isinstance(x, Tensor) and x.nbytes <= _free_bytes(self.device) / 2
            self._on_device[kind] = copy, x.to(self.device) if fits else x, y.to(self.device)
        return self._on_device[kind][1:]

    @cached_property
    def _on_device(self) -> "dict[str, tuple[int | None, Tensor | sparse.csr_matrix, Tensor]]":
        return {}

    @cached_property
    def _test_labels(self) -> Tensor:
        return torch.from_numpy(self.dataset.test.y)

    def _test_copy(self, copy: int) -> "Tensor | sparse.csr_matrix":
        """Return the test features with the noise of a party. Only the last copy is cached, because it may be large."""
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
        """Return a federation with all rows (and their noise) at one party.

        A shared row appears `once`, or else once for every party that holds it.
        """
        rows = torch.cat([party.rows for party in self.parties])
        if once and len(self.partition.shared):
            rows = rows.unique()
        validation = torch.cat([party.validation for party in self.parties])
        return replace(self, parties=(Party(0, rows, validation, "all"),))


def federate(
    dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0, validation: float = 0.0
) -> Federation:
    """Divide a dataset among parties by a partition spec; each party holds out the fraction `validation` of its rows.

    If the dataset itself has validation rows, each party holds out those of them that are among its rows. A party keeps
    at least one row for training, and shared rows are never held out. Without `parties` the data determine their
    number, else it is ten: see `partition`.
    """
    need_part(dataset, Dataset, "the dataset of a federation", "sb.federate(sb.load('digits'), 'iid')")
    parties, seed = parties_of(parties), seed_of(seed)
    need_share(validation, "validation")
    if validation and len(dataset.validation):
        raise ConfigError(
            f"validation = {validation:g} and a split with validation rows were both given: leave out validation, or "
            'the third number of split, as in split = "10:1".'
        )
    partition = cut(dataset, spec, parties, seed)
    members, no_rows = [], _tensor(np.zeros(0, dtype=np.int64))  # one for all: there may be a million parties
    for party, rows in enumerate(partition.rows):
        held_out = _held_out(rows, partition.shared, dataset.validation, validation, seed, party)
        train = np.setdiff1d(rows, held_out, assume_unique=True) if len(held_out) else rows
        name = partition.names[party] if partition.names else str(party)
        members.append(Party(party, _tensor(train), _tensor(held_out) if len(held_out) else no_rows, name))
    return Federation(dataset, partition, seed, tuple(members))


def _held_out(
    rows: NDArray[np.int64],
    shared: NDArray[np.int64],
    listed: NDArray[np.int64],
    share: float,
    seed: int,
    party: int,
) -> NDArray[np.int64]:
    """Return the validation rows of a party: a share of its rows, or those that are listed."""
    if not (share or len(listed)):
        return rows[:0]
    private = np.setdiff1d(rows, shared)  # others train on shared rows
    if len(listed):
        return np.intersect1d(private, listed, assume_unique=True)[: len(rows) - 1]
    order = stream(seed, "validation", party=party).permutation(private)
    return np.sort(order[: min(round(share * len(private)), len(private) - 1)])


def evaluation_batch(numbers_per_row: int) -> int:
    """Return how many rows are scored at once; rounding may depend on it, so it is the same wherever rows are scored.

    >>> evaluation_batch(64)
    8000
    """
    least, most = _EVALUATION_ROWS
    return max(least, min(most, _EVALUATION_NUMBERS // numbers_per_row))


def as_input(x: "Tensor | sparse.csr_matrix", rows: Tensor | None = None) -> Tensor:
    """Return all rows, or some, as a float tensor: bytes are scaled to 0..1, CSR rows become a sparse tensor."""
    if isinstance(x, Tensor):
        taken = x if rows is None else x.index_select(0, rows)
        return taken.float().div_(255) if taken.dtype == torch.uint8 else taken
    part = x if rows is None else x[rows.numpy()]
    indptr, indices, data = (torch.from_numpy(array) for array in (part.indptr, part.indices, part.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, data, part.shape, check_invariants=False)


def fill_input(x: Tensor, rows: Tensor, out: Tensor) -> None:
    """Write some dense rows into `out`, flattened and converted as by `as_input`."""
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
    """Return a CSR matrix with indices of four bytes, which engines read, unless it is too large for them."""
    if x.indptr.dtype == np.int32 or max(x.nnz, x.shape[1]) > np.iinfo(np.int32).max:
        return x
    return sparse.csr_matrix((x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32)), x.shape)


def _free_bytes(device: str) -> float:
    """Return how much memory of a device is free."""
    return torch.cuda.mem_get_info(device)[0] if torch.device(device).type == "cuda" else math.inf


def _dense_float(x: Features) -> NDArray[np.float32]:
    dense: NDArray[np.float32] = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    return dense


def _standard_normal(shape: tuple[int, ...], seed: int, party: int) -> NDArray[np.float32]:
    return stream(seed, "noise", party=party).standard_normal(shape, dtype=np.float32)
