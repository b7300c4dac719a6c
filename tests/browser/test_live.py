"""The live view in a browser: pages renew themselves, and what a reader did with them stays."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from study import ALGORITHMS, known, write_known

from growing import GrowingRun
from silobench.live.pages import live_pages
from silobench.live.server import LiveServer
from silobench.live.site import LiveSite
from silobench.runs.results import Results

ROUNDS = 6


@dataclass
class View:
    """A live view of a directory with finished runs and one that grows."""

    site: LiveSite
    server: LiveServer
    growing: GrowingRun

    @property
    def address(self) -> str:
        return self.server.address

    def record(self, rounds: int) -> None:
        """Record rounds of the run in progress, and renew the pages."""
        self.growing.grow(rounds)
        self.site.refresh()


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    write_known(tmp_path, seeds=1)
    growing = GrowingRun(tmp_path, [0.1 * number for number in range(1, ROUNDS + 1)], seed=9, algorithm="scaffold")
    growing.grow(2)
    site = LiveSite(tmp_path, live_pages("a study"))
    site.refresh()
    server = LiveServer("127.0.0.1", 0, lambda: site.edition)
    with server.serving():
        yield View(site, server, growing)


def bar(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Live view")


def running(page: Page) -> Locator:
    """Return the chart of the run in progress."""
    return page.locator("section").filter(has=page.get_by_role("heading", name="Not finished")).locator(".chart")


def rounds_of(chart: Locator) -> int:
    """Return the last round of the first line of a chart, by the arrow keys."""
    chart.locator(".chart-body").press("End")
    (last,) = re.findall(r"^round (\d+):", chart.locator("[aria-live]").inner_text())
    return int(last)


def test_a_page_shows_each_new_round(page: Page, view: View) -> None:
    page.goto(f"{view.address}curves.html")
    expect(bar(page)).to_contain_text("12 of 13 runs finished, 1 in progress · 98 of 102 rounds")
    assert rounds_of(running(page)) == 2
    for rounds in (3, 4):
        view.record(rounds)
        expect(bar(page)).to_contain_text(f"{96 + rounds} of 102 rounds")
        expect(running(page).locator("desc")).to_contain_text(f"{10 * rounds}")
        assert rounds_of(running(page)) == rounds
    view.growing.finish()
    view.site.refresh()
    expect(bar(page)).to_contain_text("13 of 13 runs finished")
    expect(page.get_by_role("heading", name="Not finished")).to_have_count(0)


def test_what_a_reader_did_stays(page: Page, view: View) -> None:
    page.goto(f"{view.address}runs.html")
    holder = page.locator(".table").first
    holder.get_by_role("columnheader", name="score").get_by_role("button").click()
    holder.get_by_role("columnheader", name="score").get_by_role("button").click()
    holder.get_by_role("searchbox").fill("scaffold")
    expect(holder.get_by_role("status")).to_have_text("4 of 13 rows")
    view.record(5)
    expect(holder).to_contain_text("5 of 6 rounds")
    expect(holder.get_by_role("columnheader", name="score")).to_have_attribute("aria-sort", "descending")
    expect(holder.get_by_role("searchbox")).to_have_value("scaffold")
    expect(holder.get_by_role("status")).to_have_text("4 of 13 rows")
    expect(holder.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(" mnist")
    expect(holder.get_by_role("status")).to_have_text("1 of 13 rows")


def test_charts_stay_as_they_were_left(page: Page, view: View) -> None:
    """A chart that did not change is the same element; one that did is zoomed and toggled as before."""
    page.set_viewport_size({"width": 1000, "height": 500})
    page.goto(f"{view.address}curves.html")
    first = page.locator(".chart").filter(has=page.get_by_role("button", name="fednova")).first
    first.get_by_role("button", name="fednova").click()
    first.evaluate("one => { one.id = 'untouched'; }")
    view.record(4)
    chart = running(page)
    expect(chart.locator("desc")).to_contain_text("40")
    expect(page.locator("#untouched").get_by_role("button", name="fednova")).to_have_attribute("aria-pressed", "false")
    chart.scroll_into_view_if_needed()
    chart.locator(".chart-body").press("+")
    expect(chart.get_by_role("button", name="Show all")).to_be_visible()
    top = page.evaluate("scrollY")
    assert top > 0
    view.record(6)
    expect(chart.locator("desc")).to_contain_text("60")
    expect(chart.get_by_role("button", name="Show all")).to_be_visible()
    expect(chart.locator(".chart-body")).to_be_focused()
    assert page.evaluate("scrollY") == top


def test_toggled_series_of_a_chart_that_changed(page: Page, view: View, tmp_path: Path) -> None:
    page.goto(f"{view.address}curves.html")
    chart = page.locator("figure").filter(has_text="label-count(k=1)").locator(".chart").first
    chart.get_by_role("button", name="fedavg").click()
    before = chart.locator("desc").text_content() or ""
    for algorithm in ALGORITHMS:
        known(tmp_path, "label-count(k=1)", algorithm, 1, 0.3)
    view.site.refresh()
    expect(chart.locator("desc")).not_to_have_text(before)
    expect(chart.get_by_role("button", name="fedavg")).to_have_attribute("aria-pressed", "false")
    expect(chart.get_by_role("button", name="scaffold")).to_have_attribute("aria-pressed", "true")


def test_parts_that_are_open_stay_open(page: Page, tmp_path: Path) -> None:
    """Parts are known by their headings: new ones before them change nothing, and neither do closed ones."""
    numbers = [2, 3]

    def render(_: Results) -> dict[str, bytes]:
        parts = "".join(f"<details><summary>part {n}</summary>{numbers}</details>" for n in numbers)
        head = '<html><head><link rel="icon" href="data:,"></head><body>'
        return {"index.html": f"{head}<main><section>{parts}</section></main></body></html>".encode()}

    site = LiveSite(tmp_path, render)
    site.refresh()
    server = LiveServer("127.0.0.1", 0, lambda: site.edition)
    with server.serving():
        page.goto(server.address)
        page.get_by_text("part 3").click()
        numbers[:] = [1, 2, 3]
        (tmp_path / "new.json").write_text("{}")
        site.refresh()
        expect(page.get_by_text("part 1")).to_be_visible()
        expect(page.locator("main details[open]")).to_have_text("part 3[1, 2, 3]")


def test_waiting_for_the_first_round(page: Page, tmp_path: Path) -> None:
    site = LiveSite(tmp_path, live_pages("nothing yet"))
    site.refresh()
    server = LiveServer("127.0.0.1", 0, lambda: site.edition)
    with server.serving():
        page.goto(server.address)
        expect(page.get_by_role("heading", name="Waiting for the first round")).to_be_visible()
        growing = GrowingRun(tmp_path, [0.25, 0.5, 0.75])
        growing.grow(1)
        site.refresh()
        expect(page.get_by_role("heading", name="Waiting for the first round")).to_have_count(0)
        expect(page.get_by_role("navigation").get_by_role("link", name="Runs")).to_be_visible()
        growing.finish()
        site.refresh()
        expect(page.get_by_role("row").filter(has_text="75.0")).to_be_visible()


def test_a_damaged_run_is_a_notice(page: Page, view: View) -> None:
    page.goto(view.address)
    expect(bar(page)).to_contain_text("1 in progress")
    (view.growing.path / "run.json").write_text("{")
    view.site.refresh()
    bar(page).get_by_text("1 notice").click()
    expect(bar(page).get_by_role("listitem")).to_contain_text(f"{view.growing.path.name}/run.json is damaged")


def test_a_pause(page: Page, view: View) -> None:
    page.goto(view.address)
    expect(bar(page)).to_contain_text("98 of 102 rounds")
    bar(page).get_by_role("button", name="Pause").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    view.record(3)
    page.wait_for_timeout(2500)  # longer than a page waits between two questions
    assert asked == []
    bar(page).get_by_role("button", name="Go on").click()
    expect(bar(page)).to_contain_text("99 of 102 rounds")


def test_the_page_says_that_the_server_is_gone(context: BrowserContext, view: View) -> None:
    page = context.new_page()  # not the one that notices failed requests
    page.goto(view.address)
    expect(bar(page)).to_contain_text(re.compile(r"last updated \d"))
    port = view.server.server_address[1]
    view.server.shutdown()
    view.server.server_close()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    with LiveServer("127.0.0.1", port, lambda: view.site.edition).serving():
        expect(page.get_by_role("alert")).to_have_count(0)
