"""The encoder of a table: training columns give the training features, and new rows are encoded in the same way."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from silobench.data import Dataset, Split, csv, load
from silobench.data.encoder import Encoder
from silobench.data.objects import from_pandas
from silobench.errors import DataError

HEADER = ["age", "sex", "code", "day", "notes", "site", "y"]


def rows(count: int = 240) -> list[list[str]]:
    rng = np.random.default_rng(0)
    return [
        [
            "" if i % 9 == 0 else f"{rng.normal(50, 9):.2f}",
            ["f", "m", "?"][i % 3],
            f"c{i % 40}",
            f"2024-{1 + i % 12:02}-{1 + i % 28:02}",
            " ".join(rng.choice(["pain", "fever", "cough"], 3)),
            f"s{i % 4}",
            "no" if i % 3 else "yes",
        ]
        for i in range(count)
    ]


def columns_of(table: list[list[str]]) -> dict[str, Any]:
    return {name: np.array([row[place] for row in table]) for place, name in enumerate(HEADER)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(",".join(row) for row in [HEADER, *rows()]))
    return path


def dataset(path: Path, scale: str = "standard", **options: Any) -> Dataset:
    more = {"epsilon": 100.0} if scale == "private" else {}
    return csv(
        str(path), label="y", group="site", scale=scale, dates="day", text="notes", many="hash", **more, **options
    )  # type: ignore[arg-type]


def sides(data: Dataset) -> tuple[list[int], list[int]]:
    """Row numbers of training and test rows, by the split that is drawn for the labels."""
    from silobench.data.dataset import hold_out

    labels = np.array([row[-1] == "yes" for row in rows()]).astype(np.int64)
    train, test = hold_out(Split(np.arange(len(labels)), labels), 0.2)
    assert train.y.tolist() == data.train.y.tolist()
    return train.x.tolist(), test.x.tolist()


@pytest.mark.parametrize("scale", ["standard", "group", "private", "none"])
def test_training_columns_give_the_training_features(path: Path, scale: str) -> None:
    data = dataset(path, scale)
    train, test = sides(data)
    encoder = Encoder.from_json(json.loads(json.dumps(data.encoder.as_json())))  # type: ignore[union-attr]
    assert encoder == data.encoder
    assert set(encoder.columns) == {"age", "sex", "code", "day", "notes", *(["site"] if scale == "group" else [])}
    for x in (encoder.encode(columns_of(rows())), encoder.read(path)):
        assert x.dtype == np.float32
        assert x[train].tobytes() == data.train.x.tobytes()
        assert x[test].tobytes() == data.test.x.tobytes()
    assert encoder.features == data.columns
    np.testing.assert_array_equal(encoder.encode(pd.read_csv(path, keep_default_na=False))[train], data.train.x)


def test_an_encoder_is_not_part_of_the_checksum(path: Path) -> None:
    data = dataset(path)
    plain = Dataset(data.name, data.train, data.test, data.classes)
    assert plain.checksum == data.checksum
    assert plain.encoder is None
    assert "encoder" not in repr(data)
    assert load("digits").encoder is None


def test_unknown_categories_and_missing_cells(path: Path) -> None:
    encoder = dataset(path).encoder
    assert encoder is not None
    new = [["", "x", "c99", "", "", "s0", ""], ["50", "", "", "2030-01-01", "new words", "s9", ""]]
    x = encoder.encode(columns_of(new))
    by_name = {name: x[:, place] for place, name in enumerate(encoder.features)}
    age = encoder.scales["age"]
    assert by_name["age"][0] == np.float32((age.fill - age.shift) / age.scale)
    assert [by_name[f"sex={kind}"][0] for kind in ("(missing)", "f", "m")] == [0, 0, 0]
    assert by_name["sex=(missing)"][1] == 1
    assert by_name["day (days)"][1] > 10
    assert not any(by_name[f"code#{i}"][1] for i in range(32))
    assert np.isfinite(x).all()


def test_missing_columns_are_named(path: Path) -> None:
    encoder = dataset(path).encoder
    assert encoder is not None
    columns = columns_of(rows())
    del columns["age"], columns["day"]
    with pytest.raises(DataError, match="the table has no column age and day"):
        encoder.encode(columns)
    (path.parent / "new.csv").write_text("age;sex;code;notes\n1;f;c1;x\n")
    with pytest.raises(DataError, match=r"new\.csv has no column day"):
        encoder.read(path.parent / "new.csv")
    with pytest.raises(DataError, match="columns of 1 and 240 rows"):
        encoder.encode({**columns_of(rows()), "age": ["1"]})


def test_cells_that_do_not_fit_are_named_together(path: Path) -> None:
    encoder = dataset(path).encoder
    assert encoder is not None
    with pytest.raises(DataError, match="'old' in column 'age' and a text that is not a date in column 'day'"):
        encoder.encode({**columns_of(rows()[:2]), "age": ["1", "old"], "day": ["2024-01-01", "soon"]})
    with pytest.raises(DataError, match="'inf' in column 'age'"):
        encoder.encode({**columns_of(rows()[:1]), "age": [np.inf]})


def test_an_unknown_group_is_scaled_by_the_pooled_rows(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = dataset(path, "group").encoder
    assert encoder is not None
    with caplog.at_level(logging.WARNING, "silobench"):
        x = encoder.encode({**columns_of(rows()[:1]), "age": ["61.5"], "site": ["new"]})
    pooled = encoder.scales["age"]
    assert x[0, 0] == np.float32((61.5 - pooled.shift) / pooled.scale)
    assert "unknown groups are scaled by the pooled training rows: new" in caplog.text


def test_a_file_with_another_separator_and_a_parquet_file(path: Path) -> None:
    encoder = dataset(path).encoder
    assert encoder is not None
    expected = encoder.read(path)
    (path.parent / "semi.csv").write_text(path.read_text().replace(",", ";"))
    pd.DataFrame(columns_of(rows())).to_parquet(path.parent / "t.parquet")
    for name in ("semi.csv", "t.parquet"):
        assert encoder.read(path.parent / name).tobytes() == expected.tobytes()


def test_types_of_new_columns_may_differ() -> None:
    frame = pd.DataFrame({"n": [1.0, 2.0, 3.0, 4.0] * 10, "kind": [1, 2] * 20, "y": ["a", "b"] * 20})
    frame["kind"] = frame["kind"].astype("category")
    encoder = from_pandas(frame, label="y").encoder
    assert encoder is not None
    one = encoder.encode({"n": ["1", "2.0"], "kind": ["1", "2"]})
    other = encoder.encode({"n": [1, 2], "kind": [1.0, 2.0]})
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("columns"),
        lambda facts: facts.update(version=2),
        lambda facts: facts["columns"][0].update(kind="odd"),
        lambda facts: facts["columns"][0].update(odd=1),
        lambda facts: facts.update(scales=3),
    ],
)
def test_a_damaged_encoder_is_refused(path: Path, change: Any) -> None:
    facts = dataset(path).encoder.as_json()  # type: ignore[union-attr]
    change(facts)
    with pytest.raises(DataError, match="stored encoder cannot be read"):
        Encoder.from_json(facts)


def test_dates_of_new_rows_are_read_in_the_order_of_the_training_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("day,y\n" + "".join(f"{1 + i % 28:02}/01/2024,{i % 2}\n" for i in range(60)))
    encoder = csv(str(path), label="y", dates="day", scale="none").encoder
    assert encoder is not None
    assert encoder.encode({"day": ["02/03/2024"]})[0, 1] == 3  # March, though this row alone does not show it
    typed = from_pandas(
        pd.DataFrame({"day": pd.date_range("2024-01-01", periods=40), "y": [0, 1] * 20}), label="y"
    ).encoder
    assert typed is not None
    with pytest.raises(DataError, match="not a date in column 'day'"):
        typed.encode({"day": ["02/03/2024"]})


# --- a DataFrame and its CSV file --------------------------------------------------------------------


def both_ways(frame: pd.DataFrame, path: Path) -> tuple[Dataset, Dataset]:
    """The dataset of a DataFrame and that of its CSV file, without scaling, so that features can be compared."""
    frame.to_csv(path, index=False)
    return from_pandas(frame, label="y", scale="none"), csv(str(path), label="y", scale="none")


@pytest.mark.parametrize("spelling", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
@pytest.mark.parametrize("hole", ["", "True"])
def test_booleans_of_a_dataframe_are_the_categories_of_its_csv(
    tmp_path: Path, spelling: tuple[str, str], hole: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.csv"
    cells = [spelling[i % 3 == 0] if i % 5 else hole and spelling[0] for i in range(60)]
    path.write_text("b,n,y\n" + "".join(f"{cell},{i},{i % 2}\n" for i, cell in enumerate(cells)))
    encoder = csv(str(path), label="y").encoder
    assert encoder is not None
    assert encoder.features[:-1] == tuple(f"b={text}" for text in sorted({cell or "(missing)" for cell in cells}))
    frame = pd.read_csv(path)
    assert frame["b"].dtype == (object if not hole else bool)
    assert encoder.encode(frame).tobytes() == encoder.read(path).tobytes()
    assert encoder.encode(frame.convert_dtypes()).tobytes() == encoder.read(path).tobytes()
    assert not caplog.records


def test_booleans_of_a_csv_are_the_numbers_of_its_dataframe(tmp_path: Path) -> None:
    frame = pd.DataFrame({"b": [True, False, False] * 20, "n": range(60), "y": ["u", "v"] * 30})
    encoder = both_ways(frame, tmp_path / "t.csv")[0].encoder
    assert encoder is not None
    assert encoder.features == ("b", "n")
    assert encoder.read(tmp_path / "t.csv").tobytes() == encoder.encode(frame).tobytes()
    np.testing.assert_array_equal(encoder.encode({"b": ["True", "", "false"], "n": [1, 2, 3]})[[0, 2], 0], [1, 0])
    with pytest.raises(DataError, match="'yes' in column 'b'"):
        encoder.encode({"b": ["True", "yes"], "n": [1, 2]})


@pytest.mark.parametrize("values", [[1.0, 2.0, np.nan], [0.00001, 2.5, 1e10], [True, False, True], [1, 2, 3]])
def test_categories_of_a_dataframe_are_those_of_its_csv(
    tmp_path: Path, values: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    frame = pd.DataFrame({"c": values * 20, "n": range(60), "y": ["u", "v"] * 30})
    frame["c"] = frame["c"].astype("category")
    encoder = both_ways(frame, tmp_path / "t.csv")[0].encoder
    assert encoder is not None
    expected = encoder.encode(frame)
    assert (expected[:, :-1].sum(1) == 1).all()
    assert encoder.read(tmp_path / "t.csv").tobytes() == expected.tobytes()
    assert encoder.encode(pd.read_csv(tmp_path / "t.csv")).tobytes() == expected.tobytes()
    assert not caplog.records


def test_groups_of_a_dataframe_are_those_of_its_csv(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, values in (("bools", [True, False]), ("floats", [1.0, 2.0])):
        path = tmp_path / f"{name}.csv"
        frame = pd.DataFrame({"site": values * 30, "n": np.arange(60.0) ** 2, "y": ["u", "u", "v"] * 20})
        frame.to_csv(path, index=False)
        typed = from_pandas(frame, label="y", group="site", scale="group").encoder
        texts = csv(str(path), label="y", group="site", scale="group").encoder
        assert typed is not None
        assert texts is not None
        for encoder in (typed, texts):
            assert encoder.read(path).tobytes() == encoder.encode(frame).tobytes()
    assert not caplog.records


def test_two_categories_of_one_value_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,y\n" + "1,u\n1.0,v\n007,u\n7,u\nx,v\n(missing),u\n" * 10)
    data = csv(str(path), label="y")
    assert data.columns == ("c=(missing)", "c=007", "c=1", "c=1.0", "c=7", "c=x")
    assert data.encoder is not None
    rows = data.encoder.read(path)
    assert (rows[:6].sum(1) == 1).all()
    np.testing.assert_array_equal(
        data.encoder.encode({"c": ["1.00", "7.0", ""]}), np.eye(6)[[0, 4, 0]] * [[0], [1], [1]]
    )


def test_test_rows_with_texts_for_booleans_have_the_same_categories() -> None:
    frame = pd.DataFrame({"b": [True, False] * 30, "y": ["u", "u", "v"] * 20})
    texts = pd.DataFrame({"b": ["True", "False"], "y": ["u", "v"]})
    assert from_pandas(frame, label="y", test=texts).columns == ("b=False", "b=True")


def test_a_warning_counts_the_cells_of_an_unknown_category(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = dataset(path).encoder
    assert encoder is not None
    table = columns_of(rows()[:5])
    with caplog.at_level(logging.WARNING, "silobench"):
        encoder.encode({**table, "sex": ["x", "f", "x", "w", "m"]})
    assert [record.getMessage() for record in caplog.records] == [
        "3 cells have an unknown category in column 'sex', so all of its features are 0: w and x"
    ]
