"""Pages as text. Every page of silobench has the same frame, styles and scripts, and loads nothing from a network.

One more page, such as a leaderboard, needs a `Page` and a `Frame`:

    frame = Frame("My study", [Link("index.html", "Overview"), Link("board.html", "Leaderboard")], "board.html")
    html = render(Page("board.html", "Leaderboard", [Section("By setting", drawings, table)]), frame)
    files = assets()  # styles and scripts by the path that the page expects them at, such as assets/tables.js

A page with a form of its own has a template that extends ``base.html``, fills the block `content`, and names itself in
`Page.template`. ``macros.html`` has its parts: `table(table)`, `figure(drawing)`, `figures(drawings)`,
`section(section)`, `facts(pairs)` and `code(text)`. Tables get sorting, filters and CSV from ``tables.js`` if they are
in a ``<div class="table">``, as the macro writes them. `Frame(..., is_alone=True)` puts styles and scripts into the
page.
"""

import functools
import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from silobench import __version__
from silobench.report.charts.page import markup
from silobench.report.drawing import Drawing
from silobench.report.page import Page
from silobench.report.table_markup import rows_markup
from silobench.report.table_view import skew_text, view
from silobench.safety.replacing import head_of, need_own
from silobench.safety.texts import visible

STYLES = ("site.css", "charts.css")
SCRIPTS = ("theme.js", "tables.js", "charts.js")  # the first runs before the page is drawn
_GENERATOR = b'<meta name="generator" content="silobench '  # in the head of every page, as base.html writes it
_HEAD = 4096  # bytes of a page that have it


@dataclass(frozen=True)
class Link:
    """An entry of the navigation."""

    href: str
    title: str


@dataclass(frozen=True)
class Frame:
    """What surrounds a page: the name of the site, its navigation, and where its assets are."""

    site: str
    links: Sequence[Link] = ()
    current: str = ""  # the link of the page itself
    root: str = ""  # the way to the folder of the site, such as ../
    is_alone: bool = False  # one file with styles and scripts inside
    live: bool = False  # the page is served, and may ask its server for news
    more_scripts: tuple[str, ...] = ()  # besides those of every page
    more_styles: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title of the window."""
        title = next((link.title for link in self.links if link.href == self.current), "")
        return f"{title} · {self.site}" if title else self.site

    @property
    def scripts(self) -> tuple[str, ...]:
        return (*SCRIPTS, *self.more_scripts)

    @property
    def styles(self) -> tuple[str, ...]:
        return (*STYLES, *self.more_styles)

    @property
    def policy(self) -> str:
        """The content security policy: styles and scripts of the site itself, and nothing else.

        Pages that are opened from disk have no origin in some browsers, so `file:` is named besides `'self'`.
        """
        scripts, styles = (_hashes(names) if self.is_alone else "'self' file:" for names in (self.scripts, self.styles))
        connect = "'self'" if self.live else "'none'"
        return (
            f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; connect-src {connect}; "
            "base-uri 'none'; form-action 'none'"
        )


def render(page: Page, frame: Frame) -> str:
    """Return a page as HTML."""
    template = environment().get_template(page.template)
    return template.render(page=page, frame=frame, **page.content)


def refuse_foreign(path: Path) -> None:
    """Refuse to replace a file that is not a page of silobench."""
    need_own(path, lambda file: _GENERATOR in head_of(file, _HEAD), "a page of silobench")


@functools.cache
def environment() -> Environment:
    """Return the templates with the filters that they use."""
    templates = Environment(
        loader=PackageLoader("silobench.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    templates.filters |= {
        "view": view, "rows": rows_markup, "picture": picture, "sentences": sentences, "skew": skew_text,
    }  # fmt: skip
    templates.globals |= {"version": __version__, "asset": asset}
    return templates


def _shown(value: Any) -> Any:
    """Return a value of a template with hidden characters written out; markup of our own stays as it is."""
    return visible(value) if type(value) is str else value


def picture(drawing: Drawing) -> Markup:
    """Return a chart as a part of a page."""
    return Markup(markup(drawing.chart))


def sentences(note: str) -> list[str]:
    """Return the parts of a note, each as a sentence. The mark of the best is a star on pages.

    >>> sentences("a: the first; b: (one; two)")
    ['a: the first.', 'b: (one; two).']
    """
    parts, depth, start = [], 0, 0
    note = note.replace("* best mean", "★ best mean")
    for place, letter in enumerate(note):
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            parts.append(note[start:place])
            start = place + 1
    parts.append(note[start:])
    return [_sentence(part.strip()) for part in parts if part.strip()]


def _sentence(text: str) -> str:
    is_word = text.partition(" ")[0].isalpha()
    return (text[:1].upper() + text[1:] if is_word else text) + ("" if text.endswith((".", "!", "?")) else ".")


# --- assets -------------------------------------------------------------------------------------------


@functools.cache
def asset(name: str) -> str:
    """Return the text of a style or a script."""
    return (files("silobench.report") / "assets" / name).read_text(encoding="utf-8")


def _hashes(names: Sequence[str]) -> str:
    """Return the digests of styles or scripts in the page, as sources of a policy: no other text is one of them."""
    digests = (hashlib.sha256(asset(name).encode()).digest() for name in names)
    return " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)


def assets() -> dict[str, str]:
    """Return all styles and scripts by the path that pages expect them at."""
    return {f"assets/{name}": asset(name) for name in (*STYLES, *SCRIPTS)}
