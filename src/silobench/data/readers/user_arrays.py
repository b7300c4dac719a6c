"""The user's own arrays: a NumPy archive, or arrays in memory. Errors name the file or the array."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from silobench.data.array_scaler import ArrayScaler
from silobench.data.conversion import as_float32
from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.checks import file_path
from silobench.data.readers.saved_arrays import read_npz
from silobench.data.readers.targets import LabelTask, targets
from silobench.data.readers.user_tables import TestShare
from silobench.errors import DataError

ArrayScale = Literal["none", "standard"]


def npz(path: str, test: TestShare = 0.2, scale: ArrayScale = "none", task: LabelTask = "auto") -> Dataset:
    """A NumPy archive with x and y (and groups), or x_train, y_train, x_test, y_test (and groups_train, ...).

    Rows may have any shape; images are (channels, height, width), and uint8 means pixels from 0 to 255. Many different
    numbers in y are predicted as numbers (regression), and a note reports it; `task` states which.
    """
    arrays = read_npz(file_path(path))
    needed = ["x_train", "y_train", "x_test", "y_test"] if "x_train" in arrays else ["x", "y"]
    absent = [name for name in needed if name not in arrays]
    if absent:
        given = f"the arrays {', '.join(arrays)} but not {', '.join(absent)}" if arrays else "no arrays"
        raise DataError(f"{path} has {given}: save x and y, or x_train, y_train, x_test and y_test.")
    return arrays_dataset(path, Path(path).stem, arrays, test, scale, task, f"npz(path={path}, task=classification)")


def arrays_dataset(
    source: str,
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    test: float,
    scale: ArrayScale,
    task: LabelTask,
    remedy: str,
) -> Dataset:
    """Return the dataset of x and y, or of x_train, y_train, x_test and y_test, with groups if there are any."""
    sides = ["_train", "_test"] if "x_train" in arrays else [""]
    answers = [arrays[f"y{side}"] for side in sides]
    if any(y.ndim not in (1, 2) or y.ndim != answers[0].ndim for y in answers):
        raise DataError(f"{source} has labels of shape {[y.shape for y in answers]}: save one label per row.")
    if any(y.dtype.kind in "cV" for y in answers):
        raise DataError(f"{source} has labels of type {answers[0].dtype}: numbers or texts are needed; convert them.")
    answers = [_decoded(source, y) for y in answers]
    if len({y.dtype.kind == "U" for y in answers}) > 1:
        raise DataError(
            f"{source} has labels of type {answers[0].dtype} for training and {answers[1].dtype} for testing, which "
            "would be different classes: give texts on both sides, or numbers."
        )
    labels = targets(source, "the label y", np.concatenate(answers), task, remedy)
    if len(sides) == 1:
        train, held = hold_out(_array_split(source, arrays, "", labels.y), test)
    else:
        cut = len(answers[0])
        train = _array_split(source, arrays, "_train", labels.y[:cut])
        held = _array_split(source, arrays, "_test", labels.y[cut:])
    fits = len(train) and train.x.shape[1:] == held.x.shape[1:]  # `Dataset` refuses no rows, and rows of two shapes
    scaler = ArrayScaler.of(train.x) if scale == "standard" and fits else None
    if scaler is not None:
        train, held = (replace(split, x=scaler.scaled(split.x)) for split in (train, held))
    return Dataset(name, train, held, labels.classes, notes=labels.notes, task=labels.task, target="y", scaler=scaler)


def _decoded(source: str, y: NDArray[Any]) -> NDArray[Any]:
    """Return labels that are bytes as texts; other labels as they are."""
    try:
        return np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
    except UnicodeDecodeError as error:
        raise DataError(f"{source} has labels of bytes that are not UTF-8: save them as texts or numbers.") from error


def _array_split(source: str, arrays: Mapping[str, NDArray[Any]], suffix: str, y: NDArray[np.int64]) -> Split:
    x = arrays[f"x{suffix}"]
    if x.dtype.kind not in "fiub" or x.ndim < 2:
        raise DataError(
            f"{source} has x of type {x.dtype} and shape {x.shape}: rows of numbers are needed, so save them as "
            "[n, ...]."
        )
    groups = {"group": arrays[f"groups{suffix}"]} if f"groups{suffix}" in arrays else {}
    if any(ids.ndim != 1 for ids in groups.values()):
        raise DataError(f"{source} has groups{suffix} of shape {groups['group'].shape}: save one group per row.")
    for name, array in (("x", x), ("y", y), *groups.items()):
        if (rows := array.shape[0]) != len(y):
            raise DataError(f"{source} has {rows} rows in {name}{suffix} but {len(y)} labels: save equally many.")
    return Split(x if x.dtype == np.uint8 else as_float32(x), y, groups)
