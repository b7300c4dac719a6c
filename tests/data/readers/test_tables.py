"""Tabular datasets of the catalogue: every reader on tiny files made here, and on the real ones where they are."""

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from silobench.data.dataset import Dataset, Split
from silobench.data.readers import delimited as parsed
from silobench.data.readers import movielens, songs, tables, traffic
from silobench.data.readers.adult import ATTRIBUTES, OFFSETS
from silobench.data.store import cache, store
from silobench.data.store.catalog import Entry, File
from silobench.data.store.store import Files
from silobench.errors import DataError
from silobench.spec import Registry

Contents = dict[str, str | bytes]
Make = Callable[..., Files]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """(form, {name: content}) -> those files, as a catalogue entry would have them."""
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path))

    def files(form: str, contents: Contents, name: str = "made") -> Files:
        for file, content in contents.items():
            (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return located(tmp_path, form, *contents, name=name)

    return files


def located(root: Path, form: str, *names: str, name: str = "made") -> Files:
    listed = {file: File() for file in names}
    entry = Entry(name=name, summary="", licence="L", citation="", files=listed, forms={form: names})
    return Files(entry, form, root, names)


def refusal(call: Callable[[], Any], *told: object) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert [part for part in map(str, told) if part not in message] == []


def changed(contents: Contents, name: str, old: str, new: str) -> Contents:
    text = contents[name]
    assert isinstance(text, str)
    assert old in text
    return {**contents, name: text.replace(old, new, 1)}


def whole(dataset: Dataset) -> Split:
    """All rows, training rows first."""
    train, test = dataset.train, dataset.test
    groups = {level: np.concatenate([train.groups[level], test.groups[level]]) for level in train.groups}
    return Split(np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y]), groups)


def test_every_factory_is_a_spec_without_required_arguments() -> None:
    registry: Registry[Dataset] = Registry("dataset")
    specs = {
        tables.adult: "adult(form=any)",
        tables.rcv1: "rcv1",
        tables.reuters: "reuters",
        tables.covtype: "covtype(classes=binary, scale=unit)",
        tables.heart_disease: "heart-disease",
        movielens.movielens_100k: "movielens-100k",
        movielens.movielens_1m: "movielens-1m",
        songs.year_prediction: "year-prediction",
        songs.fma: "fma",
        traffic.traffic: "traffic(past=12, ahead=3)",
    }
    for factory, spec in specs.items():
        registry.register(factory)
        assert str(registry.bind(spec.partition("(")[0]).full) == spec


# --- adult -------------------------------------------------------------------------------------------

FIRST = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)
LAST = (
    "90, ?, 300000, Preschool, 1, Married-AF-spouse, Armed-Forces, Unmarried, Black, Female, 0, 4356, 99, "
    "Holand-Netherlands, >50K"
)
FIRST_A9A = "-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1 \n"
LAST_A9A = "+1 5:1 18:1 34:1 35:1 46:1 60:1 66:1 71:1 72:1 74:1 77:1 82:1 123:1 \n"
UCI: Contents = {
    "adult.data": f"{FIRST}\n{LAST}\n\n",
    "adult.test": f"|1x3 Cross validator\n{LAST}.\n{FIRST}.\n",
}
A9A: Contents = {"a9a": FIRST_A9A + LAST_A9A, "a9a.t": LAST_A9A + FIRST_A9A}


def test_both_forms_of_adult_are_one_dataset(make: Make) -> None:
    a9a, uci = (tables._read_adult(make(*form)) for form in (("a9a", A9A), ("uci", UCI)))
    assert a9a.checksum == uci.checksum
    assert (a9a.shape, a9a.train.x.dtype, a9a.classes, a9a.licence) == ((123,), np.float32, ("<=50K", ">50K"), "L")
    assert (a9a.train.y.tolist(), a9a.test.y.tolist()) == ([0, 1], [1, 0])
    assert a9a.train.groups["country"].tolist() == ["United-States", "Holand-Netherlands"]
    assert dict(a9a.defaults) == {"model": "mlp"}
    assert (a9a.notes[0], uci.notes[0]) == ("read from a9a and a9a.t", "read from adult.data and adult.test")
    named = [[name for name, value in zip(a9a.columns, row, strict=True) if value] for row in a9a.train.x]
    assert named[0][:3] == ["33<=age<41", "workclass=State-gov", "fnlwgt<106648"]
    assert named[1][0] == "age>=50"
    assert named[1][-3:] == ["capital-loss>=1", "hours-per-week>=48", "native-country=Holand-Netherlands"]
    assert len(set(a9a.columns)) == 123
    assert a9a.columns[0] == "age<26"
    assert a9a.columns[5] == "workclass=Private"


def test_a9a_has_123_columns_where_no_row_reaches_the_last(make: Make) -> None:
    data = tables._read_adult(make("a9a", {"a9a": FIRST_A9A, "a9a.t": FIRST_A9A}))
    assert data.shape == (123,)
    assert data.train.x.sum() == 14


def _row(draw: st.DrawFn) -> tuple[str, str]:
    """A row of adult.data, and the line of a9a that it is."""
    cells, indices = [], []
    for attribute, offset in zip(ATTRIBUTES, OFFSETS, strict=True):
        place = draw(st.integers(-1, attribute.width - 1))
        options = attribute.categories or tuple(map(str, attribute.bins))
        cells.append(options[place] if place >= 0 else "?")
        indices += [f"{offset + place + 1}:1"] if place >= 0 else []
    label = draw(st.booleans())
    return ", ".join([*cells, (">50K" if label else "<=50K")]), " ".join(["+1" if label else "-1", *indices])


