"""The label of a user's file: classes, or a number to predict."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Labels, TaskKind, encode_labels
from silobench.errors import DataError

LabelTask: TypeAlias = Literal["auto", "classification", "regression"]
_FEW = 6  # different numbers: fewer are surely classes
_MOST_CLASSES = 20  # more different numbers than this are a measurement, unless they number classes


@dataclass(frozen=True)
class Targets:
    """Labels of rows, their classes (none for regression) and a note about how they were understood."""

    y: Labels
    classes: tuple[str, ...]
    task: TaskKind
    notes: tuple[str, ...] = ()


def targets(path: str, what: str, raw: NDArray[Any], task: LabelTask, remedy: str) -> Targets:
    """Return labels as classes or as numbers, as `task` says or as their values suggest.

    `path` and `what` name the file and the label in messages; `remedy` is a spec that makes the labels classes.
    """
    numbers = None if task == "classification" else _as_numbers(raw)
    if task == "regression" and numbers is None:
        raise DataError(
            f"{path} has the label '{_not_a_number(raw)}' in {what}: task=regression needs finite numbers, so correct "
            "it, or leave task out."
        )
    if numbers is None or (task == "auto" and not is_measurement(numbers)):
        _need_classes(path, what, raw)
        y, classes = encode_labels(path, raw)
        return Targets(y, classes, "classification", _note_of_classes(what, numbers, remedy))
    if numbers.min() == numbers.max():
        raise DataError(f"{path} has only the number {numbers[0]:g} in {what}: targets must differ, so add rows.")
    note = (
        f"{what} has {len(np.unique(numbers))} different numbers, so it is predicted as a number (regression): "
        f"{remedy} makes them classes"
    )
    return Targets(numbers.astype(np.float32), (), "regression", (note,) if task == "auto" else ())


def _need_classes(path: str, what: str, raw: NDArray[Any]) -> None:
    """Refuse a column in which most rows have a label of their own, though some of them are not numbers."""
    if len(raw) >= 20 and len(np.unique(raw)) > len(raw) // 2 and _as_numbers(raw) is None:
        raise DataError(
            f"{path} has {len(np.unique(raw))} different labels in {len(raw)} rows of {what}, such as "
            f"'{_not_a_number(raw)}': classes repeat, and numbers are finite and have a decimal point, so correct the "
            "labels or choose another column."
        )


def _note_of_classes(what: str, numbers: NDArray[np.float64] | None, remedy: str) -> tuple[str, ...]:
    """Return a note if several numbers were taken for classes."""
    count = 0 if numbers is None else len(np.unique(numbers))
    if count < _FEW:
        return ()
    other = remedy.replace("task=classification", "task=regression")
    return (f"{what} has {count} different numbers, so each is a class: {other} predicts it as a number",)


def is_measurement(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers are measurements to predict, and not the numbers of classes.

    Up to 20 different numbers are classes, unless most rows have a number of their own. More are measurements, unless
    they number classes: 0, 1, 2, ... or 1, 2, 3, ... without gaps, and none has less than a tenth of the mean count.

    >>> is_measurement(np.arange(5000.0) % 80 + 17), is_measurement(np.arange(5000.0) % 80)
    (True, False)
    """
    values, counts = np.unique(numbers, return_counts=True)
    if len(numbers) >= 20 and len(values) > len(numbers) // 2:
        return True
    if len(values) <= _MOST_CLASSES:
        return False
    has_no_gaps = values[0] in (0, 1) and np.array_equal(values, values[0] + np.arange(len(values)))
    return not (has_no_gaps and counts.min() >= counts.mean() / 10)


def _as_numbers(raw: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return labels as numbers; None if one of them is not a finite number."""
    if raw.dtype.kind == "b":
        return None
    try:
        numbers = raw.reshape(-1).astype(np.float64)
    except ValueError:
        return None
    return numbers if (np.abs(numbers) <= np.finfo(np.float32).max).all() else None


def _not_a_number(raw: NDArray[Any]) -> str:
    return next(str(label) for label in raw.reshape(-1).tolist() if _as_numbers(np.array([label])) is None)
