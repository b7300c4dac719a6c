"""Tables as lines that fit a width: no line is longer, and no word or number is broken.

A table that is too wide is laid out in several ways: cells in several lines, leading columns as headings above their
rows, the last column below its row, the other columns in several tables one below the other. The cheapest is taken.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise, product
from statistics import fmean

from rich.cells import cell_len

from silobench.cli.wrapping import least_width, wrap

_GAP = 2  # spaces between columns
_INDENT = 2  # of rows below a heading
_MOST_HEADINGS = 5  # columns in a heading
_PROSE = 32  # characters: a column with longer texts may be below its rows
_WIDEST = 200  # a column needs no more
_ROUNDING = 1e-6  # far more than sums of lines are rounded by

_RESULT = re.compile(r"$|[+-]?\d+\.\d")  # a blank or a number with a decimal point

Segment = tuple[str, str]  # text and its style
Line = list[Segment]


@dataclass(frozen=True)
class Item:
    """One entry of a table: its text and style, and a remark beside or below it.

    An entry without text has no remark.
    """

    text: str
    style: str = ""
    remark: str = ""
    is_below: bool = False  # the remark is below the text
    fill: bool = False  # the style covers the whole width of the column

    @property
    def natural(self) -> int:
        """Width in one line; in two, if the remark is below."""
        text, remark = cell_len(self.text), cell_len(self.remark)
        return max(text, remark) if self.is_below or not remark else text + remark + 3

    def lines(self, width: int) -> list[Line]:
        """Return the lines of the entry in a column of a width."""
        text = [[(line, self.style)] for line in wrap(self.text, width)]
        if self.remark and self.is_below:
            return text + [[(line, "dim")] for line in wrap(self.remark, width)]
        return [*text[:-1], [*text[-1], (f" ({self.remark})", "dim")]] if self.remark else text


@dataclass(frozen=True)
class Grid:
    """Column names, rows and a footer; `right` are the names of columns that are aligned to the right."""

    names: Sequence[str]
    rows: Sequence[Sequence[Item]]
    footer: Sequence[Sequence[Item]] = ()
    right: frozenset[str] = frozenset()


def lay_out(grid: Grid, width: int) -> list[Line]:
    """Return the lines of a table, none wider than `width`."""
    columns = _columns(grid)
    if not columns:
        return []
    stated: list[Line] = []
    if sum(column.natural + _GAP for column in columns) - _GAP > width:
        columns, constants = _without_constants([column.with_remarks_below() for column in columns])
        stated = [[(line, "")] for line in wrap("; ".join(constants), width) if line]
    keys = _keys(columns)
    best = min(_layouts(columns, keys, width), key=lambda layout: layout.cost, default=None)
    return stated + (list(best.lines()) if best else _records(columns, keys, width))


def _layouts(columns: "Sequence[_Column]", keys: int, width: int) -> "Iterator[Layout]":
    """Yield ways to print columns that fit; with the fewest tables that fit, and with one more."""
    is_long = fmean([cell_len(item.text) for item in columns[-1].items] or [0]) > _PROSE
    for level, below in product(range(min(keys, _MOST_HEADINGS) + 1), (False, True) if is_long else (False,)):
        if level + below >= len(columns):
            continue
        most = max(1, len(columns) - keys - below)
        layouts = (Layout(columns, keys, level, below, tables, width) for tables in range(1, most + 1))
        yield from islice((layout for layout in layouts if layout.fits), 2)


@lru_cache(maxsize=50_000)
def _count(text: str, remark: str, width: int) -> int:
    return len(Item(text, remark=remark, is_below=True).lines(width))


# --- columns ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    name: str
    items: Sequence[Item]  # of rows and footer
    rows: int  # how many of the items are rows
    right: bool = False

    @cached_property
    def heading(self) -> Item:
        return Item(self.name, "bold")

    @cached_property
    def natural(self) -> int:
        return max(item.natural for item in (self.heading, *self.items))

    @cached_property
    def least(self) -> int:
        texts = (text for item in (self.heading, *self.items) for text in (item.text, item.remark))
        return max(map(least_width, texts))

    @property
    def values(self) -> Sequence[Item]:
        return self.items[: self.rows]

    @cached_property
    def steps(self) -> list[tuple[int, list[int]]]:
        """Widths at which the column needs fewer lines than at any smaller one, with the lines of each item."""
        steps: list[tuple[int, list[int]]] = []
        entries = [(item.text, item.remark) for item in (self.heading, *self.items)]
        for width in range(self.least, max(self.least, min(self.natural, _WIDEST)) + 1):
            lines = {entry: _count(*entry, width) for entry in dict.fromkeys(entries)}
            counts = [lines[entry] for entry in entries]
            if not steps or sum(counts) < sum(steps[-1][1]):
                steps.append((width, counts))
        return steps

    @cached_property
    def totals(self) -> list[int]:
        """The lines of all items, for each of the steps."""
        return [sum(counts) for _, counts in self.steps]

    def with_remarks_below(self) -> "_Column":
        return _Column(self.name, [replace(item, is_below=True) for item in self.items], self.rows, self.right)

    def chosen(self, places: Iterable[int]) -> "_Column":
        places = list(places)
        if len(places) == len(self.items):
            return self
        return _Column(
            self.name, [self.items[i] for i in places], sum(place < self.rows for place in places), self.right
        )


def _columns(grid: Grid) -> list[_Column]:
    """Return the columns that have more than blanks and dashes."""
    rows = [*grid.rows, *grid.footer]
    columns = [
        _Column(name, [row[place] for row in rows], len(grid.rows), name in grid.right)
        for place, name in enumerate(grid.names)
    ]
    return [column for column in columns if not rows or any(item.text not in ("", "-") for item in column.items)]


def _without_constants(columns: Sequence[_Column]) -> tuple[list[_Column], list[str]]:
    """Return the columns that differ between rows, and the others as 'name: value'; a lone row keeps all.

    Results stay in the table, even if they are all the same: they are numbers with a decimal point.
    """
    constant = [
        column
        for column in columns
        if column.rows > 1 and len(set(column.values)) == 1 and not _RESULT.match(column.values[0].text)
    ]
    others = [column for column in columns if column not in constant]
    if not constant or not others:
        return list(columns), []
    for place in range(columns[0].rows, len(columns[0].items)):
        moving = [column.items[place] for column in constant if column.items[place].text not in _texts(column, place)]
        if len(moving) > sum(not column.items[place].text for column in others):
            return list(columns), []
        others = _moved(others, place, moving)
    return others, [f"{column.name}: {column.values[0].text}" for column in constant]


def _texts(column: _Column, place: int) -> tuple[str, ...]:
    """Return the texts of a footer that are not lost with a constant column."""
    return ("", column.values[0].text) if not column.items[place].remark else ("",)


def _moved(columns: list[_Column], place: int, items: list[Item]) -> list[_Column]:
    """Return the columns with items of the footer in their first blank entries."""
    moved = []
    for column in columns:
        entries = list(column.items)
        if items and not entries[place].text:
            entries[place] = items.pop(0)
        moved.append(_Column(column.name, entries, column.rows, column.right))
    return moved


def _keys(columns: Sequence[_Column]) -> int:
    """Return the number of leading columns that tell rows apart."""
    rows = list(zip(*(column.values for column in columns), strict=True))
    for count in range(1, len(columns)):
        if len({row[:count] for row in rows}) == len(rows):
            return count
    return 1


# --- layouts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """A way to print columns: `level` of them as headings, the last one `below` its row, in a number of tables."""

    columns: Sequence[_Column]
    keys: int
    level: int
    below: bool
    tables: int
    width: int

    @cached_property
    def parts(self) -> list["_Part"]:
        """The tables one below the other. A row without values in a table is left out there, but not everywhere."""
        end = len(self.columns) - self.below
        first = min(self.keys, end)
        bounds = [first + (end - first) * place // self.tables for place in range(self.tables + 1)]
        blank = [place for place in range(len(self.columns[0].items)) if not self._has_values(place, first)]
        parts = []
        for start, stop in pairwise(bounds):
            last = self.columns[-1] if self.below and stop == end else None
            places = [
                place
                for place in range(len(self.columns[0].items))
                if self.tables == 1
                or self._has_values(place, start, len(self.columns) if last else stop)
                or (start == first and place in blank)
            ]
            shown = [column.chosen(places) for column in (*self.columns[:first], *self.columns[start:stop])]
            below = last.chosen(places) if last else None
            parts.append(_Part(shown[: self.level], shown[self.level :], below, self.width))
        return parts

    def _has_values(self, place: int, start: int, stop: int | None = None) -> bool:
        return any(column.items[place].text for column in self.columns[start:stop])

    @cached_property
    def fits(self) -> bool:
        return all(part.widths is not None for part in self.parts)

    @cached_property
    def cost(self) -> float:
        return sum(part.cost for part in self.parts) + 1.5 * (self.level > 0) + self.below + 4 * (self.tables - 1)

    def lines(self) -> Iterator[Line]:
        for place, part in enumerate(self.parts):
            if place:
                yield []
            yield from part.lines()


@dataclass(frozen=True)
class _Part:
    """One table: columns that are headings, columns side by side, and a column below each row."""

    heads: Sequence[_Column]
    beside: Sequence[_Column]
    last: _Column | None
    width: int

    @property
    def indent(self) -> int:
        return _INDENT if self.heads else 0

    @cached_property
    def widths(self) -> list[int] | None:
        return _widths(self.beside, self.width - self.indent)

    @cached_property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Headings with the places of their rows, in the order of first rows; a footer has headings of its own."""
        groups: dict[tuple[bool, str], list[int]] = {}
        if not self.heads:
            return [("", list(range(len(self.beside[0].items))))] if self.beside else []
        for place in range(len(self.heads[0].items)):
            heading = " / ".join(filter(None, (_titled(column, place) for column in self.heads)))
            groups.setdefault((place >= self.heads[0].rows, heading), []).append(place)
        return [(heading, places) for (_, heading), places in groups.items()]

    @cached_property
    def cost(self) -> float:
        """Lines; a row of several lines costs more than as many rows, and a heading of one row more than of several."""
        widths = self.widths or []
        heights = [max(len(item.lines(w)) for item, w in zip(row, widths, strict=True)) for row in self._rows[1:]]
        lines = sum(height * (1 + 0.25 * (height - 1)) for height in heights)
        headings = sum(2.5 if len(places) == 1 else 1.5 for _, places in self.groups) if self.heads else 0
        return 1 + lines + headings + sum(len(self._below(item)) for item in (self.last.items if self.last else ()))

    @property
    def _rows(self) -> list[tuple[Item, ...]]:
        headings = tuple(column.heading for column in self.beside)
        return [headings, *zip(*(column.items for column in self.beside), strict=True)]

    def _below(self, item: Item) -> list[Line]:
        indent = self.indent + _INDENT
        return [[(" " * indent, ""), *line] for line in item.lines(self.width - indent)] if item.text else []

    def lines(self) -> Iterator[Line]:
        rows = self._rows
        if self.heads:
            yield from ([(line, "bold")] for line in wrap(" / ".join(c.name for c in self.heads), self.width))
        yield from self._row(rows[0])
        if self.last:
            yield from self._below(self.last.heading)
        body = (self.heads or self.beside)[0].rows
        in_footer = False
        for heading, places in self.groups:
            for first, place in enumerate(places):
                if place >= body and not in_footer and place:
                    yield []
                    in_footer = True
                if first == 0 and heading:
                    yield from ([(line, "")] for line in wrap(heading, self.width))
                yield from self._row(rows[place + 1])
                if self.last:
                    yield from self._below(self.last.items[place])

    def _row(self, items: Sequence[Item]) -> Iterator[Line]:
        widths = self.widths or []
        cells = [item.lines(width) for item, width in zip(items, widths, strict=True)]
        starts = [self.indent + start for start in accumulate((w + _GAP for w in widths), initial=0)]
        for number in range(max(map(len, cells), default=0)):
            line: Line = []
            position = 0
            for column, cell, item, width, start in zip(self.beside, cells, items, widths, starts, strict=False):
                segments = cell[number] if number < len(cell) else []
                used = sum(cell_len(text) for text, _ in segments)
                if item.fill and segments:
                    segments = [(" " * (width - used) * column.right, item.style), *segments]
                    segments += [(" " * (width - used) * (not column.right), item.style)]
                    used = width
                offset = start + (width - used if column.right else 0)
                if used:
                    line += [(" " * (offset - position), ""), *segments]
                    position = offset + used
            yield line