@given(rows=st.lists(st.composite(_row)(), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_census_rows_agree_in_both_forms(make: Make, rows: list[tuple[str, str]]) -> None:
    uci, a9a = ("\n".join(lines) + "\n" for lines in zip(*rows, strict=True))
    read = [
        tables._read_adult(make("uci", {"adult.data": uci, "adult.test": uci})),
        tables._read_adult(make("a9a", {"a9a": a9a, "a9a.t": a9a})),
    ]
    assert read[0].checksum == read[1].checksum


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("83:1", "124:1", "a9a has the index 124 after 80 in line 1"),
        ("83:1", "0:1", "a9a has the index 0 after 80 in line 1"),
        ("83:1", "83:x", "a9a has '83:x' in line 1"),
        ("83:1", "83:1e99", "a9a has '83:1e99' in line 1"),
        ("83:1", "83:1 90:1", "[1.0, 1.0] in the country columns"),
        ("-1 3:1", "-2 3:1", "a9a has the label '-2' in line 1"),
        ("-1 3:1", "-1,2 3:1", "a9a has the label '-1,2' in line 1"),
        ("+1 5:1", "+1 nan:1", "a9a has 'nan:1' in line 2"),
    ],
)
def test_a_bad_line_of_a9a_is_named(make: Make, old: str, new: str, told: str) -> None:
    refusal(lambda: tables._read_adult(make("a9a", changed(A9A, "a9a", old, new))), told)


# --- documents ---------------------------------------------------------------------------------------


def _documents(rows: int) -> str:
    return "".join(f"{'-1' if i % 3 else '+1'} 1:{i}.5 {i + 2}:0.25\n" for i in range(rows))


def test_rcv1_stays_sparse_and_holds_a_quarter_out(make: Make) -> None:
    data = tables._read_rcv1(make("files", {"rcv1_train.binary.bz2": bz2.compress(_documents(18).encode())}))
    assert (len(data.train), len(data.test)) == (14, 4)
    assert (data.shape, data.classes, dict(data.defaults)) == ((47236,), ("-1", "1"), {"solver": "sgd(lr=0.1)"})
    for split in (data.train, data.test):
        assert isinstance(split.x, sparse.csr_matrix)
        assert (split.x.dtype, split.x.indices.dtype, split.x.indptr.dtype) == (np.float32, np.int32, np.int32)
        number = (split.x[:, 0].toarray().ravel() - 0.5).astype(int)
        assert sorted(number) == number.tolist()  # the file's order
        assert split.y.tolist() == [int(i % 3 == 0) for i in number]
        assert [split.x[row, i + 1] for row, i in enumerate(number)] == [0.25] * len(number)
    held = np.random.default_rng(0).permutation(18)[:4]
    assert (data.test.x[:, 0].toarray().ravel() - 0.5).tolist() == sorted(held)


def test_the_published_sizes_of_rcv1(tmp_path: Path) -> None:
    rows = Split(np.zeros((20_242, 1)), np.zeros(20_242))
    assert [len(side) for side in parsed.permuted(tmp_path, rows, 4)] == [15_182, 5_060]


def test_reuters_has_as_many_columns_in_both_files(make: Make) -> None:
    files = {"reuters.trn.bz2": bz2.compress(b"+1 2:0.5 9:1\n-1 1:2\n"), "reuters.tst.bz2": bz2.compress(b"-1 3:1\n")}
    data = tables._read_reuters(make("files", files))
    assert data.train.x.toarray().tolist() == [[0, 0.5, 0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 0, 0, 0]]
    assert data.test.x.toarray().tolist() == [[0, 0, 1, 0, 0, 0, 0, 0, 0]]
    assert (data.train.y.tolist(), data.test.y.tolist(), data.classes) == ([1, 0], [0], ("other", "money-fx"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (bz2.compress(b"+1 1:1\n-1 3:1 2:1\n"), "has the index 2 after 3 in line 2: -1 or 1, then rising indices"),
        (bz2.compress(b"+1 1:1\n-1 47237:1\n"), "has the index 47237 after 0 in line 2"),
        (bz2.compress(b"+1 1:1\n-1 2:inf\n"), "has '2:inf' in line 2"),
        (bz2.compress(b"+1 1:1\n-1 2:1\n"), "gives 2 rows: at least 4 are needed"),
        (bz2.compress(_documents(500).encode())[:-20], "cannot be read"),
        (b"+1 1:1\n", "cannot be read"),
    ],
)
def test_a_bad_rcv1_is_refused(make: Make, content: bytes, told: str) -> None:
    name = "rcv1_train.binary.bz2"
    refusal(lambda: tables._read_rcv1(make("files", {name: content})), name, told)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refusal(
        lambda: tables._read_rcv1(located(tmp_path, "files", "rcv1_train.binary.bz2")), "there is no file", tmp_path
    )
    refusal(lambda: songs._read_year_prediction(located(tmp_path, "files", "YearPredictionMSD.txt")), "there is no")
    refusal(lambda: songs._read_fma(located(tmp_path, "files", "features.csv", "tracks.csv")), "there is no")


# --- covtype -----------------------------------------------------------------------------------------

COVER_HEADER = ",".join([*tables._COVER_COLUMNS, "Cover_Type"])


def _patches(rows: int) -> str:
    """Row i: numbers i, -i, 7 and 0s, then the indicators 1, 0, ..., 0, and the class i % 7 + 1."""
    return "".join(f"{i},{-i},7{',0' * 7},1{',0' * 43},{i % 7 + 1}\n" for i in range(rows))


def _cover(make: Make, rows: int = 80, classes: str = "binary", scale: str = "none") -> Dataset:
    return tables._read_covtype(make("csv", {"covtype.csv": f"{COVER_HEADER}\n{_patches(rows)}"}), classes, scale)


