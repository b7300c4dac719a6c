"""What a skew of a plugin may return, and the draws that all skews share."""

from typing import Any

import numpy as np
import pytest

from silobench.errors import PartitionError
from silobench.partitions import Partition, label
from silobench.partitions.skew import PARTITIONS, redraw

A, B = np.array([0, 3]), np.array([1, 2])  # of four rows; the first and the last belong to one party


def answer(value: Any, hook: str = "cut") -> str | None:
    """What the contract of partitions says to a partition of four rows among two parties."""
    split = np.zeros(4)
    return PARTITIONS.contract.hooks[hook].check(value, (split, Partition((B, A)) if hook == "refine" else 2, None))


@pytest.mark.parametrize("hook", ["cut", "refine"])
@pytest.mark.parametrize(
    "value",
    [
        Partition((A, B)),
        Partition((B.astype(np.uint8), A[:1])),  # rows may be unused
        Partition((A, B), names=("a", "b")),
    ],
)
def test_partitions_that_are_right(value: Partition, hook: str) -> None:
    assert answer(value, hook) is None


@pytest.mark.parametrize("hook", ["cut", "refine"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((A, B), "an sb.Partition(rows) is expected"),
        (Partition([A, B]), "a tuple with an array of each of 2 parties"),  # type: ignore[arg-type]
        (Partition((A,)), "a tuple with an array of each of 2 parties"),
        (Partition((A, B[:1], B[1:])), "a tuple with an array of each of 2 parties"),
        (Partition((A, [1, 2])), "as rows of party 1, but an array of row numbers"),  # type: ignore[arg-type]
        (Partition((A[:, None], B)), "as rows of party 0, but an array of row numbers"),
        (Partition((A, B.astype(float))), "as rows of party 1, but an array of row numbers"),
        (Partition((A, B[:0])), "no rows for party 1"),
        (Partition((A - 1, B)), "rows of party 0 that are not row numbers from 0 to 3"),
        (Partition((B, A + 1)), "rows of party 1 that are not row numbers from 0 to 3"),
        (Partition((A, np.array([1, 1]))), "rows of party 1 that are not row numbers from 0 to 3"),
        (Partition((A, B), names=("a",)), "another name for each of 2 parties"),
        (Partition((A, B), names=("a", "b", "c")), "another name for each of 2 parties"),
        (Partition((A, B), names=("a", "a")), "another name for each of 2 parties"),
    ],
)
def test_partitions_that_are_wrong(value: Any, words: str, hook: str) -> None:
    assert words in str(answer(value, hook))


@pytest.mark.parametrize(
    ("value", "is_right"), [(1, True), (7, True), (0, False), (-1, False), (2.0, False), (True, False)]
)
def test_a_number_of_parties_is_a_whole_one(value: Any, is_right: bool) -> None:
    assert (answer(value, "natural") is None) == is_right


def test_counts_are_drawn_until_every_party_has_enough() -> None:
    draws = iter([[[2, 0], [9, 9]], [[9, 9], [1, 1]], [[3, 0], [0, 3]], [[9, 9], [9, 9]]])
    assert redraw(lambda: np.array(next(draws)), 3, "spec", 20, 2).tolist() == [[3, 0], [0, 3]]


def test_draws_end() -> None:
    draws: list[int] = []

    def draw() -> Any:
        draws.append(1)
        return np.array([[2], [5]])

    with pytest.raises(PartitionError, match="fewer than 3 rows in each of 1000 draws"):
        redraw(draw, 3, "spec", 6, 2)  # six rows are just enough for two parties
    assert len(draws) == 1000
    with pytest.raises(PartitionError, match="there are only 5 rows"):
        redraw(draw, 3, "spec", 5, 2)


@pytest.mark.parametrize(
    ("balance", "counts"),
    [
        (True, [[4, 4, 0, 0], [0, 0, 4, 4]]),  # 8 rows are the share of a party: it is full
        (False, [[4, 4, 4, 4], [0, 0, 0, 0]]),
    ],
)
def test_a_party_that_is_full_gets_no_more_rows(
    monkeypatch: pytest.MonkeyPatch, balance: bool, counts: list[list[int]]
) -> None:
    """Every draw gives all rows of a class to the first party; if that is full, the party with least rows gets them."""
    monkeypatch.setattr(label, "dirichlet", lambda beta, parties, rng: np.array([1.0, 0.0]))
    assert label._dirichlet_counts([4] * 4, 2, 0.5, balance, np.random.default_rng(0)).tolist() == counts
