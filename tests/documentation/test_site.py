"""The documentation site: built once, without a warning; complete, local, and with every link leading somewhere."""

import contextlib
import io
import re
import runpy
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import silobench as sb
from documentation.blocks import ROOT

pytest.importorskip("sphinx")
DOCS = ROOT / "docs"
_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: a warning is an error."""
    from sphinx.cmd.build import main

    out, path, messages = tmp_path_factory.mktemp("site"), list(sys.path), io.StringIO()
    with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(messages):
        code = main(["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", str(DOCS), str(out)])
    sys.path[:] = path
    assert code == 0, messages.getvalue()
    return out


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, _Page]:
    return {file: _Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    navigation = _Page((site / "index.html").read_text(encoding="utf-8")).links
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html")
        assert (site / name).is_file()
        assert str(name) in navigation or name == Path("index.html"), f"{name} is in no toctree of docs/index.md"


def test_nothing_is_loaded_from_elsewhere(site: Path, built: dict[Path, _Page]) -> None:
    for file, page in built.items():
        for source in page.loads:
            target = re.sub(r"[?#].*", "", source)
            is_here = source.startswith("data:") or (file.parent / unquote(target)).resolve().is_file()
            assert is_here or target in ("index.html", "genindex.html", "search.html"), f"{file.name} loads {source}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_link_leads_to_a_page_and_a_place(built: dict[Path, _Page]) -> None:
    places = {file.resolve(): page.places for file, page in built.items()}
    for file, page in built.items():
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            target, _, place = link.partition("#")
            there = (file.parent / unquote(target)).resolve() if target else file.resolve()
            assert there.is_file(), f"{file.name} links to {link}"
            assert not place or there not in places or unquote(place) in places[there], f"{file.name} links to {link}"


def test_every_public_name_is_described(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
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
