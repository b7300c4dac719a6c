"""Columns that look like something else: thousands, numbers with odd cells, identifiers. Notes say what to write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import silobench as sb
from silobench.data import DATASETS, Dataset, csv
from silobench.data.encoder import Encoder
from silobench.errors import DataError, SilobenchError

Read = Callable[..., Dataset]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_table(header: str, row: Callable[[int], str], rows: int = 60, **options: Any) -> Dataset:
        path = tmp_path / "t.csv"
        path.write_text("\n".join([header, *map(row, range(rows))]))
        return csv(str(path), **{"label": "y", "scale": "none", **options})

    return read_table


def note_of(dataset: Dataset, column: str) -> str:
    """Return the only note about a column."""
    (note,) = [note for note in dataset.notes if f"column '{column}'" in note]
    return note


def values(dataset: Dataset, column: str) -> list[float]:
    place = dataset.columns.index(column)
    return sorted(np.concatenate([dataset.train.x[:, place], dataset.test.x[:, place]]).tolist())


# --- thousands ---------------------------------------------------------------------------------------


def european(i: int) -> str:
    return f"{886 + i if i % 3 else f'1.{100 + i}'};0,{i:02};{i % 2}"


def test_points_beside_decimal_commas_may_be_thousands(read: Read) -> None:
    dataset = read("cost;crea;y", european)
    note = (
        "column 'cost' has numbers such as 1.100, which were read as 1.1, but column 'crea' has a decimal comma: if "
        "the point separates thousands, thousands='.' reads 1100"
    )
    assert note in dataset.notes
    assert values(dataset, "cost")[0] < 2
    right = read("cost;crea;y", european, thousands=".")
    assert values(right, "cost") == [886 + i for i in range(60) if i % 3] + [1100.0 + i for i in range(0, 60, 3)]
    assert not any("1.100" in note for note in right.notes)
    with pytest.raises(DataError, match=r"numbers such as 1.\d{3} in column 'cost': .* thousands='.' reads 1\d{3}\.$"):
        read("cost;crea;y", european, decimal=",")


@pytest.mark.parametrize("row", ["0.650;0,5;{}", "1.65;0,5;{}", "1.650;0.5;{}", "165;0,5;{}"])
def test_other_points_are_decimals_without_a_note(read: Read, row: str) -> None:
    assert not any("thousands" in note for note in read("cost;crea;y", lambda i: row.format(i % 2)).notes)


def test_a_comma_may_separate_thousands_or_decimals(read: Read) -> None:
    dataset = read("cost,y", lambda i: f'"{1 + i % 9},{100 + i}",{i % 2}')
    assert len(dataset.columns) == 60
    assert dataset.notes == (
        "column 'cost' has numbers such as 1,100, which became 60 one-hot columns: decimal=',' reads 1.1 and "
        "thousands=',' reads 1100",
    )
    right = read("cost,y", lambda i: f'"{1 + i % 9},{100 + i}",{i % 2}', thousands=",")
    assert values(right, "cost")[:2] == [1100.0, 1109.0]


@pytest.mark.parametrize(
    ("cell", "arguments"),
    [
        ("1.910,51", {"decimal": ",", "thousands": "."}),
        ("1,910.51", {"thousands": ","}),
        ("1 910,51", {"decimal": ",", "thousands": " "}),
        ("1\u00a0910.51", {"thousands": " "}),
        ("-1.000.910,51", {"thousands": ".", "decimal": ","}),
    ],
)
def test_both_marks_are_explained(read: Read, cell: str, arguments: dict[str, str]) -> None:
    def row(i: int) -> str:
        return f'"{cell}{i}",x,{i % 2}'

    note = note_of(read("cost,ward,y", row), "cost")
    assert note.startswith(f"column 'cost' has numbers such as {cell}")
    assert "which became 60 one-hot columns: " in note
    assert all(f"{name}='{mark}'" in note for name, mark in arguments.items())
    dataset = read("cost,ward,y", row, **arguments)
    expected = [(-1000910.51 if cell[0] == "-" else 1910.51)] * 2
    np.testing.assert_allclose(values(dataset, "cost")[:2], expected, rtol=1e-5)
    assert dataset.encoder is not None
    again = Encoder.from_json(dataset.encoder.as_json())
    np.testing.assert_allclose(again.encode({"cost": [cell], "ward": ["x"]})[0, 0], expected[0], rtol=1e-5)


def test_encoders_without_thousands_are_stored_as_before(read: Read) -> None:
    dataset = read("a,y", lambda i: f"{i % 7},{i % 2}")
    assert dataset.encoder is not None
    assert dataset.encoder.as_json()["columns"] == [{"kind": "number", "name": "a", "decimal": "."}]


@pytest.mark.parametrize("cell", ["1.65", "0.650", "1.6500", "12.34.567", "1.650.00", "1.650,5.5"])
def test_cells_that_do_not_fit_are_refused(read: Read, cell: str) -> None:
    with pytest.raises(DataError, match=rf"'{cell}' in column 'cost': thousands='\.' needs groups of three digits"):
        read("cost;y", lambda i: f"{cell if i == 7 else '1.650'};{i % 2}", thousands=".")


def test_dates_and_texts_stay_when_thousands_are_stated(read: Read) -> None:
    dataset = read("cost;day;y", lambda i: f"1.650;12.0{1 + i % 9}.2024;{i % 2}", thousands=".")
    assert "column 'day' looks like dates: dates=day reads days, month and weekday from it" in dataset.notes


def test_a_numeric_label_may_have_thousands(read: Read) -> None:
    dataset = read("a;y", lambda i: f"{i % 7};{1 + i}.500,5", thousands=".")
    assert sorted([*dataset.train.y, *dataset.test.y])[:2] == [1500.5, 2500.5]


def test_marks_of_a_numeric_label_are_compared(read: Read) -> None:
    note = "column 'y' has numbers such as 1.650, which were read as 1.65, but column 'a' has a decimal comma"
    assert any(note in line for line in read("a;y", lambda i: f"{i % 7},5;{i // 6 + 1}.{650 + i}").notes)
    note = "column 'a' has numbers such as 1.650, which were read as 1.65, but column 'y' has a decimal comma"
    assert any(note in line for line in read("a;y", lambda i: f"{i % 7 + 1}.650;{i},5").notes)
    for cell, ways in (
        ("{}.650", "leaving decimal out reads 10.65 and decimal=',', thousands='.' reads 10650"),
        ("{}.650,5", "decimal=',', thousands='.' reads 10650.5"),
    ):
        with pytest.raises(DataError, match=f"in the label 'y': {ways}"):
            read("a;y", lambda i, cell=cell: f"{i % 7},5;{cell.format(i + 1)}", 20, decimal=",")
    with pytest.raises(
        DataError, match=r"such as 1,100 in the label 'y': decimal=',' reads 1.1 and thousands=',' reads 11"
    ):
        read("a;y", lambda i: f"{i % 7};{1 + i % 9},{100 + i}")


def test_marks_must_differ_and_the_id_stays(read: Read) -> None:
    with pytest.raises(DataError, match=r"decimal and thousands of .* are both ','"):
        read("a;y", lambda i: f"{i};{i % 2}", decimal=",", thousands=",")
    assert "thousands" not in str(DATASETS.bind("csv(path=a.csv, label=y)").full)
    assert "thousands=' '" in str(DATASETS.bind("csv(path=a.csv, label=y, thousands=' ')").full)


def test_a_stated_comma_needs_commas(read: Read) -> None:
    with pytest.raises(DataError) as caught:
        read("a,b,y", lambda i: f"{i}.5,{i}.25,{i % 2}", decimal=",")
    assert str(caught.value).endswith(
        "t.csv has decimal points in a and b, but no decimal comma in any column: leave decimal=',' out."
    )
    with pytest.raises(DataError, match="decimal points in a, but decimal commas in b: leave decimal=',' out"):
        read("a;b;y", lambda i: f"{i}.5;{i},25;{i % 2}", decimal=",")


# --- odd cells, identifiers, dates -------------------------------------------------------------------


def test_odd_cells_among_numbers_are_reported(read: Read) -> None:
    cells = {3: "-", 13: "<5", 23: "-", 33: "unknown", 43: "81%"}
    dataset = read("a,y", lambda i: f"{cells.get(i, '' if i == 50 else i % 8)},{i % 2}")
    assert note_of(dataset, "a") == (
        "91.5% of the known cells of column 'a' are numbers, but '-', '81%', '<5' and 1 more made 13 one-hot columns "
        "of it: leave such cells empty"
    )
    mixed = read("a,y", lambda i: f"{'x' if i % 4 == 0 else i % 3},{i % 2}")  # 75% are numbers
    assert mixed.notes == ()
    comma = read("a;y", lambda i: f"{'-' if i == 7 else f'{i % 5},5'};{i % 2}")
    assert "98.3% of the known cells of column 'a'" in note_of(comma, "a")


def test_odd_cells_are_named_when_there_are_too_many_texts(read: Read) -> None:
    with pytest.raises(DataError, match=r"numbers in 99.9% of the known cells of column 'a', but also '-': leave"):
        read("a,y", lambda i: f"{'-' if i == 7 else i},{i % 2}", 1200)
    frame = pd.DataFrame({"a": [*map(str, range(30)), "-"], "y": [0, 1, 1] * 10 + [0]})
    with pytest.raises(DataError, match="but also '-'"):
        sb.from_pandas(frame, label="y")


def test_identifiers_are_reported_together(read: Read) -> None:
    dataset = read("Patient ID,n,nr,age,y", lambda i: f"P{i},{i % 3},{100 + i},{100 + i},{i % 2}", drop="n")
    assert dataset.notes == (
        "columns 'Patient ID' and 'nr' look like identifiers: all values differ, so they say nothing about other rows, "
        "but they became 61 features; drop=[n, 'Patient ID', nr] leaves them out",
    )
    assert read("nr,a,y", lambda i: f"{i % 59},{i % 3},{i % 2}").notes == ()  # one number repeats
    assert read("nr,a,y", lambda i: f"{i}.5,{i % 3},{i % 2}").notes == ()
    assert not any("identifier" in note for note in read("b,y", lambda i: f"P{i},{i % 2}", 19).notes)


def test_identifiers_of_typed_tables_are_refused() -> None:
    frame = pd.DataFrame({"case no": [f"P{i}" for i in range(40)], "a": [1, 2] * 20, "y": [0, 1, 1, 0] * 10})
    with pytest.raises(SilobenchError, match=r"looks like an identifier.*drop=\['case no'\]"):
        sb.from_pandas(frame, label="y")
    assert len(sb.from_pandas(frame, label="y", many="onehot").columns) == 41
    assert len(sb.from_pandas(frame.head(19), label="y").columns) == 20


def test_ambiguous_dates_are_noted_with_an_order(read: Read) -> None:
    dataset = read("adm day,a,y", lambda i: f"{1 + i % 12:02}/04/2024,{i % 3},{i % 2}")
    assert note_of(dataset, "adm day") == (
        "column 'adm day' looks like dates: dates='adm day', date_order=day-first (or month-first) reads days, month "
        "and weekday from it"
    )
    assert (
        len(read("d,y", lambda i: f"{1 + i % 12:02}/04/2024,{i % 2}", dates="d", date_order="day-first").columns) == 3
    )


def test_names_are_quoted_as_a_spec_needs_them(read: Read) -> None:
    dataset = read('"a, b",y', lambda i: f"t{i % 40},{i % 2}", 120)
    assert note_of(dataset, "a, b").endswith("drop='a, b' leaves it out")


# --- words, separators and names ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scale", "dates"])
def test_none_may_be_quoted(name: str) -> None:
    specs = [f"csv(path=a.csv, label=y, {name}={value})" for value in ("none", "'none'", "None")]
    assert len({str(DATASETS.bind(spec).full) for spec in specs}) == 1
    assert str(DATASETS.bind(specs[0]).full) != str(DATASETS.bind("csv(path=a.csv, label=y)").full)


def test_none_is_a_scale_of_arrays_and_frames() -> None:
    assert str(DATASETS.bind("npz(path=a.npz, scale=none)").full) == str(DATASETS.bind("npz(path=a.npz)").full)
    frame = pd.DataFrame({"a": [1.0, 5.0] * 20, "day": ["2024-01-01", "2024-01-02"] * 20, "y": [0, 1, 1, 0] * 10})
    dataset = sb.from_pandas(frame, label="y", scale=None, dates="none")
    assert values(dataset, "a")[0] == 1
    assert dataset.columns == ("a", "day=2024-01-01", "day=2024-01-02")
    with pytest.raises(SilobenchError, match=r"task must be .*, but None was given"):
        DATASETS.bind("csv(path=a.csv, label=y, task=none)")


def test_columns_of_a_frame_may_be_named_by_numbers() -> None:
    frame = pd.DataFrame({0: [1, 2] * 20, 1: ["a", "b"] * 20, ("x", 2): range(40), 3: [0, 1, 1, 0] * 10})
    dataset = sb.from_pandas(frame, label=3, group=1, drop=[("x", 2)])
    assert dataset.columns == ("0",)
    assert set(dataset.train.groups) == {"1"}
    assert sb.from_pandas(frame, label=3, drop=("x", 2)).columns == ("0", "1=a", "1=b")
    with pytest.raises(SilobenchError, match="has no column '7'"):
        sb.from_pandas(frame, label=7)


def test_a_wrong_separator_is_reported(read: Read) -> None:
    with pytest.raises(DataError) as caught:
        read("a,b,y", lambda i: f"{i},{i},{i % 2}", sep="semicolon")
    assert str(caught.value).endswith(
        "t.csv has only one column if it is separated by a semicolon ('a,b,y'), but a comma separates its header: "
        "write sep=comma, or leave sep out."
    )
    with pytest.raises(DataError, match=r"separated by ':' .* write sep=tab"):
        read("a\tb\ty", lambda i: f"{i}\t{i}\t{i % 2}", sep=":")


def test_labels_that_differ_in_case_are_reported(read: Read) -> None:
    dataset = read("a,y", lambda i: f"{i % 7},{['yes', 'Yes', 'no', 'NO', 'maybe'][i % 5]}")
    assert "the label y has classes that differ only in case or spaces ('NO' and 'no'; 'Yes' and 'yes')" in " ".join(
        dataset.notes
    )
    assert len(dataset.classes) == 5
    assert read("a,y", lambda i: f"{i % 7},{i % 3}").notes == ()


def test_a_missing_file_is_named_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for spec in ("csv(path=a/b.csv, label=y)", "parquet(path=a/b.csv, label=y)", "libsvm(path=a/b.csv)"):
        with pytest.raises(DataError) as caught:
            DATASETS.build(spec)
        assert str(caught.value) == f"there is no file {tmp_path.resolve()}/a/b.csv: check the path."
