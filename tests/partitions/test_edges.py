"""Partitions where a rule just begins or just ends to hold."""

from typing import Any

import numpy as np
import pytest

from silobench.data import Dataset, Split, digits
from silobench.errors import PartitionError
from silobench.partitions import Partition, deal_columns, label, partition
from silobench.partitions.columns import _units
from silobench.partitions.measures import feature_shift
from silobench.partitions.skew import PARTITIONS

DIGITS = digits()
TWO = (np.array([0, 1]), np.array([2, 3]))  # four rows, two parties


def of(labels: Any, features: int = 1, **groups: Any) -> Dataset:
    y = np.asarray(labels, dtype=np.int64)
    split = Split(np.zeros((len(y), features), np.float32), y, {name: np.array(g) for name, g in groups.items()})
    return Dataset("edge", split, split, tuple(map(str, range(int(y.max()) + 1))), "none")


class OneForAll:
    """Random numbers by which the first party wants every row of every class."""

    def dirichlet(self, alpha: Any) -> Any:
        return np.eye(len(alpha))[0]


def test_what_only_full_parties_want_is_for_the_smallest() -> None:
    """The first is full after the first class, and nobody else wants the other two: the parties 1 and 2 get them."""
    drawn = label._dirichlet_counts([10, 10, 10], 3, 0.5, True, OneForAll())  # type: ignore[arg-type]
    assert drawn.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 10]]


class Tenths:
    """Ten equal numbers. Their sum, one after another, is below the sum that NumPy finds in pairs."""

    def dirichlet(self, alpha: Any) -> Any:
        return np.full(len(alpha), 0.1)


def test_the_last_party_has_the_row_that_rounding_would_lose() -> None:
    drawn = label._dirichlet_counts([20, 30], 10, 0.5, False, Tenths())  # type: ignore[arg-type]
    assert drawn.sum(0).tolist() == [20, 30]


@pytest.mark.parametrize(("target", "rows"), [(1.015, 10_000), (1.04, 40)])
def test_an_emd_is_reached_up_to_a_fiftieth_or_to_whole_rows(target: float, rows: int) -> None:
    """Two parties of one class each have 1. Whole rows of 40 allow 2 · 2 / (2 · 40) = 0.05 more."""
    cut = partition(of(np.arange(rows) % 2), f"target-emd({target})", 2)
    assert sum(map(len, cut.rows)) == rows


@pytest.mark.parametrize(("target", "rows"), [(1.025, 10_000), (1.07, 40)])
def test_an_emd_further_away_is_refused(target: float, rows: int) -> None:
    with pytest.raises(PartitionError, match="cannot be reached"):
        partition(of(np.arange(rows) % 2), f"target-emd({target})", 2)


def test_row_numbers_far_beyond_the_last_row_are_refused() -> None:
    far = Partition((np.array([0, 3]), np.array([1, 7])))
    answer = PARTITIONS.contract.hooks["cut"].check(far, (np.zeros(4), 2, None))
    assert "rows of party 1 that are not row numbers from 0 to 3" in str(answer)


def test_a_small_unit_is_not_taken_for_no_deviation() -> None:
    """In nanometres or in metres: the variance of all rows is 5, that of the two means is 4."""
    values = np.array([[1.0], [3.0], [5.0], [7.0]])
    assert feature_shift(Partition(TWO), Split(1e-9 * values, np.zeros(4, np.int64))) == pytest.approx(0.8**0.5)


def test_a_large_constant_is_taken_for_one() -> None:
    """The variance of four numbers of 1e8 is off by some roundings of 1e16, that is by 1, and is a deviation of 1."""
    constant = np.full((4, 1), 1e8 + 1 / 3)
    assert feature_shift(Partition(TWO), Split(constant, np.zeros(4, np.int64))) == 0.0


@pytest.mark.parametrize("holder", [0, 1])
def test_every_party_without_labels_has_its_share_of_rows(holder: int) -> None:
    names = ("a", "b")
    deal = deal_columns(DIGITS, f"columns(by=block, overlap=0.5, names=[a, b], label={names[holder]})", 2)
    rows = len(DIGITS.train)
    assert deal.label == holder
    assert deal.train.sum(1).tolist() == [rows if party == holder else round(rows / 2) for party in range(2)]


def test_features_without_names_are_dealt_one_by_one() -> None:
    """Those of a pixel stay together: only a dataset of pictures has several."""
    assert [each.tolist() for each in deal_columns(of([0, 1] * 4, 6), "columns(by=block)", 3).columns] == [
        [0, 1], [2, 3], [4, 5],
    ]  # fmt: skip
    assert [each.tolist() for each in deal_columns(of([0, 1] * 4, 6), "columns(by=block)", 2).columns] == [
        [0, 1, 2], [3, 4, 5],
    ]  # fmt: skip


def test_rows_that_are_no_pictures_have_no_pixels() -> None:
    """A film has four dimensions, and its first one is not known to be that of colours."""
    assert [each.tolist() for each in _units((), (2, 1, 2, 1))] == [[0], [1], [2], [3]]


def test_a_deal_has_a_fingerprint_of_sixteen_digits_that_stays() -> None:
    """Records of runs have it, and a deal must be the same in later versions."""
    deal = deal_columns(of([0, 1] * 4, 6), "columns(by=block)", 2)
    assert deal.fingerprint == "48c5fe5fb17ca842"


def test_a_row_for_each_party_is_enough_beside_shared_ones() -> None:
    cut = partition(of([0, 1] * 4), "iid + share(beta=1)", 4)
    assert [len(rows) for rows in cut.rows] == [5] * 4  # four rows are shared
    with pytest.raises(PartitionError, match="leaves 4 rows to 5 parties"):
        partition(of([0, 1] * 4), "iid + share(beta=1)", 5)


def test_a_class_without_rows_shares_none() -> None:
    cut = partition(of([0, 2] * 8), "iid + share(beta=1)", 2)
    assert [len(rows) for rows in cut.rows] == [12, 12]


def test_groups_of_any_size_are_not_called_groups_of_a_size() -> None:
    grouped = of([0, 1, 0, 1], site=["a", "b", "c", "c"])
    with pytest.raises(PartitionError, match="found 3 groups for 4 parties"):
        partition(grouped, "by-group", 4)
    with pytest.raises(PartitionError, match="found 1 groups of at least 2 rows for 4 parties"):
        partition(grouped, "by-group(min_size=2)", 4)


def test_a_note_names_ten_groups_that_were_left_out() -> None:
    sites = [*"abcdefghijk", "zz", "zz"]
    (note,) = partition(of([0] * 12 + [1], site=sites), "by-group(min_size=2)").notes
    assert "(a, b, c, d, e, f, g, h, i, j, ...)" in note
