"""Every page of a report in a real browser: quiet, readable on every screen, and safe with every name."""

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from chromium import AXE, MISSING_AXE
from playwright.sync_api import Browser, Page, expect
from study import CLASSES, IMAGE, PARTIES

from silobench.analysis.tables import Table, entries
from silobench.report.charts.page import markup
from silobench.report.charts.values import (
    Axis,
    DensityChart,
    DotChart,
    Dots,
    Heatmap,
    Line,
    LineChart,
    Mark,
    Point,
    ScatterChart,
    Value,
)
from silobench.report.rendering import environment

WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def pages_of(site: Path) -> list[Path]:
    """Return one page of every kind: all but those of runs, and the pages of two runs."""
    runs = sorted((site / "runs").glob("*.html"))
    return [*sorted(site.glob("*.html")), runs[0], runs[-1]]


def opened(page: Page, site: Path) -> Iterator[str]:
    """Open every page, and yield its name."""
    for file in pages_of(site):
        page.goto(file.as_uri())
        yield file.name


def test_pages_are_quiet(page: Page, site: Path) -> None:
    """No error, no dialog, no request but for files of the site: the fixture `page` looks for them."""
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    for name in opened(page, site):
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("[data-theme-toggle]")).to_be_visible()  # the scripts have run
        assert page.locator("main").inner_text().strip(), name
    assert {address for address in addresses if not address.startswith(site.as_uri())} == set()
    assert {address.rpartition("/")[2] for address in addresses} >= {"site.css", "tables.js", "charts.js"}


def test_every_link_leads_somewhere(page: Page, site: Path) -> None:
    targets = set()
    for _ in opened(page, site):
        links = page.eval_on_selector_all("a[href]", "all => all.map((one) => one.href.split('#')[0])")
        anchors = page.eval_on_selector_all("a[href^='#']", "all => all.map((one) => one.getAttribute('href'))")
        targets |= {link.removeprefix("file://") for link in links}
        assert [anchor for anchor in anchors if anchor != "#" and not page.locator(anchor).count()] == []
    assert len(targets) > 40  # each run has a page
    assert [target for target in targets if not Path(page.evaluate("decodeURI", target)).is_file()] == []


def test_names_are_shown_as_text(page: Page, site: Path) -> None:
    """Names of classes and parties that are code in other places are texts, on every page and in every tip."""
    texts = ""
    for name in opened(page, site):
        texts += page.evaluate("document.body.textContent")
        ours = page.locator("script[src], script.chart-data").count()
        assert page.locator("script").count() == ours, name
        assert page.locator("img, iframe, object, embed").count() == 0, name
        assert page.locator("[onerror], [onload], [onclick]").count() == 0, name
    for odd in (*CLASSES, IMAGE, PARTIES[1]):
        assert odd in texts


def test_nothing_scrolls_sideways_on_a_phone(page: Page, site: Path) -> None:
    page.set_viewport_size(PHONE)
    for name in opened(page, site):
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1] == PHONE["width"], name


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_navigation_stays_visible(page: Page, site: Path, size: dict[str, int]) -> None:
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.goto((site / "index.html").as_uri())
    page.evaluate("scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' })")
    assert page.evaluate("scrollY") > 200
    link = page.get_by_role("navigation").get_by_role("link", name="Curves")
    expect(link).to_be_in_viewport()
    link.click()
    expect(page).to_have_title("Curves · a study")
    expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_have_text("Curves")


def test_the_first_tab_stop_skips_the_navigation(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_light_and_dark(page: Page, site: Path) -> None:
    """Pages follow the system until a reader chooses, and the choice stays on other pages."""
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    page.goto((site / "index.html").as_uri())
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == light
    page.get_by_role("link", name="Curves").click()
    expect(page).to_have_title("Curves · a study")
    page.wait_for_load_state()  # the title comes before the body
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Dark").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(ground) == dark


# What a printed page would cut off or leave out.
LOST_IN_PRINT = """() => {
  const lost = [];
  for (const one of document.querySelectorAll("main *")) {
    if (one.closest("svg, script, .tools, .copied > button, .chart-live, .chart-hint, .chart-reset")) continue;
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    const isClipping = /auto|scroll|hidden/.test(style.overflowX);
    if (!one.checkVisibility() && one.textContent.trim()) lost.push(["hidden", one]);
    else if (isClipping && one.scrollWidth > one.clientWidth + 1) lost.push(["clipped", one]);
    else if (box.right > innerWidth + 1) lost.push(["beyond the edge", one]);
  }
  return lost.map(([what, one]) => `${what}: ${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 50)}`);
}"""


def test_print_shows_everything(page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 957, "height": 1350})  # A4 without margins at three quarters: so Chromium prints
    page.emulate_media(media="print", color_scheme="dark")
    for name in opened(page, site):
        assert page.evaluate(LOST_IN_PRINT) == [], name
        expect(page.get_by_role("navigation")).to_be_hidden()
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(23, 33, 43)", name


