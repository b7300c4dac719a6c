"""Splits of a whole dataset by a ratio, such as 10:1:1 for training, test and validation rows; splits for tuning."""

import functools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from silobench.data.bins import as_codes
from silobench.data.dataset import Dataset, concatenate
from silobench.errors import ConfigError, DataError
from silobench.rng import stream

GIVEN = "given"
TUNING = "tuning"
_PARTS = ("training", "test", "validation")
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class SplitRule:
    """What a split means. Without any numbers the dataset keeps its rows as they are."""

    ratio: tuple[int, ...] = ()  # of all rows: training, test and, if there are three, validation rows
    tuning: tuple[int, ...] = ()  # of the training rows: training, and rows that a tuning trial is scored on

    def __str__(self) -> str:
        pooled = ":".join(map(str, self.ratio))
        tuning = f"{TUNING} {':'.join(map(str, self.tuning))}" if self.tuning else ""
        return ", ".join(filter(None, (pooled, tuning))) or GIVEN

    @property
    def is_drawn(self) -> bool:
        """Whether the rows depend on the seed."""
        return bool(self.ratio or self.tuning)


@functools.cache
def split_rule(split: str) -> SplitRule:
    """Return what a split means.

    >>> split_rule("10:1:1").ratio
    (10, 1, 1)
    >>> split_rule("10:1, tuning 4:1")
    SplitRule(ratio=(10, 1), tuning=(4, 1))
    """
    outer, comma, inner = (part.strip() for part in split.partition(","))
    if not comma and outer.startswith(TUNING):
        outer, inner = GIVEN, outer
    if inner:
        ratio = _numbers(inner.removeprefix(TUNING)) if inner.startswith(TUNING) else ()
        if len(ratio) != 2:
            raise ConfigError(
                f"split cuts training rows for tuning by two whole numbers above 0, for training and for scores, but "
                f'"{split}" was given: write, for example, split = "tuning 4:1".'
            )
        return SplitRule(split_rule(outer).ratio, ratio)
    if outer == GIVEN:
        return SplitRule()
    ratio = _numbers(outer)
    if len(ratio) not in (2, 3):
        raise ConfigError(
            f'split must be "given", or two or three whole numbers above 0 for training, test and validation rows, '
            f'but "{split}" was given: write, for example, split = "10:1:1".'
        )
    return SplitRule(ratio)


def _numbers(text: str) -> tuple[int, ...]:
    """Return whole numbers above 0 between colons; none if any of them is something else."""
    cells = [cell.strip() for cell in text.split(":")]
    return tuple(map(int, cells)) if all(cell.isdecimal() and int(cell) for cell in cells) else ()


def split_text(split: str) -> str:
    """Return a split in its only spelling, so that equal splits are the same run.

    >>> split_text(" 10 : 1"), split_text("given, tuning 4 : 1")
    ('10:1', 'tuning 4:1')
    """
    return str(split_rule(split))


def for_tuning(split: str, ratio: str) -> str:
    """Return a split whose training rows are cut by a ratio: what a tuning trial trains and is scored on.

    >>> for_tuning("given", "4:1"), for_tuning("10:1", "4:1")
    ('tuning 4:1', '10:1, tuning 4:1')
    """
    return split_text(f"{replace(split_rule(split), tuning=())}, {TUNING} {ratio}")


def pooled_split(dataset: Dataset, split: str, seed: int) -> Dataset:
    """Return the rows of a split: all rows pooled and split by a ratio; "given" returns the dataset as it is.

    A split for tuning then removes the test rows, and puts training rows in their place: nothing that is made from the
    result can have seen a test row.

    The split is drawn from the seed, so that every trial has its own test rows, and runs of one seed have the same. It
    is stratified by class, or by the bins of a numeric target. Validation rows stay among the training rows, and
    `Dataset.validation` lists them: the parties are cut from both, and each validates on those of its rows.

    Columns that a reader has scaled keep their scale, which is that of the dataset's given training rows.
    """
    rule = split_rule(split)
    if dataset.task == "verification" and rule.is_drawn:
        raise ConfigError(
            f"{dataset.name} cannot be split {rule}, because its test rows are pairs and its training rows are not: "
            'leave split = "given".'
        )
    pooled = _pooled(dataset, rule.ratio, seed) if rule.ratio else dataset
    return _without_test_rows(pooled, rule.tuning, seed) if rule.tuning else pooled


def _pooled(dataset: Dataset, ratio: tuple[int, ...], seed: int) -> Dataset:
    split = ":".join(map(str, ratio))
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


def _without_test_rows(dataset: Dataset, ratio: tuple[int, ...], seed: int) -> Dataset:
    """Return a dataset without its test rows: a stratified share of its training rows takes their place."""
    rows = dataset.train
    part = _part_of_rows(as_codes(rows.y), ratio, stream(seed, "tuning split"))
    train, judged = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    if not (len(train) and len(judged)):
        raise DataError(
            f"{dataset.name} has {len(rows)} training rows, too few to be cut {ratio[0]}:{ratio[1]} for tuning: give "
            "more rows, or another ratio."
        )
    note = (
        f"for tuning, {len(judged)} of {len(rows)} training rows take the place of the {len(dataset.test)} test rows, "
        "which are not used"
    )
    return replace(
        dataset,
        train=rows.take(train),
        test=rows.take(judged),
        notes=(*dataset.notes, note),
        validation=np.flatnonzero(np.isin(train, dataset.validation)),
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
