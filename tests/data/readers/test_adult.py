"""UCI's Adult files as the 123 features of a9a: expected vectors by hand, and the real files where they are at hand."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from silobench.data import Split, libsvm
from silobench.data.readers.adult import ATTRIBUTES, OFFSETS, WIDTH, Table, countries_of_a9a, encode, read_uci
from silobench.errors import DataError

NAMES = [attribute.name for attribute in ATTRIBUTES]
FIRST = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)
FIRST_A9A = [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]  # the first line of a9a, counted from 1


def line(**changed: Any) -> str:
    """The first row of adult.data with some cells changed; - in a name is written _."""
    cells = dict(zip([*NAMES, "label"], FIRST.split(", "), strict=True))
    given = {name.replace("_", "-"): str(value) for name, value in changed.items()}
    assert set(given) <= set(cells)
    return ", ".join({**cells, **given}.values())


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Table]:
    """Lines -> the table of a file that has them."""

    def of(*lines: str) -> Table:
        path = tmp_path / "adult.data"
        path.write_text("\n".join(lines), encoding="utf-8")
        return read_uci(path)

    return of


def features(split: Split) -> list[list[int]]:
    """The columns that each row sets, counted from 1 as LIBSVM does."""
    return [(row.indices + 1).tolist() for row in split.x]


# --- the table ---------------------------------------------------------------------------------------


def test_the_layout_is_that_of_a9a() -> None:
    assert [a.width for a in ATTRIBUTES] == [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41]
    assert [offset + 1 for offset in OFFSETS] == [1, 6, 14, 19, 35, 40, 47, 61, 67, 72, 74, 76, 78, 83]
    assert WIDTH == 123
    for attribute in ATTRIBUTES:
        assert bool(attribute.categories) != bool(attribute.bins)
        assert len(set(attribute.categories)) == len(attribute.categories)
        assert list(attribute.bins) == sorted(set(attribute.bins))


def test_the_table_is_the_one_that_was_checked_against_the_real_files() -> None:
    text = "\n".join(f"{a.name} {' '.join(map(str, a.categories + a.bins))}" for a in ATTRIBUTES)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7818b7137235c325"


# --- reading and encoding ----------------------------------------------------------------------------


def test_rows_by_hand(read: Callable[..., Table]) -> None:
    split = encode(
        read(
            FIRST,
            "50, Self-emp-not-inc, 83311, Bachelors, 13, Married-civ-spouse, Exec-managerial, Husband, White, Male, "
            "0, 0, 13, United-States, <=50K",
            "90, Never-worked, 300000, Preschool, 1, Married-AF-spouse, Armed-Forces, Unmarried, Black, Female, "
            "0, 4356, 99, Holand-Netherlands, >50K",
            "",
        )
    )
    assert features(split) == [
        FIRST_A9A,
        [5, 7, 14, 19, 39, 40, 51, 63, 67, 73, 74, 76, 78, 83],  # the second line of a9a
        [5, 13, 18, 34, 35, 46, 60, 66, 71, 72, 74, 77, 82, 123],
    ]
    assert isinstance(split.x, sparse.csr_matrix)
    assert (split.x.shape, split.x.dtype, split.x.has_sorted_indices) == ((3, 123), np.float32, True)
    assert set(split.x.data.tolist()) == {1.0}
    assert split.y.dtype == np.int64
    assert split.y.tolist() == [0, 0, 1]
    assert split.groups["country"].tolist() == ["United-States", "United-States", "Holand-Netherlands"]


@pytest.mark.parametrize(
    ("name", "first", "edges"),
    [
        ("age", 1, [(17, 25), (26, 32), (33, 40), (41, 49), (50, 90)]),
        (
            "fnlwgt",
            14,
            [(12285, 106647), (106648, 158661), (158662, 196337), (196338, 259872), (259873, 1490400)],
        ),
        ("education_num", 35, [(1, 8), (9, 9), (10, 10), (11, 12), (13, 16)]),
        ("capital_gain", 74, [(0, 0), (1, 99999)]),
        ("capital_loss", 76, [(0, 0), (1, 4356)]),
        ("hours_per_week", 78, [(1, 34), (35, 39), (40, 40), (41, 47), (48, 99)]),
    ],
)
def test_both_ends_of_every_bin(
    read: Callable[..., Table], name: str, first: int, edges: list[tuple[int, int]]
) -> None:
    rows = features(encode(read(*(line(**{name: value}) for pair in edges for value in pair))))
    place = NAMES.index(name.replace("_", "-"))
    assert [row[place] for row in rows] == [first + i for i in range(len(edges)) for _ in range(2)]
    assert {tuple(row[:place] + row[place + 1 :]) for row in rows} == {
        tuple(FIRST_A9A[:place] + FIRST_A9A[place + 1 :])  # no other attribute moves
    }


def test_a_missing_value_sets_no_feature(read: Callable[..., Table]) -> None:
    split = encode(read(line(workclass="?", occupation="?", native_country="?"), line(age="?"), FIRST))
    assert features(split) == [
        [3, 14, 19, 39, 42, 64, 67, 73, 75, 76, 80],
        FIRST_A9A[1:],
        FIRST_A9A,
    ]
    assert split.groups["country"].tolist() == ["?", "United-States", "United-States"]


def test_a_row_with_nothing_known_is_an_empty_row(read: Callable[..., Table]) -> None:
    split = encode(read(", ".join(["?"] * 14 + [">50K"]), FIRST))
    assert features(split) == [[], FIRST_A9A]
    assert split.y.tolist() == [1, 0]


def test_the_form_of_adult_test(tmp_path: Path) -> None:
    path = tmp_path / "adult.test"
    rows = ["|1x3 Cross validator", FIRST + ".", line(label=">50K.", native_country="Trinadad&Tobago"), "", ""]
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(rows).encode())
        split = encode(read_uci(path))
        assert features(split) == [FIRST_A9A, [*FIRST_A9A[:-1], 120]]
        assert split.y.tolist() == [0, 1]
        assert split.groups["country"].tolist() == ["United-States", "Trinadad&Tobago"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (FIRST.removesuffix(", <=50K"), ["14 cells", "15"]),
        (FIRST + ", 1", ["16 cells", "15"]),
        ("nothing", ["1 cells", "15"]),
        (line(age="young"), ["'young' as age", "whole number"]),
        (line(age="39.5"), ["'39.5' as age", "whole number"]),
        (line(age="-1"), ["'-1' as age", "0 or more"]),
        (line(age="1_0"), ["'1_0' as age", "whole number"]),
        (line(fnlwgt="9" * 30), ["as fnlwgt", "whole number"]),
        (line(hours_per_week=""), ["'' as hours-per-week", "whole number"]),
        (line(workclass="private"), ["'private' as workclass", "8 categories"]),
        (line(native_country="Atlantis"), ["'Atlantis' as native-country", "41 categories"]),
        (line(label="50K"), ["'50K' as label", "<=50K or >50K"]),
        (line(label="?"), ["'?' as label", "<=50K or >50K"]),
        (line(label="<=50K.."), ["'<=50K..' as label"]),
    ],
)
def test_a_malformed_line_is_named(read: Callable[..., Table], bad: str, told: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        read("|1x3 Cross validator", FIRST, "", bad, FIRST)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in [*told, "adult.data", "line 4:", "use the published"] if part not in message] == []


def test_a_file_without_rows_or_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "adult.data"
    with pytest.raises(DataError, match="there is no file"):
        read_uci(path)
    path.write_text("|1x3 Cross validator\n\n")
    with pytest.raises(DataError, match="no rows"):
        read_uci(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as text"):
        read_uci(path)


# --- properties --------------------------------------------------------------------------------------


def values() -> st.SearchStrategy[list[int]]:
    return st.tuples(*(st.integers(-1, len(a.categories) - 1 if a.categories else 2_000_000) for a in ATTRIBUTES)).map(
        list
    )


@given(st.lists(values(), min_size=1, max_size=8))
def test_a_row_has_one_feature_for_each_known_attribute(rows: list[list[int]]) -> None:
    table = Table(np.array(rows), np.zeros(len(rows), np.int64))
    split = encode(table)
    dense = split.x.toarray()
    for i, (offset, attribute) in enumerate(zip(OFFSETS, ATTRIBUTES, strict=True)):
        count = dense[:, offset : offset + attribute.width].sum(1)
        np.testing.assert_array_equal(count, table.values[:, i] >= 0)
    np.testing.assert_array_equal(countries_of_a9a(split.x), split.groups["country"])


# --- the countries of a9a ----------------------------------------------------------------------------


def test_countries_come_back_from_the_columns() -> None:
    x = np.zeros((4, 123), np.float32)
    x[0, 82] = x[1, 122] = x[2, 85] = 1
    x[:, 81] = 1  # the last column of hours-per-week is no country
    expected = ["United-States", "Holand-Netherlands", "Puerto-Rico", "?"]
    for form in (x, sparse.csr_matrix(x), sparse.csr_array(x), sparse.csc_matrix(x)):
        assert countries_of_a9a(form).tolist() == expected
    stored = sparse.csr_matrix(np.ones((1, 123), np.float32))
    stored.data[:] = 0
    stored.data[90] = 1  # zeros that are stored are zeros all the same
    assert countries_of_a9a(stored).tolist() == ["Japan"]
    assert stored.nnz == 123  # what was given stays as it was


def test_rows_that_are_not_those_of_a9a_are_refused() -> None:
    with pytest.raises(DataError, match="a9a has 123 columns"):
        countries_of_a9a(np.zeros((2, 122)))
    for values in ((1, 1), (0.5, 0), (2, 0), (-1, 1)):
        x = np.zeros((2, 123))
        x[1, [82, 90]] = values
        with pytest.raises(DataError, match=r"row 1 .*country columns of a9a"):
            countries_of_a9a(x)


# --- the real files ----------------------------------------------------------------------------------


def real(name: str) -> Path:
    """A file by name, anywhere below the folder of SILOBENCH_TEST_DATA; skips when it is not there."""
    root = os.environ.get("SILOBENCH_TEST_DATA")
    if not root:
        pytest.skip("SILOBENCH_TEST_DATA does not name a folder with a9a, a9a.t, adult.data and adult.test")
    for found in sorted(Path(root).rglob(name)):
        if found.is_file():
            return found
    pytest.skip(f"there is no {name} below {root}")


def test_every_row_of_the_real_files_is_that_of_a9a() -> None:
    names = ("a9a", "a9a.t", "adult.data", "adult.test")
    train, test, data, held = (real(name) for name in names)
    a9a = libsvm(str(train), str(test))
    for path, theirs, rows in ((data, a9a.train, 32_561), (held, a9a.test, 16_281)):
        ours = encode(read_uci(path))
        assert ours.x.shape == theirs.x.shape == (rows, 123)
        differing = np.diff((ours.x != theirs.x).tocsr().indptr) > 0
        assert int((~differing).sum()) == rows
        np.testing.assert_array_equal(ours.y, theirs.y)
        np.testing.assert_array_equal(countries_of_a9a(theirs.x), ours.groups["country"])
