"""Stored digests of suite cells: a short cell of every suite is made again, and a real change is found."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from determinism.check import FLOOR, Outcome, check, compare, made, nearest, shift_problem, tolerance
from determinism.cpu import type_facts
from determinism.digests import Digest, read_digests, read_sensitivity, recorded_types, shortest, write_digests
from determinism.power import CHANGES, may_change, undetected
from determinism.suite_cells import SuiteCell, suite_cells


@pytest.fixture(scope="module")
def short_cells() -> list[SuiteCell]:
    _, _, digests = nearest(type_facts(), recorded_types())
    return shortest(suite_cells(), digests)


def test_every_cell_has_a_digest() -> None:
    ids = {cell.plan.id for cell in suite_cells()}
    types = {path.stem: set(read_digests(path)[1]) for path in recorded_types()}
    assert all(known <= ids for known in types.values()), "run python -m determinism record NAME"
    assert ids in types.values(), "run python -m determinism record NAME"
    assert set(read_sensitivity()) == ids, "run python -m determinism sensitivity"


def test_a_short_cell_of_every_suite_has_its_digest(tmp_path: Path, short_cells: list[SuiteCell]) -> None:
    """To the bit on a CPU type of which digests are stored, within the tolerance on another one."""
    outcome = check(short_cells, tmp_path, read_sensitivity())
    assert not outcome.problems, f"compared with {outcome.type_name} {outcome.way} {outcome.differs_in}"
    assert set(outcome.cells) == {cell.paper for cell in suite_cells()}
    assert sum(outcome.cells.values()) == len(short_cells) >= 20


def test_another_type_is_compared_within_the_tolerance(tmp_path: Path, short_cells: list[SuiteCell]) -> None:
    cell = short_cells[0]
    digest, facts = made(cell, tmp_path), type_facts()
    for path in recorded_types():  # of each recorded type, as if this were another one
        _, others, digests = nearest(facts, [path])
        outcome = Outcome(path.stem, [*others, "torch"])
        compare(outcome, cell, digests[cell.plan.id], digest, read_sensitivity()[cell.plan.id])
        assert not outcome.problems
    stored = tmp_path / "here.tsv"
    write_digests(stored, facts, [digest])
    assert nearest(facts, [stored]) == ("here", [], {digest.id: digest})
    assert nearest({**facts, "torch": "9"}, [stored])[1] == ["torch"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_real_change_is_out_of_tolerance(change: str, tmp_path: Path, short_cells: list[SuiteCell]) -> None:
    _, _, digests = nearest(type_facts(), recorded_types())
    tried = [cell for cell in short_cells if may_change(cell, CHANGES[change])]
    sensitivities = read_sensitivity()
    results = Counter(
        undetected(cell, digests[cell.plan.id], sensitivities[cell.plan.id], CHANGES[change], tmp_path)
        for cell in tried[:3]
    )
    assert results[False] > results[True], results


DIGEST = Digest("0" * 16, "demo", "native", "1e+06", "a" * 16, "b" * 12, "2.0", "1.0", "1.5", "0.5", "0.75")


@pytest.mark.parametrize(
    ("changes", "bits", "band"),
    [
        ({}, "", ""),
        ({"state": "c" * 16}, "state is cccc", ""),
        ({"exact": "c" * 12}, "exact is cccc", "cohorts, steps, rows"),
        ({"train_1": f"{2 * (1 + 0.9 * FLOOR)}"}, "train_1 is 2.0", ""),
        ({"loss_1": f"{1 + 1.1 * FLOOR}"}, "loss_1 is 1.0", "a loss of round 1 is 1.0"),
        ({"loss_2": "0.52"}, "loss_2 is 0.52", ""),  # its sensitivity allows a difference of 4%
        ({"loss_2": "0.53"}, "loss_2 is 0.53", "a loss of round 2 is 0.53"),
        ({"loss_2": "-"}, "loss_2 is -", "a loss of round 2 is -"),
        ({"score": "-"}, "score is -", "the score is -"),
    ],
)
def test_what_a_type_and_another_type_allow(changes: dict[str, str], bits: str, band: str) -> None:
    cell = suite_cells()[0]
    sensitivity = (0.0, 0.04 / tolerance(1.0))
    for differs, expected in (([], bits), (["torch"], band)):
        outcome = Outcome("avx2", list(differs))
        compare(outcome, cell, DIGEST, replace(DIGEST, **changes), sensitivity)
        assert bool(outcome.problems) == bool(expected)
        assert expected in "".join(outcome.problems)


def test_scores_that_all_shift_are_a_problem() -> None:
    assert not shift_problem([])
    assert not shift_problem([0.02, -0.02] * 200)
    assert not shift_problem([0.4, *[0.0] * 99])
    assert (
        shift_problem([0.4, -0.4, *[0.0] * 98]) == "the last score of 2 cells is off by more than 0.35; 1 of 100 may be"
    )
    assert shift_problem([0.02] * 400) == "the mean score of 400 cells shifts by -0.0200; 0.0140 is allowed"