def _titled(column: _Column, place: int) -> str:
    """Return an entry as part of a heading; a bare number has the name of its column."""
    item = column.items[place]
    text = item.text + (f" ({item.remark})" if item.remark else "")
    return f"{column.name} {text}" if text[:1].isdigit() else text


def _widths(columns: Sequence[_Column], width: int) -> list[int] | None:
    """Return the widths with which rows need few lines; None if a word would have to be broken.

    All columns start at their least width. The column that gains most for each space is widened until none gains.
    """
    if sum(column.natural + _GAP for column in columns) - _GAP <= width:
        return [column.natural for column in columns]
    at = [0] * len(columns)
    room = width - sum(column.least for column in columns) - _GAP * (len(columns) - 1)
    if room < 0:
        return None
    while True:
        gain, place, step = _widened(columns, at, room)
        if gain <= 0:
            return [column.steps[step][0] for column, step in zip(columns, at, strict=True)]
        room -= columns[place].steps[step][0] - columns[place].steps[at[place]][0]
        at[place] = step


def _widened(columns: Sequence[_Column], at: Sequence[int], room: int) -> tuple[float, int, int]:
    """Return the best gain per added space, the number of the column, and its new step; the gain is 0 if there is none.

    Only a row whose highest cell is in the column can become lower: to its second highest cell, at best.
    """
    counts = [column.steps[step][1] for column, step in zip(columns, at, strict=True)]
    cells = sum(column.totals[step] for column, step in zip(columns, at, strict=True))
    heights = [sorted((0, *row))[-2:] for row in zip(*counts, strict=True)]  # of the two highest cells of each row
    lines = sum(highest for _, highest in heights)
    best = (0.0, -1, 0)
    for place, (column, now) in enumerate(zip(columns, at, strict=True)):
        others = [second if own == high else high for own, (second, high) in zip(counts[place], heights, strict=True)]
        most = lines - sum(others) + 0.1 * (column.totals[now] - column.totals[-1]) + _ROUNDING
        for step in range(now + 1, len(column.steps)):
            extra = column.steps[step][0] - column.steps[now][0]
            if extra > room or most < best[0] * extra:
                break
            after = sum(map(max, others, column.steps[step][1]))
            gain = _cost(lines, cells) - _cost(after, cells - column.totals[now] + column.totals[step])
            best = max(best, (gain / extra, place, step))
    return best


def _cost(lines: int, cells: int) -> float:
    """Return the lines of a table, and a little for every line of its cells."""
    return lines + 0.1 * cells


def _records(columns: Sequence[_Column], keys: int, width: int) -> list[Line]:
    """Return every row as a block of its own: a heading, then one 'name: value' after the other."""
    lines: list[Line] = []
    for place in range(len(columns[0].items)):
        heading = " / ".join(filter(None, (_titled(column, place) for column in columns[:keys])))
        lines += [[(line, "bold")] for line in wrap(heading, width)]
        for column in columns[keys:]:
            item = column.items[place]
            if item.text or item.remark:
                text = f"{column.name}: {item.text}" + (f" ({item.remark})" if item.remark else "")
                lines += [[(" " * _INDENT + line, item.style)] for line in wrap(text, width - _INDENT)]
    return lines