def test_the_covtype_header_is_the_one_of_the_file() -> None:
    assert COVER_HEADER.startswith("Elevation,Aspect,Slope,Horizontal_Distance_To_Hydrology,Vertical_Distance_To_")
    assert COVER_HEADER.endswith("Wilderness_Area4,Soil_Type1," + COVER_HEADER.partition("Soil_Type1,")[2])
    assert COVER_HEADER.endswith("Soil_Type39,Soil_Type40,Cover_Type")
    assert COVER_HEADER.count(",") == 54


def test_covtype_is_lodgepole_pine_against_the_rest(make: Make) -> None:
    data = _cover(make)
    assert (len(data.train), len(data.test), data.shape) == (60, 20, (54,))
    assert data.classes == ("not lodgepole pine", "lodgepole pine")
    assert len(data.columns) == 54
    for split in (data.train, data.test):
        assert (split.x.dtype, split.y.dtype) == (np.float32, np.int64)
        number = split.x[:, 0].astype(int)
        assert split.y.tolist() == [int(i % 7 == 1) for i in number]
        assert (split.x[:, 1] == -number).all()
        assert (split.x[:, 2] == 7).all()
        assert (split.x[:, 10] == 1).all()
        assert not split.x[:, 11:].any()
    assert data.test.y.sum() == 3  # a quarter of 12


def test_covtype_has_seven_classes_too(make: Make) -> None:
    data = _cover(make, classes="seven")
    assert data.classes[1] == "lodgepole pine"
    assert len(data.classes) == 7
    assert data.train.y.tolist() == [i % 7 for i in data.train.x[:, 0].astype(int)]


def test_both_forms_of_covtype_are_one_dataset(make: Make) -> None:
    packed = make("uci", {"covtype.data.gz": gzip.compress(_patches(80).encode())})
    assert tables._read_covtype(packed, "binary", "unit").checksum == _cover(make, scale="unit").checksum


def test_unit_scaling_goes_by_the_training_rows_alone(make: Make) -> None:
    raw, unit = (whole(_cover(make, scale=scale)) for scale in ("none", "unit"))
    low, high = raw.x[:60, 0].min(), raw.x[:60, 0].max()
    np.testing.assert_allclose(unit.x[:, 0], (raw.x[:, 0] - low) / (high - low), rtol=1e-5, atol=1e-7)
    assert (unit.x[:60, :2].min(), unit.x[:60, :2].max()) == (0, 1)
    assert not unit.x[:, 2].any()  # a constant
    np.testing.assert_array_equal(unit.x[:, 10:], raw.x[:, 10:])
    assert (raw.x[60:, 0].min() < low or raw.x[60:, 0].max() > high) == bool(np.abs(unit.x[60:, 0] - 0.5).max() > 0.5)


def test_test_rows_may_leave_the_unit_interval() -> None:
    train, test = (Split(np.array(x, np.float32), np.zeros(2)) for x in ([[2, 5], [4, 5]], [[0, 5], [6, 9]]))
    note = parsed.scale_columns(train, test, slice(0, 1), "unit")
    assert train.x.tolist() == [[0, 5], [1, 5]]
    assert test.x.tolist() == [[-1, 5], [2, 9]]
    assert "training rows" in note


def test_standard_scaling_of_covtype_leaves_the_indicators(make: Make) -> None:
    raw, scaled = (_cover(make, scale=scale) for scale in ("none", "standard"))
    np.testing.assert_allclose(scaled.train.x[:, :2].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.train.x[:, :2].std(0), 1, atol=1e-5)
    np.testing.assert_array_equal(scaled.test.x[:, 10:], raw.test.x[:, 10:])
    mean, deviation = raw.train.x[:, 0].mean(), raw.train.x[:, 0].std()
    np.testing.assert_allclose(scaled.test.x[:, 0], (raw.test.x[:, 0] - mean) / deviation, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Elevation", "elevation", "has the header 'elevation,Aspect,"),
        ("\n3,-3,", "\n3,x,", "has 'x' in column 2 in line 5: a finite number is needed; use the published file"),
        ("\n3,-3,", "\n3,nan,", "has 'nan' in column 2 in line 5"),
        ("\n3,-3,", "\n3,1e39,", "has '1e39' in column 2 in line 5"),
        ("\n3,-3,", "\n3,", "has 54 cells in line 5: 55 are needed"),
        ("\n3,-3,", "\n3,-3,,", "has 56 cells in line 5: 55 are needed"),
        ("\n0,0,", "\n0,", "has 54 cells in line 2"),
        (",4\n", ",8\n", "has the class 8 in line 5: a whole number from 1 to 7 is needed"),
        (",4\n", ",1.5\n", "has the class 1.5 in line 5"),
        (_patches(80), "", "has no rows"),
    ],
)
def test_a_bad_covtype_is_refused(make: Make, old: str, new: str, told: str) -> None:
    contents = changed({"covtype.csv": f"{COVER_HEADER}\n{_patches(80)}"}, "covtype.csv", old, new)
    refusal(lambda: tables._read_covtype(make("csv", contents), "binary", "unit"), "covtype.csv", told)


def test_a_table_that_is_too_narrow_throughout_is_refused(make: Make) -> None:
    files = make("uci", {"covtype.data.gz": gzip.compress(b"1,2,3\n4,5,6\n")})
    refusal(lambda: tables._read_covtype(files, "binary", "unit"), "has 3 cells in line 1: 55 are needed")


def test_a_torn_archive_is_refused(make: Make) -> None:
    for content in (gzip.compress(_patches(5_000).encode())[:-500], b"no gzip at all"):
        files = make("uci", {"covtype.data.gz": content})
        refusal(lambda files=files: tables._read_covtype(files, "binary", "unit"), "covtype.data.gz", "cannot be read")


# --- heart disease -----------------------------------------------------------------------------------


