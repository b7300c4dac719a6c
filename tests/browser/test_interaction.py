"""What a reader does with tables and charts, with a mouse and with the keys alone."""

import csv
import io
import re
from importlib import resources
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from study import ALGORITHMS, CLASSES, IMAGE


@pytest.fixture(params=["pages", "one file"])
def report(request: pytest.FixtureRequest) -> str:
    """The address of the folder of pages, or of the report as one file, up to the name of a page."""
    if request.param == "pages":
        return str(request.getfixturevalue("site").as_uri()) + "/{}.html"
    return str(request.getfixturevalue("alone").as_uri()) + "#{}"


def part(page: Page, report: str, name: str) -> Locator:
    """Open a page of the report and return what it shows, or the part of the one file that shows it."""
    page.goto(report.format(name))
    return page.locator(f"#{name}" if "#" in report else "main")


COLUMN = """(table, name) => {
  const place = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent.trim() === name);
  const rows = [...table.tBodies[0].rows].filter((row) => row.checkVisibility());
  return rows.map((row) => row.cells[place].textContent.trim());
}"""


def column(holder: Locator, name: str) -> list[str]:
    """Return the visible cells of a column, from the top."""
    cells: list[str] = holder.locator("table").evaluate(COLUMN, name)
    return cells


def runs_table(page: Page, report: str) -> Locator:
    holder = part(page, report, "runs").locator(".table").first
    expect(holder.get_by_role("searchbox")).to_be_visible()
    return holder


# --- tables -------------------------------------------------------------------------------------------


def test_sorting(page: Page, report: str) -> None:
    holder = runs_table(page, report)
    head = holder.get_by_role("columnheader", name="score")
    before = column(holder, "score")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    scores = [float(text) for text in column(holder, "score")]
    assert scores == sorted(map(float, before)) != list(map(float, before))
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert [float(text) for text in column(holder, "score")] == scores[::-1]
    other = holder.get_by_role("columnheader", name="algorithm")
    other.get_by_role("button").press("Space")
    expect(other).to_have_attribute("aria-sort", "ascending")
    expect(holder.locator("[aria-sort]")).to_have_count(1)
    assert column(holder, "algorithm") == sorted(column(holder, "algorithm"))


@pytest.mark.parametrize(
    "texts",
    [("2.9x", "3.2x", "3.9x", "12.5x"), ("0.9 kB", "2.5 kB", "1.2 MB"), ("900 ms", "1.5 s", "2 min"), ("1e-05", "0.1")],
)
def test_numbers_are_sorted_by_their_size(page: Page, texts: tuple[str, ...]) -> None:
    rows = "".join(f"<tr><th>a</th><td>{text}</td></tr>" for text in texts[::-1])
    table = f"<table><thead><tr><th>name</th><th>number</th></tr></thead><tbody>{rows}</tbody></table>"
    script = (resources.files("silobench.report") / "assets" / "tables.js").read_text()
    page.set_content(f'<script>{script}</script><div class="table"><div class="scroll">{table}</div></div>')
    page.get_by_role("button", name="number").click()
    assert page.locator("td").all_inner_texts() == list(texts)


def test_a_link_to_a_run_unfolds_it(page: Page, alone: Path) -> None:
    page.goto(alone.as_uri())
    link = page.locator("#runs tbody a").last
    link.click()
    expect(page.locator(f"details[id='{link.get_attribute('href').removeprefix('#')}']")).to_have_attribute("open", "")


def test_filtering(page: Page, report: str) -> None:
    holder = runs_table(page, report)
    total = len(column(holder, "run"))
    holder.get_by_role("searchbox").fill("SCAFFOLD  label-count")
    expect(holder.get_by_role("status")).to_have_text(f"3 of {total} rows")
    assert set(column(holder, "algorithm")) == {"scaffold"}
    holder.get_by_role("searchbox").press("Control+a")
    holder.get_by_role("searchbox").press("Delete")
    assert len(column(holder, "run")) == total
    holder.get_by_role("searchbox").fill("<script>")  # a filter is a text too
    expect(holder.get_by_role("status")).to_have_text(re.compile(r"^\d+ of \d+ rows$"))


