"""Arrays of any library as the arrays that a dataset holds, or one sentence that says why not.

Features are float32, or uint8 for pixels, or integers for words. Labels are int64 for classes and float32 for numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.table.cells import is_absent
from silobench.errors import DataError, listed


def features_array(source: str, x: Any, of_words: bool = False) -> Any:
    """Return features as float32 (bytes stay uint8, numbers of words are integers), dense or as a CSR matrix.

    `source` names the features in a message, such as "dataset toy has training features".
    """
    if sparse.issparse(x):
        return _sparse(source, x)
    array = as_array(source, x)
    if array.ndim < 2:
        raise DataError(f"{source} of shape {array.shape}: rows [n, ...] are needed, so reshape them to [n, 1].")
    if of_words and array.dtype.kind in "iu":
        return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)  # those that PyTorch looks up
    if array.dtype == np.float32 or array.dtype == np.uint8:
        return array
    if array.dtype.kind in "fiub":
        return as_float32(array)
    if array.dtype.kind == "O":
        try:
            return as_float32(array.astype(np.float64))
        except (TypeError, ValueError):
            pass
    raise DataError(
        f"{source} of type {array.dtype}: numbers are needed, so encode texts and dates, for example with "
        "silobench.from_pandas."
    )


def _sparse(source: str, x: Any) -> Any:
    if x.dtype.kind not in "fiub":
        raise DataError(f"{source} of type {x.dtype} in a sparse matrix: real numbers are needed, so convert them.")
    if x.ndim != 2:
        raise DataError(f"{source} of shape {x.shape} in a sparse array: rows [n, columns] are needed; reshape them.")
    rows = x if x.format == "csr" else x.tocsr()
    if not isinstance(rows, sparse.csr_matrix):
        rows = sparse.csr_matrix(rows)
    return rows if rows.dtype == np.float32 else rows.astype(np.float32)


def labels_array(source: str, y: Any, classes: Sequence[str] | None) -> NDArray[Any]:
    """Return labels as int64 numbers of `classes`, or as float32 numbers if there are no classes (regression).

    The target of a regression may have several numbers per row, [n, k]. A text is the number of the class of this name.
    `source` names the labels in a message.
    """
    array = as_array(source, y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 and not (classes is None and array.ndim == 2 and array.shape[1]):
        raise DataError(f"{source} of shape {array.shape}: one label per row is needed, so give the class of each row.")
    if classes is None:
        return _numbers(source, array)
    if array.dtype == np.int64:
        return array
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        whole = (np.abs(array) < 2.0**63) & (array == np.round(array))
        if not whole.all():
            raise DataError(
                f"{source} such as {array[~whole][0]}, which is not the number of a class: use 0, 1, 2, ..., or "
                'task="regression" with classes=().'
            )
        return array.astype(np.int64)
    return _named(source, array, classes)


def _numbers(source: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == np.float32:
        return array
    try:
        return as_float32(array.astype(np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"{source} of type {array.dtype}: regression needs numbers, so convert them.") from error


def _named(source: str, array: NDArray[Any], classes: Sequence[str]) -> NDArray[np.int64]:
    number = {str(name): place for place, name in enumerate(classes)}
    texts = [str(label) for label in array.tolist()]
    unknown = sorted({text for text in texts if text not in number})
    if unknown:
        shown = listed([f"'{text}'" for text in unknown], 3)
        raise DataError(
            f"{source} {shown}, but the classes are {listed(list(number), 5)}: name every class in `classes`."
        )
    return np.array([number[text] for text in texts], np.int64)


def plain_array(source: str, values: Any) -> NDArray[Any]:
    """Return values as an array of numbers or of texts; Python objects become numbers if all of them are, else texts.

    `source` names the values in a message.
    """
    array = as_array(source, values)
    if array.dtype.kind == "O":
        if any(is_absent(value) for value in array.reshape(-1)):
            raise DataError(f"{source} with missing values: fill or remove those rows.")
        numbers = all(isinstance(value, int | float | np.number) for value in array.reshape(-1))
        try:
            array = array.astype(np.float64) if numbers else array.astype(str)
        except OverflowError as error:
            raise DataError(f"{source} with a number that is too large: it must be below 1e308.") from error
        if numbers and ((array == np.round(array)) & (np.abs(array) < 2.0**63)).all():
            array = array.astype(np.int64)
    if array.dtype.kind not in "fiubU":
        raise DataError(f"{source} of type {array.dtype}: numbers or texts are needed, so convert them.")
    return array


def groups_array(source: str, ids: Any) -> NDArray[Any]:
    """Return the group of each row; refuse missing groups. `source` names the groups in a message."""
    array = as_array(source, ids)
    if array.dtype.kind == "O":
        array = plain_array(source, array)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise DataError(f"{source} with missing values: fill or remove those rows.")
    return array


def as_array(source: str, values: Any) -> NDArray[Any]:
    """Return a list, tensor, Series, DataFrame or array as a NumPy array."""
    if np.ma.is_masked(values):
        raise DataError(f"{source} with masked values: fill them, or remove those rows.")
    if isinstance(values, np.ndarray):
        return values if values.flags.writeable else values.copy()  # torch warns about read-only arrays
    if type(values).__module__.split(".")[0] == "torch":
        return _tensor(source, values)
    if hasattr(values, "to_numpy"):
        return as_array(source, np.asarray(values.to_numpy()))
    if isinstance(values, list | tuple) and values and type(values[0]).__module__.split(".")[0] == "torch":
        values = [_tensor(source, value) for value in values]
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{source} of different lengths: rows must have the same shape, so pad or cut them.") from error
    if array.ndim == 0:
        raise DataError(f"{source} as a {type(values).__name__}: give an array, a list, a tensor or a DataFrame.")
    return array


def _tensor(source: str, tensor: Any) -> NDArray[Any]:
    if str(tensor.layout) != "torch.strided":
        raise DataError(f"{source} as a tensor of layout {tensor.layout}: call .to_dense(), or give a SciPy matrix.")
    tensor = tensor.detach().cpu()
    try:
        array: NDArray[Any] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    except TypeError as error:  # NumPy has no such type
        raise DataError(f"{source} as a tensor of type {tensor.dtype}: convert it with .float().") from error
    return array


def as_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """Return numbers as float32; those that are too large become infinite, which `Dataset` refuses."""
    with np.errstate(over="ignore"):
        return x.astype(np.float32, copy=False)