def _hospital(float_text: bool, rows: int = 20) -> str:
    """Row i: age 40 + i, cholesterol 0 in every fourth row, fbs missing in every fifth; half of them are ill."""
    dot = ".0" if float_text else ""
    lines = []
    for i in range(rows):
        chol, fbs = (0 if i % 4 == 0 else 200 + i), ("?" if i % 5 == 0 else f"1{dot}")
        lines.append(f"{40 + i}{dot},1{dot},4{dot},120{dot},{chol}{dot},{fbs},0{dot},150,0,.5,2{dot},?,?,{i % 2 * 3}")
    return "\n".join(lines) + "\n"


def _hearts() -> Contents:
    made: Contents = {f"processed.{name}.data": _hospital(name == "cleveland") for name in tables._HOSPITALS}
    return changed(made, "processed.va.data", "150,0,.5,2,?,?", "150,0,.5,2,2,7")


def test_hearts_by_hand(make: Make) -> None:
    data = tables._read_heart_disease(make("files", _hearts()))
    assert data.columns == (
        *("age", "sex=1", "cp=4", "trestbps", "chol", "fbs=(missing)", "fbs=1", "restecg=0", "thalach", "exang=0"),
        *("oldpeak", "slope=2", "ca", "thal=(missing)", "thal=7"),
    )
    assert data.classes == ("healthy", "disease")
    assert dict(data.defaults) == {"model": "mlp", "partition": "by-group"}
    assert data.notes == (
        "values of 0 that no patient has were read as missing: 20 of chol and 0 of trestbps",
        "20 missing values in column 'chol' filled with its training mean",
        "16 missing values in column 'fbs' made a category",
        "79 missing values in column 'ca' filled with its training mean",
        "79 missing values in column 'thal' made a category",
        "numeric columns standardised by the pooled training rows",
    )
    for split, each in ((data.train, 8), (data.test, 2)):  # of a hospital with and without the disease
        kinds, counts = np.unique(split.groups["hospital"] + split.y.astype(str), return_counts=True)
        assert (len(kinds), set(counts.tolist())) == (8, {each})
    assert (data.train.x.dtype, data.train.y.dtype) == (np.float32, np.int64)


def test_numbers_of_hearts_are_standardised_and_a_cholesterol_of_0_is_the_mean(make: Make) -> None:
    data = tables._read_heart_disease(make("files", _hearts()))
    age, chol = data.columns.index("age"), data.columns.index("chol")
    np.testing.assert_allclose(data.train.x[:, [age, chol]].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.x[:, [age, chol]].std(0), 1, atol=1e-5)
    rows = whole(data).x
    places = np.unique(rows[:, age], return_inverse=True)[1]  # i: the ages are 40 + i
    np.testing.assert_allclose(rows[places % 4 == 0, chol], 0, atol=1e-6)
    assert np.abs(rows[places % 4 != 0, chol]).min() > 1e-3
    assert (rows[:, data.columns.index("fbs=(missing)")] == (places % 5 == 0)).all()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("41,1,", "41,2,", "has '2' as sex in line 2: 0, 1 or ? is needed; use the published file"),
        ("41,1,", "forty,1,", "has 'forty' as age in line 2: a number or ? is needed"),
        ("41,1,", "nan,1,", "has 'nan' as age in line 2: a number or ? is needed"),
        ("41,1,", "41,", "has 13 cells in line 2: 14 are needed"),
        ("?,?,3\n", "?,?,?\n", "has '?' as num in line 2: 0, 1, 2, 3 or 4 is needed"),
        ("?,?,3\n", "?,?,5\n", "has '5' as num in line 2"),
        (_hospital(False), "\n", "has no patients"),
    ],
)
def test_a_bad_hospital_is_refused(make: Make, old: str, new: str, told: str) -> None:
    contents = changed(_hearts(), "processed.hungarian.data", old, new)
    refusal(lambda: tables._read_heart_disease(make("files", contents)), "processed.hungarian.data", told)


def test_a_column_of_hearts_without_any_value_is_refused(make: Make) -> None:
    contents = changed(_hearts(), "processed.va.data", "2,2,7", "2,?,7")
    refusal(lambda: tables._read_heart_disease(make("files", contents)), "no value of ca in any of the four files")


# --- MovieLens ---------------------------------------------------------------------------------------

RATINGS = [(1 + i % 3, 10 * (1 + i % 4), 1 + i % 5) for i in range(24)]  # user, film, stars
PEOPLE = [(1, 20, "F", "writer"), (2, 30, "M", "none"), (3, 40, "M", "student")]
FILMS = [  # title, year that recbole has, date of u.item, genres
    (10, "Café (Blue) (1950)", "Café (Blue)", "1950", "02-Feb-1999", ["Drama", "War"]),
    (20, "Dinos III (1995) (V)", "Dinos III (1995)", "V", "01-Jan-1995", ["Children's"]),
    (30, "unknown", "unkonwn", "unkonwn", "", ["unknown"]),
    (40, "2001 (1968)", "2001", "1968", "01-Jan-1968", ["Sci-Fi"]),
]


def _recbole() -> Contents:
    films = [f"{i}\t{title}\t{year}\t{' '.join(genres)}" for i, _, title, year, _, genres in FILMS]
    return {
        "ml-100k.inter": "\r\n".join(
            ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
            + [f"{u}\t{f}\t{s}\t88125094{u}" for u, f, s in RATINGS]
        ),
        "ml-100k.item": "\r\n".join(
            ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq", *films, ""]
        ),
        "ml-100k.user": "\r\n".join(
            ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"]
            + [f"{i}\t{age}\t{gender}\t{work}\t85711" for i, age, gender, work in PEOPLE]
        ),
    }


