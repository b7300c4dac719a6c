"""Pictures of every page of a site, to look at: wide and narrow, light and dark.

    python tests/browser/screenshots.py SITE OUT [--only '*index*'] [--whole]

SITE is a folder of HTML files, one HTML file, or the address of a live view. OUT gets one PNG per page, width and
theme, and one of the page as it is printed. Messages of the browser's console are printed: there should be none.
"""

import argparse
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from chromium import MISSING, executable, launch_options
from playwright.sync_api import Browser, Page, sync_playwright

WIDTHS = {"wide": 1400, "phone": 390}
THEMES = ("light", "dark")
TALLEST = 4000  # pixels of a picture that shows a whole page


def addresses(site: str) -> dict[str, str]:
    """Return the address of every page of a site, by a name for its picture."""
    if site.startswith("http"):
        return {"live": site}
    root = Path(site).resolve()
    if root.is_file():
        return {root.stem: root.as_uri()}
    pages = sorted(root.rglob("*.html"))
    return {"-".join(page.relative_to(root).with_suffix("").parts): page.as_uri() for page in pages}


def views(browser: Browser) -> Iterator[tuple[str, Page]]:
    """Yield a page for every width and theme, and one for print, each with the name of the view."""
    for size, width in WIDTHS.items():
        for theme in THEMES:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
            yield f"{size}-{theme}", context.new_page()
            context.close()
    context = browser.new_context(viewport={"width": 800, "height": 1100})
    page = context.new_page()
    page.emulate_media(media="print")
    yield "print", page
    context.close()


def take(page: Page, address: str, file: Path, whole: bool) -> None:
    """Open an address and write its picture; say where it is wider than the window."""
    page.goto(address)
    page.wait_for_load_state("load")
    width, height = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    size = page.viewport_size or {"width": 0, "height": 0}
    if width > size["width"]:
        print(f"{file.name}: the page is {width} pixels wide, in a window of {size['width']}")
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height, TALLEST) if whole else size["height"]}
    page.screenshot(path=file, full_page=whole, clip=clip)


def main() -> None:
    parser = argparse.ArgumentParser(description="Take pictures of every page of a site.")
    parser.add_argument("site", help="a folder of HTML files, one HTML file, or an address")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--only", default="*", help="only pages whose name matches this glob, such as 'index'")
    parser.add_argument("--whole", action="store_true", help=f"the whole page, up to {TALLEST} pixels high")
    choices = parser.parse_args()
    if executable() is None:
        raise SystemExit(MISSING)
    pages = {name: address for name, address in addresses(choices.site).items() if fnmatch(name, choices.only)}
    if not pages:
        raise SystemExit(f"{choices.site} has no page that matches '{choices.only}'")
    choices.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        for view, page in views(browser):
            page.on("console", lambda message: print(f"console: {message.text}"))
            page.on("pageerror", lambda error: print(f"error: {error}"))
            for name, address in pages.items():
                take(page, address, choices.out / f"{name}-{view}.png", choices.whole)
        browser.close()


if __name__ == "__main__":
    main()
