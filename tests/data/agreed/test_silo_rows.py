"""The rows of one silo: read by the agreement, alone, and refused in one sentence where they do not fit it."""

import logging
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from silo_files import agreement, table, write_tables

from silobench.data import csv
from silobench.data.agreed import Columns, columns_of, joined, silo_dataset, summary_of
from silobench.data.agreed.sources import source_of
from silobench.data.encoder import CategoryColumn, HashColumn
from silobench.errors import DataError, SpecError


@pytest.fixture
def north(tmp_path: Path) -> str:
    return write_tables(tmp_path)[0]


def alone(source: str, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and labels of all rows of a silo that is the only one."""
    dataset = silo_dataset(source, columns, summary_of(source, columns))
    return np.concatenate([dataset.train.x, dataset.test.x]), np.concatenate([dataset.train.y, dataset.test.y])


def test_one_silo_has_the_rows_and_features_of_the_dataset_csv(north: str) -> None:
    columns = agreement(north)
    silo = silo_dataset(north, columns, summary_of(north, columns))
    whole = csv(north, "outcome", drop="days", dates="admitted", text="notes", text_features=4)
    assert silo.columns == whole.columns
    assert silo.classes == whole.classes
    for side, other in ((silo.train, whole.train), (silo.test, whole.test)):
        assert side.y.tolist() == other.y.tolist()
        # float32 features of a few deviations, from float64 sums that were added in another order
        np.testing.assert_allclose(side.x, other.x, rtol=0, atol=1e-6)


def test_rows_do_not_depend_on_other_silos(tmp_path: Path) -> None:
    north, south, _ = write_tables(tmp_path)
    columns = agreement(north)
    summaries = [summary_of(path, columns) for path in (north, south)]
    first, second = (silo_dataset(north, columns, joined(some)) for some in (summaries, summaries[:1]))
    assert first.train.y.tolist() == second.train.y.tolist()
    assert first.train.x.shape == second.train.x.shape
    assert not np.array_equal(first.train.x, second.train.x)  # the means differ
    plain = [feature for feature in first.columns if feature.startswith(("ward", "notes"))]
    places = [first.columns.index(feature) for feature in plain]
    assert np.array_equal(first.train.x[:, places], second.train.x[:, places])


@pytest.mark.parametrize("label", ["outcome", "days"])
def test_a_file_in_another_form_has_the_same_rows(tmp_path: Path, label: str) -> None:
    frame = table(80, seed=3)
    frame.to_csv(tmp_path / "plain.csv", index=False)
    frame.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    frame[frame.columns[::-1]].assign(extra=list(range(80))).to_parquet(tmp_path / "silo.parquet")
    columns = agreement(str(tmp_path / "plain.csv"), label)
    expected = alone(str(tmp_path / "plain.csv"), columns)
    sources = (
        f"csv(path='{tmp_path}/comma.csv', sep=semicolon, encoding=utf-16, decimal=',')",
        f"parquet(path='{tmp_path}/silo.parquet')",
        f"{tmp_path}/silo.parquet",
    )
    for source in sources:
        x, y = alone(source, columns)
        assert np.array_equal(x, expected[0])
        assert np.array_equal(y, expected[1])


def test_an_unknown_category_is_zeros_and_only_the_local_log_counts_it(
    north: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = agreement(north)
    few = replace(columns, parts=tuple(
        replace(part, categories=("heart", "lung")) if isinstance(part, CategoryColumn) else part
        for part in columns.parts
    ))  # fmt: skip
    with caplog.at_level(logging.WARNING, "silobench"):
        x, _ = alone(north, few)
    skin = int((pd.read_csv(north)["ward"] == "skin").sum())
    places = slice(1, 3)  # after age
    assert int((x[:, places].sum(1) == 0).sum()) == skin > 0
    assert f"{skin} cells have an unknown category in column 'ward'" in caplog.text


def test_hashed_categories_need_no_list(tmp_path: Path) -> None:
    frame = pd.DataFrame({"code": [f"c{row % 45}" for row in range(90)], "y": ["a", "b"] * 45})
    frame.to_csv(tmp_path / "s.csv", index=False)
    columns = columns_of(str(tmp_path / "s.csv"), "y", many="hash")
    assert columns.parts == (HashColumn("code", 32),)
    x, _ = alone(str(tmp_path / "s.csv"), columns)
    assert np.array_equal(np.abs(x).sum(1), np.ones(90))


def test_a_silo_may_have_rows_of_one_class(tmp_path: Path, north: str) -> None:
    columns = agreement(north)
    path = tmp_path / "one.csv"
    table(60, seed=5).assign(outcome="died").to_csv(path, index=False)
    assert set(alone(str(path), columns)[1].tolist()) == {1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="age"), "has no column age, which the silos agreed on: add it"),
        (lambda frame: frame.drop(columns=["age", "ward"]), "has no column age and ward"),
        (lambda frame: frame.drop(columns="outcome"), "has no column outcome"),
        (lambda frame: frame.assign(age="old"), "has 'old' in column 'age': the silos agreed on numbers or dates"),
        (lambda frame: frame.assign(admitted="soon"), "a text that is not a date in column 'admitted'"),
        (lambda frame: frame.assign(ward=3.5), "has none of the 3 agreed categories in column 'ward'"),
        (lambda frame: frame.assign(outcome=["alive", "lost"] * 30), "has 30 rows with a value of the label 'outcome' "
         "that is none of the 2 agreed classes"),
        (lambda frame: frame.assign(outcome=["alive"] * 59 + [None]), "has 1 row without a value of the label"),
        (lambda frame: frame.head(11), "training rows, but a silo needs at least 10"),
        (lambda frame: frame.head(2), "leaves no training or no test rows"),
        (lambda frame: frame.head(0), "silo.csv"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_the_agreement_are_refused(
    north: str, tmp_path: Path, change: object, message: str
) -> None:
    assert callable(change)
    columns, path = agreement(north), tmp_path / "silo.csv"
    change(table(60, seed=2)).to_csv(path, index=False)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        summary_of(str(path), columns)
    assert "lost" not in str(caught.value)  # a class that others do not know stays in the silo
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("cell", ["inf", "1e39", "many", "nan"])
def test_a_label_that_is_no_finite_number_is_refused(tmp_path: Path, north: str, cell: str) -> None:
    columns, path = agreement(north, "days"), tmp_path / "silo.csv"
    table(60, seed=2).astype({"days": object}).assign(days=[cell, *["3"] * 59]).to_csv(path, index=False)
    with pytest.raises(DataError, match="label 'days' that is not a finite number"):
        summary_of(str(path), columns)


def test_sources_are_paths_or_specs(tmp_path: Path, north: str) -> None:
    columns = agreement(north)
    for source, message in (
        ("", "the path is empty"),
        (str(tmp_path / "absent.csv"), "there is no file"),
        (str(tmp_path), "is a folder, but the silos agreed on tables"),
        (f"parquet(path='{north}')", "does not end in .parquet or .pq"),
        (f"csv(path='{north}', sep=abc)", "is not a separator"),
        (f"csv(path='{north}', decimal='.', thousands='.')", "they need different marks"),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            summary_of(source, columns)
    assert source_of(f"csv(path=a.csv, encoding={'x' * 300})").path == Path("a.csv")  # longer than the name of a file
    for source in ("npz(path=x.npz)", "csv()", f"csv(path='{north}', label=outcome)"):
        with pytest.raises(SpecError):
            summary_of(source, columns)


# --- pictures ----------------------------------------------------------------------------------------


def pictures(folder: Path, classes: tuple[str, ...], count: int = 20) -> str:
    rng = np.random.default_rng(len(folder.name))
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(rng.integers(0, 256, (12, 9, 3), dtype=np.uint8)).save(folder / name / f"{number}.png")
    return str(folder)


def test_folders_of_pictures_have_the_agreed_form_and_classes(tmp_path: Path) -> None:
    scans = pictures(tmp_path / "scans", ("cat", "dog", "none"))
    columns = columns_of(scans, "label", size=8, colour="grey")
    assert columns.label.classes == ("cat", "dog", "none")
    assert Columns.of_text(columns.text()) == columns
    summary = summary_of(scans, columns)
    assert summary.as_json() == {"rows": 48, "features": {}, "target": None}
    dataset = silo_dataset(scans, columns, summary)
    assert dataset.train.x.shape == (48, 1, 8, 8)
    assert dataset.train.x.dtype == np.uint8
    assert np.bincount(dataset.test.y).tolist() == [4, 4, 4]
    two = pictures(tmp_path / "more", ("dog", "none"))
    assert set(silo_dataset(two, columns, summary).train.y.tolist()) == {1, 2}
    bird = pictures(tmp_path / "other", ("bird", "cat"))
    with pytest.raises(DataError, match="has 20 rows with a value of the label 'label' that is none of the 3"):
        summary_of(bird, columns)
    with pytest.raises(DataError, match="is a table, but the silos agreed on folders of pictures"):
        summary_of(str(tmp_path / "rows.csv"), columns)


def test_pictures_may_have_a_table_of_numbers(tmp_path: Path) -> None:
    scans = pictures(tmp_path / "scans", ("a",), count=30)
    lines = [f"a/{number}.png,{number / 2}" for number in range(30)]
    (tmp_path / "ages.csv").write_text("\n".join(["file,age", *lines]) + "\n")
    source = f"images(path='{scans}', table='{tmp_path}/ages.csv')"
    columns = columns_of(source, "age", task="regression", size=8, unit="years")
    assert (columns.label.task, columns.label.unit) == ("regression", "years")
    summary = summary_of(source, columns)
    assert summary.target is not None
    assert summary.target.known == 24
    assert silo_dataset(source, columns, summary).unit == "years"