def _grouplens() -> Contents:
    films = []
    for i, title, _, _, date, genres in FILMS:
        flags = "|".join(str(int(genre in genres)) for genre in movielens._GENRES_100K)
        films.append(f"{i}|{title}|{date}||http://us.imdb.com/{i}|{flags}\n")
    return {
        "u.data": "".join(f"{u}\t{f}\t{s}\t88125094{u}\n" for u, f, s in RATINGS),
        "u.item": "".join(films).encode("latin-1"),
        "u.user": "".join(f"{i}|{age}|{gender}|{work}|85711\n" for i, age, gender, work in PEOPLE),
    }


def _million() -> Contents:
    return {
        "ratings.dat": "".join(f"{u}::{f}::{s}::978300760\n" for u, f, s in RATINGS),
        "users.dat": "1::F::1::20::48067\n2::M::56::0::70072\n3::M::25::15::55117\n",
        "movies.dat": "10::Café (1950)::Drama|War\n20::B (1995)::Western\n30::C (2000)::Action\n40::D::War\n".encode(
            "latin-1"
        ),
    }


def test_both_forms_of_movielens_are_one_dataset(make: Make) -> None:
    recbole, grouplens = (
        movielens._read_movielens_100k(make(form, files, "movielens-100k"))
        for form, files in (("recbole", _recbole()), ("grouplens", _grouplens()))
    )
    assert recbole.checksum == grouplens.checksum
    assert (recbole.columns, recbole.notes, recbole.name) == (grouplens.columns, grouplens.notes, "movielens-100k")


def test_movielens_rows_by_hand(make: Make) -> None:
    data = movielens._read_movielens_100k(make("grouplens", _grouplens()))
    assert (len(data.train), len(data.test), data.shape) == (22, 2, (2 + 2 + 21 + 1 + 19,))
    assert (data.task, data.classes, data.train.y.dtype, data.train.x.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    held = sorted(np.random.default_rng(0).permutation(24)[:2].tolist())
    for split, rows in ((data.train, [i for i in range(24) if i not in held]), (data.test, held)):
        wanted = [RATINGS[i] for i in rows]
        assert split.x[:, :2].tolist() == [[user, film] for user, film, _ in wanted]
        assert split.y.tolist() == [stars for _, _, stars in wanted]
        assert split.groups["user"].tolist() == [user for user, _, _ in wanted]
        for (user, film, _), row in zip(wanted, split.x, strict=True):
            named = {name for name, value in zip(data.columns[3:], row[3:], strict=True) if value and name != "year"}
            work, genres = PEOPLE[user - 1][3], FILMS[film // 10 - 1][5]
            gender = {"gender=F"} if user == 1 else set()
            assert named == {f"occupation={work}", *(f"genre={genre}" for genre in genres)} | gender


def test_movielens_ages_and_years_are_standardised_and_a_missing_year_is_the_mean(make: Make) -> None:
    data = movielens._read_movielens_100k(make("grouplens", _grouplens()))
    rows, year = whole(data).x, data.columns.index("year")
    ages = np.array([PEOPLE[int(user) - 1][1] for user in rows[:, 0]])
    known = {10: 1950.0, 20: 1995.0, 40: 1968.0}
    mean = np.mean([known[int(film)] for film in rows[:22, 1] if film != 30])
    years = np.array([known.get(int(film), mean) for film in rows[:, 1]])
    for place, values in ((2, ages), (year, years)):
        np.testing.assert_allclose(rows[:, place], (values - values[:22].mean()) / values[:22].std(), atol=1e-4)
    assert data.notes[0].startswith("1 film(s) without a year, in 6 rating(s)")


def test_the_million_by_hand(make: Make) -> None:
    data = movielens._read_movielens_1m(make("grouplens", _million(), "movielens-1m"))
    assert (data.name, data.shape, len(data.train)) == ("movielens-1m", (2 + 2 + 21 + 1 + 18,), 22)
    row = data.train.x[data.train.groups["user"] == 3][0]
    named = {name for name, value in zip(data.columns[3:], row[3:], strict=True) if value and name != "year"}
    genres = {10: {"genre=Drama", "genre=War"}, 20: {"genre=Western"}, 30: {"genre=Action"}, 40: {"genre=War"}}
    assert named == {"occupation=scientist", *genres[int(row[1])]}
    assert "genre=unknown" not in data.columns
    assert data.notes[0].startswith("1 film(s)")


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("ml-100k.inter", "user_id", "user", "has the header 'user:token"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t20\t9\t", "has user, film and rating 2, 20, 9 in line 3"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t20.5\t2\t", "has user, film and rating 2, 20.5, 2 in line 3"),
        ("ml-100k.inter", "2\t20\t2\t", "2\t21\t2\t", "has the film 21 in line 3: one of the 4 films is needed"),
        ("ml-100k.inter", "2\t20\t2\t", "7\t20\t2\t", "has the user 7 in line 3: one of the 3 users is needed"),
        ("ml-100k.inter", "2\t20\t2\t", "2\tx\t2\t", "has 'x' in column 2 in line 3"),
        ("ml-100k.item", "Sci-Fi", "Sci-fi", "has the genre 'Sci-fi' in line 5"),
        ("ml-100k.item", "40\t", "10\t", "has the id '10' in line 5: a whole number that no line before it has"),
        ("ml-100k.item", "40\t", "x\t", "has the id 'x' in line 5"),
        ("ml-100k.item", "40\t", "40\t\t", "has 5 cells in line 5: 4 are needed"),
        ("ml-100k.user", "\t20\t", "\told\t", "has the age 'old' in line 2: a number is needed"),
        ("ml-100k.user", "\tF\t", "\tX\t", "has the gender 'X' in line 2: F or M is needed"),
        ("ml-100k.user", "writer", "diver", "has the occupation 'diver' in line 2"),
    ],
)
def test_a_bad_recbole_file_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(lambda: movielens._read_movielens_100k(make("recbole", changed(_recbole(), name, old, new))), name, told)


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("ratings.dat", "2::20::2::", "2::20::x::", "has 'x' in column 3 in line 2"),
        ("ratings.dat", "2::20::2::", "2::20::", "has 3 cells in line 2: 4 are needed"),
        ("users.dat", "::15::", "::21::", "has the occupation '21' in line 3"),
        ("users.dat", "1::F", "1:F", "has 4 cells in line 1: 5 are needed"),
    ],
)
def test_a_bad_file_of_the_million_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(lambda: movielens._read_movielens_1m(make("grouplens", changed(_million(), name, old, new))), name, told)


