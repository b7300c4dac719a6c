"""The file that silos agree on: it says what it has, comes back as it was written, and refuses every wrong field."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from silo_files import agreement, write_tables

from silobench.data.agreed import Columns, Label, Pictures, columns_of, describe, sample_of
from silobench.data.encoder import CategoryColumn, DateColumn, HashColumn, NumberColumn, TextColumn
from silobench.data.table.cells import MISSING
from silobench.data.table.scaling import Scale
from silobench.errors import DataError

TABLE = """\
version = 1
kind = "table"
test = 0.25
scale = "standard"
[label]
name = "y"
task = "classification"
classes = ["no", "yes"]
[[column]]
name = "age"
kind = "number"
[[column]]
name = "ward"
kind = "category"
categories = ["heart", "lung"]
[[column]]
name = "seen"
kind = "date"
[[column]]
name = "notes"
kind = "text"
width = 8
"""
IMAGES = """\
version = 1
kind = "images"
size = 16
[label]
name = "label"
task = "classification"
classes = ["cat", "none"]
"""
names = st.text(min_size=1, max_size=12).filter(lambda text: text == text.strip() and text.lower() not in MISSING)


def test_a_file_states_everything_that_features_need() -> None:
    columns = Columns.of_text(TABLE)
    assert columns.label == Label("y", ("no", "yes"))
    assert columns.test == 0.25
    parts = (
        NumberColumn("age"), CategoryColumn("ward", ("heart", "lung")), DateColumn("seen", "1970-01-01T00:00:00"),
        TextColumn("notes", 8),
    )  # fmt: skip
    assert columns.parts == parts
    assert columns.numeric_features == ("age", "seen (days)", "seen (month)", "seen (weekday)")
    assert Columns.of_text(IMAGES).pictures == Pictures(16, "rgb")


@settings(deadline=None)
@given(st.lists(names, min_size=4, max_size=4, unique=True), st.sets(names, min_size=2, max_size=5), st.booleans())
def test_any_names_come_back_as_they_were_written(columns: list[str], texts: set[str], is_regression: bool) -> None:
    label, number, category, hashed = columns
    agreed = Columns(
        Label(label, (), "kg", ",", ".") if is_regression else Label(label, tuple(sorted(texts))),
        (NumberColumn(number, ",", " "), CategoryColumn(category, tuple(texts)), HashColumn(hashed, 7)),
        scale="stated",
        scales={number: Scale(1.5, 1.5, 1e-30)},
    )
    features = [feature for part in agreed.parts for feature in part.features]
    if len(set(features)) == len(features):
        assert Columns.of_text(agreed.text()) == agreed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "has 2 as 'version': it must be 1"),
        ("version = 1\n", "", "no key 'version': add it"),
        ('kind = "table"', 'kind = "sound"', "has 'sound' as 'kind'"),
        ('kind = "table"', 'kind = "table"\nsize = 8', "the key 'size', which only pictures have"),
        ('kind = "table"', 'kind = "table"\nrows = 8', "an unknown key 'rows'"),
        ("test = 0.25", "test = 0", "has 0 as 'test': it must be greater than 0"),
        ("test = 0.25", "test = 1.0", "has 1.0 as 'test': it must be less than 1"),
        ("test = 0.25", 'test = "a fifth"', "has 'a fifth' as 'test': it must be a number"),
        ('"standard"', '"group"', "has 'group' as 'scale': it must be 'standard', 'stated' or 'none'"),
        ('"standard"', '"stated"', "no mean and deviation of age, seen (days), seen (month) and 1 more"),
        ('name = "y"', 'name = ""', "has '' as 'name' in [label]"),
        ('name = "y"', 'name = "age"', "has 'age' more than once, as a column or as the label"),
        ("classification", "ranking", "has 'ranking' as 'task' in [label]"),
        ("classification", "regression", "classes for the label 'y', which is a number"),
        ('["no", "yes"]', '["no"]', "the classes ['no'] of the label 'y': list at least two, each once"),
        ('["no", "yes"]', '["no", "no", "yes"]', "list at least two, each once"),
        ('["no", "yes"]', '["no", 1]', "has 1 as entry 2 of 'classes' in [label]: it must be text"),
        ('["no", "yes"]', '["no", "NA"]', "the class 'NA' of the label 'y', which stands for a missing cell"),
        ('["no", "yes"]', '["no", "yes "]', "begins or ends with a space"),
        ('["no", "yes"]', '["no", "yes"]\nunit = "kg"', "a unit or marks of numbers for the classes"),
        ('name = "age"', 'name = "ward"', "has 'ward' more than once"),
        ('name = "age"\n', "", "no key 'name' in column 1: add it"),
        ('kind = "number"', 'kind = "figure"', "has no known kind in column 'age'"),
        ('kind = "number"\n', "", "has no known kind in column 'age'"),
        ('kind = "number"', 'kind = "number"\ndecimal = ";"', "has ';' as 'decimal' in column 'age'"),
        ('kind = "number"', 'kind = "number"\nthousands = "."', "'.' for decimals and for thousands of column 'age'"),
        ('kind = "number"', 'kind = "number"\nwidth = 3', "an unknown key 'width' in column 'age'"),
        ('["heart", "lung"]', "[]", "as 'categories' in column 'ward'"),
        ('["heart", "lung"]', '["heart", ""]', "has '' as entry 2 of 'categories' in column 'ward'"),
        ('["heart", "lung"]', '["heart", "heart"]', "the category 'heart' of column 'ward' twice"),
        ('kind = "date"', 'kind = "date"\norder = "year"', "has 'year' as 'order' in column 'seen'"),
        ('kind = "date"', 'kind = "date"\norigin = "Easter"', "'Easter' as the origin of column 'seen'"),
        ('kind = "date"', 'kind = "date"\norigin = "today"', "'today' as the origin of column 'seen'"),
        ('kind = "date"', 'kind = "date"\norigin = "2024-01-01T00:00+02:00"', "+02:00' as the origin of column 'seen'"),
        ("width = 8", "width = 1", "has 1 as 'width' in column 'notes'"),
        ("width = 8", "width = 8.5", "has 8.5 as 'width' in column 'notes': it must be a whole number"),
        ("width = 8", "width = 8\n[scales]\nage = {mean = 1, deviation = 2}", "[scales], but scale = 'standard'"),
        ("[label]", "label]", "is not TOML"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(old: str, new: str, message: str) -> None:
    assert old in TABLE
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        Columns.of_text(TABLE.replace(old, new, 1), "agreed.toml")
    assert str(caught.value).startswith("agreed.toml ")
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ("age = {mean = 1, deviation = 0}", "has 0 as 'deviation' in [scales.age]: it must be greater than 0"),
        ("age = {mean = nan, deviation = 1}", "it must be a finite number"),
        ("age = {mean = 1}", "no key 'deviation' in [scales.age]"),
        ("age = {mean = 1, deviation = 1}\nwards = {mean = 1, deviation = 1}", "'wards' in [scales], which is no"),
    ],
)
def test_wrong_scales_are_named(scales: str, message: str) -> None:
    dates = TABLE.index('[[column]]\nname = "seen"')
    text = TABLE[:dates].replace('"standard"', '"stated"') + f"[scales]\n{scales}\n"
    with pytest.raises(DataError, match=re.escape(message)):
        Columns.of_text(text)


def test_pictures_have_no_columns_and_may_have_a_class_named_none() -> None:
    assert Columns.of_text(IMAGES).label.classes == ("cat", "none")
    for key in ('scale = "none"', "column = []"):
        with pytest.raises(DataError, match="which pictures do not have"):
            Columns.of_text(IMAGES.replace("size = 16", key))


def test_a_table_without_columns_and_features_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match="no columns: add"):
        Columns.of_text(TABLE[: TABLE.index("[[column]]")])
    clash = TABLE + '[[column]]\nname = "ward=heart"\nkind = "number"\n'
    with pytest.raises(DataError, match="both have the feature 'ward=heart'"):
        Columns.of_text(clash)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        Columns.read(tmp_path / "columns.toml")
    (tmp_path / "columns.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read as text in UTF-8"):
        Columns.read(tmp_path / "columns.toml")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_sample_suggests_the_columns_of_the_dataset_csv(tmp_path: Path, suffix: str) -> None:
    columns = agreement(write_tables(tmp_path, suffix)[0])
    assert columns.label == Label("outcome", ("alive", "died"))
    assert [part.kind for part in columns.parts] == ["number", "category", "date", "text"]
    assert columns.parts[1] == CategoryColumn("ward", ("heart", "lung", "skin"))
    assert Columns.of_text(columns.text()) == columns


def test_a_sample_with_a_number_as_label_is_a_regression(tmp_path: Path) -> None:
    north = write_tables(tmp_path)[0]
    columns = columns_of(north, "days", drop=["outcome", "notes"], dates="admitted", unit="days")
    assert columns.label == Label("days", (), "days")
    assert columns.label.task == "regression"
    assert columns_of(north, "outcome", drop="notes", unit="days").label.unit == ""


@pytest.mark.parametrize("origin", ["2024", "2024-01-05T10", "2024-01-05 10:30:00", "2024-01-05T10:30:00.25"])
def test_an_origin_may_be_any_date_that_stays(origin: str) -> None:
    columns = Columns.of_text(TABLE.replace('kind = "date"', f'kind = "date"\norigin = "{origin}"'))
    assert f'origin = "{origin}"' in columns.text()


def test_stated_scales_of_a_sample_are_its_rounded_means_and_deviations(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    path.write_text(
        "x,day,y\n" + "".join(f"{1000 + row % 2},2024-01-{1 + row % 20:02},{'ab'[row % 2]}\n" for row in range(40))
    )
    columns = columns_of(str(path), "y", scale="stated", dates="day")
    assert columns.scales["x"] == Scale(1000.5, 1000.5, 0.5)
    assert columns.scales["day (month)"] == Scale(1.0, 1.0, 1.0)  # a constant keeps its unit
    assert columns.summed_features == ()


@pytest.mark.parametrize("value", [1e200, 1.7e308])
def test_a_sample_whose_numbers_cannot_be_added_has_no_stated_scales(tmp_path: Path, value: float) -> None:
    path = tmp_path / "sample.csv"
    path.write_text("x,y\n" + "".join(f"{value if row % 3 else 1.5},{'ab'[row % 2]}\n" for row in range(40)))
    assert columns_of(str(path), "y").names == ("y", "x")
    with pytest.raises(DataError, match="column 'x' that are too large to add up"):
        columns_of(str(path), "y", scale="stated")


def test_a_sample_has_notes_and_a_table_with_a_decimal_comma_keeps_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "sample.csv"
    path.write_text("id;x;y\n" + "".join(f"{row};{row % 7},5;{row % 9},25\n" for row in range(40)))
    sample = sample_of(str(path), "y", task="regression")
    assert any("'id' looks like an identifier" in note for note in sample.notes)
    assert sample.columns.parts == (NumberColumn("id"), NumberColumn("x", ","))
    assert sample.columns.label == Label("y", decimal=",")


def test_people_can_read_what_was_agreed() -> None:
    lines = describe(Columns.of_text(TABLE))
    assert lines[:3] == [
        "label y: one of 2 classes (no and yes)",
        "column age: a number",
        "column ward: one of 2 categories (heart and lung)",
    ]
    assert any("sums of squared differences from the mean of age, seen (days)" in line for line in lines)
    assert any("no epsilon covers them" in line for line in lines)
    assert not any("squared" in line for line in describe(Columns.of_text(TABLE.replace('"standard"', '"none"'))))
    assert describe(Columns.of_text(IMAGES))[-1].endswith("and no sums")


def test_people_read_which_rows_are_held_out() -> None:
    numbers = Columns(Label("y", unit="kg"), (NumberColumn("x"),), test=0.125)
    assert "12.5% of the rows are held out for tests, inside the silo" in describe(numbers)
    classes = Columns(Label("y", ("a", "b")), (NumberColumn("x"),))
    assert "20% of the rows of each class are held out for tests, inside the silo" in describe(classes)
