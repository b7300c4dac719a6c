"""Datasets: what the loaders give, and what they refuse."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from silobench.data import DATASETS, Dataset, Split, breast_cancer, csv, digits, fcube, libsvm, load, npz, synthetic
from silobench.data.readers.embedded import octant_pairs
from silobench.errors import DataError, SilobenchError


def refusal(call: Callable[[], Any], *told: str) -> None:
    with pytest.raises(SilobenchError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in told if part not in message] == []


def test_a_dataset_is_shown_in_one_line() -> None:
    rows = "1438 training rows, 359 test rows of shape 1x8x8"
    assert repr(digits()) == f"<Dataset digits: classification, {rows}, 10 classes>"
    split = Split(np.zeros((4, 2), np.float32), np.arange(4, dtype=np.float32))
    ages = Dataset("people", split, split, (), task="regression", target="age")
    assert repr(ages) == "<Dataset people: regression, 4 training rows, 4 test rows of shape 2, target age>"


# --- embedded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "train", "test", "shape", "classes"),
    [
        ("digits", 1438, 359, (1, 8, 8), 10),
        ("breast-cancer", 456, 113, (30,), 2),
        ("fcube", 4000, 1000, (3,), 2),
        ("synthetic(parties=3)", None, None, (60,), 10),
    ],
)
def test_embedded_datasets_have_their_published_shape(
    spec: str, train: int | None, test: int | None, shape: tuple[int, ...], classes: int
) -> None:
    dataset = load(spec)
    assert (dataset.shape, len(dataset.classes)) == (shape, classes)
    assert train is None or (len(dataset.train), len(dataset.test)) == (train, test)
    for split in (dataset.train, dataset.test):
        assert (split.x.dtype, split.y.dtype) == (np.float32, np.int64)
        assert len(split.x) == len(split.y)
    assert DATASETS.build(spec).checksum == dataset.checksum
    assert dataset.licence


def test_digits_are_pixels_from_minus_1_to_1_with_every_class_held_out_alike() -> None:
    dataset = digits()
    assert (dataset.train.x.min(), dataset.train.x.max()) == (-1, 1)
    train, test = (np.bincount(s.y, minlength=10) for s in (dataset.train, dataset.test))
    assert np.abs(test - 0.2 * (train + test)).max() <= 0.5


def test_breast_cancer_is_standardised_by_its_training_rows() -> None:
    dataset = breast_cancer()
    np.testing.assert_allclose(dataset.train.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(dataset.train.x.std(0), 1, atol=1e-4)
    assert np.abs(dataset.test.x.mean(0)).max() > 1e-3
    assert "standardised" in dataset.notes[0]


def test_fcube_has_500_training_points_in_every_octant() -> None:
    x = fcube().train.x
    octant = (x > 0) @ np.array([4, 2, 1])
    assert np.bincount(octant).tolist() == [500] * 8
    assert np.abs(x).max() <= 1


def test_fcube_labels_are_the_side_of_x1() -> None:
    for split in (fcube().train, fcube().test):
        np.testing.assert_array_equal(split.y, (split.x[:, 0] <= 0).astype(int))


def test_octant_pairs_are_symmetric_about_the_origin_and_nothing_else() -> None:
    x = fcube().train.x
    pairs = octant_pairs(x)
    np.testing.assert_array_equal(pairs, octant_pairs(-x))
    octant = (x > 0) @ np.array([4, 2, 1])
    seen = {tuple(np.unique(octant[pairs == pair])) for pair in range(4)}
    assert seen == {(0, 7), (1, 6), (2, 5), (3, 4)}
    np.testing.assert_array_equal(fcube().train.groups["octants"], pairs)


@pytest.mark.parametrize(
    ("a", "b"), [("fcube", "fcube(seed=1)"), ("synthetic(parties=3)", "synthetic(0, 0, parties=3)")]
)
def test_generated_datasets_depend_on_their_arguments(a: str, b: str) -> None:
    assert load(a).checksum != load(b).checksum


def test_synthetic_groups_are_the_parties_with_a_tenth_for_testing() -> None:
    dataset = synthetic(1.0, 1.0, parties=5)
    train, test = (np.bincount(s.groups["party"]) for s in (dataset.train, dataset.test))
    assert len(train) == len(test) == 5
    np.testing.assert_array_equal(test, np.maximum(1, (train + test) // 10))
    assert (train + test).min() >= 50


def test_synthetic_parties_are_more_alike_at_0_than_at_1() -> None:
    def spread(level: float) -> float:
        split = synthetic(level, level, parties=20).train
        return float(np.std([split.x[split.groups["party"] == party].mean() for party in range(20)]))

    assert spread(0.0) < 0.5 * spread(1.0)


# --- the value ---------------------------------------------------------------------------------------


def _toy(x: Any, y: Any, groups: dict[str, Any] | None = None, classes: int = 2) -> Dataset:
    split = Split(x, np.asarray(y, dtype=np.int64), groups or {})
    return Dataset("toy", split, split, tuple(map(str, range(classes))), "none")


def test_one_changed_value_changes_the_checksum() -> None:
    x, y, groups = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1]), {"site": np.array(["a", "b", "a", "b"])}
    whole = Split(x, y, groups)
    one = x.copy()
    one[3, 1] = 1e-6
    changed = [
        replace(whole, x=one),
        replace(whole, x=x.astype(np.uint8)),
        replace(whole, y=np.array([0, 1, 1, 1])),
        replace(whole, groups={"site": np.array(["a", "b", "a", "a"])}),
    ]
    first = Dataset("toy", whole, whole, ("0", "1"), "none")
    others = [replace(first, train=split) for split in changed] + [replace(first, test=split) for split in changed]
    assert len({d.checksum for d in (first, *others)}) == 9
    assert replace(first, name="other").checksum == first.checksum


def test_one_changed_sparse_value_changes_the_checksum() -> None:
    x = sparse.csr_matrix(np.eye(4, dtype=np.float32))
    other, moved = x.copy(), sparse.csr_matrix(np.eye(4, dtype=np.float32)[:, [1, 0, 2, 3]])
    other.data[2] = 3
    assert len({_toy(m, [0, 1, 0, 1]).checksum for m in (x, other, moved)}) == 3


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: _toy(np.zeros((0, 2)), []), "0 training rows"),
        (lambda: _toy(np.zeros((3, 2)), [0, 1]), "3 training rows and 2 labels"),
        (lambda: _toy(np.array([[1.0], [np.nan]]), [0, 1]), "1 NaN or infinite"),
        (lambda: _toy(np.array([[1.0], [np.inf]]), [0, 1]), "1 NaN or infinite"),
        (lambda: _toy(np.zeros((2, 1)), [0, 2]), "use only 0 to 1"),
        (lambda: _toy(np.zeros((2, 1)), [-1, 1]), "use only 0 to 1"),
    ],
)
def test_a_dataset_that_cannot_be_trained_on_is_refused(make: Callable[[], Dataset], told: str) -> None:
    refusal(make, told)


# --- csv ---------------------------------------------------------------------------------------------

Table = Callable[..., Dataset]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """(text, **options) -> the dataset of a CSV file with this text; its label is y."""

    def read(text: str | bytes, **options: Any) -> Dataset:
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return csv(str(path), **{"label": "y", **options})

    return read


def _lines(header: str, row: Callable[[int], str], rows: int = 40) -> str:
    return "\n".join([header, *(row(i) for i in range(rows))]) + "\n"


def test_numbers_are_columns_and_texts_are_one_hot(table: Table) -> None:
    text = _lines("n,colour,y", lambda i: f"{i},{('red', 'blue', '')[i % 3]},{('no', 'yes')[i % 2]}")
    dataset = table(text, scale="none")
    assert dataset.classes == ("no", "yes")
    assert (len(dataset.train), len(dataset.test)) == (32, 8)
    for split in (dataset.train, dataset.test):
        number, one_hot = split.x[:, 0].astype(int), split.x[:, 1:]
        np.testing.assert_array_equal(split.y, number % 2)
        np.testing.assert_array_equal(one_hot, np.eye(3)[[(2, 1, 0)[i % 3] for i in number]])  # (missing), blue, red
    assert dataset.notes == ("13 missing values in column 'colour' became a category",)


@pytest.mark.parametrize("missing", ["", " ", "?", "NA", "n/a", "null"])
def test_missing_numbers_take_the_training_mean_and_the_notes_say_so(table: Table, missing: str) -> None:
    text = _lines("m,n,y", lambda i: f"{i},{missing if i % 4 == 0 else i * i},{i % 2}")
    dataset = table(text, scale="none", test=0.4)
    train, test = dataset.train.x, dataset.test.x
    gone = [split[split[:, 0] % 4 == 0, 1] for split in (train, test)]
    mean = np.mean([i * i for i in train[:, 0] if i % 4])
    assert mean != pytest.approx(np.mean([i * i for i in range(40) if i % 4]), rel=1e-3)
    assert min(len(cells) for cells in gone) > 0
    np.testing.assert_allclose(np.concatenate(gone), mean, rtol=1e-6)
    assert dataset.notes == ("10 missing values in column 'n' filled with its training mean",)


def test_columns_are_standardised_by_the_training_rows(table: Table) -> None:
    dataset = table(_lines("n,c,y", lambda i: f"{i * i},7,{i % 2}"))
    np.testing.assert_allclose(dataset.train.x.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(dataset.train.x.std(0), [1, 0], atol=1e-6)
    assert abs(dataset.test.x[:, 0].mean()) > 1e-3
    assert "standardised" in dataset.notes[-1]


def test_large_offsets_do_not_wash_out_a_column(table: Table) -> None:
    seconds = table(_lines("t,y", lambda i: f"{1_700_000_000 + i},{i % 2}"))
    counted = table(_lines("t,y", lambda i: f"{i},{i % 2}"))
    np.testing.assert_allclose(seconds.train.x, counted.train.x, atol=1e-4)


def test_group_and_drop_columns_are_not_features(table: Table) -> None:
    text = _lines("id,n,site,region,y", lambda i: f"p{i},{i},s{i % 4},r{i % 2},{i % 2}")
    one = table(text, group="site", drop=("id", "region"), scale="none")
    assert one.shape == (1,)
    assert list(one.train.groups) == ["site"]
    np.testing.assert_array_equal(one.train.groups["site"], [f"s{int(n) % 4}" for n in one.train.x[:, 0]])
    two = table(text, group=("region", "site"), drop="id", scale="none")
    assert list(two.train.groups) == list(two.test.groups) == ["region", "site"]
    assert two.shape == (1,)


def test_csv_specs_name_files_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "my data.csv"
    path.write_text(_lines("n,the site,y", lambda i: f"{i},s{i % 4},{i % 2}"))
    dataset = DATASETS.build(f"csv('{path}', label=y, group='the site', test=0.25)")
    assert (dataset.name, len(dataset.test), list(dataset.train.groups)) == ("my data", 10, ["the site"])


def test_quoted_cells_crlf_and_a_byte_order_mark_are_read(table: Table) -> None:
    text = _lines('"n, in kg",t,y', lambda i: f'"{i}","say ""a, b""\r\n{i % 2}",{i % 2}').replace("\n", "\r\n")
    dataset = table(b"\xef\xbb\xbf" + text.encode(), scale="none")
    assert dataset.shape == (3,)
    assert sorted(np.concatenate([dataset.train.x[:, 0], dataset.test.x[:, 0]])) == list(range(40))


def test_the_same_file_gives_the_same_cut(table: Table) -> None:
    text = _lines("n,y", lambda i: f"{i},{i % 2}")
    assert table(text).checksum == table(text).checksum != table(text.replace("39", "38")).checksum


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_with_their_place(table: Table, value: str) -> None:
    text = _lines("m,n,y", lambda i: f"{i},{value if i == 5 else i},{i % 2}")
    refusal(lambda: table(text), "table.csv", f"'{value}'", "column 'n'", "line 7")


@pytest.mark.parametrize("before", ["\n1,a,0\n", '1,"two\nlines",0\n', "\n\n1,a,0\n\n\n"])
def test_the_line_told_is_the_line_of_the_file(table: Table, before: str) -> None:
    head = f"n,t,y\n{before}"
    line = f"line {head.count(chr(10)) + 1}"
    refusal(lambda: table(f"{head}nan,b,1\n"), "column 'n'", f"{line}:")
    refusal(lambda: table(f"{head}1,b\n"), "2 cells", f"{line} ")


GOOD = _lines("n,y", lambda i: f"{i},{i % 2}")


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("", {}, "a header and at least one row"),
        ("\n\n", {}, "a header and at least one row"),
        ("n,y\n", {}, "a header and at least one row"),
        (b"n,y\n\xff,0\n", {}, "cannot be read as text"),
        (f"{GOOD}1,2,3\n", {}, "3 cells in line 42 but 2"),
        (f"{GOOD}1\n", {}, "1 cells in line 42 but 2"),
        ('n,y\n"1,0\n2,1\n', {}, "a quotation mark that is not closed where its cell ends (line 2)"),
        (GOOD.replace("n,y", "y, y"), {}, "two columns of the same name"),
        (GOOD, {"label": "Y"}, "no column 'Y': did you mean y?"),
        (GOOD, {"group": "m"}, "no column 'm'"),
        (GOOD, {"drop": ("n", "z")}, "no column 'z'"),
        (GOOD, {"drop": "n"}, "no columns for features"),
        (f"{GOOD}7,\n", {}, "has 1 row without a value in the label column 'y', in line 42: fill in"),
        (f"{GOOD}7,?\n8,\n", {}, "has 2 rows without a value in the label column 'y', the first in line 42: fill in"),
        (
            _lines("n,g,y", lambda i: f"{i},,{i % 2}"),
            {"group": "g"},
            "40 rows without a value in the group column 'g', the first in line 2",
        ),
        (GOOD.replace("n,y", ",y,"), {}, "empty names in its header (of the columns 1 and 3): name these columns"),
        (_lines("n,y", lambda i: f"{i},only"), {}, "has only the label 'only': at least two"),
        ("n,y\n1,0\n2,1\n", {}, "leaves no training or no test rows"),
        (_lines("n,id,y", lambda i: f"{i},u{i},{i % 2}", 1100), {}, "1100 different texts in column 'id'"),
        (_lines("n,e,y", lambda i: f"{i},,{i % 2}"), {}, "no values in column 'e'"),
        (f"{GOOD}1e39,0\n1e39,0\n", {"scale": "none"}, "infinite"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(table: Table, text: str, options: dict[str, Any], told: str) -> None:
    refusal(lambda: table(text, **options), told)


# --- npz ---------------------------------------------------------------------------------------------

X, Y = np.arange(80.0).reshape(40, 2), np.arange(40) % 2
Archive = Callable[..., Dataset]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """(options of npz, **arrays) -> the dataset of an archive of these arrays."""

    def read(options: dict[str, Any] | None = None, **arrays: Any) -> Dataset:
        path = tmp_path / "arrays.npz"
        np.savez(path, **arrays)
        return npz(str(path), **(options or {}))

    return read


def test_x_and_y_are_cut_and_their_groups_with_them(archive: Archive) -> None:
    dataset = archive({"test": 0.25}, x=X, y=np.array(["a", "b"])[Y], groups=np.arange(40) // 10)
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (30, 10, ("a", "b"))
    for split in (dataset.train, dataset.test):
        row = split.x[:, 0].astype(int) // 2
        np.testing.assert_array_equal(split.y, row % 2)
        np.testing.assert_array_equal(split.groups["group"], row // 10)
    assert dataset.train.x.dtype == np.float32


def test_a_given_test_set_is_kept_as_it_is(archive: Archive) -> None:
    dataset = archive(
        x_train=X,
        y_train=Y + 5,
        x_test=X[:3],
        y_test=Y[:3] + 5,
        groups_train=Y,
        groups_test=Y[:3],
    )
    np.testing.assert_array_equal(dataset.train.x, X)
    np.testing.assert_array_equal(dataset.test.x, X[:3])
    np.testing.assert_array_equal(dataset.test.y, Y[:3])
    assert dataset.classes == ("5", "6")
    np.testing.assert_array_equal(dataset.test.groups["group"], Y[:3])


def test_bytes_stay_bytes_and_other_numbers_become_float32(archive: Archive) -> None:
    images = np.arange(40 * 12, dtype=np.uint8).reshape(40, 1, 3, 4)
    assert archive(x=images, y=Y).train.x.dtype == np.uint8
    assert archive(x=images, y=Y).shape == (1, 3, 4)
    for kind in (np.float64, np.int32, np.float16, bool):
        assert archive(x=X.astype(kind), y=Y).train.x.dtype == np.float32
    scaled = archive({"scale": "standard"}, x=images, y=Y).train.x
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)


def test_a_column_of_labels_is_labels(archive: Archive) -> None:
    assert archive(x=X, y=Y[:, None]).checksum == archive(x=X, y=Y).checksum


def _nan(array: Any) -> Any:
    holed = array.astype(float)
    holed[0] = np.nan
    return holed


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": X}, "but not y"),
        ({"a": X}, "the arrays a but not x, y"),
        ({}, "no arrays"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "but not y_test"),
        ({"x": X[:-1], "y": Y}, "39 rows in x but 40 labels"),
        ({"x": X, "y": Y, "groups": Y[:5]}, "5 rows in group"),
        ({"x_train": X, "y_train": Y, "x_test": X[:4], "y_test": Y[:3]}, "4 rows in x_test but 3 labels"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :1], "y_test": Y}, "same shape"),
        ({"x_train": X, "y_train": Y, "x_test": X[:0], "y_test": Y[:0]}, "0 test rows"),
        ({"x": X, "y": Y * 0}, "at least two"),
        ({"x": X, "y": np.eye(2)[Y]}, "80 labels"),
        ({"x": X[:, 0], "y": Y}, "rows of numbers are needed"),
        ({"x": X.astype(str), "y": Y}, "rows of numbers are needed"),
        ({"x": X.astype(complex), "y": Y}, "rows of numbers are needed"),
        ({"x": X.astype(object), "y": Y}, "Python objects"),
        ({"x": X, "y": Y.astype(object)}, "Python objects"),
        ({"x": _nan(X), "y": Y}, "NaN"),
        ({"x": X, "y": _nan(Y)}, "arrays"),
        ({"x": X + 1e39, "y": Y}, "infinite"),
        ({"x": X, "y": np.int64(1)}, "arrays"),
        ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y[:, None]}, "arrays"),
        ({"x": X, "y": Y, "groups": np.int64(1)}, "arrays"),
        ({"x": X, "y": Y, "groups": np.stack([Y, Y], 1)}, "arrays"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(archive: Archive, arrays: dict[str, Any], told: str) -> None:
    refusal(lambda: archive(**arrays), "arrays", told)


@pytest.mark.parametrize("keep", [0, 10, 300, -10])
def test_a_torn_archive_is_refused(tmp_path: Path, keep: int) -> None:
    np.savez(tmp_path / "whole.npz", x=X, y=Y)
    torn = tmp_path / "torn.npz"
    torn.write_bytes((tmp_path / "whole.npz").read_bytes()[:keep])
    refusal(lambda: npz(str(torn)), "torn.npz cannot be read")
    gc.collect()  # a file left open would warn here


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    refusal(lambda: npz(str(tmp_path / "x.npy")), "x.npy cannot be read")


# --- libsvm ------------------------------------------------------------------------------------------

Text = Callable[..., Dataset]
ROWS = "".join(f"{'+1' if i % 2 else '-1'} 1:{i} 3:0.5\n" for i in range(20))


@pytest.fixture
def text(tmp_path: Path) -> Text:
    """(training text, test text) -> the dataset of these LIBSVM files."""

    def read(train: str, held: str = "", **options: Any) -> Dataset:
        for name, content in (("train", train), ("held", held)):
            (tmp_path / name).write_text(content)
        return libsvm(str(tmp_path / "train"), str(tmp_path / "held") if held else "", **options)

    return read


def test_libsvm_rows_stay_sparse(text: Text) -> None:
    dataset = text(ROWS, test=0.3)
    assert sparse.issparse(dataset.train.x)
    assert sparse.issparse(dataset.test.x)
    assert dataset.train.x.dtype == np.float32
    assert (len(dataset.train), len(dataset.test), dataset.shape) == (14, 6, (3,))
    assert dataset.classes == ("-1", "1")
    np.testing.assert_array_equal(dataset.train.y, dataset.train.x.toarray()[:, 0] % 2)
    assert dataset.train.x.nnz < dataset.train.x.shape[0] * 3


@pytest.mark.parametrize(("short", "long"), [("-1 1:1\n+1 2:2\n", "+1 5:3\n"), ("-1 1:1 5:2\n+1 2:2\n", "+1 1:3\n")])
def test_the_widths_of_both_files_are_reconciled(text: Text, short: str, long: str) -> None:
    dataset = text(short, long)
    assert dataset.train.x.shape == (2, 5)
    assert dataset.test.x.shape == (1, 5)
    assert dataset.test.y.tolist() == [1]


def test_both_files_count_columns_from_the_same_number(text: Text) -> None:
    dataset = text("0 0:1 2:5\n1 1:3\n", "0 1:7\n1 2:9\n")  # columns from 0, though the test file does not use 0
    np.testing.assert_array_equal(dataset.train.x.toarray(), [[1, 0, 5], [0, 3, 0]])
    np.testing.assert_array_equal(dataset.test.x.toarray(), [[0, 7, 0], [0, 0, 9]])


@pytest.mark.parametrize(
    ("train", "told"),
    [
        ("", "train"),
        (f"{ROWS}hello world\n", "LIBSVM"),
        (f"{ROWS}1 a:1\n", "LIBSVM"),
        (f"{ROWS}1 1:x\n", "LIBSVM"),
        (f"{ROWS}1 3:1 1:1\n", "LIBSVM"),
        (f"{ROWS}1 -2:1\n", "LIBSVM"),
        (f"{ROWS}1 99999999999999:1\n", "LIBSVM"),
        (f"{ROWS}1 1:nan\n", "NaN"),
        (f"{ROWS}1 1:inf\n", "infinite"),
        (f"{ROWS}nan 1:1\n", "label"),
        ("1 1:1\n" * 10, "at least two"),
        ("1 1:1\n0 1:2\n", "leaves no training or no test rows"),
    ],
)
def test_malformed_libsvm_text_is_refused(text: Text, train: str, told: str) -> None:
    refusal(lambda: text(train), told)


@pytest.mark.parametrize("kind", [lambda p: csv(p, label="y"), npz, libsvm, lambda p: libsvm(p, p)])
def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path, kind: Callable[[str], Dataset]) -> None:
    refusal(lambda: kind(str(tmp_path / "nowhere")), "there is no file", "nowhere")
    refusal(lambda: kind(str(tmp_path)), str(tmp_path))


def test_refusals_of_data_are_data_errors(table: Table) -> None:
    with pytest.raises(DataError):
        table("")


def test_the_last_datasets_stay_in_memory() -> None:
    assert load("digits") is load("digits")


def test_one_hot_columns_stay_zero_and_one_beside_scaled_numbers(tmp_path: Path) -> None:
    lines = [f"{i},{'rare' if i % 50 == 0 else 'often'},{'ab'[i % 2]}" for i in range(200)]
    path = tmp_path / "t.csv"
    path.write_text("n,kind,y\n" + "\n".join(lines))
    x = csv(path=str(path), label="y").train.x
    assert set(np.unique(x[:, 1:])) == {0, 1}
    assert x[:, 0].std() == pytest.approx(1, rel=1e-5)


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    sizes = []
    for rows in (40, 60):
        path.write_text("n,y\n" + "".join(f"{i},{i % 2}\n" for i in range(rows)))
        sizes.append(len(load(f"csv(path={path}, label=y)").train))
    assert sizes == [32, 48]
    assert load(f"csv(path={path}, label=y)") is load(f"csv(path={path}, label=y)")


def test_a_column_may_have_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    path, question = tmp_path / "t.csv", "How often " * 30 + "?"
    path.write_text(f"n,{question}\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    assert load(f"csv(path={path}, label='{question}')").target == question


def test_a_constant_column_is_no_scale_for_the_test_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,n,y\n" + "".join(f"36.6,{i},{i % 2}\n" for i in range(50)))
    dataset = csv(path=str(path), label="y")
    assert max(abs(dataset.train.x[:, 0]).max(), abs(dataset.test.x[:, 0]).max()) < 1e-6


def test_a_saved_index_is_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",n,y\n" + "".join(f"{i},{i % 5},{i % 2}\n" for i in range(50)))
    dataset = csv(path=str(path), label="y")
    assert dataset.shape == (1,)
    assert "without a name" in dataset.notes[0]