# Pictures that someone who does not see them knows nothing about.
UNTOLD = """() => [...document.querySelectorAll("svg")].filter((one) => {
  if (one.closest("[aria-hidden=true]") || one.parentElement.closest("svg")) return false;
  const name = one.getAttribute("aria-label") || one.querySelector(":scope > title")?.textContent;
  const text = one.querySelector(":scope > desc")?.textContent;
  return one.getAttribute("role") !== "img" || !name || !text || text.length < 20;
}).map((one) => one.outerHTML.slice(0, 200))"""


def test_every_picture_has_a_text(page: Page, site: Path) -> None:
    pictures = 0
    for name in opened(page, site):
        assert page.evaluate(UNTOLD) == [], name
        pictures += page.locator("svg[role=img]").count()
    assert pictures > 20


needs_axe = pytest.mark.skipif(not AXE.is_file(), reason=MISSING_AXE)


@needs_axe
def test_no_barriers(page: Page, site: Path) -> None:
    for name in opened(page, site):
        assert barriers(page) == [], name


@needs_axe
def test_contrast_in_the_dark(page: Page, site: Path) -> None:
    page.emulate_media(color_scheme="dark")
    for name in opened(page, site):
        assert barriers(page, "color-contrast") == [], name


@needs_axe
@pytest.mark.parametrize("name", ["index", "curves", "runs"])
def test_no_barriers_on_a_phone(page: Page, site: Path, name: str) -> None:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto((site / f"{name}.html").as_uri())
    assert barriers(page) == []


@needs_axe
def test_barriers_are_found(page: Page) -> None:
    page.set_content("<html><title>t</title><p style='color: #bbb; background: #fff'>pale</p><button></button></html>")
    assert [one.partition(":")[0] for one in barriers(page)] == ["button-name", "color-contrast", "html-has-lang"]


