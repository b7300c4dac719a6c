"""Published tables with classes: every reader on small files, and on the real ones where they are available."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from table_files import (
    A9A,
    COVER_HEADER,
    FIRST_A9A,
    UCI,
    Contents,
    Make,
    _hospital,
    changed,
    cover_rows,
    fma_files,
    grouplens_files,
    heart_files,
    located,
    real,
    recbole_files,
    refusal,
    sizes,
    song_rows,
    speed_rows,
    whole,
)

from silobench.data.dataset import Dataset, Split
from silobench.data.readers import delimited as parsed
from silobench.data.readers import movielens, songs, tables, traffic
from silobench.data.readers.adult import ATTRIBUTES, OFFSETS
from silobench.data.store import cache, directory
from silobench.spec import Registry


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
        traffic.traffic: "traffic(past=12, ahead=3, all_steps=False)",
    }
    for factory, spec in specs.items():
        registry.register(factory)
        assert str(registry.bind(spec.partition("(")[0]).full) == spec


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
    assert [len(side) for side in parsed.hold_out_part(tmp_path, rows, 4)] == [15_182, 5_060]


def test_reuters_has_as_many_columns_in_both_files(make: Make) -> None:
    files = {"reuters.trn.bz2": bz2.compress(b"+1 2:0.5 9:1\n-1 1:2\n"), "reuters.tst.bz2": bz2.compress(b"-1 3:1\n")}
    data = tables._read_reuters(make("files", files))
    assert data.train.x.toarray().tolist() == [[0, 0.5, 0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 0, 0, 0]]
    assert data.test.x.toarray().tolist() == [[0, 0, 1, 0, 0, 0, 0, 0, 0]]
    assert (data.train.y.tolist(), data.test.y.tolist(), data.classes) == ([1, 0], [0], ("other", "money-fx"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            bz2.compress(b"+1 1:1\n-1 3:1 2:1\n"),
            "has the index 2 after 3 in line 2: -1 or 1, then index:number with ascending indices",
        ),
        (bz2.compress(b"+1 1:1\n-1 47237:1\n"), "has the index 47237 after 0 in line 2"),
        (bz2.compress(b"+1 1:1\n-1 2:inf\n"), "has '2:inf' in line 2"),
        (bz2.compress(b"+1 1:1\n-1 2:1\n"), "has 2 rows: at least 4 are needed"),
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


def _cover(make: Make, rows: int = 80, classes: str = "binary", scale: str = "none") -> Dataset:
    return tables._read_covtype(make("csv", {"covtype.csv": f"{COVER_HEADER}\n{cover_rows(rows)}"}), classes, scale)


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
    packed = make("uci", {"covtype.data.gz": gzip.compress(cover_rows(80).encode())})
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
        (cover_rows(80), "", "has no rows"),
    ],
)
def test_a_bad_covtype_is_refused(make: Make, old: str, new: str, told: str) -> None:
    contents = changed({"covtype.csv": f"{COVER_HEADER}\n{cover_rows(80)}"}, "covtype.csv", old, new)
    refusal(lambda: tables._read_covtype(make("csv", contents), "binary", "unit"), "covtype.csv", told)


def test_a_table_that_is_too_narrow_throughout_is_refused(make: Make) -> None:
    files = make("uci", {"covtype.data.gz": gzip.compress(b"1,2,3\n4,5,6\n")})
    refusal(lambda: tables._read_covtype(files, "binary", "unit"), "has 3 cells in line 1: 55 are needed")


def test_a_torn_archive_is_refused(make: Make) -> None:
    for content in (gzip.compress(cover_rows(5_000).encode())[:-500], b"no gzip at all"):
        files = make("uci", {"covtype.data.gz": content})
        refusal(lambda files=files: tables._read_covtype(files, "binary", "unit"), "covtype.data.gz", "cannot be read")


def test_hearts_by_hand(make: Make) -> None:
    data = tables._read_heart_disease(make("files", heart_files()))
    assert data.columns == (
        *("age", "sex=1", "cp=4", "trestbps", "chol", "fbs=(missing)", "fbs=1", "restecg=0", "thalach", "exang=0"),
        *("oldpeak", "slope=2", "ca", "thal=(missing)", "thal=7"),
    )
    assert data.classes == ("healthy", "disease")
    assert dict(data.defaults) == {"model": "mlp", "partition": "by-group"}
    assert data.notes == (
        "impossible values of 0 read as missing: 20 of chol and 0 of trestbps",
        "20 missing values in column 'chol' filled with its training mean",
        "16 missing values in column 'fbs' became a category",
        "79 missing values in column 'ca' filled with its training mean",
        "79 missing values in column 'thal' became a category",
        "numeric columns standardised by the pooled training rows, so every party learns the mean and deviation of all",
    )
    for split, each in ((data.train, 8), (data.test, 2)):  # of a hospital with and without the disease
        kinds, counts = np.unique(split.groups["hospital"] + split.y.astype(str), return_counts=True)
        assert (len(kinds), set(counts.tolist())) == (8, {each})
    assert (data.train.x.dtype, data.train.y.dtype) == (np.float32, np.int64)


def test_numbers_of_hearts_are_standardised_and_a_cholesterol_of_0_is_the_mean(make: Make) -> None:
    data = tables._read_heart_disease(make("files", heart_files()))
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
    contents = changed(heart_files(), "processed.hungarian.data", old, new)
    refusal(lambda: tables._read_heart_disease(make("files", contents)), "processed.hungarian.data", told)


def test_a_column_of_hearts_without_any_value_is_refused(make: Make) -> None:
    contents = changed(heart_files(), "processed.va.data", "2,2,7", "2,?,7")
    refusal(lambda: tables._read_heart_disease(make("files", contents)), "no value of ca in any of the four files")


# --- through the store -------------------------------------------------------------------------------

READERS: dict[str, Callable[[Make], Dataset]] = {
    "adult": lambda make: tables._read_adult(make("uci", UCI)),
    "rcv1": lambda make: tables._read_rcv1(make("files", {"rcv1_train.binary.bz2": bz2.compress(b"+1 1:1\n" * 8)})),
    "covtype": lambda make: _cover(make, scale="unit"),
    "heart-disease": lambda make: tables._read_heart_disease(make("files", heart_files())),
    "movielens-100k": lambda make: movielens._read_movielens_100k(make("grouplens", grouplens_files())),
    "year-prediction": lambda make: songs._read_year_prediction(
        make("files", {"YearPredictionMSD.txt": song_rows(20)})
    ),
    "fma": lambda make: songs._read_fma(make("files", fma_files())),
    "traffic": lambda make: traffic._read_traffic(make("table", {"road.csv": speed_rows(40, 2)}), past=2, ahead=1),
}


@pytest.mark.parametrize("name", READERS)
def test_the_cache_gives_back_what_was_read(make: Make, tmp_path: Path, name: str) -> None:
    data = READERS[name](make)
    cache._write_cache(tmp_path / "cache" / "made", data)
    kept = cache._read_cache(tmp_path / "cache" / "made")
    assert kept is not None
    assert kept.checksum == data.checksum
    assert (kept.name, kept.task, kept.columns, kept.notes) == (data.name, data.task, data.columns, data.notes)
    assert kept.owners == data.owners


@pytest.mark.parametrize("name", ["adult", "covtype", "heart-disease"])
def test_every_feature_has_one_owner(make: Make, name: str) -> None:
    data = READERS[name](make)
    features = [feature for owned in data.owners.values() for feature in owned]
    assert sorted(features) == sorted(data.columns)
    assert len(data.owners) == (3 if name == "covtype" else 2)


@pytest.mark.parametrize(
    ("name", "form", "contents", "build", "expected"),
    [
        ("adult", "uci", UCI, lambda: tables.adult("uci"), lambda make: READERS["adult"](make)),
        ("adult", "a9a", A9A, tables.adult, lambda make: READERS["adult"](make)),
        (
            "covtype",
            "csv",
            {"covtype.csv": f"{COVER_HEADER}\n{cover_rows(80)}"},
            lambda: tables.covtype(classes="seven", scale="standard"),
            lambda make: _cover(make, classes="seven", scale="standard"),
        ),
        ("heart-disease", "files", heart_files(), tables.heart_disease, READERS["heart-disease"]),
        ("movielens-100k", "recbole", recbole_files(), movielens.movielens_100k, READERS["movielens-100k"]),
        ("fma", "files", fma_files(), songs.fma, READERS["fma"]),
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
    monkeypatch.setattr(directory, "find", {name: entry}.__getitem__)
    assert build().checksum == expected(make).checksum


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


def test_the_real_covtype() -> None:
    data = tables._read_covtype(real("csv", "covtype.csv"), "binary", "unit")
    assert sizes(data) == (435_759, 145_253, (54,))
    assert data.train.y.sum() + data.test.y.sum() == 283_301
