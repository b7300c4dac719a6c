"""UCI's Adult census files, encoded as the 123 binary features of LIBSVM's a9a, with the country of each row.

Every attribute has a block of columns: one per category, in the order of UCI's adult.names, or one per bin. For a
missing value ('?') all columns of the block are 0. With this encoding, every row of adult.data equals the same row of
a9a, and every row of adult.test that of a9a.t.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Features, Labels, Split
from silobench.data.readers.checks import is_whole
from silobench.data.readers.delimited import read_text
from silobench.errors import DataError

CLASSES = ("<=50K", ">50K")
MISSING = "?"
_LABELS = {
    text + end: code for code, text in enumerate(CLASSES) for end in ("", ".")
}  # in adult.test labels end in a dot
_ADVICE = "use the published adult.data or adult.test, or correct that line."


@dataclass(frozen=True)
class Attribute:
    """An attribute: its categories, or the lowest value of each bin (the last bin has no upper limit)."""

    name: str
    categories: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.categories) + len(self.bins)


def _categories(name: str, texts: str) -> Attribute:
    return Attribute(name, categories=tuple(texts.split()))


# The bins of fnlwgt start at the 20, 40, 60 and 80 % quantiles of adult.data. The exact limits for capital gain and
# loss cannot be seen from the rows: 0 is in the first bin, the smallest amounts (114 and 155) are in the second.
ATTRIBUTES = (
    Attribute("age", bins=(0, 26, 33, 41, 50)),
    _categories(
        "workclass",
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    ),
    Attribute("fnlwgt", bins=(0, 106_648, 158_662, 196_338, 259_873)),
    _categories(
        "education",
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool",
    ),
    Attribute("education-num", bins=(0, 9, 10, 11, 13)),
    _categories(
        "marital-status",
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    ),
    _categories(
        "occupation",
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    ),
    _categories("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    _categories("race", "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    _categories("sex", "Female Male"),
    Attribute("capital-gain", bins=(0, 1)),
    Attribute("capital-loss", bins=(0, 1)),
    Attribute("hours-per-week", bins=(0, 35, 40, 41, 48)),
    _categories(
        "native-country",
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    ),
)
# Two organisations that know the same people, in the order of UCI's adult.names: a statistical office or an insurer
# knows the person, an employer or a bank knows work and money. The label is an income, so the second has it.
_PERSON = ("age", "education", "education-num", "marital-status", "relationship", "race", "sex", "native-country")
OWNERS = {"work": tuple(a.name for a in ATTRIBUTES if a.name not in _PERSON), "person": _PERSON}
OFFSETS = tuple(
    sum(a.width for a in ATTRIBUTES[:i]) for i in range(len(ATTRIBUTES))
)  # first column of each attribute, from 0
WIDTH = sum(a.width for a in ATTRIBUTES)  # 123
_COUNTRY = [a.name for a in ATTRIBUTES].index("native-country")
_COUNTRIES: NDArray[np.str_] = np.array([*ATTRIBUTES[_COUNTRY].categories, MISSING])  # code -1 is the last one: missing


@dataclass(frozen=True)
class Table:
    """The rows of a UCI file. `values` ``[n, 14]`` has numbers, or indices of categories; -1 is missing."""

    values: NDArray[np.int64]
    labels: Labels  # 0: <=50K, 1: >50K

    def __len__(self) -> int:
        return len(self.labels)


def read_uci(path: Path) -> Table:
    """Read the rows of adult.data or adult.test.

    Blank lines and lines that start with '|' (adult.test has one) are skipped. A label may end in a dot, as in
    adult.test. A line with a wrong number of cells, an invalid number or category, or no label raises an error.
    """
    columns, lines = _columns(path)
    values = [_values(path, a, cells, lines) for a, cells in zip(ATTRIBUTES, columns[:-1], strict=True)]
    labels = _codes(path, "label", columns[-1], lines, _LABELS, f"{' or '.join(CLASSES)} is needed")
    return Table(np.stack(values, axis=1), labels)


def encode(table: Table) -> Split:
    """Encode rows as in a9a: CSR float32 ``[n, 123]`` of ones, with the country as the group ('?' if unknown)."""
    codes = np.stack([_code(a, table.values[:, i]) for i, a in enumerate(ATTRIBUTES)], axis=1)
    known = codes >= 0
    indices = (codes + np.array(OFFSETS))[known].astype(np.int32)
    indptr = np.concatenate([[0], known.sum(1).cumsum()]).astype(np.int32)
    x = sparse.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(table), WIDTH))
    return Split(x, table.labels, {"country": _COUNTRIES[codes[:, _COUNTRY]]})


def countries_of_a9a(x: Features) -> NDArray[np.str_]:
    """Return the country of each row of a9a or a9a.t, from columns 83 to 123 (counted from 1); '?' if none is set.

    `x` is ``[n, 123]``, sparse or dense. Invalid rows, for example with two countries, raise an error.
    """
    if x.ndim != 2 or x.shape[1] != WIDTH:
        raise DataError(
            f"the rows have shape {tuple(x.shape[1:])} but a9a has {WIDTH} columns: "
            "read a9a and a9a.t together, because a9a.t has no row of the last country."
        )
    block = sparse.csr_matrix(x)[:, OFFSETS[_COUNTRY] :]
    block.eliminate_zeros()
    count: NDArray[np.int64] = np.diff(block.indptr)
    bad = np.flatnonzero((count > 1) | (count != np.asarray(block.sum(1)).ravel()))
    if len(bad):
        raise DataError(
            f"row {bad[0]} (counted from 0) has {block[bad[0]].data.tolist()} in the country columns of a9a "
            f"({OFFSETS[_COUNTRY] + 1} to {WIDTH}): at most one 1 is needed; give the rows of a9a or a9a.t."
        )
    codes = np.full(len(count), -1, np.int64)
    codes[count == 1] = block.indices
    return _COUNTRIES[codes]


# --- reading -----------------------------------------------------------------------------------------


def _columns(path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the 15 columns as text, and the line number of each row."""
    text = read_text(path).split("\n")
    lines = [number for number, line in enumerate(text, 1) if line.strip() and line[0] != "|"]
    if not lines:
        raise DataError(f"{path} has no rows: at least one is needed; use the published adult.data or adult.test.")
    rows, needed = [text[number - 1] for number in lines], len(ATTRIBUTES) + 1
    for number, row in zip(lines, rows, strict=True):
        if (count := row.count(",") + 1) != needed:
            raise DataError(
                f"{path} has {count} cells in line {number}: {needed} cells separated by commas are needed; {_ADVICE}"
            )
    cells = list(map(str.strip, ",".join(rows).split(",")))
    return [cells[column::needed] for column in range(needed)], lines


