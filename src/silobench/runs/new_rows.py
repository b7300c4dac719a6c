"""New rows for a trained network: arrays, data frames and files become the features that it was trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.data.conversion import as_array, as_float32
from silobench.data.dataset import Features
from silobench.data.readers.saved_arrays import read_npy, read_npz
from silobench.errors import DataError, listed
from silobench.tasks.row_format import RowFormat

_BYTES = 255


def features(rows: Any, form: RowFormat, encoded: bool = False) -> Features:
    """Return rows as the stored features of a dataset with this format.

    `rows` is an array or a tensor, a mapping of columns, a data frame, or the path of a CSV, Parquet, .npy or .npz
    file. With `encoded`, an array has features of the dataset, which are used as they are.
    """
    x = _of_file(Path(rows), form, encoded) if isinstance(rows, str | Path) else _of_object(rows, form, encoded)
    if not x.shape[0]:
        raise DataError("there are no rows to predict: give at least one.")
    return x


def _of_object(rows: Any, form: RowFormat, encoded: bool) -> Features:
    if isinstance(rows, Mapping) or hasattr(rows, "columns"):
        columns = {str(name): rows[name] for name in (rows if isinstance(rows, Mapping) else rows.columns)}
        needed = form.encoder.columns if form.encoder is not None and not encoded else columns
        lengths = {name: _length(columns[name]) for name in needed if name in columns}
        if not columns or len(set(lengths.values())) > 1:
            counts = listed([f"{name}: {count}" for name, count in lengths.items()], 5) or "there are none"
            raise DataError(f"the columns of the rows must have one length, but {counts}: give all values of each.")
        if form.encoder is not None and not encoded:
            return form.encoder.encode(columns)
        rows = np.column_stack([np.asarray(column) for column in columns.values()])
    return _of_array(rows, form, encoded)


def _length(column: Any) -> int:
    """Return the number of values of a column; a number alone is one, also as an array or tensor without dimensions."""
    return len(column) if hasattr(column, "__len__") and getattr(column, "shape", None) != () else 1


def _of_file(path: Path, form: RowFormat, encoded: bool) -> Features:
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file: give the path of a file.")
    if not path.is_file():
        raise DataError(f"there is no file {path}: check the path.")
    if path.suffix in (".npy", ".npz"):
        return _of_array(_saved_array(path), form, encoded)
    if form.encoder is None:
        raise DataError(
            f"the run does not store how the columns of a table become features, so it cannot read {path}: give rows "
            f"of shape {form.shape}, with features as sb.load(DATASET).test.x has them, as an array or a .npy file."
        )
    return form.encoder.read(path)


def _saved_array(path: Path) -> NDArray[Any]:
    """Read the array of a .npy file, or the array x of a .npz file."""
    if path.suffix == ".npy":
        return read_npy(path)
    arrays = read_npz(path)
    if "x" not in arrays:
        raise DataError(f"{path} has no array x: save the rows as x with numpy.savez, or as a .npy file.")
    return arrays["x"]


def _of_array(rows: Any, form: RowFormat, encoded: bool) -> Features:
    if form.encoder is not None and not encoded:
        raise DataError(
            f"the network was trained on the columns {listed(form.encoder.columns)} of a table, but the rows are an "
            "array without names of columns: give a data frame or a file with these columns, or state with "
            "encoded=True (--encoded) that the array has the encoded features."
        )
    if sparse.issparse(rows):
        x: Any = rows.tocsr().astype(np.float32)
    else:
        x = _converted(as_array("there are rows", rows), form)
    if tuple(x.shape[1:]) != form.shape:
        raise DataError(
            f"the rows have the shape {tuple(x.shape)}, but the network reads rows of shape {form.shape}: give an "
            f"array of shape {('n', *form.shape)}.".replace("'n'", "n")
        )
    if form.scaler is None or encoded:
        return x
    return form.scaler.scaled(x.toarray() if sparse.issparse(x) else x)


def _converted(x: NDArray[Any], form: RowFormat) -> NDArray[Any]:
    """Return an array in a type that the network reads: bytes stay bytes only where it was trained on bytes."""
    if x.dtype.kind not in "biuf":
        raise DataError(f"the rows are an array of type {x.dtype}, but numbers are needed: convert them to numbers.")
    if x.dtype.kind == "f" and not np.isfinite(as_float32(x)).all():
        raise DataError("the rows have NaN, infinite or too large values: fill them in first.")
    if form.vocabulary:
        return _words(x, form)
    if form.dtype == "uint8" and x.dtype.kind in "iu":
        if x.size and not 0 <= x.min() <= x.max() <= _BYTES:
            raise DataError(f"the rows have values from {x.min()} to {x.max()}, but pixels are 0 to {_BYTES}.")
        return x.astype(np.uint8)
    return x.astype(np.float32)


def _words(x: NDArray[Any], form: RowFormat) -> NDArray[Any]:
    """Return word numbers in the type of the training rows; numbers that stand for no word are refused."""
    is_word = (x >= 0) & (x < form.vocabulary) & (x == np.floor(x))
    if not is_word.all():
        raise DataError(
            f"the rows have the value {x[~is_word][0]}, but words are whole numbers from 0 to {form.vocabulary - 1}: "
            "use the words that the network was trained on."
        )
    return x.astype(form.dtype)


def as_stored(x: Features) -> "Tensor | sparse.csr_matrix":
    """Return features as a federation stores them: a tensor, or a CSR matrix."""
    return x if sparse.issparse(x) else torch.from_numpy(np.ascontiguousarray(x))


def numbers_per_row(x: Features, form: RowFormat) -> int:
    """Return how many numbers a row has; if rows are sparse, the average of the nonzero ones of a training row.

    Batches depend on it, so it does not follow from the new rows, unless an earlier run did not record it.
    """
    if sparse.issparse(x):
        return form.nonzero or max(1, int(x.nnz) // int(x.shape[0]))
    return max(1, int(np.prod(x.shape[1:])))
