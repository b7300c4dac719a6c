"""Tables as pages show them: no empty columns, choices that all rows share as a sentence, numbers to the right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from silobench.analysis.tables import Entry, Table

_NUMBER = re.compile(
    r"^[<>≥≤≈~]?[+\-−]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?\s*(%|[kMGT]?B|ms|s|min|h|bit|std|dB)?(\s*±.*)?( †)?( \[.*\])?$"
)
_CHOICES = frozenset((
    "adversary", "aggregate", "algorithm", "availability", "broadcast", "buffers", "clock", "controller", "dataset",
    "device", "eval_every", "eval_on", "exchange", "metric", "model", "network", "objective", "pace", "participation",
    "parties", "partition", "rounds", "selection", "server", "skew", "solver", "split", "start", "transforms",
    "validation",
))  # fmt: skip
_SHORT, _LONG = 20, 60  # letters of texts that need little and much room
_WIDE = 10  # columns of a table in small type
_NEAR, _FAR = 1.0, 5.0  # percentage points: gaps below the first are neutral, gaps above the second are strong


@dataclass(frozen=True)
class Column:
    """A column with its title, and whether its texts are numbers."""

    title: str
    is_number: bool

    def classes(self, entry: "EntryView") -> str:
        """Return the classes of a cell of the column."""
        names = {
            "number": self.is_number, "best": entry.best, "blank": not entry.text,
            "long": not self.is_number and len(entry.text) > _LONG,
            "phrase": not self.is_number and _LONG >= len(entry.text) > _SHORT,
        }  # fmt: skip
        return " ".join(name for name, holds in names.items() if holds)


@dataclass(frozen=True)
class EntryView(Entry):
    """A cell of a table, with the difference to the published number as a text and a class."""

    @property
    def paper_text(self) -> str:
        """The published number without the difference."""
        return self.paper if self.gap is None else self.paper.rpartition(", ")[0]

    @property
    def gap_text(self) -> str:
        return "" if self.gap is None else f"{self.gap:+z.1f}".replace("-", "−")

    @property
    def gap_class(self) -> str:
        """The class of the colour: p2, p1, m1 or m2 from far better to far worse, none for a small difference."""
        if self.gap is None or abs(self.gap) < _NEAR:
            return ""
        return ("p" if self.gap > 0 else "m") + ("2" if abs(self.gap) > _FAR else "1")


@dataclass(frozen=True)
class TableView:
    """A table to be written as HTML."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[EntryView]]
    footer: Sequence[Sequence[EntryView]]
    note: str
    shared: str  # what all rows have in common

    def classes(self, stack: bool) -> str:
        names = {"wide": len(self.columns) >= _WIDE, "stack": stack}
        return " ".join(name for name, holds in names.items() if holds)


def view(table: Table) -> TableView:
    """Return a table without columns that are empty; choices that are equal in all rows become a sentence."""
    places = range(len(table.columns))
    lines = [*table.rows, *table.footer]
    filled = [place for place in places if any(line[place].text or line[place].paper for line in lines)]
    shared = [place for place in filled if _is_shared(table, place)] if len(table.rows) > 1 else []
    if len(shared) == len(filled):  # rows that differ in nothing still need a column
        shared = shared[1:]
    chosen = [place for place in filled if place not in shared]
    columns = [Column(table.columns[place], _is_number(table, place)) for place in chosen]
    rows, footer = ([[_entry(line[place]) for place in chosen] for line in part] for part in (table.rows, table.footer))
    common = ", ".join(f"{table.columns[place]} {table.rows[0][place].text}" for place in shared)
    return TableView(table.title, columns, rows, footer, table.note, f"All rows: {common}." if common else "")


def _entry(entry: Entry) -> EntryView:
    return EntryView(**vars(entry))


def _is_shared(table: Table, place: int) -> bool:
    """Whether a column is a choice with the same value in all rows, and empty in the footer."""
    texts, below = {row[place].text for row in table.rows}, any(line[place].text for line in table.footer)
    return table.columns[place] in _CHOICES and len(texts) == 1 and "" not in texts and not below


def _is_number(table: Table, place: int) -> bool:
    texts = [row[place].text for row in table.rows if row[place].text not in ("", "-")]
    return bool(texts) and all(_NUMBER.match(text) for text in texts)


def by_partition(table: Table) -> Table:
    """Return a table of scores with the partition in front and its kind of skew below the name.

    The partition is what tells rows apart, and the first column stays visible where a table scrolls.
    """
    if not {"skew", "partition"} <= set(table.columns):
        return table
    skew, partition = table.columns.index("skew"), table.columns.index("partition")
    others = [place for place in range(len(table.columns)) if place not in (skew, partition)]
    rows = [
        [Entry(row[partition].text, paper=skew_text(row[skew].text)), *(row[place] for place in others)]
        for row in table.rows
    ]
    footer = []
    for line in table.footer:  # it begins with the kind of skew and what is counted
        words = f"{skew_text(line[0].text)}: {line[1].text}"
        footer.append([Entry(words), *(Entry("") if place < 2 else line[place] for place in others)])
    columns = ["partition", *(table.columns[place] for place in others)]
    return replace(table, columns=columns, rows=rows, footer=footer)


def skew_text(kind: str) -> str:
    """Return a kind of skew as it stands alone."""
    return {"homogeneous": "no skew", "vertical": "vertical"}.get(kind, f"{kind} skew")
