"""The user's own files: CSV tables, npz arrays, LIBSVM text. Errors name the file and the line or array."""

import csv as csv_reader
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Labels, Split, hold_out, standardise
from silobench.data.readers.checks import unreadable
from silobench.data.readers.targets import LabelTask, targets
from silobench.errors import DataError, suggest

TestShare = Annotated[float, Gt(0), Lt(1)]
Scale = Literal["standard", "none"]
MISSING = {"", "?", "na", "n/a", "null", "none"}
_MOST_CATEGORIES = 1000
_MANY_CATEGORIES = 30  # more may be a mistake, so a note tells the user


def csv(
    path: str,
    label: str,
    group: str | tuple[str, ...] = (),
    drop: str | tuple[str, ...] = (),
    test: TestShare = 0.2,
    scale: Scale = "standard",
    task: LabelTask = "auto",
    unit: str = "",
) -> Dataset:
    """A CSV table with a header: numeric columns are scaled, text columns become one-hot, `label` is the class.

    An empty cell, ? or NA is missing: a number is filled with the training mean of its column, a text gets an extra
    category, and a note reports how many. `group` names the columns that identify silos (hospital, region); they and
    the `drop` columns are not features. The share `test` of the rows is held out, stratified by class.

    A label with many different numbers is predicted as a number (regression), and a note reports it; `task` states
    classification or regression, and `unit` is the unit of a number, such as years.
    """
    table, lines = read_table(Path(path))
    groups, dropped = as_names(group), as_names(drop)
    for column in (label, *groups, *dropped):
        if column not in table:
            raise DataError(f"{path} has no column '{column}': {suggest(column, table)}")
    if any(value.strip().lower() in MISSING for value in table[label]):
        raise DataError(f"{path} has rows without a value in the label column '{label}': fill in or remove them.")
    cells = np.array([value.strip() for value in table[label]])
    labels = targets(path, f"the label {label}", cells, task, f"csv(path={path}, label={label}, task=classification)")
    for name in groups:
        if any(cell.strip().lower() in MISSING for cell in table[name]):
            raise DataError(f"{path} has rows without a value in the group column '{name}': fill in or remove them.")
    used = [name for name in table if name not in ("", label, *groups, *dropped)]
    if not used:
        raise DataError(
            f"{path} has no columns for features, only {', '.join(table)}: add a column, or drop fewer of them."
        )
    columns = [as_column(path, name, table[name], lines) for name in used]
    ids = {name: np.array([cell.strip() for cell in table[name]]) for name in groups}
    train, held, notes = split_columns(columns, labels.y, ids, lambda whole: hold_out(whole, test), scale)
    if "" in table:
        notes.insert(0, "the column without a name (a saved index) was left out")
    return Dataset(
        Path(path).stem, train, held, labels.classes, "the user's own", (*labels.notes, *notes), task=labels.task,
        target=label, unit=unit,
    )  # fmt: skip


def npz(
    path: str, test: TestShare = 0.2, scale: Literal["none", "standard"] = "none", task: LabelTask = "auto"
) -> Dataset:
    """A NumPy archive with x and y (and groups), or x_train, y_train, x_test, y_test (and groups_train, ...).

    Rows may have any shape; images are (channels, height, width), and uint8 means pixels from 0 to 255. Many different
    numbers in y are predicted as numbers (regression), and a note reports it; `task` states which.
    """
    arrays = _read_arrays(Path(path))
    if "x_train" in arrays:
        needed = ["x_train", "y_train", "x_test", "y_test"]
    else:
        needed = ["x", "y"]
    absent = [name for name in needed if name not in arrays]
    if absent:
        raise DataError(
            f"{path} has the arrays {', '.join(arrays) or 'none'} but not {', '.join(absent)}: "
            "save x and y, or x_train, y_train, x_test and y_test."
        )
    sides = [arrays[name] for name in needed[1::2]]
    if any(y.ndim not in (1, 2) or y.ndim != sides[0].ndim for y in sides):
        raise DataError(f"{path} has labels of shape {[y.shape for y in sides]}: save one label per row.")
    labels = targets(path, "the label y", np.concatenate(sides), task, f"npz(path={path}, task=classification)")
    if len(needed) == 2:
        whole = _array_split(path, arrays, "", labels.y)
        train, held = hold_out(whole, test)
    else:
        cut = len(arrays["y_train"])
        train = _array_split(path, arrays, "_train", labels.y[:cut])
        held = _array_split(path, arrays, "_test", labels.y[cut:])
    if scale == "standard":
        train, held = standardise(train, held)
    return Dataset(
        Path(path).stem, train, held, labels.classes, "the user's own", labels.notes, task=labels.task, target="y"
    )


