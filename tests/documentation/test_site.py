"""The documentation site: built once, without a warning; complete, local, and with every link leading somewhere."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import silobench as sb
from commands import run_code
from documentation.blocks import ROOT

pytest.importorskip("sphinx")
DOCS = ROOT / "docs"
_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
# Sphinx looks for the stem of each word on each page, and millions of nodes that live to the end are searched for
# garbage: a quarter of the time.
_BUILD = """
import functools, gc, sys

from snowballstemmer.basestemmer import BaseStemmer
from sphinx.cmd.build import main

BaseStemmer.stemWord = functools.cache(BaseStemmer.stemWord)
gc.disable()
sys.exit(main(sys.argv[1:]))
"""


class _Page(HTMLParser):
    """What a page loads, what it links to, and the places that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        options = dict(attrs)
        self.places |= {options[key] or "" for key in ("id", "name") if options.get(key)}
        if options.get(_LOADED.get(tag, "")) and "preconnect" not in (options.get("rel") or ""):
            self.loads.append(options[_LOADED[tag]] or "")
        if tag == "a" and options.get("href"):
            self.links.append(options["href"] or "")


def test_the_site_is_whole_and_local(tmp_path: Path) -> None:
    """It is built once, as `make docs` builds it, and everything is checked on it: a build takes some seconds."""
    _build(tmp_path)
    pages = {file: _Page(file.read_text(encoding="utf-8")) for file in tmp_path.rglob("*.html")}
    _need_every_page(tmp_path, pages)
    _need_local(tmp_path, pages)
    _need_targets(pages)
    _need_public_names(tmp_path / "api.html")


def _build(out: Path) -> None:
    """Build the site as `make docs` does, in a process of its own: autodoc changes the signatures of functions."""
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", "-d", out / ".trees"]
    run_code(_BUILD, *options, DOCS, out)


def _need_every_page(site: Path, pages: dict[Path, _Page]) -> None:
    navigation = pages[site / "index.html"].links
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html")
        assert (site / name).is_file()
        assert str(name) in navigation or name == Path("index.html"), f"{name} is in no toctree of docs/index.md"


def _need_local(site: Path, pages: dict[Path, _Page]) -> None:
    for file, page in pages.items():
        for source in page.loads:
            target = re.sub(r"[?#].*", "", source)
            is_here = not target or source.startswith("data:") or (file.parent / unquote(target)).resolve().is_file()
            assert is_here, f"{file.name} loads {source}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def _need_targets(pages: dict[Path, _Page]) -> None:
    places = {file.resolve(): page.places for file, page in pages.items()}
    for file, page in pages.items():
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            target, _, place = link.partition("#")
            there = (file.parent / unquote(target)).resolve() if target else file.resolve()
            assert there.is_file(), f"{file.name} links to {link}"
            assert not place or there not in places or unquote(place) in places[there], f"{file.name} links to {link}"


def _need_public_names(file: Path) -> None:
    page = file.read_text(encoding="utf-8")
    places = _Page(page).places
    missing = [name for name in sb.__all__ if name != "__version__" and f"silobench.{name}" not in places]
    assert not missing
    described = re.findall(r'id="silobench\.(\w+)">.*?</dt>\s*<dd>(.*?)</dd>', page, re.DOTALL)
    empty = [name for name, text in described if not re.sub(r"<[^>]+>", "", text).strip()]
    assert not empty, "without a docstring"


def test_a_name_without_a_group_is_not_lost() -> None:
    names = runpy.run_path(str(DOCS / "api_names.py"))
    assert names["group_of"]("method.algorithms") == "Algorithms"
    assert names["group_of"]("methods") == names["OTHERS"]
    assert set(names["public_names"]()) | {"__version__"} == set(sb.__all__)


def test_the_pictures_are_those_that_the_example_draws(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "examples/documentation_pictures.py"))["main"](tmp_path)
    drawn = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.glob("*.svg")}
    assert drawn == {file.name: file.read_text(encoding="utf-8") for file in (DOCS / "pictures").glob("*.svg")}
    for name, text in drawn.items():
        assert "<title>" in text, f"{name} has no text alternative"
        assert len(text) < 10_000


def test_every_partition_has_a_line_on_its_page() -> None:
    from silobench.cli.names import built_in

    page = (DOCS / "choose-a-skew.md").read_text(encoding="utf-8")
    for row in built_in("partitions"):
        name = row["name"].split("(")[0]
        assert re.search(rf"`[^`]*\b{name}\b", page), f"docs/choose-a-skew.md does not have {name}"
