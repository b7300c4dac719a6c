"""LIBSVM text: the user's own files, and a reader for published ones. Errors name the file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.checks import check_opens, file_path
from silobench.data.readers.targets import LabelTask, targets
from silobench.data.readers.user_tables import TestShare
from silobench.errors import DataError

_LARGEST = 2.0**53  # whole numbers below this are exact as floats
_MOST_COLUMNS = 2**24  # of a small file; a larger one may have as many columns as bytes


def libsvm(path: str, test_path: str = "", test: TestShare = 0.2, task: LabelTask = "auto") -> Dataset:
    """LIBSVM text (label index:value ...), kept sparse. Without `test_path`, the share `test` is held out.

    Many different numbers as labels are predicted as numbers (regression), and a note reports it; `task` states which.
    """
    files = [path, test_path] if test_path else [path]
    loaded = read_libsvm([file_path(file) for file in files])
    values = np.concatenate([y for _, y in loaded])
    labels = targets(path, "the label", values, task, f"libsvm(path={path}, task=classification)")
    cut = loaded[0][0].shape[0]
    train = Split(loaded[0][0], labels.y[:cut])
    train, held = (train, Split(loaded[1][0], labels.y[cut:])) if test_path else hold_out(train, test)
    return Dataset(Path(path).stem, train, held, labels.classes, notes=labels.notes, task=labels.task)


def read_libsvm(paths: Sequence[Path], columns: int | None = None) -> list[tuple[Any, NDArray[Any]]]:
    """Read LIBSVM files as CSR features and labels; all files get the same columns.

    Without `columns`, the largest index gives their number, and indices count from 0 if an index 0 occurs.
    """
    from sklearn.datasets import load_svmlight_files  # imported here because the import takes half a second

    for path in paths:
        check_opens(path)
    try:
        loaded = load_svmlight_files(
            [str(path) for path in paths],
            n_features=columns,
            dtype=np.float32,
            zero_based="auto" if columns is None else False,
        )
    except Exception as error:  # scikit-learn raises many types of error for a malformed line
        raise DataError(
            f"{', '.join(map(str, paths))} cannot be read as LIBSVM text ({error}): write lines as label index:value."
        ) from error
    whole = all((np.abs(y) < _LARGEST).all() and (y == np.round(y)).all() for y in loaded[1::2])
    _check_width(paths, loaded[0].shape[1])
    for x in loaded[::2]:
        x.sort_indices()
    return [(x, y.astype(np.int64) if whole else y) for x, y in zip(loaded[::2], loaded[1::2], strict=True)]


def _check_width(paths: Sequence[Path], columns: int) -> None:
    """Refuse an index far beyond what files of this size can fill: a model has a number for each column."""
    most = max(_MOST_COLUMNS, sum(path.stat().st_size for path in paths))
    if columns > most:
        raise DataError(
            f"{', '.join(map(str, paths))} has the index {columns:,}, but a file of its size may have at most {most:,} "
            "columns: number its columns from 1 without gaps."
        )
