"""How `make docs` builds the documentation site. Nothing is downloaded, and pages load nothing from elsewhere."""

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

import silobench

sys.path.insert(0, str(Path(__file__).parent))
import api_names

project = "silobench"
author = "The silobench developers"
copyright = "2026, the silobench developers"  # the name that Sphinx asks for
version = release = silobench.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False  # type hints name torch and numpy, whose pages are elsewhere

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4  # links to sections are those of a code host

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
toc_object_entries = False  # each group of names has links of its own, and the build takes half the time

html_theme = "furo"
html_title = "silobench"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_use_index = False
smartquotes = False  # quotes are as they were typed, and the build is faster
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0f5e9c", "color-brand-content": "#0f5e9c"},
    "dark_css_variables": {"color-brand-primary": "#6cb6f0", "color-brand-content": "#6cb6f0"},
}

# Links to Markdown files outside of this folder become downloads; on a code host they are links as they stand.
_FILES = "README|CONTRIBUTING|CHANGELOG|SECURITY"
_OUTSIDE = re.compile(rf"\[([^\]]+)\]\(((?:\.\./)+(?:(?!\w+\.md)[^)#]+|{_FILES})\.md)\)")


def _adapt(app: Any, name: str, source: list[str]) -> None:
    """Give a page what only the site has: the public names, and links to files outside of it."""
    source[0] = _OUTSIDE.sub(r"{download}`\1 <\2>`", source[0])
    if name == "api":
        source[0] += f"\n{api_names.page()}\n"


def _plain(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Read docstrings as the plain text that they are: names in backquotes, and no other markup."""
    lines[:] = [_literal(line) for line in lines]


def _short(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> Any:
    """Name types without their modules, and defaults that a dataclass makes anew as three dots."""
    if signature is None:
        return None
    return re.sub(r"~?(?:\w+\.)+(\w+)", r"\1", signature).replace("<factory>", "..."), returned


def _literal(line: str) -> str:
    parts = re.split(r"(``[^`]+``|`[^`]+`)", line)
    words = [re.sub(r"([*|_\\])", r"\\\1", part) for part in parts[::2]]
    names = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return "".join(word + name for word, name in zip(words, [*names, ""], strict=True))


def setup(app: Any) -> None:
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", _adapt)
    app.connect("autodoc-process-docstring", _plain)
    app.connect("autodoc-process-signature", _short)