def test_copying_as_csv(page: Page, site: Path) -> None:
    """The clipboard gets the table as it is shown: sorted, filtered, and with every odd name in quotation marks."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    holder = runs_table(page, str(site.as_uri()) + "/{}.html")
    holder.get_by_role("searchbox").fill("fednova iid")
    holder.get_by_role("columnheader", name="seed").get_by_role("button").click()
    button = holder.get_by_role("button", name="Copy as CSV")
    button.focus()
    page.keyboard.press("Enter")
    expect(holder.get_by_role("button", name="Copied")).to_be_visible()
    rows = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert [(row["seed"], row["algorithm"]) for row in rows] == [(str(seed), "fednova") for seed in range(3)]
    assert len({len(row) for row in rows}) == 1
    expect(button).to_be_visible()


def test_wide_tables_say_that_they_scroll(page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    holder = runs_table(page, str(site.as_uri()) + "/{}.html")
    expect(holder.get_by_text("scrolls sideways")).to_be_visible()
    region = holder.locator(".scroll")
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("one => one.scrollLeft > 0", arg=region.element_handle())
    assert page.evaluate("scrollX") == 0


# --- charts -------------------------------------------------------------------------------------------


def curves(page: Page, report: str) -> Locator:
    charts = part(page, report, "curves").locator(".chart[data-chart=line]")
    chart = charts.filter(has=page.get_by_role("button", name="fednova")).first
    chart.scroll_into_view_if_needed()
    expect(chart.get_by_role("button", name="scaffold")).to_be_visible()
    return chart


def series(chart: Locator) -> Locator:
    return chart.locator(".chart-marks .series:visible")


def test_toggling_series(page: Page, report: str) -> None:
    chart = curves(page, report)
    shown = series(chart).count()
    button = chart.get_by_role("button", name="scaffold")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert series(chart).count() < shown
    assert "scaffold" not in tip_at(page, chart, 0.5)
    button.focus()
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert series(chart).count() == shown


def tip_at(page: Page, chart: Locator, part: float) -> str:
    """Return what is shown when the pointer is at a part of the width of a chart."""
    plot = chart.locator(".chart-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + part * box["width"], box["y"] + 40)
    tip = page.locator(".chart-tip")
    expect(tip).to_be_visible()
    return tip.inner_text()


def test_values_under_the_pointer(page: Page, report: str) -> None:
    chart = curves(page, report)
    first, last = tip_at(page, chart, 0.01), tip_at(page, chart, 0.99)
    assert first.startswith("round 1")
    assert last.startswith("round 8")
    for name in ALGORITHMS:
        assert name in last
    assert len(set(re.findall(r"\d+\.\d+", first)) & set(re.findall(r"\d+\.\d+", last))) < 4
    page.mouse.move(1, 1)
    expect(page.locator(".chart-tip")).to_be_hidden()


def test_zooming_with_the_mouse(page: Page, report: str) -> None:
    chart = curves(page, report)
    box = chart.locator(".chart-plot").bounding_box()
    assert box is not None
    whole = chart.locator(".chart-marks").get_attribute("viewBox")
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 80, steps=3)
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 80, steps=3)
    page.mouse.up()
    button = chart.get_by_role("button", name="Show all")
    expect(button).to_be_visible()
    assert chart.locator(".chart-marks").get_attribute("viewBox") != whole
    # Rounds go from 1 to 8: from 40% to 80% of the width are rounds 3.8 to 6.6.
    assert tip_at(page, chart, 0.02).startswith("round 4")
    assert tip_at(page, chart, 0.98).startswith(("round 6", "round 7"))
    button.click()
    expect(button).to_be_hidden()
    assert chart.locator(".chart-marks").get_attribute("viewBox") == whole


def test_a_chart_with_the_keys_alone(page: Page, report: str) -> None:
    chart = curves(page, report)
    body, voice = chart.locator(".chart-body"), chart.locator("[aria-live]")
    chart.get_by_role("button", name="scaffold").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if body.evaluate("one => one === document.activeElement"):
            break
    expect(body).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(voice).to_have_text(re.compile("^round 1: .*fedavg"))
    expect(page.locator(".chart-tip")).to_be_visible()
    page.keyboard.press("End")
    expect(voice).to_have_text(re.compile("^round 8: .*scaffold"))
    page.keyboard.press("ArrowLeft")
    expect(voice).to_have_text(re.compile("^round 7: "))
    page.keyboard.press("+")
    expect(chart.get_by_role("button", name="Show all")).to_be_visible()
    page.keyboard.press("Escape")
    expect(chart.get_by_role("button", name="Show all")).to_be_hidden()
    page.keyboard.press("Tab")
    expect(page.locator(".chart-tip")).to_be_hidden()


def test_names_in_tips_are_texts(page: Page, site: Path) -> None:
    """A heatmap tells which party and class a field belongs to, whatever their names are."""
    page.goto((site / "partitions.html").as_uri())
    chart = page.locator(".chart").filter(has=page.locator("desc", has_text="alert(1)")).first
    chart.locator(".chart-body").focus()
    page.keyboard.press("Home")
    expect(page.locator(".chart-tip")).to_contain_text(IMAGE)
    expect(page.locator(".chart-tip")).to_contain_text(CLASSES[0])
    expect(page.locator(".chart-tip img, .chart-tip script")).to_have_count(0)


# --- the order of the keyboard ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index", "curves", "runs", "statistics"])
def test_everything_can_be_reached_with_the_tab_key(page: Page, site: Path, name: str) -> None:
    page.goto((site / f"{name}.html").as_uri())
    controls = page.locator("a[href]:visible, button:visible, input:visible, summary:visible, [tabindex='0']:visible")
    expected = controls.count()
    reached = page.evaluate(TAB_ORDER)
    assert len(reached) == expected
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"  # a reader sees where the focus is


# The elements that the Tab key visits: visible, enabled, and none that jumps the queue.
TAB_ORDER = """() => [...document.querySelectorAll("a[href], button, input, summary, [tabindex]")].filter((one) => {
  const order = one.tabIndex;
  if (order > 0) throw new Error(`a positive tabindex: ${one.outerHTML}`);
  return order === 0 && one.checkVisibility() && !one.disabled;
}).map((one) => one.tagName)"""
