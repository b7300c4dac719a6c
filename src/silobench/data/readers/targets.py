"""The label of a user's file: classes, or a number to predict."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Labels, TaskKind, encode_codes
from silobench.errors import DataError, listed

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
    values, codes = np.unique(raw.reshape(-1), return_inverse=True)
    return targets_of(path, what, values, codes.reshape(-1), task, remedy)


def targets_of(
    path: str, what: str, values: NDArray[Any], codes: NDArray[np.int64], task: LabelTask, remedy: str
) -> Targets:
    """Return `targets` of labels that are given as distinct sorted values and the code of each row."""
    if not len(codes):
        raise DataError(f"{path} has no rows: at least one is needed, so add them.")
    distinct = None if task == "classification" else _as_numbers(values)
    if task == "regression" and distinct is None:
        raise DataError(
            f"{path} has the label '{_not_a_number(values, codes)}' in {what}: task=regression needs finite numbers, "
            "so correct it, or leave task out."
        )
    numbers = None if distinct is None else distinct[codes]
    if numbers is None or (task == "auto" and not is_measurement(numbers)):
        _need_classes(path, what, values, codes)
        _need_whole(path, what, values, task, remedy)
        y, classes = encode_codes(path, values, codes)
        notes = (*_note_of_classes(what, distinct, remedy), *_note_of_spellings(what, classes))
        return Targets(y, classes, "classification", notes)
    if numbers.min() == numbers.max():
        raise DataError(f"{path} has only the number {numbers[0]:g} in {what}: targets must differ, so add rows.")
    note = (
        f"{what} has {len(np.unique(numbers))} different numbers, so it is predicted as a number (regression): "
        f"{remedy} makes them classes"
    )
    return Targets(numbers.astype(np.float32), (), "regression", (note,) if task == "auto" else ())


def _need_classes(path: str, what: str, values: NDArray[Any], codes: NDArray[np.int64]) -> None:
    """Refuse a column in which most rows have a label of their own, though some of them are not numbers."""
    if len(codes) >= 20 and len(values) > len(codes) // 2 and _as_numbers(values) is None:
        raise DataError(
            f"{path} has {len(values)} different labels in {len(codes)} rows of {what}, such as "
            f"'{_not_a_number(values, codes)}': classes repeat, and numbers are finite and have a decimal point, so "
            "correct the labels or choose another column."
        )


def _need_whole(path: str, what: str, values: NDArray[Any], task: LabelTask, remedy: str) -> None:
    """Refuse a few fractions as the numbers of classes, unless the user says that they are classes."""
    if task == "auto" and values.dtype.kind == "f" and not (values == np.round(values)).all():
        shown = listed([f"{value:g}" for value in values[values != np.round(values)]], 3)
        other = _as_regression(remedy)
        raise DataError(
            f"{path} has {shown} in {what}, which are neither numbers of classes nor many different measurements: "
            f"write {remedy} or {other}."
        )


def _note_of_classes(what: str, numbers: NDArray[np.float64] | None, remedy: str) -> tuple[str, ...]:
    """Return a note if several numbers, or fractions, were taken for classes."""
    count = 0 if numbers is None else len(np.unique(numbers))
    if numbers is None or (count < _FEW and (numbers == np.round(numbers)).all()):
        return ()
    other = _as_regression(remedy)
    return (f"{what} has {count} different numbers, so each is a class: {other} predicts it as a number",)


def _note_of_spellings(what: str, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note if classes differ only in case or spaces."""
    spellings: dict[str, list[str]] = {}
    for name in classes:
        spellings.setdefault("".join(name.split()).casefold(), []).append(f"'{name}'")
    same = [listed(names) for names in spellings.values() if len(names) > 1]
    if not same:
        return ()
    return (f"{what} has classes that differ only in case or spaces ({'; '.join(same)}): write them in the same way",)


def _as_regression(remedy: str) -> str:
    return "regression".join(remedy.rsplit("classification", 1))


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


def _not_a_number(values: NDArray[Any], codes: NDArray[np.int64]) -> str:
    """Return the label of the first row that is not a number."""
    bad = np.array([_as_numbers(values[place : place + 1]) is None for place in range(len(values))])
    return str(values[codes[np.flatnonzero(bad[codes])[0]]])
