"""Pieces of evidence and the tests that decide them, and the tables that show them, by hand."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from silobench.analysis.bayes import Posterior
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import (
    Claim,
    Finding,
    Rule,
    claims_table,
    evidence_table,
    evidence_text,
    judge,
    judged,
    untested_text,
)
from silobench.analysis.evidence import (
    TOO_FEW,
    Evidence,
    Gap,
    accuracy_gap,
    all_hold,
    any_holds,
    any_more_than,
    gap,
    has_learnt,
    larger,
    nearly_equal,
    never_rises,
    opposite,
    pair_text,
)
from silobench.analysis.groups import Cells
from silobench.runs.stored import StoredRun
from stored import cells, columns_of, regression, stored, texts

SHARP = 1e-6  # the scale of a posterior that decides whatever is further away than this
ANY = (True, False, None)


def sharp(mean: float, decides: bool = True) -> Gap:
    return Gap(Posterior(mean, SHARP, 2, 3, 0.0), decides)


def wide(mean: float = 0.0) -> Gap:
    return Gap(Posterior(mean, 1.0, 2, 3, 0.0))


def by_seed(*values: float, first: int = 0) -> dict[int, float]:
    return dict(enumerate(values, first))


# --- differences --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "least", "above"),
    [(0.02, 0.01, True), (0.01, 0.02, False), (-0.02, -0.01, False), (-0.01, -0.02, True), (0.01, 0.0, True)],
)
def test_more_than_is_one_sided(mean: float, least: float, above: bool) -> None:
    assert sharp(mean).more_than(least) is above
    assert sharp(mean).at_most(least) is not above


@pytest.mark.parametrize(("mean", "inside"), [(0.009, True), (-0.009, True), (0.011, False), (-0.011, False)])
def test_within_has_two_sides(mean: float, inside: bool) -> None:
    assert sharp(mean).within(0.01) is inside


def test_what_cannot_be_told() -> None:
    for unknown in (Gap(None), sharp(1.0, decides=False), wide()):
        assert unknown.more_than(0.01) is None
        assert unknown.at_most(0.01) is None
        assert unknown.within(0.01) is None


@pytest.mark.parametrize(
    ("mean", "looks", "above"),
    [
        (3.0, 1, True),
        (2.9, 1, None),
        (4.5, 2, True),
        (4.2, 2, None),
        (-3.0, 1, False),
        (-3.0, 9, False),
        (-2.9, 1, None),
    ],
)
def test_a_yes_needs_a_smaller_error_for_more_looks_and_a_no_does_not(
    mean: float, looks: int, above: bool | None
) -> None:
    """With 2 degrees of freedom 0.05 of the mass lies beyond 2.92 scales, and 0.025 beyond 4.30."""
    assert wide(mean).more_than(0.0, looks) is above
    assert wide(mean + 7).more_than(7.0, looks) is above


@pytest.mark.parametrize(("mean", "inside"), [(0.0, True), (6.8, True), (7.2, None), (12.8, None), (13.0, False)])
def test_a_region_of_ten_scales(mean: float, inside: bool | None) -> None:
    """2.92 scales inside its border 0.95 of the mass are inside, and 2.92 scales outside 0.95 are outside."""
    assert wide(mean).within(10.0) is inside
    assert wide(-mean).within(10.0) is inside


def test_a_difference_is_shown_with_its_interval() -> None:
    """0.975 of the mass lies below 4.30 scales."""
    known = Gap(Posterior(0.05, 0.01, 2, 3, 0.0))
    assert known.text() == "+5.0 [+0.7, +9.3] points"
    assert known.text("rounds", 1000) == "+50.0 [+7.0, +93.0] rounds"
    assert Gap(Posterior(-0.05, 0.0, 2, 3, 0.0)).text("percent") == "-5.0 [-5.0, -5.0] percent"
    assert Gap(None).text() == TOO_FEW == "too few trials or rounds"


def test_a_gap_pairs_shared_seeds() -> None:
    found = gap(by_seed(3.0, 5.0, 8.0), by_seed(2.0, 2.0, 9.0, first=1)).posterior
    assert found is not None
    assert (found.mean, found.n) == (4.5, 2)  # 5 - 2 and 8 - 2
    assert gap(by_seed(1.0), by_seed(0.0)).posterior is None
    assert gap(by_seed(1.0, 2.0), by_seed(0.0, first=1)).posterior is None


@pytest.mark.parametrize(("share", "is_larger"), [(1.2, True), (1.11, True), (1.09, False), (1.0, False), (0.5, False)])
def test_larger_is_by_more_than_a_tenth(share: float, is_larger: bool) -> None:
    values = by_seed(2.0, 3.0, 5.0)
    assert larger({seed: share * value for seed, value in values.items()}, values) is is_larger


# --- several pieces -----------------------------------------------------------------------------------


def test_three_valued_logic() -> None:
    assert [opposite(one) for one in ANY] == [False, True, None]
    for pieces in product(ANY, repeat=2):
        known = set(pieces)
        assert any_holds(pieces) is (True if True in known else None if None in known else False)
        assert all_hold(pieces) is (False if False in known else None if None in known else True)
    assert any_holds([]) is False
    assert all_hold([]) is True


def test_any_more_than_asks_each_with_all_looks() -> None:
    yes, no, unclear = sharp(0.02), sharp(0.0), wide()
    assert any_more_than([no, unclear, yes], 0.01, 3) is True
    assert any_more_than([no, no], 0.01, 2) is False
    assert any_more_than([no, unclear], 0.01, 2) is None
    assert any_more_than([], 0.01, 1) is None
    assert [any_more_than([wide(3.0), no], 0.0, looks) for looks in (1, 2)] == [True, None]


def trials(mean: float, **choices: Any) -> list[StoredRun]:
    return [stored([mean + off], seed, **choices) for seed, off in enumerate((-0.001, 0.0, 0.001))]


def ladder(*means: float) -> list[CellResult]:
    """Return cells of 1, 2, ... parties with these accuracies."""
    return [cells(trials(mean, parties=place))[0] for place, mean in enumerate(means, 1)]


@pytest.mark.parametrize(
    ("means", "never"),
    [
        ((0.9, 0.8, 0.7), True),
        ((0.9, 0.905, 0.91), True),  # two small steps
        ((0.9, 0.8, 0.82), False),
        ((0.8, 0.82, 0.7), False),
        ((0.82, 0.8, 0.79), True),
    ],
)
def test_never_rises_looks_at_every_step(means: Sequence[float], never: bool) -> None:
    assert never_rises(ladder(*means), 0.01) is never


def test_the_gap_of_two_cells() -> None:
    high, low, chance = ladder(0.9, 0.8, 0.5)
    assert pair_text(high, low) == "90.0 ± 0.1 and 80.0 ± 0.1, +10.0 [+9.9, +10.1] points"
    assert pair_text(low, high, ", before ").endswith("80.0 ± 0.1, before 90.0 ± 0.1, -10.0 [-10.1, -9.9] points")
    assert accuracy_gap(high, low).decides
    assert not accuracy_gap(chance, chance).decides
    assert accuracy_gap(chance, chance, low).decides
    single = cells([stored([0.9], 0)])[0]
    assert accuracy_gap(single, high).posterior is None


@pytest.mark.parametrize(
    ("points", "apart", "holds", "most"),
    [
        (1, 0.009, True, "1 point"),
        (1, 0.011, False, "1 point"),
        (20, 0.199, True, "20 points"),
        (20, -0.199, True, "20 points"),
        (20, 0.201, False, "20 points"),
        (20, -0.201, False, "20 points"),
    ],
)
def test_nearly_equal_counts_points_of_accuracy(points: int, apart: float, holds: bool, most: str) -> None:
    """All trials of two cells are equally far apart: the test decides a tenth of a point from its border."""
    found = nearly_equal("x", "cells", *ladder(0.8 + apart, 0.8), points)
    assert found.holds is holds
    assert found.test == f"correlated t-test: they differ by at most {most}, only if a model has learnt"


@pytest.mark.parametrize(("more", "learnt"), [(0.049, False), (0.051, True)])
def test_learning_is_five_points_above_the_share_of_the_commonest_class(more: float, learnt: bool) -> None:
    """30 and 10 rows of two parties have 20 + 10 of the first class."""
    counts = [[20, 10], [10, 0]]
    assert has_learnt(cells([stored([0.75 + more], parties=2, counts=counts)])[0]) is learnt


# --- tables -------------------------------------------------------------------------------------------


def piece(part: str, holds: bool | None = True, counts: bool = True, name: str = "") -> Evidence:
    return Evidence(part, name, "1 and 2", "a test", holds, counts)


def finding(id: str = "a-1", **parts: Rule) -> Finding:
    return Finding(id, "A", "It is so.", parts or {"x": "most"}, lambda cells: iter(()), "demo")


@pytest.mark.parametrize("rule", ["all", "most", "any"])
def test_rules_by_their_definition(rule: Rule) -> None:
    """All ways to have up to five pieces for, against and open."""
    for yes, no, none in product(range(6), repeat=3):
        pieces = [piece("x", True)] * yes + [piece("x", False)] * no + [piece("x", None)] * none
        total, decided = yes + no + none, yes + no
        if rule == "any":
            expected = "supported" if yes else "undecided"
        elif 2 * decided <= total:
            expected = "undecided"
        elif rule == "all":
            expected = "contradicted" if no else "supported" if yes == total else "undecided"
        else:
            sides = ((yes, "supported"), (no, "contradicted"))
            wins = [word for count, word in sides if 2 * count > total and 4 * count >= 3 * decided]
            expected = wins[0] if wins else "undecided"
        assert judged(rule, pieces) == expected, (yes, no, none)


@pytest.mark.parametrize(
    ("rule", "holds", "text"),
    [
        ("most", [True], "for in 1 comparison"),
        ("most", [True] * 3, "for in 3 comparisons"),
        ("most", [False, False], "against in 2 comparisons"),
        ("most", [True, True, True, False], "for in 3, against in 1 of 4 comparisons"),
        ("most", [True, False], "for in 1, against in 1 of 2 comparisons, too mixed to decide"),
        ("most", [True, None], "for in 1, open in 1 of 2 comparisons, too few of them decided"),
        ("most", [False, None], "against in 1, open in 1 of 2 comparisons, too few of them decided"),
        ("most", [True, False, *[None] * 2], "for in 1, against in 1, open in 2 of 4 comparisons, too few of them "
                                             "decided"),
        ("most", [True, False, None], "for in 1, against in 1, open in 1 of 3 comparisons, too mixed to decide"),
        ("all", [True, True, None], "for in 2, open in 1 of 3 comparisons, too mixed to decide"),
        ("any", [False, None], "against in 1, open in 1 of 2 comparisons, which leaves open whether there is such a "
                               "case elsewhere"),
        ("any", [False, True], "for in 1, against in 1 of 2 comparisons"),
    ],
)  # fmt: skip
def test_comparisons_are_counted_in_words(rule: Rule, holds: list[bool | None], text: str) -> None:
    claim = Claim(finding(x=rule), [*(piece("x", one) for one in holds), piece("x", False, counts=False)])
    assert evidence_text(claim) == text


def test_a_table_has_one_row_for_each_claim() -> None:
    both = finding("a-2", x="most", y="all")
    claims = [
        Claim(finding(), [piece("x")]),
        Claim(both, [piece("x", False), piece("y")]),
        Claim(both, [piece("x")]),
        Claim(both, []),
    ]
    lacking = "no runs test it, and the claim needs it too (silobench run demo)"
    rows = [tuple(row.values()) for row in texts(claims_table(claims))]
    assert rows == [
        ("a-1", "supported", "It is so.", "for in 1 comparison"),
        ("a-2", "contradicted", "It is so.", "x: against in 1 comparison; y: for in 1 comparison"),
        ("a-2", "undecided: 1 of 2 parts tested", "It is so.", f"x: for in 1 comparison; y: {lacking}"),
        ("a-2", "undecided", "It is so.", "no runs for it yet: silobench run demo"),
    ]
    note = "for, against: comparisons decided by a test, with a probability above 0.95; "
    assert claims_table(claims).note == f"{note}--evidence shows every piece"
    short = claims_table(claims, "elsewhere", with_untested=False)
    assert [row["evidence"] for row in texts(short)] == [row[-1] for row in rows[:3]]
    assert short.note == (
        f"{note}elsewhere; 1 claim needs other runs: --all lists them, with the suites that test them"
    )
    assert claims_table(claims[:2], "elsewhere", with_untested=False).note == f"{note}elsewhere"
    assert untested_text(2, 3) == "2 of 3 claims need other runs: --all lists them, with the suites that test them"


def test_pieces_are_shown_part_by_part_and_those_aside_last() -> None:
    pieces = [
        piece("elsewhere", False, counts=False, name="first"),
        piece("y", None, name="second"),
        piece("x", False, name="third"),
        piece("x", True, counts=False, name="fourth"),
        piece("x", True, name="fifth"),
    ]
    table = evidence_table(Claim(finding(x="most", y="all"), pieces))
    assert table.title == "a-1, undecided: It is so."
    assert [tuple(row.values()) for row in texts(table)] == [
        ("x", "third", "1 and 2", "a test", "does not hold"),
        ("x", "fifth", "1 and 2", "a test", "holds"),
        ("y", "second", "1 and 2", "a test", "undecided"),
        ("elsewhere", "first", "1 and 2", "a test", "does not hold (aside)"),
        ("x", "fourth", "1 and 2", "a test", "holds (aside)"),
    ]


def test_a_claim_as_json_has_its_verdict_and_pieces() -> None:
    found = Claim(finding(), [piece("x", name="cells")]).as_json()
    assert found == {
        "id": "a-1", "paper": "A", "statement": "It is so.", "verdict": "supported", "suite": "demo",
        "evidence": [
            {"part": "x", "cells": "cells", "numbers": "1 and 2", "test": "a test", "holds": True, "counts": True}
        ],
    }  # fmt: skip


def test_findings_see_the_cells_that_they_are_about() -> None:
    """Accuracy of parties that hold rows, or parties that hold columns; never cells with replaced parts."""
    seen: dict[bool, list[str]] = {}

    def look(is_vertical: bool) -> Finding:
        def note(found: Cells) -> Iterator[Evidence]:
            seen[is_vertical] = [str(cell.label["dataset"]) for cell in found]
            return iter(())

        return Finding("a", "A", "", {"x": "any"}, note, "demo", is_vertical)

    halves = regression([5.0], dataset="halves", partition="columns", vertical=columns_of("audio", "chart"))
    replaced = stored([0.9], dataset="fmnist", model="cnn(plugin=mine)")
    every = cells([stored([0.9])], [regression([5.0])], [halves], [replaced])
    judge(every, [look(False), look(True)])
    assert seen == {False: ["mnist"], True: ["halves"]}
