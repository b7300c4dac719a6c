"""Records of somebody who means harm, in a real browser: nothing of them runs, and our own pages keep their policy."""

import shutil
from pathlib import Path

import pytest
from hostile import MARKUP, TEXTS, write_hostile
from playwright.sync_api import BrowserContext, Page, expect

from silobench.analysis.leaderboard import leaderboard
from silobench.cli.report import write_report
from silobench.live.pages import live_pages
from silobench.live.server import LiveServer
from silobench.live.site import LiveSite
from silobench.report.leaderboard import write_board
from silobench.runs.results import read_results

# What a reader would have to notice: a violation of the policy, or a handler that a name has become.
WATCH = """
window.violations = [];
const note = (event) => window.violations.push(event.effectiveDirective + " " + event.blockedURI);
addEventListener("securitypolicyviolation", note, true);
for (const name of ["alert", "confirm", "prompt"]) window[name] = () => window.violations.push("called " + name);
"""
HANDLERS = "[onerror], [onload], [onfocus], [onclick], [onmouseover], [autofocus]"
LINKS = "all => all.map((one) => one.href).filter((address) => !/^(file|http:..127.0.0.1|data):?/.test(address))"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hostile(tmp_path_factory.mktemp("hostile") / "runs")


@pytest.fixture(scope="module")
def pages(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The report as a folder and as one file, and the leaderboard."""
    results, folder = read_results(hostile), tmp_path_factory.mktemp("pages")
    site = write_report(results, folder / "site", MARKUP).parent
    alone = write_report(results, folder / "alone.html", MARKUP)
    board = write_board([leaderboard(results.runs)], hostile / "board.html", MARKUP)
    return [*sorted(site.rglob("*.html")), alone, board]


@pytest.fixture
def context(context: BrowserContext) -> BrowserContext:
    context.add_init_script(WATCH)
    return context


def needs_harmless(page: Page, name: str) -> str:
    """Check that nothing on a page came from a name; return its text."""
    assert page.evaluate("window.violations") == [], name
    assert page.locator(HANDLERS).count() == 0, name
    assert page.locator("img:not(.chart-picture), iframe, object, embed, base, form[action]").count() == 0, name
    assert page.eval_on_selector_all("a[href]", LINKS) == [], name
    assert page.locator("script:not([src]):not([type='application/json'])").count() in (0, 3, 4), name
    return str(page.evaluate("document.body.textContent"))


def test_pages_from_disk(page: Page, pages: list[Path]) -> None:
    texts = ""
    for file in pages:
        page.goto(file.as_uri())
        expect(page.locator("[data-theme-toggle]")).to_be_visible()  # our own scripts run
        texts += needs_harmless(page, file.name)
        for chart in page.locator(".chart-body").all()[:4]:  # tips show names too
            chart.focus()
            page.keyboard.press("ArrowRight")
        assert page.evaluate("window.violations") == [], file.name
    for text in TEXTS[:3]:
        assert text in texts
    assert "\\u202egnp.exe" in texts
    assert "\u202e" not in texts


def test_the_live_view(page: Page, hostile: Path) -> None:
    site = LiveSite(hostile, live_pages(MARKUP))
    site.refresh()
    server = LiveServer("127.0.0.1", 0, lambda: site.edition)
    with server.serving():
        for name in ("", "runs.html", "partitions.html", "classes.html"):
            page.goto(server.address + name)
            expect(page.get_by_role("complementary", name="Live view")).to_be_visible()
            assert MARKUP in needs_harmless(page, name)
        page.goto("about:blank")  # so that no request is cut off


@pytest.fixture
def changed(pages: list[Path], tmp_path: Path) -> Path:
    """A copy of the report of one file into which somebody has put code, as if a name were not escaped."""
    file = tmp_path / "alone.html"
    shutil.copy(pages[-2], file)
    code = "<script>document.title = 'owned'</script><img src=data:, onerror=\"document.title = 'owned'\">"
    style = "<style>h1 { display: none }</style><p style='display: none'>styled</p>"
    file.write_text(file.read_text(encoding="utf-8").replace("<main", f"{code}{style}<main", 1), encoding="utf-8")
    return file


def test_the_policy_stops_code_that_is_not_ours(context: BrowserContext, changed: Path) -> None:
    page = context.new_page()
    page.goto(changed.as_uri())
    expect(page.locator("[data-theme-toggle]")).to_be_visible()
    assert "owned" not in page.title()
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_text("styled", exact=True)).to_be_visible()
    stopped = {violation.split()[0] for violation in page.evaluate("window.violations")}
    assert stopped == {"script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr"}
