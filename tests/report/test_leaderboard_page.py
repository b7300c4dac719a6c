"""The page of the leaderboard: complete without its script, with the data that the script ranks by, and safe."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from silobench.analysis.budget import Budget
from silobench.analysis.leaderboard import leaderboard
from silobench.report.leaderboard import budgets_of, write_board
from silobench.runs.stored import StoredRun
from stored import stored


def runs_of(gain: float = 0.1, **choices: Any) -> list[StoredRun]:
    return [
        stored([0.3, 0.6, 0.6 + more + seed / 500], seed, algorithm=name, partition=partition, **choices)
        for partition in ("iid", "shards")
        for seed in range(3)
        for name, more in (("fedavg", 0.0), ("moon", gain), ("solo", 0.0))
    ]


def page_of(runs: list[StoredRun], folder: Path, *budgets: Budget) -> str:
    boards = [leaderboard(runs, budget) for budget in (Budget(), *budgets)]
    return write_board(boards, folder / "leaderboard.html").read_text()


def data_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" data-board>(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_the_page_is_complete_without_its_script(tmp_path: Path) -> None:
    page = page_of(runs_of(), tmp_path)
    text = " ".join(re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())
    assert "1= moon 2 1.00 [1.00, 1.00] 2 2 2 / 0 / 0" in text
    assert "1 moon 70.2 ± 0.2 3 3" in text
    assert "2 fedavg 60.2 ± 0.2" in text
    assert "reference solo" in text
    assert "reference points: they are shown and not ranked" in text
    assert "Rows are in the order of the mean share of rivals that are better" in text
    assert "How to read this table" not in page  # the notes on the standings are not folded


def test_a_page_without_ranks_says_how_to_get_them(tmp_path: Path) -> None:
    page = page_of([run for run in runs_of() if run.seed == 0], tmp_path)
    assert "Run the experiment with three trials or more (<code>trials = 3</code>, or <code>silobench run" in page


def test_the_script_has_the_pairs_of_every_budget(tmp_path: Path) -> None:
    data = data_of(page_of(runs_of(), tmp_path, Budget(rounds=2)))
    whole, early = data["boards"]
    moon, fedavg = (data["methods"].index(name) for name in ("moon", "fedavg"))
    assert [setting["better"] for setting in whole["settings"]] == [[[moon, fedavg]]] * 2
    assert [setting["better"] for setting in early["settings"]] == [[], []]


def test_nothing_is_loaded_and_only_known_scripts_run(tmp_path: Path) -> None:
    page = page_of(runs_of(), tmp_path)
    assert not re.search(r'(src|href)="(https?:)?//', page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy.replace("&#39;", "'")
    assert policy.count("sha256-") == page.count("<script>") + page.count("<style>")
    assert "unsafe" not in policy


def test_names_are_text(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    runs = [stored([0.5, 0.6 + seed / 100], seed, dataset_facts={"name": name}, algorithm=one) for seed in range(3) for one in ("fedavg", "moon")]  # fmt: skip  # noqa: E501
    page = page_of(runs, tmp_path)
    assert name not in page
    assert "&lt;/script&gt;" in page


def test_records_are_linked_where_they_are_files(tmp_path: Path) -> None:
    for seed in range(2):
        stored([0.5, 0.6], seed, out=tmp_path / "runs")
    from silobench.runs.stored import read_runs

    runs = read_runs(tmp_path / "runs")
    page = page_of(runs, tmp_path / "pages")
    for run in runs:
        assert f'href="../runs/{run.facts.id}/run.json"' in page
    assert 'href="../runs' not in page_of(runs_of(), tmp_path / "pages")


def test_one_trial_says_why_there_are_no_ranks(tmp_path: Path) -> None:
    runs = [run for run in runs_of() if run.seed == 0]
    assert "nothing is ranked" in page_of(runs, tmp_path)


@pytest.mark.parametrize("rounds", [3, 60])
def test_budgets_to_choose_from_are_below_what_runs_spend(rounds: int) -> None:
    budgets = budgets_of([stored([0.5] * rounds)])
    chosen = [budget.rounds for budget in budgets if budget.rounds]
    assert chosen == {3: [1, 2], 60: [10, 20, 50]}[rounds]
    assert all(budget.bytes < 20 * rounds for budget in budgets if budget.bytes)
    assert not any(budget.epsilon or budget.seconds for budget in budgets)
