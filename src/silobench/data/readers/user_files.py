"""The user's own files: CSV tables, npz arrays, LIBSVM text. Every refusal names the file and the place."""

import csv as csv_reader
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Labels, Split, encode_labels, hold_out, standardise
from silobench.errors import DataError, suggest

TestShare = Annotated[float, Gt(0), Lt(1)]
Scale = Literal["standard", "none"]
MISSING = {"", "?", "na", "n/a", "null", "none"}
_MOST_CATEGORIES = 1000
_MANY_CATEGORIES = 30  # beyond this it may be a mistake, and is said


def csv(
    path: str,
    label: str,
    group: str | tuple[str, ...] = (),
    drop: str | tuple[str, ...] = (),
    test: TestShare = 0.2,
    scale: Scale = "standard",
) -> Dataset:
    """A CSV table with a header: numeric columns scaled, text columns one-hot, `label` the class.

    An empty cell, ? or NA is missing: numbers take the column's training mean, texts a category of their own, and
    the notes say how many. `group` names the columns that tell silos apart (hospital, region); they and
    the `drop` columns are not features. A share of `test` rows is held out, every class alike.
    """
    table, lines = read_table(Path(path))
    groups, dropped = as_names(group), as_names(drop)
    for column in (label, *groups, *dropped):
        if column not in table:
            raise DataError(f"{path} has no column '{column}': {suggest(column, table)}")
    targets = np.array([value.strip() for value in table[label]])
    if any(value.strip().lower() in MISSING for value in table[label]):
        raise DataError(f"{path} has rows without a value in the label column '{label}': fill or remove them.")
    y, classes = encode_labels(path, targets)
    for name in groups:
        if any(cell.strip().lower() in MISSING for cell in table[name]):
            raise DataError(f"{path} has rows without a value in the group column '{name}': fill or remove them.")
    used = [name for name in table if name not in ("", label, *groups, *dropped)]
    if not used:
        raise DataError(f"{path} has no column left for features: only {', '.join(table)}.")
    columns = [as_column(path, name, table[name], lines) for name in used]
    ids = {name: np.array([cell.strip() for cell in table[name]]) for name in groups}
    train, held, notes = split_columns(columns, y, ids, lambda whole: hold_out(whole, test), scale)
    if "" in table:
        notes.insert(0, "the column without a name, as a saved index has none, was left out")
    return Dataset(Path(path).stem, train, held, classes, "the user's own", tuple(notes))


def npz(path: str, test: TestShare = 0.2, scale: Literal["none", "standard"] = "none") -> Dataset:
    """A NumPy archive with x and y (and groups), or x_train, y_train, x_test, y_test (and groups_train, ...).

    Rows may have any shape; images are (channels, height, width), and uint8 is read as 0..255.
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
    targets = [arrays[name] for name in needed[1::2]]
    if any(y.ndim not in (1, 2) or y.ndim != targets[0].ndim for y in targets):
        raise DataError(f"{path} has labels of shape {[y.shape for y in targets]}: one label a row is needed.")
    labels = np.concatenate(targets)
    codes, classes = encode_labels(path, labels)
    if len(needed) == 2:
        whole = _array_split(path, arrays, "", codes)
        train, held = hold_out(whole, test)
    else:
        cut = len(arrays["y_train"])
        train = _array_split(path, arrays, "_train", codes[:cut])
        held = _array_split(path, arrays, "_test", codes[cut:])
    if scale == "standard":
        train, held = standardise(train, held)
    return Dataset(Path(path).stem, train, held, classes, "the user's own")


def libsvm(path: str, test_path: str = "", test: TestShare = 0.2) -> Dataset:
    """LIBSVM text (label index:value ...), kept sparse; `test_path` is the test file, or a share is held out."""
    files = [path, test_path] if test_path else [path]
    loaded = read_libsvm([Path(file) for file in files])
    codes, classes = encode_labels(path, np.concatenate([y for _, y in loaded]))
    cut = loaded[0][0].shape[0]
    train = Split(loaded[0][0], codes[:cut])
    train, held = (train, Split(loaded[1][0], codes[cut:])) if test_path else hold_out(train, test)
    return Dataset(Path(path).stem, train, held, classes, "the user's own")


# --- columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table as features: one of numbers, or one for each category of a text."""

    values: NDArray[np.float64]  # [n, width], missing numbers as NaN
    names: tuple[str, ...]  # [width]
    note: str = ""
    numeric: bool = True


def as_column(path: str, name: str, cells: Sequence[str], lines: Sequence[int]) -> Column:
    """Numbers if every cell is one or missing, else categories; `path` and `lines` say in errors where a cell is."""
    missing = np.array([cell.strip().lower() in MISSING for cell in cells])
    count = int(missing.sum())
    if missing.all():
        raise DataError(f"{path} has no value at all in column '{name}': leave it out with drop={name}.")
    try:
        numbers = np.array([np.nan if gone else float(cell) for cell, gone in zip(cells, missing, strict=True)])
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
    """A feature of 0 and 1 for each text there is; missing cells are one more of them."""
    missing = np.array([cell.strip().lower() in MISSING for cell in cells])
    texts = np.array(["(missing)" if gone else c.strip() for c, gone in zip(cells, missing, strict=True)])
    categories, codes = np.unique(texts, return_inverse=True)
    if len(categories) > _MOST_CATEGORIES:
        raise DataError(
            f"{path} has {len(categories)} different texts in column '{name}': that looks like an identifier; "
            f"leave it out with drop={name}."
        )
    note = f"{int(missing.sum())} missing values in column '{name}' made a category" if missing.any() else ""
    if len(categories) > _MANY_CATEGORIES:
        count = len(categories)
        note = f"column '{name}' is read as text, as '{texts[0]}': {count} one-hot columns; drop={name} leaves it out"
    names = tuple(f"{name}={category}" for category in categories.tolist())
    return Column(np.eye(len(categories))[codes.reshape(-1)], names, note, numeric=False)


