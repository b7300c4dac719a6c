"""`Dataset`: training and test rows as arrays, with what is known of them. Reading files is elsewhere."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.errors import DataError

Features: TypeAlias = Any  # NDArray[Any], or a scipy CSR matrix (which has no types)
Labels: TypeAlias = NDArray[Any]  # int64 classes; float32 numbers where the task is regression; bool of pairs
TaskKind: TypeAlias = Literal["classification", "regression", "verification"]
Augment: TypeAlias = Literal["none", "crop-flip"]


@dataclass(frozen=True)
class Split:
    """Rows: features ``[n, ...]`` (dense, or CSR), labels, and group ids by level (writer, hospital)."""

    x: Features
    y: Labels
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> "Split":
        return Split(self.x[rows], self.y[rows], {level: ids[rows] for level, ids in self.groups.items()})


@dataclass(frozen=True)
class Dataset:
    """Rows to learn from, as a value. `defaults` are experiment settings that suit it, such as a model.

    Where the task is verification, test rows are pairs ``[n, 2, ...]``, and their labels say if both are of the same
    class: one that is none of the training rows'.
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]  # none where the task is regression
    licence: str
    notes: tuple[str, ...] = ()  # what was done to the rows on the way in, for people to read
    defaults: Mapping[str, str] = field(default_factory=dict)
    task: TaskKind = "classification"
    columns: tuple[str, ...] = ()  # names of the features, where they have any
    vocabulary: tuple[str, ...] = ()  # the words that integer features stand for; 0 is padding, 1 an unknown word
    augment: Augment = "none"  # what happens to the images of a training batch

    def __post_init__(self) -> None:
        for part, split in (("training", self.train), ("test", self.test)):
            _check(self.name, part, split)
            if self.task == "classification" or (self.task == "verification" and part == "training"):
                _check_classes(self.name, part, split.y, len(self.classes))
        pairs = self.task == "verification"
        if self.test.x.shape[1:] != ((2, *self.shape) if pairs else self.shape):
            needed = "a test row must be two of the former" if pairs else "both must have the same columns"
            raise DataError(
                f"dataset {self.name} has training rows of shape {self.train.x.shape[1:]} but test rows of shape "
                f"{self.test.x.shape[1:]}: {needed}."
            )
        if (self.test.y.dtype == np.bool_) != pairs:
            raise DataError(
                f"dataset {self.name} has test labels of {self.test.y.dtype} for the task {self.task}: pairs have "
                "booleans, and nothing else has."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(int(side) for side in self.train.x.shape[1:])

    @cached_property
    def checksum(self) -> str:
        """sha256 over every array, so that a changed file is a changed dataset."""
        digest = hashlib.sha256()
        for split in (self.train, self.test):
            for array in (*_arrays(split.x), split.y, *(split.groups[k] for k in sorted(split.groups))):
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _arrays(x: Features) -> tuple[NDArray[Any], ...]:
    return (x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,)


def _check(name: str, part: str, split: Split) -> None:
    if len(split) == 0 or split.x.shape[0] != len(split):
        raise DataError(
            f"dataset {name} has {split.x.shape[0]} {part} rows and {len(split)} labels: both must be equal, and not 0."
        )
    for what, values in (("features", _arrays(split.x)[0]), ("labels", split.y)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            raise DataError(
                f"dataset {name} has {bad} NaN or infinite values in its {part} {what}: "
                "clean or fill them, because training on them gives NaN."
            )


def _check_classes(name: str, part: str, y: Labels, classes: int) -> None:
    if y.min() < 0 or y.max() >= classes:
        raise DataError(
            f"dataset {name} has {part} labels from {y.min()} to {y.max()}: they must lie in 0..{classes - 1}."
        )


def encode_labels(name: str, raw: NDArray[Any]) -> tuple[Labels, tuple[str, ...]]:
    """Any labels as 0..K-1 in sorted order, with their names; one single class is refused."""
    if raw.dtype.kind == "f" and not np.isfinite(raw).all():
        raise DataError(f"dataset {name} has NaN or infinite labels: fill or remove those rows.")
    values, codes = np.unique(raw, return_inverse=True)
    if len(raw) >= 20 and len(values) > len(raw) // 2:
        raise DataError(
            f"dataset {name} has {len(values)} different labels in {len(raw)} rows: "
            "class labels are needed, not measurements."
        )
    if len(values) < 2:
        raise DataError(f"dataset {name} has only the label {values.tolist()}: at least two are needed to classify.")
    return codes.reshape(-1).astype(np.int64), tuple(str(v) for v in values.tolist())


def hold_out(split: Split, share: float, seed: int = 0) -> tuple[Split, Split]:
    """Training and test rows, every class in the same proportion; the same cut for every run."""
    rng = np.random.default_rng(seed)
    test = np.zeros(len(split), dtype=bool)
    for label in np.unique(split.y):
        rows = rng.permutation(np.flatnonzero(split.y == label))
        test[rows[: round(share * len(rows))]] = True
    if test.all() or not test.any():
        raise DataError(f"a test share of {share} of {len(split)} rows leaves one side empty: give more rows.")
    return split.take(np.flatnonzero(~test)), split.take(np.flatnonzero(test))


def standardise(train: Split, test: Split, columns: NDArray[np.bool_] | None = None) -> tuple[Split, Split]:
    """Columns (all, or those chosen) to mean 0 and variance 1 by the training rows; constant ones become 0."""
    mean, scale = train.x.mean(0, dtype=np.float64), train.x.std(0, dtype=np.float64)
    scale = np.where(scale > 1e-12 * np.abs(mean), scale, 1)  # what rounding leaves of a constant is no scale
    if columns is not None:
        mean, scale = np.where(columns, mean, 0), np.where(columns, scale, 1)
    scaled = [((s.x - mean) / scale).astype(np.float32) for s in (train, test)]
    return replace(train, x=scaled[0]), replace(test, x=scaled[1])
