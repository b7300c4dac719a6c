"""The fenced blocks of the pages."""

import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"^(?P<fence>```+|:::+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.DOTALL | re.MULTILINE
)
# Blocks that show something: a picture in characters, a citation, an example of a record.
ILLUSTRATIONS = ("text", "bibtex", "json")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line, language and text, the text before it, and the output that follows it."""

    page: str
    line: int
    language: str
    text: str
    before: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """Return the name of the file that the block is; None if it has none.

        The line before the block names it, as in "`mine.py`:", or its first line, as in "# mine.toml: a comment". A
        plugin without a name has that of the first function that it registers.
        """
        heading = re.search(r"`([\w./-]+\.(?:py|toml|csv))`(?: \([^)]*\))?:?$", self.before)
        comment = re.match(r"# ([\w./-]+\.(?:py|toml))\b", self.text)
        plugin = re.search(r"^@\w+\.\w+\.register.*\n(?:def|class) (\w+)", self.text, re.MULTILINE)
        if name := heading or comment:
            return name[1]
        return f"{plugin[1]}.py" if plugin and self.language == "python" else None


def pages() -> list[str]:
    """Return all pages: those of the folder docs, and those beside it that tell people what to type."""
    inside = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
    return ["README.md", "CONTRIBUTING.md", *inside]


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page that are code. Directives of the site ({toctree} ...) are checked by its build."""
    content = (ROOT / page).read_text(encoding="utf-8")
    matches = [match for match in _FENCE.finditer(content) if not match["language"].startswith("{")]
    blocks = []
    for match, after in zip_longest(matches, matches[1:]):
        above = content[: match.start()]
        is_output = after and after["language"] == "text" and not content[match.end() : after.start()].strip()
        output = after["text"] if is_output else None
        before = above.rstrip().rpartition("\n")[2]
        blocks.append(Block(page, above.count("\n") + 1, match["language"], match["text"], before, output))
    return blocks
