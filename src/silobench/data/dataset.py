"""`Dataset`: training and test rows as arrays, with their metadata. The readers build it from files."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.array_scaler import ArrayScaler
from silobench.data.bins import Bins, quantile_bins
from silobench.data.conversion import features_array, groups_array, labels_array
from silobench.data.encoder import Encoder
from silobench.errors import DataError, value_shown

Features: TypeAlias = Any  # NDArray[Any], or a scipy CSR matrix (scipy ships no type hints)
Labels: TypeAlias = NDArray[Any]
"""Class indices as int64; numbers as float32, [n] or [n, k] for k of them per row; bool for pairs of a verification."""
TaskKind: TypeAlias = Literal["classification", "regression", "verification"]
Augment: TypeAlias = Literal["none", "crop-flip"]


@dataclass(frozen=True)
class Split:
    """Rows: features ``[n, ...]`` (dense or CSR), labels, and the group id of each row by level (writer, hospital)."""

    x: Features
    y: Labels
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> "Split":
        return Split(self.x[rows], self.y[rows], {level: ids[rows] for level, ids in self.groups.items()})


@dataclass(frozen=True)
class Dataset:
    """Training and test rows with their metadata; immutable.

    In a verification task a test row is a pair ``[n, 2, ...]``. Its label is True if both halves belong to the same
    class. The classes of the test pairs do not occur in the training rows.
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]  # empty for regression
    licence: str = "the user's own"
    notes: tuple[str, ...] = ()  # how the rows were preprocessed, for the user to read
    defaults: Mapping[str, str] = field(default_factory=dict)  # experiment settings that suit it, such as a model
    task: TaskKind = "classification"
    columns: tuple[str, ...] = ()  # names of the features, if they have names
    vocabulary: tuple[str, ...] = ()  # words by integer feature value; 0 is padding, 1 an unknown word
    augment: Augment = "none"  # random transformation of the images of a training batch
    target: str = ""  # name of the label, if it has a name
    unit: str = ""  # unit of a numeric label, such as years
    validation: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Row numbers of training rows that are for validation; see `splits`."""
    encoder: Encoder | None = field(default=None, compare=False)
    """How the columns of a table became features; None if the rows were not columns of a table."""
    scaler: ArrayScaler | None = field(default=None, repr=False, compare=False)
    """How arrays were scaled to features; None if they were not."""
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the features of each owner, where different organisations have different columns of the same rows. The
    group level `sources` names the owners that have a row, such as ign+steam; without it, every owner has every row."""
    alignment: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Facts about how rows of several owners were matched, for run.json."""

    def __post_init__(self) -> None:
        for what, value, known in (("task", self.task, TaskKind), ("augment", self.augment, Augment)):
            if value not in get_args(known):
                raise DataError(
                    f"dataset {self.name} has {what}={value!r}: choose one of {', '.join(get_args(known))}."
                )
        self._convert()
        for part, split in (("training", self.train), ("test", self.test)):
            _check(self.name, part, split)
            if self.vocabulary:
                _check_words(self.name, part, split.x, len(self.vocabulary))
            if self.task == "classification" or (self.task == "verification" and part == "training"):
                _check_classes(self.name, part, split.y, len(self.classes))
        pairs = self.task == "verification"
        if self.test.x.shape[1:] != ((2, *self.shape) if pairs else self.shape):
            needed = "a test row must be a pair of training rows" if pairs else "both must have the same shape"
            raise DataError(
                f"dataset {self.name} has training rows of shape {self.train.x.shape[1:]} but test rows of shape "
                f"{self.test.x.shape[1:]}: {needed}."
            )
        if self.train.y.shape[1:] != self.test.y.shape[1:]:
            raise DataError(
                f"dataset {self.name} has training targets of shape {self.train.y.shape[1:]} but test targets of shape "
                f"{self.test.y.shape[1:]}: every row needs equally many numbers."
            )
        if (self.test.y.dtype == np.bool_) != pairs:
            raise DataError(
                f"dataset {self.name} has test labels of type {self.test.y.dtype} for the task {self.task}: use "
                "booleans for pairs (verification), and numbers for any other task."
            )

    def _convert(self) -> None:
        """Replace lists, tensors and arrays of other types by the arrays that are needed."""
        object.__setattr__(self, "classes", tuple(map(str, self.classes)))
        for side, part in (("train", "training"), ("test", "test")):
            split = getattr(self, side)
            if not isinstance(split, Split):
                raise DataError(
                    f"dataset {self.name} has {part} rows of type {type(split).__name__}: give silobench.Split(x, y)."
                )
            if not isinstance(split.groups, Mapping):
                raise DataError(
                    f"dataset {self.name} has {part} groups of type {type(split.groups).__name__}: give a dictionary, "
                    "such as {'hospital': ids}."
                )
            x = features_array(f"dataset {self.name} has {part} features", split.x, bool(self.vocabulary))
            source, pairs = f"dataset {self.name} has {part} labels", self.task == "verification" and side == "test"
            classes = None if self.task == "regression" else self.classes
            y = split.y if pairs else labels_array(source, split.y, classes)
            source = f"dataset {self.name} has {part} groups"
            groups = {level: groups_array(source, ids) for level, ids in split.groups.items()}
            if x is not split.x or y is not split.y or any(groups[k] is not split.groups[k] for k in groups):
                object.__setattr__(self, side, Split(x, y, groups))

    def __repr__(self) -> str:
        """Return name, numbers of rows, shape of a row and classes: the arrays would fill pages."""
        label = f"{len(self.classes)} classes" if self.classes else f"target {self.target or 'without a name'}"
        label += f" of {self.target_size} numbers" if self.target_size > 1 else ""
        shape = "x".join(map(str, self.shape)) or "1"
        rows = f"{len(self.train)} training rows, {len(self.test)} test rows of shape {shape}"
        return f"<Dataset {self.name}: {self.task}, {rows}, {label}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(int(side) for side in self.train.x.shape[1:])

    @property
    def target_size(self) -> int:
        """The count of numbers of a numeric target; 1 where rows have classes."""
        return int(np.prod(self.train.y.shape[1:], dtype=np.int64))

    @cached_property
    def bins(self) -> Bins:
        """The quantile bins of a numeric target, or of the mean of its numbers, over the training rows."""
        return quantile_bins(self.train.y)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the classes, or of the bins of a numeric target."""
        return self.bins.names if self.task == "regression" else self.classes

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The class of each training row, or the bin of its numeric target."""
        return self.bins.codes(self.train.y) if self.task == "regression" else self.train.y

    @cached_property
    def checksum(self) -> str:
        """SHA-256 over all arrays: it changes whenever the rows change, and is part of the run id."""
        digest = hashlib.sha256()
        for split in (self.train, self.test):
            for array in (*_arrays(split.x), split.y, *(split.groups[k] for k in sorted(split.groups))):
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    @property
    def words_checksum(self) -> str:
        """SHA-256 over the vocabulary, which `checksum` does not cover; empty if rows are not word numbers."""
        return hashlib.sha256(json.dumps(self.vocabulary).encode()).hexdigest() if self.vocabulary else ""


def _arrays(x: Features) -> tuple[NDArray[Any], ...]:
    return (x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,)


def _check(name: str, part: str, split: Split) -> None:
    if len(split) == 0 or split.x.shape[0] != len(split):
        raise DataError(
            f"dataset {name} has {split.x.shape[0]} {part} rows and {len(split)} labels: give one label per row, and "
            "at least one row."
        )
    for level, ids in split.groups.items():
        if ids.shape != (len(split),):
            raise DataError(
                f"dataset {name} has groups of shape {ids.shape} at the level '{level}' for {len(split)} {part} rows: "
                "give one group per row."
            )
    for what, values in (("features", _arrays(split.x)[0]), ("labels", split.y)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            raise DataError(
                f"dataset {name} has {bad} NaN or infinite values in its {part} {what}: "
                "clean or fill them, because training on them gives NaN."
            )


def _check_words(name: str, part: str, x: Features, words: int) -> None:
    if x.dtype.kind == "i" and x.size and (x.min() < 0 or x.max() >= words):
        raise DataError(
            f"dataset {name} has {part} word numbers from {x.min()} to {x.max()}, but a vocabulary of {words} words: "
            f"use only 0 to {words - 1}."
        )


def _check_classes(name: str, part: str, y: Labels, classes: int) -> None:
    if not classes:
        raise DataError(f'dataset {name} has no classes: name them in `classes`, or write task="regression".')
    if y.min() < 0 or y.max() >= classes:
        raise DataError(f"dataset {name} has {part} labels from {y.min()} to {y.max()}: use only 0 to {classes - 1}.")


def encode_labels(name: str, raw: NDArray[Any]) -> tuple[Labels, tuple[str, ...]]:
    """Encode labels as 0..K-1 in sorted order and return them with the class names; refuse a single class."""
    values, codes = np.unique(raw, return_inverse=True)
    return encode_codes(name, values, codes.reshape(-1))


def encode_codes(name: str, values: NDArray[Any], codes: NDArray[np.int64]) -> tuple[Labels, tuple[str, ...]]:
    """Return `encode_labels` of labels that are given as distinct sorted values and the code of each row."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(f"dataset {name} has NaN or infinite labels: fill or remove those rows.")
    if len(codes) >= 20 and len(values) > len(codes) // 2:
        raise DataError(
            f"dataset {name} has {len(values)} different labels in {len(codes)} rows: "
            "class labels are needed, not measurements, so choose another label column."
        )
    if len(values) < 2:
        only = f"only the label {value_shown(values.tolist()[0])}" if len(values) else "no labels"
        raise DataError(f"dataset {name} has {only}: at least two classes are needed, so add rows.")
    return codes.astype(np.int64), tuple(str(v) for v in values.tolist())