def test_a_genre_flag_that_is_none_is_refused(make: Make) -> None:
    files = {**_grouplens(), "u.item": b"1|A (1990)|01-Jan-1990||u" + b"|0" * 18 + b"|2\n"}
    refusal(
        lambda: movielens._read_movielens_100k(make("grouplens", files)), "u.item has '2' among the genres in line 1"
    )


# --- songs -------------------------------------------------------------------------------------------


def _songs(rows: int) -> str:
    return "".join(f"{1922 + i},{','.join(str((i + 1) * (c % 3) + c) for c in range(90))}\n" for i in range(rows))


def test_year_prediction_trains_on_the_first_rows(make: Make) -> None:
    data = songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": _songs(20)}))
    assert (len(data.train), len(data.test), data.shape) == (18, 2, (90,))
    assert data.train.y.tolist() == list(range(1922, 1940))
    assert data.test.y.tolist() == [1940, 1941]
    assert (data.task, data.classes, data.train.y.dtype, data.train.x.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    steps = np.arange(1, 21)  # what every third column goes up by
    np.testing.assert_allclose(whole(data).x[:, 1], (steps - 9.5) / steps[:18].std(), rtol=1e-5)
    assert not data.train.x[:, 0].any()  # a constant
    assert (data.columns[0], data.columns[11], data.columns[12]) == ("timbre-mean-1", "timbre-mean-12", _covariance(1))
    assert data.columns[-1] == _covariance(78)


def _covariance(number: int) -> str:
    return f"timbre-covariance-{number}"


def test_the_published_split_of_year_prediction(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(songs, "_YEAR_ROWS", 20)
    monkeypatch.setattr(songs, "_YEAR_TRAIN", 15)
    data = songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": _songs(20)}))
    assert (len(data.train), len(data.test)) == (15, 5)


def test_a_bad_year_prediction_is_refused(make: Make) -> None:
    for text, told in (
        (_songs(3) + "1990,1\n", "has 2 cells in line 4: 91 are needed"),
        (_songs(1), "has 1 row: at least 2 are needed"),
        ("", "has no rows"),
    ):
        files = make("files", {"YearPredictionMSD.txt": text})
        refusal(lambda files=files: songs._read_year_prediction(files), "YearPredictionMSD.txt", told)


def _music() -> Contents:
    """Tracks 2, 4, ..., 60; those that 6 divides have no date, and 8 has no row in tracks.csv."""
    features = "feature,mfcc,mfcc\nstatistics,mean,max\nnumber,01,02\ntrack_id,,\n"
    features += "".join(f"{i},{i}.5,{-i}\n" for i in range(2, 62, 2))
    tracks = ",album,album,track\n,comments,date_released,title\ntrack_id,,,\n"
    for i in range(60, 0, -2):  # in another order
        date = "" if i % 6 == 0 else f"{1950 + i}-01-05 00:00:00"
        tracks += f'{i},"a, b\nand ""c""",{date},Song\n' if i != 8 else ""
    return {"features.csv": features, "tracks.csv": tracks}


def test_fma_joins_features_and_years_by_the_track(make: Make) -> None:
    data = songs._read_fma(make("files", _music()))
    tracks = [i for i in range(2, 62, 2) if i % 6 and i != 8]
    assert (len(data.train), len(data.test)) == (len(tracks) - 1, 1)
    assert data.columns == ("mfcc-mean-01", "mfcc-max-02")
    assert (data.task, data.classes) == ("regression", ())
    assert data.notes[0] == "11 of 30 tracks left out, because their album has no date of release"
    rows = whole(data)
    assert sorted(rows.y.tolist()) == [1950 + i for i in tracks]
    number = rows.y - 1950
    known = number[: len(data.train)]
    np.testing.assert_allclose(rows.x[:, 0], (number - known.mean()) / known.std(), atol=1e-5)
    np.testing.assert_allclose(rows.x[:, 1], -rows.x[:, 0], atol=1e-5)


def test_an_album_may_have_a_long_story(make: Make) -> None:
    contents = changed(_music(), "tracks.csv", "a, b", "x" * 200_000)
    assert len(songs._read_fma(make("files", contents)).test) == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("features.csv", "track_id", "id", "has 'feature,mfcc,mfcc' in line 1: a header of several lines"),
        ("features.csv", "number,01,02", "number,01", "in line 1: a header of several lines of equal length"),
        ("features.csv", "4,4.5", "4,", "has '' in column 2 in line 6: a finite number is needed"),
        ("tracks.csv", "date_released", "released", "has another header in line 1"),
        ("tracks.csv", "track_id", "id", "has another header in line 1"),
        ("tracks.csv", "2008-01-05", "May 2008", "has the date 'May 2008 00:00:00' in the row ending in line 7"),
        ("tracks.csv", "Song\n", "Song,x\n", "has 5 cells from '60,a, b\\nand \"c\",,Song,x' on, ending in line 5"),
    ],
)
def test_a_bad_fma_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(lambda: songs._read_fma(make("files", changed(_music(), name, old, new))), name, told)


