"""Datasets from objects in memory: a pandas DataFrame, arrays, a torch Dataset, a Hugging Face dataset.

None of these libraries is imported here: an object brings its own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from silobench.data.conversion import as_array, features_array, plain_array
from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.targets import LabelTask
from silobench.data.readers.user_arrays import ArrayScale, arrays_dataset
from silobench.data.readers.user_tables import Names, Source, as_names, check_roles, table_dataset
from silobench.data.table.cells import RawColumn, concatenate, raw_columns, text_column
from silobench.data.table.choices import Choices, Many
from silobench.data.table.dates import DateOrder
from silobench.data.table.files import Table
from silobench.data.table.progress import Progress
from silobench.data.table.scaling import Scaling
from silobench.errors import DataError, listed, suggest

_TEST_SPLITS = ("test", "validation", "valid", "dev")


def from_pandas(
    df: Any,
    label: Any,
    group: Any = (),
    *,
    drop: Any = (),
    test: Any = 0.2,
    scale: Scaling | None = "standard",
    epsilon: float | None = None,
    task: LabelTask = "auto",
    unit: str = "",
    text: Any = (),
    text_features: int = 64,
    dates: Any = "auto",
    date_order: DateOrder = "auto",
    many: Many = "auto",
    name: str = "table",
) -> Dataset:
    """Return the dataset of a pandas DataFrame.

    Numbers are scaled, dates become days, month and weekday, texts and categories become one-hot, and missing cells are
    filled. `label` is the column to predict, and `group` the column of the silos. `test` is a share of the rows, or a
    DataFrame of test rows. The other arguments are those of the spec `csv`; the index is not used. Names of columns
    that are not texts, such as 3, become texts.
    """
    if not hasattr(df, "columns") or not hasattr(df, "iloc"):
        raise DataError(
            f"from_pandas needs a pandas DataFrame, but an object of type {type(df).__name__} was given: convert it."
        )
    roles = {"label": label, "group": group, "drop": drop, "text": text, "dates": dates}
    names = {role: _column_names(df, value) for role, value in roles.items()}
    choices = _choices(scale, epsilon, text_features, date_order, many)
    source = Source("the DataFrame", name, write_python, 'task="classification"')
    frames = [df, test] if hasattr(test, "iloc") and hasattr(test, "columns") else [df]
    keys = {str(column): column for column in df.columns}
    dropped = set(as_names(names["drop"] or ())) - {names["label"]}
    columns = [
        raw_columns(source.title, {key: frame[column] for key, column in keys.items()}, dropped)
        for frame in _checked(frames, keys)
    ]
    return _joined(source, columns, names, choices, task, unit, test)


def _column_names(df: Any, value: Any) -> Names | None:
    """Return the columns of a role as texts; the columns of a DataFrame may be named by any values, such as numbers."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Iterable) or (isinstance(value, tuple) and value in list(df.columns)):
        return str(value)
    return tuple(map(str, value))


def _checked(frames: Sequence[Any], needed: Mapping[str, Any]) -> Sequence[Any]:
    for frame in frames:
        if len({str(column) for column in frame.columns}) != len(frame.columns):
            raise DataError("the DataFrame has two columns of the same name: rename one.")
        absent = [key for key, column in needed.items() if column not in frame.columns]
        if absent:
            raise DataError(f"the DataFrame of test rows has no column {listed(absent)}: give the same columns.")
        if not len(frame):
            raise DataError("the DataFrame has no rows: at least one is needed, so add them.")
    return frames


def write_python(name: str, value: Any) -> str:
    """Return an argument as Python writes it.

    >>> write_python("drop", ("id", "day"))
    "drop=['id', 'day']"
    """
    return f"{name}={list(value) if isinstance(value, tuple) else value!r}"


def _choices(
    scale: Scaling | None, epsilon: float | None, text_features: int, date_order: DateOrder, many: Many
) -> Choices:
    scale = "none" if scale is None else scale
    for name, value, known in (("scale", scale, Scaling), ("date_order", date_order, DateOrder), ("many", many, Many)):
        _need_one_of(name, value, known)
    if epsilon is not None and not epsilon > 0:
        raise DataError(f"epsilon must be above 0, but {epsilon} was given: write, for example, epsilon=1.")
    if text_features < 2:
        raise DataError(f"text_features must be at least 2, but {text_features} was given: write, for example, 64.")
    return Choices(scale, epsilon, text_features=text_features, date_order=date_order, many=many)


