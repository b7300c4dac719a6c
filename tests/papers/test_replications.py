"""Numbers of independent replications: shown after the paper's in every table, and never taken for the paper's."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from silobench.analysis.board_tables import contests_table
from silobench.analysis.budget import Budget
from silobench.analysis.cells import CellResult
from silobench.analysis.contests import contests
from silobench.analysis.export import latex, markdown, scores_csv
from silobench.analysis.leaderboard import board_json, board_of
from silobench.analysis.tables import score_table
from silobench.papers import REFERENCES, collect_cells, replicated_accuracies
from silobench.report.leaderboard import write_board
from silobench.report.table_markup import rows_markup
from silobench.report.table_view import view
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun
from stored import PLAIN, stored

SKEW = "label-dirichlet(beta=0.5)"


def trials(**choices: object) -> list[StoredRun]:
    settings = {"dataset": "cifar-10", "partition": SKEW, **choices}
    return [stored([0.3, 0.64 + seed / 100], seed, **settings) for seed in (0, 1)]


def cell_of(**choices: object) -> CellResult:
    (cell,) = collect_cells(trials(**choices))
    return cell


def label(**choices: object) -> Label:
    return Label({**PLAIN, "dataset": "cifar-10", "partition": SKEW, "rounds": 50, **choices})


@pytest.mark.parametrize(
    ("choices", "percent"),
    [
        ({}, 63.4),
        ({"algorithm": "scaffold"}, 68.0),
        ({"algorithm": "fedprox(mu=0.1)"}, 65.6),
        ({"algorithm": "fednova"}, 65.0),
        ({"dataset": "mnist", "partition": "label-count(k=1)", "algorithm": "fedprox(mu=1.0)"}, 81.3),
    ],
)
def test_the_replication_has_its_numbers(choices: dict[str, str], percent: float) -> None:
    (number,) = replicated_accuracies(label(**choices), 10)
    assert (number.by, number.mean, number.std) == ("Flower", pytest.approx(percent / 100), None)


@pytest.mark.parametrize(
    "choices",
    [
        {"dataset": "adult", "model": "mlp"},
        {"algorithm": "moon"},
        {"participation": 0.5},
        {"solver": "sgd(lr=0.1)"},
        {"transforms": "top-k"},
    ],
)
def test_another_setting_has_none(choices: dict[str, object]) -> None:
    assert replicated_accuracies(label(**choices), 10) == []


def test_another_number_of_parties_has_none() -> None:
    assert replicated_accuracies(label(), 20) == []


@pytest.mark.parametrize("arguments", ["beta=0.5", "beta=0.5, balance=false"])
def test_balancing_is_no_other_setting_of_the_paper(arguments: str) -> None:
    cell = cell_of(partition=f"label-dirichlet({arguments})")
    assert [number.mean for number in cell.published] == [0.682, 0.634]


def test_another_argument_is_another_setting() -> None:
    assert not cell_of(partition="label-dirichlet(beta=0.5, min_size=1)").published


def test_tables_show_it_after_the_papers_number() -> None:
    table = score_table([cell_of()])
    beside = "paper 68.2 ± 0.7, -3.7; Flower 63.4"
    assert f"64.5 ± 0.7 ({beside})" in markdown(table)
    assert beside.replace("±", r"$\pm$") in latex(table)
    assert "Flower: Flower's baseline niid_bench: 50 rounds of 10 local epochs, one trial" in table.note
    page = view(table)
    rows = rows_markup(page.rows, page.columns)
    assert re.search(r"paper 68\.2 ± 0\.7 <span[^>]*>−3\.7</span></small><small>Flower 63\.4</small>", rows)


def test_a_table_without_replications_does_not_name_one() -> None:
    assert "Flower" not in markdown(score_table([cell_of(dataset="adult", model="mlp")]))


def test_csv_and_json_have_it_as_a_field_of_its_own() -> None:
    cell = cell_of()
    (line,) = csv.DictReader(io.StringIO(scores_csv([cell])))
    assert (line["paper"], line["difference"], line["flower_replication"]) == ("68.20", "-3.70", "63.40")
    facts = json.loads(json.dumps(cell.as_json()))
    assert facts["paper"]["mean"] == 0.682
    assert facts["replications"] == {"Flower": {"mean": 0.634, "std": None, "table": "niid_bench"}}


def test_the_leaderboard_shows_both(tmp_path: Path) -> None:
    settings = contests([*trials(), *trials(algorithm="scaffold"), *trials(dataset="digits")], REFERENCES)
    board, early = board_of(settings), board_of(settings, Budget(rounds=1))
    text = markdown(contests_table(board))
    assert "paper 69.8 ± 0.7; Flower 68.0" in text
    assert "Flower: Flower's baseline" in text
    first, *_ = board_json(board)["settings"]
    assert {entry["paper"]["mean"] for entry in first["entries"]} == {0.682, 0.698}
    page = write_board([board, early], tmp_path / "board.html").read_text()
    assert page.count('<th scope="col" class="number">published</th>') == 1  # nobody prints numbers for digits
    assert '<td class="number">paper 68.2 ± 0.7; Flower 63.4</td>' in page


def test_a_score_within_a_budget_is_not_beside_numbers_of_whole_runs(tmp_path: Path) -> None:
    settings = contests([*trials(), *trials(algorithm="scaffold")], REFERENCES)
    early = board_of(settings, Budget(rounds=1))
    assert "Flower" not in markdown(contests_table(early))
    page = write_board([board_of(settings), early], tmp_path / "board.html").read_text()
    (text,) = re.findall(r'<script type="application/json" data-board>(.*?)</script>', page, re.DOTALL)
    whole, cut = ([line[2] for line in board["settings"][0]["lines"]] for board in json.loads(text)["boards"])
    assert all(whole)
    assert cut == ["", ""]  # an empty cell, so that the others stay in their columns
