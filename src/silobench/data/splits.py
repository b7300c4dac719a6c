"""Splits of a whole dataset by a ratio, such as 10:1:1 for training, test and validation rows."""

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from silobench.data.bins import as_codes
from silobench.data.dataset import Dataset, concatenate
from silobench.errors import ConfigError, DataError
from silobench.rng import stream

GIVEN = "given"
_PARTS = ("training", "test", "validation")
_GOLDEN = (5**0.5 - 1) / 2


@functools.cache
def ratio_of(split: str) -> tuple[int, ...]:
    """Return the numbers of a split, for training, test and, if there are three, validation rows; () for "given".

    >>> ratio_of("10:1:1")
    (10, 1, 1)
    """
    if split == GIVEN:
        return ()
    cells = split.split(":")
    if len(cells) not in (2, 3) or not all(cell.strip().isdecimal() and int(cell) for cell in cells):
        raise ConfigError(
            f'split must be "given", or two or three whole numbers above 0 for training, test and validation rows, '
            f'but "{split}" was given: write, for example, split = "10:1:1".'
        )
    return tuple(map(int, cells))


def split_text(split: str) -> str:
    """Return a split in its only spelling, so that equal splits are the same run.

    >>> split_text(" 10 : 1")
    '10:1'
    """
    return ":".join(map(str, ratio_of(split))) or GIVEN


def pooled_split(dataset: Dataset, split: str, seed: int) -> Dataset:
    """Pool all rows of a dataset and split them by a ratio; "given" returns the dataset as it is.

    The split is drawn from the seed, so that every trial has its own test rows, and runs of one seed have the same. It
    is stratified by class, or by the bins of a numeric target. Validation rows stay among the training rows, and
    `Dataset.validation` lists them: the parties are cut from both, and each validates on those of its rows.

    Columns that a reader has scaled keep their scale, which is that of the dataset's given training rows.
    """
    ratio = ratio_of(split)
    if not ratio:
        return dataset
    if dataset.task == "verification":
        raise ConfigError(
            f"{dataset.name} cannot be split {split}, because its test rows are pairs and its training rows are not: "
            'leave split = "given".'
        )
    whole = concatenate([dataset.train, dataset.test])
    part = _part_of_rows(as_codes(whole.y), ratio, stream(seed, "split"))
    sizes = np.bincount(part, minlength=len(ratio))
    if not sizes.all():
        raise DataError(
            f"split {split} of {len(whole)} rows leaves no {_PARTS[int(sizes.argmin())]} rows: give more rows, or "
            "another ratio."
        )
    rows = np.flatnonzero(part != 1)
    shares = ", ".join(f"{size} {name}" for size, name in zip(sizes, _PARTS, strict=False))
    note = f"all {len(whole)} rows were pooled and split {split} by the seed: {shares} rows"
    return replace(
        dataset,
        train=whole.take(rows),
        test=whole.take(np.flatnonzero(part == 1)),
        notes=(*dataset.notes, note),
        validation=np.flatnonzero(part[rows] == 2),
    )


def _part_of_rows(codes: NDArray[np.int64], ratio: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the part of each row: 0 for training, 1 for test, 2 for validation.

    Shuffled rows, ordered by class, get the fractions of multiples of the golden ratio. These are spread evenly over
    any run of rows, so the lowest fractions are the right share of every class, and exactly of all rows.
    """
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    place = (np.arange(len(codes)) * _GOLDEN + rng.random()) % 1
    ends = np.round(np.cumsum(ratio) / sum(ratio) * len(codes)).astype(np.int64)
    part = np.empty(len(codes), np.int64)
    part[order[np.argsort(place, kind="stable")]] = np.searchsorted(ends, np.arange(len(codes)), side="right")
    return part
