"""Published tables for classification: adult (census), rcv1 and reuters (documents), covtype, heart-disease.

Each dataset is a factory that returns cached arrays, or calls the reader below it.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from silobench.data.dataset import Dataset, Labels, Split, hold_out
from silobench.data.feature_names import owned
from silobench.data.readers import adult as census
from silobench.data.readers.checks import bad_line, is_number, is_whole, shorten
from silobench.data.readers.delimited import Sides, first_lines, hold_out_part, lines, numbers, records, scale_columns
from silobench.data.readers.libsvm import read_libsvm
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.data.table.build import build
from silobench.data.table.cells import RawColumn, text_column
from silobench.data.table.choices import Choices
from silobench.data.table.plan import plan_columns
from silobench.errors import DataError

# --- adult -------------------------------------------------------------------------------------------


def adult(form: Literal["any", "a9a", "uci"] = "any") -> Dataset:
    """UCI's census income, encoded as the 123 binary features of LIBSVM's a9a: more than 50,000 dollars or not.

    There are 32,561 training and 16,281 test rows. The country of birth is the group. Both forms give the same arrays.
    """
    return stored("adult", _read_adult, form="" if form == "any" else form)


def _read_adult(files: Files) -> Dataset:
    if files.form == "a9a":
        train, test = _read_a9a(files)
    else:
        train, test = (census.encode(census.read_uci(files[name])) for name in ("adult.data", "adult.test"))
    train, test = (
        replace(split, x=split.x.toarray()) for split in (train, test)
    )  # dense arrays are faster for so few columns
    columns = tuple(name for attribute in census.ATTRIBUTES for name in _census_columns(attribute))
    return Dataset(
        "adult",
        train,
        test,
        census.CLASSES,
        files.entry.licence,
        notes=(f"read from {' and '.join(files.names)}", "a missing value is encoded as zeros"),
        defaults={"model": "mlp"},
        columns=columns,
        owners=owned(columns, census.OWNERS),
    )


def _read_a9a(files: Files) -> Iterator[Split]:
    paths = [files["a9a"], files["a9a.t"]]
    for path, (x, y) in zip(paths, _sparse_rows(paths, census.WIDTH), strict=True):
        try:
            yield Split(x, y, {"country": census.countries_of_a9a(x)})
        except DataError as error:
            raise DataError(f"{path}: {error}") from error


def _census_columns(attribute: census.Attribute) -> Iterator[str]:
    """Yield the column names of an attribute, such as workclass=Private, age<26, 26<=age<33 and age>=50."""
    name, bins = attribute.name, attribute.bins
    yield from (f"{name}={category}" for category in attribute.categories)
    if bins:
        yield f"{name}<{bins[1]}"
        yield from (f"{low}<={name}<{high}" for low, high in itertools.pairwise(bins[1:]))
        yield f"{name}>={bins[-1]}"


# --- documents ---------------------------------------------------------------------------------------

_RCV1_WIDTH = 47_236


def rcv1() -> Dataset:
    """Reuters news of 1996 and 1997 as 47,236 sparse word weights; the class is economy or not (LIBSVM's rcv1.binary).

    A quarter of the 20,242 rows of LIBSVM's training file is held out, as in NIID-Bench: 15,182 and 5,060 rows.
    """
    return stored("rcv1", _read_rcv1)


def _read_rcv1(files: Files) -> Dataset:
    [(x, y)] = _sparse_rows([files["rcv1_train.binary.bz2"]], _RCV1_WIDTH)
    train, test = hold_out_part(files["rcv1_train.binary.bz2"], Split(x, y), 4)
    return Dataset(
        "rcv1",
        train,
        test,
        ("-1", "1"),
        files.entry.licence,
        notes=("a quarter of LIBSVM's training file held out, chosen by a fixed permutation",),
        defaults={"solver": "sgd(lr=0.1)"},
    )


def reuters() -> Dataset:
    """Reuters-21578 as 8,315 sparse word weights; the class is money-fx or not: 7,770 training and 3,299 test rows."""
    return stored("reuters", _read_reuters)


def _read_reuters(files: Files) -> Dataset:
    train, test = _sparse_rows([files["reuters.trn.bz2"], files["reuters.tst.bz2"]])
    suited = {"model": "linear", "solver": "sgd(lr=1)"}  # rows of norm 1 with few small values have small gradients
    return Dataset("reuters", Split(*train), Split(*test), ("other", "money-fx"), files.entry.licence, defaults=suited)


def _sparse_rows(paths: Sequence[Path], columns: int | None = None) -> list[tuple[Any, Labels]]:
    """Read LIBSVM files with labels -1 and 1 as CSR features and labels 0 and 1; all files get the same columns."""
    try:
        loaded = read_libsvm(paths, columns)
    except DataError as error:
        raise _first_bad_line(paths, columns) or error from error
    if not all(np.isfinite(x.data).all() and np.isin(y, (-1, 1)).all() for x, y in loaded):
        problem = _first_bad_line(paths, columns)
        raise problem or DataError(
            f"{paths[0]} has a line that is not LIBSVM text with labels -1 and 1: use the published file."
        )
    for x, _ in loaded:  # int64 indices would double the memory
        x.indices, x.indptr = x.indices.astype(np.int32, copy=False), x.indptr.astype(np.int32, copy=False)
    return [(x, (y > 0).astype(np.int64)) for x, y in loaded]


def _first_bad_line(paths: Sequence[Path], columns: int | None) -> DataError | None:
    for path in paths:
        for number, line in lines(path):
            problem = _libsvm_problem(line, columns)
            if problem:
                indices = f"from 1 to {columns}" if columns else "from 1"
                return bad_line(
                    path, number, problem, f"-1 or 1, then index:number with ascending indices {indices}, is needed"
                )
    return None


def _libsvm_problem(line: str, columns: int | None) -> str:
    """Return what is wrong with a line of LIBSVM text, or an empty string."""
    label, *cells = line.partition("#")[0].split() or ["nothing"]
    if not is_number(label) or float(label) not in (-1, 1):
        return f"the label '{shorten(label)}'"
    last = 0
    for cell in cells:
        index, colon, value = cell.partition(":")
        if not (colon and is_whole(index) and is_number(value)):
            return f"'{shorten(cell)}'"
        if int(index) <= last or int(index) > (columns or int(index)):
            return f"the index {shorten(index)} after {last}"
        last = int(index)
    return ""


# --- covtype -----------------------------------------------------------------------------------------

_COVER_TYPES: tuple[str, ...] = (
    "spruce or fir",
    "lodgepole pine",
    "ponderosa pine",
    "cottonwood or willow",
    "aspen",
    "douglas-fir",
    "krummholz",
)
_COVER_NUMBERS = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
_COVER_COLUMNS = (
    *_COVER_NUMBERS,
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
)
_COVER_OWNERS = {"terrain": _COVER_COLUMNS[:10], "wilderness": _COVER_COLUMNS[10:14], "soil": _COVER_COLUMNS[14:]}


def covtype(
    classes: Literal["binary", "seven"] = "binary", scale: Literal["unit", "standard", "none"] = "unit"
) -> Dataset:
    """UCI's forest cover of 581,012 patches in Colorado, by 54 columns; binary means lodgepole pine or not.

    A quarter of each class is held out: 435,759 and 145,253 rows. `scale` scales the ten numeric columns by the
    training rows to [0, 1] (unit) or to mean 0 and variance 1 (standard); the 44 indicator columns stay 0 and 1.
    """
    return stored("covtype", _read_covtype, classes=classes, scale=scale)


def _read_covtype(files: Files, classes: str, scale: str) -> Dataset:
    [name] = files.names
    path, header = files[name], files.form == "csv"
    if header and (first := first_lines(path, 1)[0]) != ",".join((*_COVER_COLUMNS, "Cover_Type")):
        raise bad_line(
            path, 1, f"the header '{shorten(first)}'", f"UCI's columns from {_COVER_COLUMNS[0]} on are needed"
        )
    table = numbers(path, 55, skip=int(header))
    kind = table[:, -1]
    bad = np.flatnonzero(~np.isin(kind, range(1, 8)))
    if len(bad):
        line = int(bad[0]) + 1 + header
        raise bad_line(path, line, f"the class {kind[bad[0]]:g}", "a whole number from 1 to 7 is needed")
    y, names = kind.astype(np.int64) - 1, _COVER_TYPES
    if classes == "binary":
        y, names = (kind == 2).astype(np.int64), (f"not {_COVER_TYPES[1]}", _COVER_TYPES[1])
    train, test = hold_out(Split(table[:, :-1], y), 0.25)
    note = scale_columns(train, test, slice(0, len(_COVER_NUMBERS)), scale)
    return Dataset(
        "covtype", train, test, names, files.entry.licence, (note,), columns=_COVER_COLUMNS, owners=_COVER_OWNERS
    )


# --- heart disease -----------------------------------------------------------------------------------

_HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_HEART_COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
_HEART_CATEGORIES = {
    "sex": ("0", "1"),
    "cp": ("1", "2", "3", "4"),
    "fbs": ("0", "1"),
    "restecg": ("0", "1", "2"),
    "exang": ("0", "1"),
    "slope": ("1", "2", "3"),
    "thal": ("3", "6", "7"),
}
# What a doctor asks and measures on admission; all else, and the diagnosis by angiography, is from tests in hospital.
_HISTORY = ("age", "sex", "cp", "trestbps")
_HEART_OWNERS = {"tests": tuple(name for name in _HEART_COLUMNS if name not in _HISTORY), "history": _HISTORY}
_NEVER_ZERO = ("chol", "trestbps")  # cholesterol and resting blood pressure: 0 means missing


def heart_disease() -> Dataset:
    """UCI's heart disease: 920 patients in four hospitals, which are the groups; disease or healthy.

    Missing numbers are filled with the training mean, then numbers are standardised. Categories are one-hot, with
    "missing" as an extra category. A fifth is held out, stratified by hospital and class.
    """
    return stored("heart-disease", _read_heart_disease)


def _read_heart_disease(files: Files) -> Dataset:
    rows = [_patients(files[f"processed.{hospital}.data"]) for hospital in _HOSPITALS]
    hospital = np.repeat(_HOSPITALS, [len(patients) for patients in rows])
    cells = list(zip(*itertools.chain.from_iterable(rows), strict=True))
    table = {name: list(column) for name, column in zip((*_HEART_COLUMNS, "num"), cells, strict=True)}
    zeros = {name: table[name].count("0") for name in _NEVER_ZERO}
    for name in _NEVER_ZERO:
        table[name] = ["?" if cell == "0" else cell for cell in table[name]]
    y = (np.array(table.pop("num"), dtype=np.float64) > 0).astype(np.int64)
    columns = {name: _heart_column(files.root, name, cells) for name, cells in table.items()}
    train, test = _by_hospital_and_label(Split(np.arange(len(y)), y, {"hospital": hospital}))
    plan = plan_columns("heart-disease", columns, Choices(), str)
    built = build(plan, train.x, test.x, Choices(), None, "heart-disease")
    counts = " and ".join(f"{count} of {name}" for name, count in zeros.items())
    return Dataset(
        "heart-disease",
        replace(train, x=built.train),
        replace(test, x=built.test),
        ("healthy", "disease"),
        files.entry.licence,
        notes=(f"impossible values of 0 read as missing: {counts}", *built.notes),
        defaults={"model": "mlp", "partition": "by-group"},
        columns=built.encoder.features,
        owners=owned(built.encoder.features, _HEART_OWNERS),
    )


def _patients(path: Path) -> list[list[str]]:
    """Read the rows of one hospital: numbers in a uniform format (1.0 becomes 1), ? for missing values."""
    patients = []
    for number, cells in records(path, ",", len(_HEART_COLUMNS) + 1):
        row = [f"{float(cell):.12g}" if is_number(cell) else cell.strip() for cell in cells]
        for name, cell in zip((*_HEART_COLUMNS, "num"), row, strict=True):
            needed = _heart_needed(name, cell)
            if needed:
                raise bad_line(path, number, f"'{shorten(cell)}' as {name}", f"{needed} is needed")
        patients.append(row)
    if not patients:
        raise DataError(f"{path} has no patients: at least one row is needed; use the published file.")
    return patients


def _heart_needed(name: str, cell: str) -> str:
    """Return which value is needed in a column if this cell is invalid, else an empty string."""
    if name == "num":
        return "" if cell in ("0", "1", "2", "3", "4") else "0, 1, 2, 3 or 4"
    if name in _HEART_CATEGORIES:
        known = _HEART_CATEGORIES[name]
        return "" if cell in (*known, "?") else f"{', '.join(known)} or ?"
    return "" if cell == "?" or is_number(cell) else "a number or ?"


def _heart_column(root: Path, name: str, cells: Sequence[str]) -> RawColumn:
    if name not in _HEART_CATEGORIES and set(cells) == {"?"}:
        raise DataError(f"{root} has no value of {name} in any of the four files: use the published files.")
    return text_column(cells, is_category=name in _HEART_CATEGORIES)


def _by_hospital_and_label(whole: Split) -> Sides:
    codes = np.unique(whole.groups["hospital"], return_inverse=True)[1].reshape(-1)
    train, test = hold_out(replace(whole, y=2 * codes + whole.y), 0.2)
    return replace(train, y=train.y % 2), replace(test, y=test.y % 2)