def _need_one_of(name: str, value: Any, literal: Any) -> None:
    """Refuse the value of an argument that is none of those of its type."""
    known = get_args(literal)
    if value not in known:
        raise DataError(f"{name} must be one of {', '.join(known)}, but {value!r} was given: choose one of them.")


def _joined(
    source: Source,
    sides: Sequence[dict[str, RawColumn]],
    names: Mapping[str, Any],
    choices: Choices,
    task: LabelTask,
    unit: str,
    test: Any,
) -> Dataset:
    """Return the dataset of one table, or of a training and a test table."""
    _need_one_of("task", task, LabelTask)
    cut = len(next(iter(sides[0].values()), ()))
    columns = sides[0]
    if len(sides) > 1:
        columns = {name: concatenate(column, sides[1][name]) for name, column in sides[0].items()}
    roles: dict[str, Names | None] = {
        key: value if value is None or isinstance(value, str) else tuple(value) for key, value in names.items()
    }
    roles["dates"] = None if roles["dates"] == "none" else roles["dates"]

    def split(whole: Split) -> tuple[Split, Split]:
        if len(sides) == 1:
            return hold_out(whole, _share(test))
        return whole.take(np.arange(cut)), whole.take(np.arange(cut, len(whole)))

    return table_dataset(source, Table(columns), roles, choices, task, unit, split)


def _share(test: Any) -> float:
    if isinstance(test, bool) or not isinstance(test, int | float) or not 0 < test < 1:
        given = repr(test) if isinstance(test, bool | int | float | str) else f"an object of type {type(test).__name__}"
        raise DataError(f"test must be a share between 0 and 1, or the test rows, but {given} was given: give one.")
    return float(test)


# --- arrays ------------------------------------------------------------------------------------------


def from_arrays(
    x: Any,
    y: Any,
    groups: Any = None,
    x_test: Any = None,
    y_test: Any = None,
    *,
    groups_test: Any = None,
    test: float = 0.2,
    scale: ArrayScale = "none",
    task: LabelTask = "auto",
    name: str = "arrays",
) -> Dataset:
    """Return the dataset of arrays: features `x`, labels `y` and, if there are silos, the group of each row.

    NumPy arrays, lists, tensors, DataFrames and SciPy matrices are converted. Without `x_test` and `y_test`, the share
    `test` of the rows is held out. Labels are numbers or texts.
    """
    _need_one_of("scale", scale or "none", ArrayScale)
    _need_one_of("task", task, LabelTask)
    if (x_test is None) != (y_test is None):
        raise DataError("from_arrays has only one of x_test and y_test: give both, or none of them.")
    parts = (
        {"": (x, y, groups)} if x_test is None else {"_train": (x, y, groups), "_test": (x_test, y_test, groups_test)}
    )
    arrays: dict[str, Any] = {}
    for side, (features, labels, ids) in parts.items():
        arrays[f"x{side}"] = features_array(f"from_arrays has x{side.removeprefix('_train')}", features)
        arrays[f"y{side}"] = _labels(f"from_arrays has y{side.removeprefix('_train')}", labels)
        if ids is not None:
            arrays[f"groups{side}"] = plain_array("from_arrays has groups", ids)
    if scale == "standard" and not isinstance(arrays.get("x", arrays.get("x_train")), np.ndarray):
        raise DataError("from_arrays has a sparse x, which scale='standard' would make dense: use scale='none'.")
    return arrays_dataset("from_arrays", name, arrays, _share(test), scale, task, 'task="classification"')


