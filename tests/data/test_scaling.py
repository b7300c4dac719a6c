"""Scales of numeric columns: each group's own, and differentially private ones, checked by hand."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from silobench.data import Dataset, csv
from silobench.data.objects import from_pandas
from silobench.data.table.scaling import STEPS, NoBoundsError, private_bounds, private_scale
from silobench.errors import DataError


def table(path: Path, rows: list[tuple[Any, ...]], header: str = "site,n,m,y") -> str:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


def people(tmp_path: Path, **options: Any) -> Dataset:
    rng = np.random.default_rng(0)
    rows = [
        (
            f"s{i % 3}",
            "" if i % 10 == 0 else round(rng.normal(100 * (i % 3), 1 + i % 3), 3),
            round(rng.normal(), 3),
            i % 2,
        )
        for i in range(300)
    ]
    return csv(table(tmp_path / "t.csv", rows), label="y", group="site", **options)


def test_each_group_has_its_own_mean_and_deviation(tmp_path: Path) -> None:
    raw, scaled = people(tmp_path, scale="none"), people(tmp_path, scale="group")
    site = raw.train.groups["site"]
    for name in ("s0", "s1", "s2"):
        rows = site == name
        np.testing.assert_allclose(scaled.train.x[rows].mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(scaled.train.x[rows].std(0), 1, atol=1e-5)
    values = raw.train.x[site == "s1", 1].astype(np.float64)
    expected = (raw.test.x[raw.test.groups["site"] == "s1", 1] - values.mean()) / values.std()
    np.testing.assert_allclose(scaled.test.x[scaled.test.groups["site"] == "s1", 1], expected, atol=1e-5)
    assert "30 missing values in column 'n' filled with the training mean of its group" in scaled.notes
    assert scaled.notes[-1] == "numeric columns standardised by the training rows of each group"
    assert scaled.train.y.tolist() == raw.train.y.tolist()


def test_a_missing_cell_has_the_mean_of_its_group(tmp_path: Path) -> None:
    rows = [("a", "" if i < 8 else 10 + i % 3, i, i % 2) for i in range(40)]
    rows += [("b", 1000 + i % 3, i, i % 2) for i in range(40)] + [("c", "", i, i % 2) for i in range(40)]
    dataset = csv(table(tmp_path / "t.csv", rows), label="y", group="site", scale="group")
    assert dataset.encoder is not None
    scales = dataset.encoder.group_scales
    assert scales["a"]["n"].fill == pytest.approx(11, abs=0.2)
    assert scales["b"]["n"].fill == pytest.approx(1001, abs=0.2)
    assert scales["c"]["n"] == dataset.encoder.scales["n"]  # no value of its own
    assert np.isfinite(dataset.train.x).all()
    assert dataset.notes[-2:] == (
        "numeric columns standardised by the training rows of each group",
        "columns with only missing values in a group are scaled by the pooled rows: n of c",
    )


def test_test_rows_of_an_unknown_group_have_the_pooled_scale() -> None:
    frame = pd.DataFrame({"site": ["a", "b"] * 30, "n": np.arange(60.0), "y": [0, 0, 1, 1] * 15})
    rare = pd.DataFrame({"site": ["rare", "a"], "n": [7.0, 7.0], "y": [0, 1]})
    dataset = from_pandas(frame, label="y", group="site", scale="group", test=rare)
    pooled, one = frame["n"].to_numpy(), frame["n"].to_numpy()[::2]
    expected = [(7 - pooled.mean()) / pooled.std(), (7 - one.mean()) / one.std()]
    np.testing.assert_allclose(dataset.test.x[:, 0], expected, rtol=1e-6)
    assert dataset.notes[-1] == "test rows of groups without training rows are scaled by the pooled rows: rare"


# --- private -----------------------------------------------------------------------------------------


class Loud(np.random.Generator):
    """A generator whose noise is always `sign` times its scale; it records the scales."""

    def __init__(self, sign: float):
        super().__init__(np.random.PCG64(0))
        self.sign, self.scales = sign, []

    def laplace(self, loc: float = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        self.scales.append(float(scale))
        return self.sign * scale * (np.ones(size) if size else 1.0)


def test_the_noise_has_the_scale_that_the_sensitivity_asks_for() -> None:
    values = np.concatenate([np.full(900, 3.0), np.full(900, 100.0), [np.nan] * 5])
    rng = Loud(0)
    scale = private_scale(values, epsilon=2.0, rng=rng)
    share = 2.0 / STEPS  # epsilon of each of the four steps
    low, high = 2.0, 128.0  # the powers of two around 3 and 100
    radius = (high - low) / 2  # one row changes the sum of centred values by at most this
    assert rng.scales == [1 / share, 1 / share, radius / share, radius**2 / share]
    assert scale.shift == pytest.approx(51.5)
    assert scale.scale == pytest.approx(48.5)
    assert scale.fill == scale.shift


class Silence:
    """Noise of 0 that records the statistic to which it is added."""

    __array_ufunc__ = None  # NumPy leaves the sum to __radd__

    def __init__(self, statistics: list[Any]):
        self.statistics = statistics

    def __radd__(self, statistic: Any) -> Any:
        self.statistics.append(statistic)
        return statistic


class Recorder(np.random.Generator):
    """A generator without noise; it records the statistics that are released, and the scales of their noise."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))
        self.scales: list[float] = []
        self.statistics: list[Any] = []

    def laplace(self, loc: float = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        self.scales.append(float(scale))
        return Silence(self.statistics)


@pytest.mark.parametrize("row", [2.5, 126.0, -1e9, 1e9, 0.0, 3.0, math.nan])
def test_one_row_changes_each_statistic_by_at_most_its_sensitivity(row: float) -> None:
    """Each of the four statistics of neighbouring tables, before noise, against the noise of a quarter of epsilon."""
    values, epsilon = np.concatenate([np.full(900, 3.0), np.full(900, 100.0)]), 2.0
    without, with_row = Recorder(), Recorder()
    private_scale(values, epsilon, without)
    private_scale(np.append(values, row), epsilon, with_row)
    assert len(without.statistics) == len(with_row.statistics) == STEPS
    assert without.scales == with_row.scales
    changes = []
    for one, other, scale in zip(without.statistics, with_row.statistics, without.scales, strict=True):
        sensitivity = scale * epsilon / STEPS
        changes.append(float(np.abs(np.asarray(one) - np.asarray(other)).sum()) / sensitivity)
    assert max(changes) <= 1 + 1e-9  # sums of 1801 numbers are off by less
    assert any(changes) != math.isnan(row)  # a missing cell changes nothing


def test_bounds_ignore_a_few_extreme_rows() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.uniform(40, 60, 5000), [1e12]])
    assert private_bounds(values, 0.25, np.random.default_rng(1)) == (32.0, 64.0)
    assert private_bounds(-values, 0.25, np.random.default_rng(1)) == (-64.0, -32.0)
    mixed = np.concatenate([rng.uniform(-1, 1, 4000), np.zeros(1000)])
    low, high = private_bounds(mixed, 1.0, np.random.default_rng(1))
    assert (low, high) == (-1.0, 1.0)


