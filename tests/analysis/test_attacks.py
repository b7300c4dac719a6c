"""Tables of membership inference and audits."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import call
from silobench.analysis.attacks import attack_tables, party_attack_tables
from silobench.analysis.cells import collect
from stored import stored


def attack(area: float) -> dict[str, Any]:
    success = {"auc": area, "low": area - 0.1, "high": area + 0.1, "tpr": 0.05}
    return {**success, "rows": 200, "difference": {**success, "auc": area + 0.05}}


def audit(epsilon: float, claimed: float | None, verdict: str) -> dict[str, Any]:
    counts = {"canaries": 1000, "guesses": 500, "correct": 450}
    return {"epsilon": epsilon, "confidence": 0.95, **counts, "claimed": claimed, "verdict": verdict}


def tables(seeds: list[dict[str, Any]], parties: int) -> list[list[list[str]]]:
    """Return the entries of all tables, for trials with these findings after the last of two rounds.

    The table by party is the last one.
    """
    choices = {"measure": " + ".join(seeds[0]), "parties": parties}
    runs = [
        stored([0.5, 0.6], seed, [{}, {"measures": findings}], counts=[[4] * 10] * parties, **choices)
        for seed, findings in enumerate(seeds)
    ]
    cells = collect(runs)
    every = [*attack_tables(cells), *party_attack_tables(cells)]
    return [[[entry.text for entry in row] for row in table.rows] for table in every]


def test_membership_is_a_mean_over_trials_for_all_parties_and_each() -> None:
    seeds = [{"membership": {**attack(area), "parties": [attack(area), attack(0.6), {}]}} for area in (0.6, 0.7)]
    (whole,), (first, second, third) = tables(seeds, 3)
    assert whole[-5:] == ["200", "0.650 (0.550 to 0.750)", "5.0", "0.700 (0.550 to 0.750)", "5.0"]
    assert first[-6:] == ["0", *whole[-5:]]
    assert second[-4] == "0.600 (0.500 to 0.700)"
    assert third[-6:] == ["2", "", "", "", "", ""]  # it had no row to attack


def test_of_many_parties_only_the_one_that_is_attacked_best_is_shown() -> None:
    parties = [attack(0.5 + place / 100 if place < 11 else 0.4) for place in range(12)]
    _, (best,) = tables([{"membership": {**attack(0.5), "parties": parties}}], 12)
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
    cells = collect([stored([0.5, 0.6], 0)])
    assert attack_tables(cells) == party_attack_tables(cells) == []


def test_transforms_are_named_where_they_differ() -> None:
    records = [{"measures": {"membership": {**attack(0.6), "parties": []}}}]
    chains = ("", "secure-sum(splits=2, range=8.0)")
    (table,) = attack_tables(
        collect([stored([0.5], records=records, measure="membership", transforms=chain) for chain in chains])
    )
    place = table.columns.index("transforms")
    assert [row[place].text for row in table.rows] == list(chains)


def test_parties_are_shown_only_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"measures": {"membership": {**attack(0.6), "parties": [attack(0.7), attack(0.8)]}}}]
    stored([0.5], records=records, measure="membership", parties=2, out=tmp_path)
    short, long = call(capsys, "show", tmp_path).out, call(capsys, "show", tmp_path, "--parties").out
    assert "0.600 (0.500 to 0.700)" in short
    assert "0.800 (0.700 to 0.900)" not in short
    assert "Membership inference by party" in long
    assert "0.800 (0.700 to 0.900)" in long
    (cell,) = json.loads(call(capsys, "show", tmp_path, "--json").out)["cells"]
    assert [each["auc"] for each in cell["measures"]["membership"]["0"]["parties"]] == [0.7, 0.8]
