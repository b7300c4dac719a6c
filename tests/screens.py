"""Checks of tables on a screen: they fit its width, and every word of theirs is whole."""

import re
from itertools import chain

from silobench.cli.layout import Grid, lay_out


def lines_of(grid: Grid, width: int) -> list[str]:
    return ["".join(text for text, _ in line) for line in lay_out(grid, width)]


def check(grid: Grid, width: int) -> None:
    lines = lines_of(grid, width)
    assert max(map(len, lines), default=0) <= width, "\n".join(lines)
    items = chain.from_iterable((*grid.rows, *grid.footer))
    missing = _words(*(text for item in items for text in (item.text, item.remark))) - _words(*lines)
    assert not missing, "\n".join(lines)


def _words(*texts: str) -> set[str]:
    return set(chain.from_iterable(re.split(r"[\s(),;]+", text) for text in texts)) - {"", "-"}