def split_columns(
    columns: Sequence[Column],
    y: Labels,
    groups: Mapping[str, NDArray[Any]],
    cut: Callable[[Split], tuple[Split, Split]],
    scale: Scale,
) -> tuple[Split, Split, list[str]]:
    """Training and test rows as `cut` parts them, numbers filled and scaled by the training rows; what to say of it."""
    whole = Split(np.concatenate([c.values for c in columns], axis=1), y, groups)
    train, held = _fill_means(*cut(whole))
    notes = [c.note for c in columns if c.note]
    numeric = np.concatenate([np.full(c.values.shape[1], c.numeric) for c in columns])
    if scale == "standard" and numeric.any():
        train, held = standardise(train, held, numeric)
        notes.append("numeric columns standardised by the pooled training rows")
    train, held = (replace(s, x=_float32(s.x)) for s in (train, held))
    return train, held, notes


def _fill_means(train: Split, test: Split) -> tuple[Split, Split]:
    """Missing numbers (NaN) become the mean of the column's known training values."""
    known = ~np.isnan(train.x)
    means = np.where(known, train.x, 0).sum(0) / np.maximum(known.sum(0), 1)
    filled = [np.where(np.isnan(s.x), means, s.x) for s in (train, test)]
    return replace(train, x=filled[0]), replace(test, x=filled[1])


# --- CSV ---------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """A file as text, or one sentence why not."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path.") from error
    except (OSError, ValueError) as error:  # a path with a null byte is a ValueError, and so is text that is none
        raise DataError(f"{path} cannot be read as text: {error}.") from error


def read_table(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """Columns by name, as text, and the line of the file where each row begins."""
    reader = csv_reader.reader(io.StringIO(read_text(path), newline=""))
    rows, lines, start = [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv_reader.Error as error:
        raise DataError(f"{path} cannot be read as CSV, line {reader.line_num}: {error}.") from error
    if len(rows) < 2:
        raise DataError(f"{path} has {len(rows)} lines: a header and at least one row are needed.")
    header = [name.strip() for name in rows[0]]
    if len(set(header)) != len(header):
        raise DataError(f"{path} names a column twice in its header: rename one.")
    for number, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(header):
            raise DataError(f"{path} has {len(row)} cells in line {number} but {len(header)} in the header.")
    return {name: list(cells) for name, cells in zip(header, zip(*rows[1:], strict=True), strict=True)}, lines[1:]


def as_names(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


# --- npz and LIBSVM ----------------------------------------------------------------------------------


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path.") from error
    except Exception as error:  # numpy raises many kinds for a torn or foreign file
        raise DataError(f"{path} cannot be read as an npz archive of plain arrays: {error}.") from error


def _array_split(path: str, arrays: dict[str, NDArray[Any]], suffix: str, y: NDArray[np.int64]) -> Split:
    x = arrays[f"x{suffix}"]
    if x.dtype.kind not in "fiub" or x.ndim < 2:
        raise DataError(f"{path} has x of type {x.dtype} and shape {x.shape}: rows of numbers are needed.")
    groups = {"group": arrays[f"groups{suffix}"]} if f"groups{suffix}" in arrays else {}
    if any(ids.ndim != 1 for ids in groups.values()):
        raise DataError(f"{path} has groups{suffix} of shape {groups['group'].shape}: one group a row is needed.")
    for name, array in (("x", x), ("y", y), *groups.items()):
        if len(array) != len(y):
            raise DataError(f"{path} has {len(array)} rows in {name}{suffix} but {len(y)} labels: they must agree.")
    return Split(x if x.dtype == np.uint8 else _float32(x), y, groups)


def _float32(x: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows is infinite, and `Dataset` refuses that
        return x.astype(np.float32)


def read_libsvm(paths: Sequence[Path], columns: int | None = None) -> list[tuple[Any, NDArray[Any]]]:
    """CSR features and labels of each file, all with the same columns.

    Where their number is not given it is what the largest index needs, and an index of 0 says that they count from 0.
    """
    from sklearn.datasets import load_svmlight_files  # takes half a second: only where it is needed

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
    except Exception as error:  # the reader raises ValueError, IndexError, OSError... for a malformed line
        raise DataError(f"{', '.join(map(str, paths))} cannot be read as LIBSVM text: {error}.") from error
    whole = all(np.isfinite(y).all() and (y == np.round(y)).all() for y in loaded[1::2])
    for x in loaded[::2]:
        x.sort_indices()
    return [(x, y.astype(np.int64) if whole else y) for x, y in zip(loaded[::2], loaded[1::2], strict=True)]