def test_fma_without_enough_dates_is_refused(make: Make) -> None:
    contents: Contents = {**_music(), "tracks.csv": ",album\n,date_released\ntrack_id,\n2,1990-01-01\n"}
    refusal(lambda: songs._read_fma(make("files", contents)), "gives 1 rows: at least 12 are needed")


# --- traffic -----------------------------------------------------------------------------------------


def _speeds(steps: int, sensors: int, start: int = 0, times: bool = False) -> str:
    """The speed of sensor s at step t is 1000 s + t + start."""
    header = ",".join(["", *map(str, range(sensors))] if times else map(str, range(sensors)))
    rows = []
    for t in range(steps):
        cells = [f"{1000 * s + t + start}" for s in range(sensors)]
        rows.append(",".join([f"2012-03-01 00:{t:02d}:00", *cells] if times else cells))
    return "\n".join([header, *rows, ""])


def _raw(dataset: Dataset, split: Split) -> np.ndarray:
    """The features in the file's unit again, from the row with the known values 0, 1, 2..."""
    scale = (dataset.train.x[0, 1] - dataset.train.x[0, 0]) ** -1
    return np.round((split.x - dataset.train.x[0, 0]) * scale)


def test_traffic_rows_by_hand(make: Make) -> None:
    data = traffic._read_traffic(make("table", {"road.csv": _speeds(20, 2)}), past=2, ahead=1)
    assert _raw(data, data.train)[:3].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert data.train.y[:3].tolist() == [2, 3, 4]
    assert (len(data.train), len(data.test)) == (2 * 14, 2 * 2)  # of 16 and 4 steps
    assert data.test.y.tolist() == [18, 19, 1018, 1019]
    assert _raw(data, data.test).tolist() == [[16, 17], [17, 18], [1016, 1017], [1017, 1018]]
    assert data.test.groups["sensor"].tolist() == ["0", "0", "1", "1"]
    assert set(data.train.groups["network"].tolist()) == {"road"}
    assert data.columns == ("speed-1", "speed-0")
    assert (data.task, data.classes, data.train.x.dtype, data.train.y.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    known = np.concatenate([np.arange(16), 1000 + np.arange(16)])
    np.testing.assert_allclose(data.train.x[0, 0], -known.mean() / known.std(), rtol=1e-5)


def test_a_column_of_times_is_skipped(make: Make) -> None:
    plain, timed = (
        traffic._read_traffic(make("table", {"road.csv": _speeds(30, 3, times=times)}), past=3, ahead=2)
        for times in (False, True)
    )
    assert plain.checksum == timed.checksum
    named = make("table", {"road.csv": _speeds(30, 3, times=True).replace(",0,", "time,0,", 1)})
    assert traffic._read_traffic(named, past=3, ahead=2).checksum == plain.checksum


@given(steps=st.integers(10, 60), past=st.integers(1, 6), ahead=st.integers(1, 6))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_row_reaches_across_the_cut(make: Make, steps: int, past: int, ahead: int) -> None:
    files = make("table", {"road.csv": _speeds(steps, 1)})
    cut = steps - steps // 5
    if steps // 5 < past + ahead:
        refusal(lambda: traffic._read_traffic(files, past, ahead), "road.csv", f"{steps} time steps", f"past={past}")
        return
    data = traffic._read_traffic(files, past, ahead)
    speeds = np.arange(cut)
    for split, first, end in ((data.train, 0, cut), (data.test, cut, steps)):
        times = np.round(split.x.astype(np.float64) * speeds.std() + speeds.mean())
        assert (times.min(), split.y.max()) == (first, end - 1)
        assert len(split) == end - first - past - ahead + 1
        np.testing.assert_array_equal(times[:, -1] + ahead, split.y)
        np.testing.assert_array_equal(times[:, 0] + past - 1, times[:, -1])


def test_two_networks_with_sensors_of_one_name_stay_apart(make: Make) -> None:
    files = make("table", {"a.csv": _speeds(20, 1), "b.csv": _speeds(40, 2, start=5)})
    data = traffic._read_traffic(files, past=2, ahead=1)
    assert sorted(set(data.train.groups["sensor"].tolist())) == ["a/0", "b/0", "b/1"]
    assert np.unique(data.train.groups["network"], return_counts=True)[1].tolist() == [14, 60]
    apart = make("table", {"a.csv": _speeds(20, 1), "b.csv": _speeds(40, 2).replace("0,1", "7,8", 1)})
    assert set(traffic._read_traffic(apart, past=2, ahead=1).test.groups["sensor"].tolist()) == {"0", "7", "8"}


def test_speeds_of_0_are_said(make: Make) -> None:
    assert "1 speeds are 0" in traffic._read_traffic(make("table", {"r.csv": _speeds(20, 1)}), 2, 1).notes[1]
    assert len(traffic._read_traffic(make("table", {"r.csv": _speeds(20, 1, start=1)}), 2, 1).notes) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has the header '' in line 1: a name for each sensor is needed"),
        ("1,1\n2,3\n", "has the header '1,1' in line 1"),
        ("1,2\n", "has no rows"),
        ("1,2\n3,4\n5\n", "has 1 cells in line 3: 2 are needed"),
        ("1,2\n3,4\n5,\n", "has '' in column 2 in line 3: a finite number is needed"),
        (",1,2\n09:00,3,4\n09:05,5,x\n", "has 'x' in column 3 in line 3"),
        (",1,2\n09:00,3,4\n09:05,5,6,7\n", "has 4 cells in line 3: 3 are needed"),
        ("1,2\n" + "3,4\n" * 10, "has 10 time steps, of which the last 2 are for testing: past=12 and ahead=3 need 15"),
    ],
)
def test_a_bad_table_of_speeds_is_refused(make: Make, text: str, told: str) -> None:
    refusal(lambda: traffic._read_traffic(make("table", {"road.csv": text}), past=12, ahead=3), "road.csv", told)


