"""Tables of membership inference and audits."""

from typing import Any

import pytest

from silobench.analysis.attacks import attack_tables
from silobench.analysis.cells import collect
from stored import stored


def attack(area: float) -> dict[str, Any]:
    success = {"auc": area, "low": area - 0.1, "high": area + 0.1, "tpr": 0.05}
    return {**success, "rows": 200, "difference": {**success, "auc": area + 0.05}}


def audit(epsilon: float, claimed: float | None, verdict: str) -> dict[str, Any]:
    counts = {"canaries": 1000, "guesses": 500, "correct": 450}
    return {"epsilon": epsilon, "confidence": 0.95, **counts, "claimed": claimed, "verdict": verdict}


def tables(seeds: list[dict[str, Any]], parties: int) -> list[list[list[str]]]:
    """Return the entries of all tables, for trials with these findings after the last of two rounds."""
    choices = {"measure": " + ".join(seeds[0]), "parties": parties}
    runs = [
        stored([0.5, 0.6], seed, [{}, {"measures": findings}], counts=[[4] * 10] * parties, **choices)
        for seed, findings in enumerate(seeds)
    ]
    return [[[entry.text for entry in row] for row in table.rows] for table in attack_tables(collect(runs))]


def test_membership_is_a_mean_over_trials_for_all_parties_and_each() -> None:
    seeds = [{"membership": {**attack(area), "parties": [attack(area), attack(0.6), {}]}} for area in (0.6, 0.7)]
    ((whole, first, second, third),) = tables(seeds, 3)
    assert whole[-6:] == ["all parties", "200", "0.650 (0.550 to 0.750)", "5.0", "0.700 (0.550 to 0.750)", "5.0"]
    assert first[-6:] == ["0", *whole[-5:]]
    assert second[-4] == "0.600 (0.500 to 0.700)"
    assert third[-6:] == ["2", "", "", "", "", ""]  # it had no row to attack


def test_of_many_parties_only_the_one_that_is_attacked_best_is_shown() -> None:
    parties = [attack(0.5 + place / 100 if place < 11 else 0.4) for place in range(12)]
    ((_, best),) = tables([{"membership": {**attack(0.5), "parties": parties}}], 12)
    assert best[-6] == "10, the highest"
    assert best[-4].startswith("0.600")


@pytest.mark.parametrize(
    ("findings", "shown"),
    [
        (
            audit(3.77, 2.13, "the claim is refuted"),
            ["2.13", "≥ 3.77", "95", "1000", "500", "450", "the claim is refuted"],
        ),
        (audit(4.0, None, "no epsilon is claimed"), ["-", "≥ 4", "95", "1000", "500", "450", "no epsilon is claimed"]),
    ],
)
def test_an_audit_is_a_row_per_trial(findings: dict[str, Any], shown: list[str]) -> None:
    ((first, second),) = tables([{"canaries": findings}, {"canaries": audit(0.1, 2.0, "the claim is not refuted")}], 2)
    assert first[-8:] == ["0", *shown]
    assert second[-8] == "1"


def test_runs_without_attacks_have_no_table() -> None:
    assert attack_tables(collect([stored([0.5, 0.6], 0)])) == []
