"""What leaves a silo before training: counts and sums, in the same form for any rows, and right when joined."""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from silo_files import agreement, table, write_tables

from silobench.data.agreed import LEAST_ROWS, Columns, Label, Moments, Summary, agreed_encoder, joined, summary_of
from silobench.data.encoder import NumberColumn
from silobench.data.table.scaling import Scale
from silobench.errors import DataError

EPS64 = float(np.finfo(np.float64).eps)
numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
columns_of_numbers = st.lists(numbers, min_size=LEAST_ROWS, max_size=40)


def _exact(values: list[float]) -> tuple[float, float]:
    """Return the mean and the mean squared deviation in exact arithmetic."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(mean), float(sum((value - mean) ** 2 for value in exact) / len(exact))


@settings(deadline=None)
@given(st.lists(columns_of_numbers, min_size=1, max_size=5), st.floats(-1e9, 1e9))
def test_joint_moments_are_those_of_all_rows_together(parts: list[list[float]], offset: float) -> None:
    shifted = [[value + offset for value in part] for part in parts]
    moments = Moments.joined([Moments.of(np.array(part)) for part in shifted])
    every = [value for part in shifted for value in part]
    mean, variance = _exact(every)
    largest = max(map(abs, every))
    assert moments.known == len(every)
    assert abs(moments.mean - mean) <= 4 * EPS64 * largest
    # Each difference from the mean has an error of a few units in the last place of the largest value.
    error = 8 * EPS64 * largest
    allowed = 2 * error * math.sqrt(variance) + error**2 + 8 * EPS64 * variance
    assert abs(moments.squares / moments.known - variance) <= allowed


@settings(deadline=None)
@given(columns_of_numbers, st.randoms())
def test_moments_do_not_depend_on_the_order_of_rows(values: list[float], random: Any) -> None:
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert Moments.of(np.array(values)) == Moments.of(np.array(shuffled))


def test_fewer_known_cells_than_the_limit_are_sent_as_none() -> None:
    cells = np.full(50, np.nan)
    cells[: LEAST_ROWS - 1] = 7.0
    assert Moments.of(cells) == Moments()
    cells[LEAST_ROWS - 1] = 7.0
    assert Moments.of(cells) == Moments(LEAST_ROWS, 7.0 * LEAST_ROWS, 0.0)


def _form(value: Any) -> Any:
    """Return JSON with every number replaced by its type."""
    if isinstance(value, dict):
        return {key: _form(inner) for key, inner in value.items()}
    return [_form(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def _summary(folder: Path, frame: pd.DataFrame, columns: Columns) -> Summary:
    frame.to_csv(folder / "silo.csv", index=False)
    return summary_of(str(folder / "silo.csv"), columns)


@pytest.mark.parametrize("label", ["outcome", "days"])
def test_a_summary_has_counts_and_sums_and_nothing_else(tmp_path: Path, label: str) -> None:
    columns = agreement(write_tables(tmp_path)[0], label)
    features = ("age", "admitted (days)", "admitted (month)", "admitted (weekday)")
    three = ["int", "float", "float"]
    expected = {
        "rows": "int",
        "features": dict.fromkeys(features, three),
        "target": three if label == "days" else "NoneType",
    }
    for rows in (30, 31, 200):
        facts = _summary(tmp_path, table(rows, seed=rows), columns).as_json()
        assert _form(facts) == expected
        assert Summary.from_json(json.loads(json.dumps(facts))).as_json() == facts


def test_a_summary_does_not_change_with_texts_labels_or_the_order_of_rows_of_a_class(tmp_path: Path) -> None:
    frame = table(80, seed=1)
    columns = agreement(_written(tmp_path, frame))
    summary = _summary(tmp_path, frame, columns)
    marked = frame.assign(notes="the secret word", ward=np.where(frame["ward"] == "skin", "zebra", frame["ward"]))
    assert _summary(tmp_path, marked, columns) == summary
    assert "zebra" not in json.dumps(summary.as_json())


def _written(folder: Path, frame: pd.DataFrame) -> str:
    path = folder / "sample.csv"
    frame.to_csv(path, index=False)
    return str(path)


def test_held_out_rows_are_not_in_the_sums(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(100.0), "y": ["a", "b"] * 50})
    columns = Columns(Label("y", ("a", "b")), (NumberColumn("x"),), test=0.2)
    moments = _summary(tmp_path, frame, columns).features["x"]
    assert moments.known == 80
    assert moments.total < frame["x"].sum()


def test_without_scaling_no_squares_are_sent_and_stated_scales_need_no_sums(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(100.0), "y": ["a", "b"] * 50})
    columns = Columns(Label("y", ("a", "b")), (NumberColumn("x"),), scale="none")
    summary = _summary(tmp_path, frame, columns)
    assert summary.features["x"].squares == 0
    assert agreed_encoder(columns, summary).scales["x"] == Scale(summary.features["x"].mean)
    stated = replace(columns, scale="stated", scales={"x": Scale(3.0, 3.0, 2.0)})
    summary = _summary(tmp_path, frame, stated)
    assert summary.features == {}
    assert agreed_encoder(stated, summary).scales == stated.scales
    assert (summary.rows, summary.rounded.rows) == (80, 64)


def test_a_summary_with_sums_keeps_its_number_of_rows() -> None:
    summary = Summary(80, {"x": Moments(80, 1.0, 1.0)})
    assert summary.rounded == summary  # the known cells tell the number anyway


def test_numbers_that_cannot_be_added_are_refused(tmp_path: Path) -> None:
    columns = Columns(Label("y", ("a", "b")), (NumberColumn("x"),))
    for x in (1e308, 1e200):
        frame = pd.DataFrame({"x": x * np.where(np.arange(40) % 3, 1, -0.5), "y": ["a", "b"] * 20})
        with pytest.raises(DataError, match="column 'x' that are too large to add up"):
            _summary(tmp_path, frame, columns)


GOOD: dict[str, Any] = {"rows": 40, "features": {"x": [40, 1.0, 2.0]}, "target": None}


@pytest.mark.parametrize(
    "facts",
    [
        None, [], {}, {**GOOD, "rows": 0}, {**GOOD, "rows": 40.0}, {**GOOD, "rows": True}, {**GOOD, "more": 1},
        {**GOOD, "features": [1]}, {**GOOD, "features": {"x": [40, 1.0]}},
        {**GOOD, "features": {"x": [40.5, 1.0, 2.0]}},
        {**GOOD, "rows": 10**400}, {**GOOD, "features": {"x": [10**400, 1.0, 2.0]}},
        {**GOOD, "features": {"x": [40, 10**400, 2.0]}}, {**GOOD, "features": {"x": [-1, 1.0, 2.0]}},
        {**GOOD, "features": {"x": [40, "1", 2.0]}},
        {**GOOD, "features": {"x": [40, 1.0, -2.0]}}, {**GOOD, "features": {"x": [40, math.nan, 2.0]}},
        {**GOOD, "features": {"x": [40, 1.0, math.inf]}}, {**GOOD, "target": 3}, {**GOOD, "target": [True, 1.0, 1.0]},
    ],
)  # fmt: skip
def test_a_summary_of_another_form_is_refused(facts: Any) -> None:
    assert Summary.from_json(GOOD).rows == 40
    with pytest.raises(DataError, match="the summary of a silo cannot be read"):
        Summary.from_json(facts)


def test_summaries_of_different_agreements_are_refused() -> None:
    first, second = Summary(40, {"x": Moments(40, 1.0, 1.0)}), Summary(40, {"z": Moments(40, 1.0, 1.0)})
    with pytest.raises(DataError, match="sums of different features"):
        joined([first, second])
    with pytest.raises(DataError, match="only some silos sent sums of the label"):
        joined([Summary(40), Summary(40, target=Moments(40, 1.0, 1.0))])
    with pytest.raises(DataError, match="no summaries to join"):
        joined([])
    for total in (1e308, 1e200):  # the sum, or the square of a difference of means, is too large
        with pytest.raises(DataError, match="the silos' sums of 'x' are too large to add up"):
            joined([Summary(40, {"x": Moments(10, total, 1.0)}), Summary(40, {"x": Moments(40, total, 1.0)})])
    with pytest.raises(DataError, match="the silos' sums of 'x' are too large"):  # a finite square, times the rows
        joined([Summary(1000, {"x": Moments(1000, total, 0.0)}) for total in (1e156, 0.0)])
    columns = Columns(Label("y", ("a", "b")), (NumberColumn("x"),))
    message = "has sums of z, but the agreement needs those of x"
    with pytest.raises(DataError, match=re.escape(message)):
        agreed_encoder(columns, second)


def test_the_order_of_keys_on_the_way_does_not_matter(tmp_path: Path) -> None:
    paths = write_tables(tmp_path)
    columns = agreement(paths[0])
    summaries = [summary_of(path, columns) for path in paths]
    sorted_keys = [Summary.from_json(json.loads(json.dumps(each.as_json(), sort_keys=True))) for each in summaries]
    assert list(sorted_keys[0].features) != list(summaries[0].features)
    mixed = joined([sorted_keys[0], *summaries[1:]])
    assert agreed_encoder(columns, mixed).as_json() == agreed_encoder(columns, joined(summaries)).as_json()


def test_a_feature_that_no_silo_knows_is_constant() -> None:
    columns = Columns(Label("y", ("a", "b")), (NumberColumn("x"),))
    encoder = agreed_encoder(columns, joined([Summary(40, {"x": Moments()})] * 2))
    assert encoder.encode({"x": np.array([np.nan, np.nan])}).tolist() == [[0.0], [0.0]]
