"""The page of the leaderboard in a real browser: quiet, readable on every screen, and its filters rank anew."""

import pytest
from playwright.sync_api import Page, expect
from study import IMAGE

from silobench.analysis.budget import Budget
from silobench.analysis.leaderboard import leaderboard
from silobench.report.leaderboard import write_board
from stored import stored

GAINS = {"fedavg": 0.0, "moon": 0.1, IMAGE: -0.1}
PARTITIONS = ("iid", "shards", "label-count(k=2)")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page: moon is last after one round and first in the end, and one setting has other methods."""
    runs = [
        stored([0.5 - gain + seed / 500, 0.6 + gain + seed / 500], seed, partition=partition, algorithm=name)
        for partition in PARTITIONS
        for seed in range(3)
        for name, gain in GAINS.items()
        if (partition, name) != ("iid", IMAGE)
    ]
    boards = [leaderboard(runs, budget) for budget in (Budget(), Budget(rounds=1))]
    return write_board(boards, tmp_path_factory.mktemp("board") / "leaderboard.html").as_uri()


def standings(page: Page) -> list[list[str]]:
    """Return the texts of the standings: rank, method, settings, mean rank."""
    rows = page.locator("[data-board-standings] tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("th, td").all()[:4]] for row in rows]


def test_the_page_shows_ranks_and_names_as_text(page: Page, board: str) -> None:
    page.goto(board)
    assert [row[1] for row in standings(page)] == ["moon", "fedavg", IMAGE]
    assert page.locator("img").count() == 0
    expect(page.locator("[data-board-setting]:visible")).to_have_count(3)


def test_filters_rank_anew(page: Page, board: str) -> None:
    page.goto(board)
    before = standings(page)
    page.get_by_label("Skew").select_option("label")
    expect(page.locator("[data-board-setting]:visible")).to_have_count(2)
    assert [row[1:] for row in standings(page)] == [
        ["moon", "2", "1.00"],
        ["fedavg", "2", "2.00"],
        [IMAGE, "2", "3.00"],
    ]
    expect(page.locator("[data-board-count]")).to_have_text("2 of 3 settings, 3 of 3 methods")
    page.get_by_label("moon").uncheck()
    assert [row[1:] for row in standings(page)] == [["fedavg", "2", "1.00"], [IMAGE, "2", "2.00"]]
    first = page.locator("[data-board-setting]:visible").first.locator("tbody tr").first
    assert first.inner_text().split()[:2] == ["1", "fedavg"]
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("[data-board-setting]:visible")).to_have_count(3)
    assert standings(page) == before


def test_a_budget_changes_scores_and_ranks(page: Page, board: str) -> None:
    page.goto(board)
    page.get_by_label("Budget").select_option("1 round")
    assert [row[1] for row in standings(page)] == [IMAGE, "fedavg", "moon"]
    expect(page.locator("[data-board-standings] caption")).to_have_text("Methods over 3 settings, 1 round")
    expect(page.locator("[data-board-setting]").first.get_by_role("row", name="moon")).to_contain_text("40.2 ± 0.2")


def test_the_keyboard_reaches_the_filters(page: Page, board: str) -> None:
    page.goto(board)
    page.get_by_label("Dataset").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.get_by_label("Budget")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-board-standings] caption")).to_contain_text("1 round")


def test_nothing_scrolls_sideways_on_a_phone(page: Page, board: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(board)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