# --- through the store -------------------------------------------------------------------------------

READERS: dict[str, Callable[[Make], Dataset]] = {
    "adult": lambda make: tables._read_adult(make("uci", UCI)),
    "rcv1": lambda make: tables._read_rcv1(make("files", {"rcv1_train.binary.bz2": bz2.compress(b"+1 1:1\n" * 8)})),
    "covtype": lambda make: _cover(make, scale="unit"),
    "heart-disease": lambda make: tables._read_heart_disease(make("files", _hearts())),
    "movielens-100k": lambda make: movielens._read_movielens_100k(make("grouplens", _grouplens())),
    "year-prediction": lambda make: songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": _songs(20)})),
    "fma": lambda make: songs._read_fma(make("files", _music())),
    "traffic": lambda make: traffic._read_traffic(make("table", {"road.csv": _speeds(40, 2)}), past=2, ahead=1),
}


@pytest.mark.parametrize("name", READERS)
def test_the_cache_gives_back_what_was_read(make: Make, tmp_path: Path, name: str) -> None:
    data = READERS[name](make)
    cache._write_cache(tmp_path / "cache" / "made", data)
    kept = cache._read_cache(tmp_path / "cache" / "made")
    assert kept is not None
    assert kept.checksum == data.checksum
    assert (kept.name, kept.task, kept.columns, kept.notes) == (data.name, data.task, data.columns, data.notes)


@pytest.mark.parametrize(
    ("name", "form", "contents", "build", "expected"),
    [
        ("adult", "uci", UCI, lambda: tables.adult("uci"), lambda make: READERS["adult"](make)),
        ("adult", "a9a", A9A, tables.adult, lambda make: READERS["adult"](make)),
        (
            "covtype",
            "csv",
            {"covtype.csv": f"{COVER_HEADER}\n{_patches(80)}"},
            lambda: tables.covtype(classes="seven", scale="standard"),
            lambda make: _cover(make, classes="seven", scale="standard"),
        ),
        ("heart-disease", "files", _hearts(), tables.heart_disease, READERS["heart-disease"]),
        ("movielens-100k", "recbole", _recbole(), movielens.movielens_100k, READERS["movielens-100k"]),
        ("fma", "files", _music(), songs.fma, READERS["fma"]),
    ],
)
def test_a_factory_reads_the_files_of_its_entry(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str,
    contents: Contents,
    build: Callable[[], Dataset],
    expected: Callable[[Make], Dataset],
) -> None:
    (tmp_path / name).mkdir()
    make(form, {f"{name}/{file}": content for file, content in contents.items()})
    entry = located(tmp_path / name, form, *contents, name=name).entry
    monkeypatch.setattr(store, "find", {name: entry}.__getitem__)
    assert build().checksum == expected(make).checksum


# --- the real files ----------------------------------------------------------------------------------


def real(form: str, *names: str) -> Files:
    """Files by name, anywhere below the folder of SILOBENCH_TEST_DATA; skips when they are not there."""
    root = os.environ.get("SILOBENCH_TEST_DATA")
    found = sorted(Path(root).rglob(names[0])) if root else []
    found = [path for path in found if path.is_file()]
    if not found:
        pytest.skip(f"SILOBENCH_TEST_DATA does not name a folder with {names[0]}")
    return located(found[0].parent, form, *names)


def sizes(dataset: Dataset) -> tuple[int, int, tuple[int, ...]]:
    return len(dataset.train), len(dataset.test), dataset.shape


def test_the_real_a9a() -> None:
    data = tables._read_adult(real("a9a", "a9a", "a9a.t"))
    assert sizes(data) == (32_561, 16_281, (123,))
    assert data.train.x.sum() == 451_592


def test_the_real_forms_of_adult_agree() -> None:
    forms = [real("a9a", "a9a", "a9a.t"), real("uci", "adult.data", "adult.test")]
    assert len({tables._read_adult(files).checksum for files in forms}) == 1


def test_the_real_reuters() -> None:
    assert sizes(tables._read_reuters(real("files", "reuters.trn.bz2", "reuters.tst.bz2"))) == (7_770, 3_299, (8_315,))


def test_the_real_hearts() -> None:
    data = tables._read_heart_disease(real("files", *(f"processed.{name}.data" for name in tables._HOSPITALS)))
    assert sizes(data) == (735, 185, (30,))
    counts = np.unique(whole(data).groups["hospital"], return_counts=True)[1]
    assert counts.tolist() == [303, 294, 123, 200]
    assert "172 of chol and 1 of trestbps" in data.notes[0]


def test_the_real_traffic() -> None:
    data = traffic._read_traffic(real("table", "los_speed.csv"), past=12, ahead=3)
    assert sizes(data) == (207 * 1_599, 207 * 389, (12,))
    assert len(set(data.train.groups["sensor"].tolist())) == 207


def test_the_real_covtype() -> None:
    data = tables._read_covtype(real("csv", "covtype.csv"), "binary", "unit")
    assert sizes(data) == (435_759, 145_253, (54,))
    assert data.train.y.sum() + data.test.y.sum() == 283_301


def test_the_real_movielens() -> None:
    data = movielens._read_movielens_100k(real("recbole", "ml-100k.inter", "ml-100k.item", "ml-100k.user"))
    assert sizes(data) == (91_667, 8_333, (45,))
    rows = whole(data)
    assert (len(np.unique(rows.x[:, 0])), len(np.unique(rows.x[:, 1]))) == (943, 1_682)
    assert np.bincount(rows.y.astype(int)).tolist() == [0, 6_110, 11_370, 27_145, 34_174, 21_201]