def libsvm(path: str, test_path: str = "", test: TestShare = 0.2, task: LabelTask = "auto") -> Dataset:
    """LIBSVM text (label index:value ...), kept sparse. Without `test_path`, the share `test` is held out.

    Many different numbers as labels are predicted as numbers (regression), and a note reports it; `task` states which.
    """
    files = [path, test_path] if test_path else [path]
    loaded = read_libsvm([Path(file) for file in files])
    values = np.concatenate([y for _, y in loaded])
    labels = targets(path, "the label", values, task, f"libsvm(path={path}, task=classification)")
    cut = loaded[0][0].shape[0]
    train = Split(loaded[0][0], labels.y[:cut])
    train, held = (train, Split(loaded[1][0], labels.y[cut:])) if test_path else hold_out(train, test)
    return Dataset(Path(path).stem, train, held, labels.classes, "the user's own", labels.notes, task=labels.task)


# --- columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table as features: one numeric feature, or one feature per category of a text."""

    values: NDArray[np.float64]  # [n, width], missing numbers as NaN
    names: tuple[str, ...]  # [width]
    note: str = ""
    numeric: bool = True


def as_column(path: str, name: str, cells: Sequence[str], lines: Sequence[int]) -> Column:
    """Convert a column to numbers if every cell is a number or missing, else to categories.

    `path` and `lines` are the file and the line of each cell, for errors.
    """
    missing = np.array([cell.strip().lower() in MISSING for cell in cells])
    count = int(missing.sum())
    if missing.all():
        raise DataError(f"{path} has no values in column '{name}': leave it out with drop={name}.")
    try:
        numbers = np.array([np.nan if absent else float(cell) for cell, absent in zip(cells, missing, strict=True)])
    except ValueError:
        return one_hot(path, name, cells)
    if not np.isfinite(numbers[~missing]).all():
        bad = int(np.flatnonzero(~np.isfinite(numbers) & ~missing)[0])
        raise DataError(
            f"{path} has '{cells[bad].strip()}' in column '{name}', line {lines[bad]}: "
            "numbers must be finite; leave the cell empty if the value is missing."
        )
    note = f"{count} missing values in column '{name}' filled with its training mean" if count else ""
    return Column(numbers[:, None], (name,), note)


def one_hot(path: str, name: str, cells: Sequence[str]) -> Column:
    """Encode a column as one 0/1 feature per distinct text; missing cells are one more category."""
    missing = np.array([cell.strip().lower() in MISSING for cell in cells])
    texts = np.array(["(missing)" if absent else c.strip() for c, absent in zip(cells, missing, strict=True)])
    categories, codes = np.unique(texts, return_inverse=True)
    if len(categories) > _MOST_CATEGORIES:
        raise DataError(
            f"{path} has {len(categories)} different texts in column '{name}', which looks like an identifier: "
            f"leave it out with drop={name}."
        )
    note = f"{int(missing.sum())} missing values in column '{name}' became a category" if missing.any() else ""
    if len(categories) > _MANY_CATEGORIES:
        count = len(categories)
        note = f"column '{name}' is text ('{texts[0]}') and became {count} one-hot columns; drop={name} leaves it out"
    names = tuple(f"{name}={category}" for category in categories.tolist())
    return Column(np.eye(len(categories))[codes.reshape(-1)], names, note, numeric=False)