def _values(path: Path, attribute: Attribute, cells: Sequence[str], lines: Sequence[int]) -> NDArray[np.int64]:
    if attribute.categories:
        known = {text: code for code, text in enumerate(attribute.categories)}
        needed = f"one of the {len(known)} categories of UCI's adult.names or {MISSING} is needed"
    else:
        known = {cell: int(cell) for cell in set(cells) if is_whole(cell)}
        needed = f"a whole number of 0 or more, or {MISSING}, is needed"
    return _codes(path, attribute.name, cells, lines, {**known, MISSING: -1}, needed)


def _codes(
    path: Path, name: str, cells: Sequence[str], lines: Sequence[int], known: Mapping[str, int], needed: str
) -> NDArray[np.int64]:
    """Look up each cell in `known`; raise an error that names the first unknown cell and its line."""
    try:
        return np.array([known[cell] for cell in cells], dtype=np.int64)
    except KeyError:
        row = next(i for i, cell in enumerate(cells) if cell not in known)
        raise DataError(f"{path} has '{cells[row]}' as {name} in line {lines[row]}: {needed}; {_ADVICE}") from None


# --- encoding ----------------------------------------------------------------------------------------


def _code(attribute: Attribute, values: NDArray[np.int64]) -> NDArray[Any]:
    """Return the index of each value in the columns of an attribute; -1 (missing) is below every bin, and stays -1."""
    return np.searchsorted(attribute.bins, values, side="right") - 1 if attribute.bins else values