def barriers(page: Page, *rules: str) -> list[str]:
    """Return what axe-core finds that is serious or critical; only by some rules, if they are named."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
    violations = page.evaluate("(options) => axe.run(document, options).then((found) => found.violations)", options)
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:150] for node in one['nodes'][:3]]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
    ]


def test_pages_work_without_scripts(browser: Browser, site: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((site / "curves.html").as_uri())
        expect(page.locator("svg[role=img]").first).to_be_visible()
        page.goto((site / "runs.html").as_uri())
        expect(page.locator("tbody tr").first).to_be_visible()


def test_turned_names_are_whole(page: Page) -> None:
    """Long names below an axis start inside of what can be scrolled, on a phone too."""
    names = [f"quantity-dirichlet(beta=0.{place})" for place in range(4)]
    score = Axis("score", low=0, high=1)
    curve = LineChart("by skew", Axis("skew", names=names), score, [Line("fedavg", [Point(0, 0.5), Point(3, 0.7)])])
    marks = [Mark("fedavg", 0, 0.5), Mark("scaffold", 3, 0.7)]
    spots = ScatterChart("by choice", Axis("skew", names=names), score, marks)
    fields = Heatmap("by pair", ["a"], names, [[0.1, 0.2, 0.3, 0.4]])
    style = (resources.files("silobench.report") / "assets" / "charts.css").read_text()
    page.set_content(f"<style>{style}</style>{''.join(map(markup, (curve, spots, fields)))}")
    for width in (320, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for chart in page.locator(".chart").all():
            start = chart.locator(".chart-body").evaluate("body => body.getBoundingClientRect().left")
            ends = chart.locator(".turned").evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")
            assert len(ends) == len(names)
            assert min(ends) >= start


def test_numbers_at_axes_are_whole(page: Page) -> None:
    """No number at an axis is cut off, on a phone too: not at an end, and not where a part has more digits."""
    error = Axis("MAE", low=0, high=4e6)
    chart = DotChart("t", ["a", "b"], error, [Dots("", [Value(0.0), Value(4e6)])])
    spots = ScatterChart("t", error, Axis("loss"), [Mark("a", 0, 1e14), Mark("b", 4e6, 0)])
    odds = [("B", 0.1), ("equal", 0.1), ("A", 0.8)]
    density = DensityChart("t", Axis("A - B"), [Point(at * 1e6, 4 - abs(at)) for at in range(-4, 5)], (-2e6, 2e6), odds)
    steps = [Point(at, 95 + 0.01 * at) for at in range(20)]
    line = LineChart(
        "t", Axis("round", scale="whole"), Axis("accuracy", "percent", low=0, high=100), [Line("a", steps)]
    )
    assets = resources.files("silobench.report") / "assets"
    parts = "".join(map(markup, (chart, spots, density, line)))
    style, script = ((assets / name).read_text() for name in ("charts.css", "charts.js"))
    page.set_content(f"<style>{style}</style>{parts}<script>{script}</script>")
    for width in (320, 900):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(CUT_OFF) == []
    body = page.locator(".chart-line .chart-body")
    body.focus()
    for _ in range(3):
        page.keyboard.press("+")
    expect(page.locator(".chart-line")).to_have_class(re.compile("is-zoomed"))
    expect(page.locator(".chart-line .chart-left")).to_contain_text("95.1")
    assert page.evaluate(CUT_OFF) == []


# Numbers that are not inside of what is shown of their chart, and cannot be reached by scrolling to the right.
CUT_OFF = """() => [...document.querySelectorAll(".chart-body")].flatMap((body) => {
  const { left, right } = body.getBoundingClientRect(), more = body.scrollWidth - body.clientWidth;
  const boxes = [...body.querySelectorAll("text.tick")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  return boxes.filter(([, box]) => box.left < left || box.right > right + more).map(([text]) => text);
})"""


# Numbers whose digits are on two lines, so that each part looks like a number.
BROKEN = """() => [...document.querySelectorAll("tbody td.number")].filter((one) => {
  const text = document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode(), range = document.createRange();
  const tops = [...text.data].map((letter, at) => {
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect().top;
  });
  return tops.some((top, at) => at && top !== tops[at - 1] && /[\\d.]{2}/.test(text.data.slice(at - 1, at + 1)));
}).map((one) => one.textContent)"""


def test_printed_numbers_are_on_one_line(page: Page) -> None:
    columns = ["method", *(f"c{place}" for place in range(8))]
    table = Table("t", columns, [entries("fedavg", *["1380000 ± 108000"] * 8) for _ in range(3)])
    style = (resources.files("silobench.report") / "assets" / "site.css").read_text()
    markup_of = environment().get_template("macros.html").module.table
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    page.set_content(f"<style>{style}</style><main>{markup_of(table)}</main>")
    assert page.evaluate(BROKEN) == []


def test_a_plot_that_is_wider_than_the_page_says_that_it_scrolls(page: Page) -> None:
    numbers = [[88.5 + row + column for column in range(11)] for row in range(4)]
    tests = [*map(str, range(10)), "all"]
    texts = [[f"{value}" for value in row] for row in numbers]
    chart = Heatmap("cross-test", ["a", "b", "c", "d"], tests, numbers, texts=texts, apart=1)
    assets = resources.files("silobench.report") / "assets"
    styles = "".join(f"<style>{(assets / name).read_text()}</style>" for name in ("site.css", "charts.css"))
    page.set_viewport_size({"width": 380, "height": 844})
    page.set_content(f"{styles}{markup(chart)}<script>{(assets / 'charts.js').read_text()}</script>")
    hint = page.locator(".chart-hint")
    expect(hint).to_be_visible()
    expect(hint).to_have_text("scrolls sideways →")
    touch = "plot => getComputedStyle(plot).touchAction"
    assert page.locator(".chart-plot").evaluate(touch) == "pan-x pan-y"  # a finger on the plot scrolls it
    page.set_viewport_size({"width": 1400, "height": 900})
    expect(hint).to_be_hidden()
    assert page.locator(".chart-plot").evaluate(touch) == "pan-y"


def test_the_caption_of_a_table_that_scrolls_is_whole_and_stays(page: Page) -> None:
    columns = ["method", *(f"c{place}" for place in range(12))]
    title = "Accuracy of each party on its own test rows, percent (mean ± standard deviation over all of its trials)"
    table = Table(title, columns, [entries("fedavg", *["88.5 ± 10.5"] * 12) for _ in range(3)])
    style = (resources.files("silobench.report") / "assets" / "site.css").read_text()
    markup_of = environment().get_template("macros.html").module.table
    page.set_viewport_size({"width": 380, "height": 844})
    page.set_content(f"<style>{style}</style><main>{markup_of(table)}</main>")
    words = """caption => {
        const range = document.createRange(), box = caption.closest(".scroll").getBoundingClientRect();
        range.selectNodeContents(caption);
        const { left, right } = range.getBoundingClientRect();
        return [left - box.left, box.right - right];
    }"""
    caption = page.locator("caption")
    before = caption.evaluate(words)
    assert min(before) >= 0
    page.locator(".scroll").evaluate("box => { box.scrollLeft = 300; }")
    assert page.locator(".scroll").evaluate("box => box.scrollLeft") == 300
    assert caption.evaluate(words) == before