def _labels(source: str, y: Any) -> NDArray[Any]:
    """Return labels as numbers or texts, one per row."""
    array = plain_array(source, y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{source} of shape {array.shape}: one label per row is needed, so give the class of each row.")
    return array


# --- torch -------------------------------------------------------------------------------------------


def from_torch(
    dataset: Any,
    test: Any = None,
    *,
    groups: Any = None,
    groups_test: Any = None,
    scale: ArrayScale = "none",
    task: LabelTask = "auto",
    name: str = "torch",
) -> Dataset:
    """Return the dataset of a `torch.utils.data.Dataset` of pairs (x, y); `test` is one too, or a share (0.2).

    All rows are read into memory once. Transformations of the dataset are applied once, so random ones do not vary.
    """
    x, y = _pairs(dataset)
    if test is None or isinstance(test, int | float):
        share = 0.2 if test is None else test
        return from_arrays(x, y, groups, test=share, scale=scale, task=task, name=name)
    held = _pairs(test)
    return from_arrays(x, y, groups, *held, groups_test=groups_test, scale=scale, task=task, name=name)


def _pairs(dataset: Any) -> tuple[Any, Any]:
    """Return the features and the labels of all rows; class numbers are replaced by the names that a dataset has."""
    tensors = getattr(dataset, "tensors", None)
    if tensors is not None and len(tensors) == 2:
        return tensors[0], tensors[1]
    if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__iter__"):
        raise DataError(
            f"from_torch needs a torch Dataset, but an object of type {type(dataset).__name__} was given: give one."
        )
    items = (dataset[row] for row in range(len(dataset))) if hasattr(dataset, "__len__") else iter(dataset)
    rows, labels = [], []
    progress = Progress("reading the torch dataset", len(dataset) if hasattr(dataset, "__len__") else 0, "rows")
    for item in items:
        progress.step()
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(
                f"from_torch found a row of type {type(item).__name__}, not a pair (x, y): wrap the dataset so that "
                "it returns pairs."
            )
        rows.append(_features_of(item[0]))
        labels.append(_label_of(item[1]))
    if not rows:
        raise DataError("from_torch got a dataset without rows: at least one is needed, so add them.")
    names = getattr(dataset, "classes", None)
    if isinstance(names, list | tuple) and all(isinstance(label, int) and 0 <= label < len(names) for label in labels):
        labels = [str(names[label]) for label in labels]
    return _stacked("from_torch has rows", rows), labels


def _label_of(value: Any) -> Any:
    """Return the label of one row as a Python value."""
    shape = tuple(getattr(value, "shape", ()))
    if math.prod(shape) != 1:
        raise DataError(f"from_torch has a label of shape {shape}: one label per row is needed, so give its class.")
    return value.item() if hasattr(value, "item") else value


def _features_of(value: Any) -> NDArray[Any]:
    """Return one row as an array: a tensor, an array, a number, a list, or a picture as channels first."""
    if hasattr(value, "getbands"):  # a PIL picture
        pixels = np.asarray(value)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    array = as_array("from_torch has a row", value if hasattr(value, "__len__") or hasattr(value, "shape") else [value])
    return array.reshape(1) if array.ndim == 0 else array


def _stacked(source: str, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        shown = listed([str(shape) for shape in sorted(shapes)], 3)
        raise DataError(f"{source} of the shapes {shown}: all rows need the same shape, so resize or pad them.")
    return np.stack(rows)


# --- Hugging Face ------------------------------------------------------------------------------------


def from_huggingface(
    dataset: Any,
    label: str,
    group: Names | Sequence[str] = (),
    *,
    drop: Names | Sequence[str] = (),
    test: Any = None,
    scale: Scaling = "standard",
    epsilon: float | None = None,
    task: LabelTask = "auto",
    unit: str = "",
    text: Names | Sequence[str] = (),
    text_features: int = 64,
    dates: Names | Sequence[str] | None = "auto",
    date_order: DateOrder = "auto",
    many: Many = "auto",
    name: str = "huggingface",
) -> Dataset:
    """Return the dataset of a Hugging Face `Dataset` or `DatasetDict`.

    Columns are those of a table, as in `from_pandas`; a single column of pictures or lists is the features as it is. A
    `DatasetDict` has its training rows in train, and its test rows in test or validation. `test` is the name of a
    split, a dataset, or a share of the rows.
    """
    names = {"label": label, "group": group, "drop": drop, "text": text, "dates": dates}
    choices = _choices(scale, epsilon, text_features, date_order, many)
    sides = _splits(dataset, test)
    _check_columns(sides, [label, *as_names(group), *as_names(drop), *as_names(text)])
    check_roles("the Hugging Face dataset", label, as_names(group), {"drop": as_names(drop)})
    sides = [side.remove_columns(list(as_names(drop))) for side in sides]
    used = [column for column in sides[0].column_names if column not in (label, *as_names(group))]
    share = 0.2 if test is None or len(sides) > 1 else test
    if len(used) == 1 and _is_array(sides[0], used[0]):
        return _array_columns(sides, used[0], label, as_names(group), share, task, name)
    source = Source("the Hugging Face dataset", name, write_python, 'task="classification"')
    columns = [_hugging_columns(side) for side in sides]
    return _joined(source, columns, {**names, "drop": ()}, choices, task, unit, share)


def _splits(dataset: Any, test: Any) -> list[Any]:
    """Return the training rows and, if there are any, the test rows."""
    if isinstance(dataset, Mapping):
        if "train" not in dataset:
            raise DataError(f"the DatasetDict has the splits {listed(list(dataset))} but not train: rename one.")
        chosen = test if isinstance(test, str) else next((name for name in _TEST_SPLITS if name in dataset), None)
        if isinstance(test, str) and test not in dataset:
            raise DataError(f"the DatasetDict has no split '{test}': {suggest(test, dataset)}")
        held = test if hasattr(test, "column_names") else None
        if held is None and chosen and not isinstance(test, int | float):
            held = dataset[chosen]
        sides = [dataset["train"], held]
    else:
        sides = [dataset, test if hasattr(test, "column_names") else None]
    for side in sides[:1] + [side for side in sides[1:] if side is not None]:
        if not hasattr(side, "column_names") or not hasattr(side, "__len__"):
            raise DataError(
                f"from_huggingface needs a Dataset or a DatasetDict in memory, but an object of type "
                f"{type(side).__name__} was given: load it without streaming."
            )
    return [side for side in sides if side is not None]


def _check_columns(sides: Sequence[Any], wanted: Sequence[str]) -> None:
    absent = [name for name in sides[0].column_names if name not in sides[-1].column_names]
    if absent:
        raise DataError(
            f"the test rows of the Hugging Face dataset have no column {listed(absent)}: give the same columns."
        )
    for side in sides:
        unknown = [name for name in wanted if name not in side.column_names]
        if unknown:
            named = listed([f"'{name}'" for name in unknown])
            raise DataError(f"the Hugging Face dataset has no column {named}: {suggest(unknown[0], side.column_names)}")


def _is_array(side: Any, column: str) -> bool:
    """Whether a column has pictures, lists or matrices."""
    feature = side.features[column]
    return isinstance(feature, list) or type(feature).__name__ not in ("Value", "ClassLabel")


def _hugging_columns(side: Any) -> dict[str, RawColumn]:
    """Return the columns of a dataset; the numbers of classes are replaced by their names."""
    table = side.with_format("arrow")[:]
    columns = {name: _class_names(side, name) or table[name] for name in side.column_names}
    return raw_columns("the Hugging Face dataset", columns)


def _class_names(side: Any, name: str) -> RawColumn | None:
    names = getattr(side.features[name], "names", None)
    if names is None:
        return None
    numbers = side.with_format(None)[name]
    return text_column(["" if number is None or number < 0 else names[number] for number in numbers], is_category=True)


def _array_columns(
    sides: Sequence[Any], column: str, label: str, group: tuple[str, ...], test: float, task: LabelTask, name: str
) -> Dataset:
    """Return the dataset of a column of pictures, lists or matrices."""
    values: list[Any] = []
    for side in sides:
        rows = [_features_of(value) for value in side.with_format(None)[column]]
        classes = _class_names(side, label)
        y = classes.factor if classes else None
        labels = [y.texts[code] for code in y.codes] if y else list(side.with_format(None)[label])
        ids = list(side.with_format(None)[group[0]]) if group else None
        values.append((_stacked(f"column '{column}' has rows", rows), labels, ids))
    (x, y_train, groups), held = values[0], values[1] if len(values) > 1 else (None, None, None)
    return from_arrays(x, y_train, groups, *held[:2], groups_test=held[2], test=test, task=task, name=name)