def breast_cancer(**options: Any) -> Dataset:
    """A real table of 569 rows and 30 columns."""
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    return from_pandas(frame, label="target", scale="private", **options)


def test_too_few_rows_for_a_private_scale_are_refused_with_the_epsilon_that_is_enough() -> None:
    with pytest.raises(DataError, match="has 456 training rows, too few for scale=private with epsilon=1 over 30") as e:
        breast_cancer(epsilon=1.0)
    (epsilon,) = re.findall(r"write epsilon=(\d+),", str(e.value))
    (rows,) = re.findall(r"give about (\d+) training rows", str(e.value))
    threshold = math.log(257 / 0.002) * STEPS * 30  # a bin that noise does not explain
    assert 8 * threshold <= int(rows) < 8 * threshold * 1.1
    assert 8 * threshold / 456 <= float(epsilon) < 8 * threshold / 456 * 1.1
    x = breast_cancer(epsilon=float(epsilon)).train.x
    assert np.abs(x).max() < 100
    assert (np.abs(np.median(x, 0)) < 3).all()


def test_columns_without_private_bounds_are_refused_together(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [("a", i % 7 + 1, i, i % 2) for i in range(60)])
    with pytest.raises(
        DataError, match=r"the statistics of n and m would be only noise: write epsilon=\d+, give about"
    ):
        csv(path, label="y", drop="site", scale="private", epsilon=0.1)
    with pytest.raises(NoBoundsError):
        private_bounds(np.full(20, 3.0), 0.1, Loud(0))
    assert private_bounds(np.full(20, 3.0), 1.0, Loud(0)) == (2.0, 4.0)


def test_the_noise_is_laplace_of_that_scale() -> None:
    values = np.concatenate([np.full(5000, 3.0), np.full(5000, 100.0)])
    shifts = np.array([private_scale(values, 4.0, np.random.default_rng(seed)).shift for seed in range(400)])
    # The mean has the noise of the sum over 10,000 rows: a Laplace scale of 63 / 1, which deviates by sqrt(2) * 63.
    # The noise of the count adds less than a thousandth.
    assert shifts.std() == pytest.approx(math.sqrt(2) * 63 / 10_000, rel=0.15)
    assert shifts.mean() == pytest.approx(51.5, abs=4 * math.sqrt(2) * 63 / 10_000 / 20)


def test_a_large_epsilon_gives_the_pooled_values(tmp_path: Path) -> None:
    pooled, private = people(tmp_path), people(tmp_path, scale="private", epsilon=1e9)
    np.testing.assert_allclose(private.train.x[:, 1], pooled.train.x[:, 1], atol=1e-4)
    assert private.encoder is not None
    assert pooled.encoder is not None
    assert private.encoder.scales["n"].fill == pytest.approx(pooled.encoder.scales["n"].fill, rel=1e-6)


def test_notes_state_epsilon_and_what_it_does_not_protect(tmp_path: Path) -> None:
    dataset = people(tmp_path, scale="private", epsilon=5.0)
    assert dataset.notes[-2:] == (
        "numeric columns scaled by statistics of the pooled training rows, with noise of epsilon=5 in total over 2 "
        "columns",
        "the noise would protect one row of one party if it were secret, but it comes from a public seed, so that runs "
        "repeat; the mean of a numeric target and the counts of missing cells have no noise",
    )
    assert "30 missing values in column 'n' filled with its private mean" in dataset.notes
    assert dataset.checksum == people(tmp_path, scale="private", epsilon=5.0).checksum
    assert dataset.checksum != people(tmp_path, scale="private", epsilon=6.0).checksum


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "private"}, "needs epsilon"),
        ({"epsilon": 1.0}, "used only by scale=private"),
        ({"scale": "group", "group": ()}, "needs a group column"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = table(tmp_path / "t.csv", [("a", i, i, i % 2) for i in range(30)])
    with pytest.raises(DataError, match=message):
        csv(path, **{"label": "y", "group": "site", **options})