def hold_out(split: Split, share: float, seed: int = 0) -> tuple[Split, Split]:
    """Split rows into training and test rows; every run gets the same split.

    It is stratified by class; rows with numbers as labels are drawn at random.
    """
    rng = np.random.default_rng(seed)
    test, strata = np.zeros(len(split), dtype=bool), np.zeros(len(split)) if split.y.dtype.kind == "f" else split.y
    for label in np.unique(strata):
        rows = rng.permutation(np.flatnonzero(strata == label))
        test[rows[: round(share * len(rows))]] = True
    if test.all() or not test.any():
        raise DataError(
            f"a test share of {share} of {len(split)} rows leaves no training or no test rows: both are needed, so "
            "give more rows."
        )
    return split.take(np.flatnonzero(~test)), split.take(np.flatnonzero(test))


def standardise(train: Split, test: Split, columns: NDArray[np.bool_] | None = None) -> tuple[Split, Split]:
    """Scale `columns` (default all) to mean 0 and variance 1 of the training rows; constant columns become 0."""
    scaler = ArrayScaler.of(train.x)
    if columns is not None:
        scaler = ArrayScaler(np.where(columns, scaler.mean, 0), np.where(columns, scaler.scale, 1))
    return replace(train, x=scaler.scaled(train.x)), replace(test, x=scaler.scaled(test.x))


def concatenate(splits: Sequence[Split]) -> Split:
    """Return the rows of several splits as one split, with the group levels that all of them have."""
    levels = [level for level in splits[0].groups if all(level in split.groups for split in splits)]
    groups = {level: np.concatenate([split.groups[level] for split in splits]) for level in levels}
    features = [split.x for split in splits]
    x = sparse.vstack(features, format="csr") if sparse.issparse(features[0]) else np.concatenate(features)
    return Split(x, np.concatenate([split.y for split in splits]), groups)