def split_columns(
    columns: Sequence[Column],
    y: Labels,
    groups: Mapping[str, NDArray[Any]],
    split: Callable[[Split], tuple[Split, Split]],
    scale: Scale,
) -> tuple[Split, Split, list[str]]:
    """Join columns, split the rows with `split`, fill and scale numbers by the training rows; also return notes."""
    whole = Split(np.concatenate([c.values for c in columns], axis=1), y, groups)
    train, held = _fill_means(*split(whole))
    notes = [c.note for c in columns if c.note]
    numeric = np.concatenate([np.full(c.values.shape[1], c.numeric) for c in columns])
    if scale == "standard" and numeric.any():
        train, held = standardise(train, held, numeric)
        notes.append("numeric columns standardised by the pooled training rows")
    train, held = (replace(s, x=_float32(s.x)) for s in (train, held))
    return train, held, notes


def _fill_means(train: Split, test: Split) -> tuple[Split, Split]:
    """Replace missing numbers (NaN) by the mean of the known training values of the column."""
    known = ~np.isnan(train.x)
    means = np.where(known, train.x, 0).sum(0) / np.maximum(known.sum(0), 1)
    filled = [np.where(np.isnan(s.x), means, s.x) for s in (train, test)]
    return replace(train, x=filled[0]), replace(test, x=filled[1])


# --- CSV ---------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Return the content of a text file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte, or bytes that are not UTF-8
        raise unreadable(path, error, "text", "save it as UTF-8") from error


def read_table(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """Return the columns of a CSV file as text, by name, and the line where each row starts."""
    reader = csv_reader.reader(io.StringIO(read_text(path), newline=""))
    rows, lines, start = [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv_reader.Error as error:
        raise DataError(
            f"{path} cannot be read as CSV ({error} in line {reader.line_num}): correct that line."
        ) from error
    if len(rows) < 2:
        raise DataError(f"{path} has {len(rows)} lines: a header and at least one row are needed, so add them.")
    header = [name.strip() for name in rows[0]]
    if len(set(header)) != len(header):
        raise DataError(f"{path} has two columns of the same name in its header: rename one.")
    for number, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{path} has {len(row)} cells in line {number} but {len(header)} in the header: correct that line."
            )
    return {name: list(cells) for name, cells in zip(header, zip(*rows[1:], strict=True), strict=True)}, lines[1:]


def as_names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one name or several names as a tuple."""
    return (names,) if isinstance(names, str) else names


# --- npz and LIBSVM ----------------------------------------------------------------------------------


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # numpy raises many types of error for a truncated or foreign file
        raise unreadable(path, error, "an npz archive of plain arrays", "save it with numpy.savez") from error


def _array_split(path: str, arrays: dict[str, NDArray[Any]], suffix: str, y: NDArray[np.int64]) -> Split:
    x = arrays[f"x{suffix}"]
    if x.dtype.kind not in "fiub" or x.ndim < 2:
        raise DataError(
            f"{path} has x of type {x.dtype} and shape {x.shape}: rows of numbers are needed, so save them as [n, ...]."
        )
    groups = {"group": arrays[f"groups{suffix}"]} if f"groups{suffix}" in arrays else {}
    if any(ids.ndim != 1 for ids in groups.values()):
        raise DataError(f"{path} has groups{suffix} of shape {groups['group'].shape}: save one group per row.")
    for name, array in (("x", x), ("y", y), *groups.items()):
        if len(array) != len(y):
            raise DataError(f"{path} has {len(array)} rows in {name}{suffix} but {len(y)} labels: save equally many.")
    return Split(x if x.dtype == np.uint8 else _float32(x), y, groups)


def _float32(x: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # overflow gives infinity, which `Dataset` refuses
        return x.astype(np.float32)


def read_libsvm(paths: Sequence[Path], columns: int | None = None) -> list[tuple[Any, NDArray[Any]]]:
    """Read LIBSVM files as CSR features and labels; all files get the same columns.

    Without `columns`, the largest index gives their number, and indices count from 0 if an index 0 occurs.
    """
    from sklearn.datasets import load_svmlight_files  # imported here because the import takes half a second

    for path in paths:
        if not path.exists():
            raise DataError(f"there is no file {path}: check the path.")
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
    whole = all(np.isfinite(y).all() and (y == np.round(y)).all() for y in loaded[1::2])
    for x in loaded[::2]:
        x.sort_indices()
    return [(x, y.astype(np.int64) if whole else y) for x, y in zip(loaded[::2], loaded[1::2], strict=True)]
