"""Text in lines of a width: broken at spaces and inside specs, never in a word or a number that fits a line."""

import re
from functools import lru_cache

from rich.cells import cell_len, chop_cells

# Spaces that stay: "± 0.2", a mark behind a number, a unit behind its number.
_GLUE = re.compile(r" (?=±)|(?<=±) | (?=[*†](?:\s|$))|(?<=\d) (?=(?:ms|s|min|h|B|kB|MB|GB|TB)\b)")
_PIECES = re.compile(r"(?<=\w\w\w\()|(?<=,)(?=[^\d\s])")  # where a spec may continue on the next line
_PARTS = re.compile(r"(?<=[/=_-])")  # where a name may, if it is wider than the page


@lru_cache(maxsize=50_000)
def wrap(text: str, width: int) -> tuple[str, ...]:
    """Break text into lines: at spaces, inside a spec after '(' or ',', and in a name only if it is wider than a line.

    >>> wrap("label-dirichlet(beta=0.5) + noise(sigma=0.1)", 18)
    ('label-dirichlet(', 'beta=0.5) +', 'noise(sigma=0.1)')
    """
    lines, line = [], ""
    for word in _words(text):
        if cell_len(word) <= width:
            pieces = [word]
        else:
            pieces = [part for piece in _PIECES.split(word) for part in _folded(piece, width)]
        for place, piece in enumerate(pieces):
            space = " " if line and place == 0 else ""
            if cell_len(line + space + piece) <= width:
                line += space + piece
            else:
                lines += [line] if line else []
                line = piece
    return tuple(each.replace("\xa0", " ") for each in (*lines, line))


def _words(text: str) -> list[str]:
    return _GLUE.sub("\xa0", text).split(" ") if text else []


def _folded(piece: str, width: int) -> list[str]:
    """Return a piece as it is, or in parts if it is wider than a line."""
    if cell_len(piece) <= width:
        return [piece]
    parts = [part for name in _PARTS.split(piece) for part in chop_cells(name, max(width, 2))]
    return parts or [piece]


@lru_cache(maxsize=50_000)
def least_width(text: str) -> int:
    """Return the width below which a word or a number would be broken."""
    return max((cell_len(piece) for word in _words(text) for piece in _PIECES.split(word)), default=0)
