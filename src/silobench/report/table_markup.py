"""The rows of a table as HTML. A report of many runs has a million cells, so they are not written by a template."""

from collections.abc import Sequence

from markupsafe import Markup

from silobench.report.escaping import escape
from silobench.report.table_view import Column, EntryView

_LINES = Sequence[Sequence[EntryView]]


def rows_markup(lines: _LINES, columns: Sequence[Column], stack: bool = False) -> Markup:
    """Return lines as rows: the first cell is their header; with `stack` every cell knows its column."""
    return Markup("".join(f"<tr>{_row(line, columns, stack)}</tr>\n" for line in lines))


def _row(line: Sequence[EntryView], columns: Sequence[Column], stack: bool) -> str:
    first, *others = line
    return _header(first) + "".join(
        _cell(entry, column, stack) for entry, column in zip(others, columns[1:], strict=True)
    )


def _header(entry: EntryView) -> str:
    below = f"<small>{escape(entry.paper)}</small>" if entry.paper else ""
    return f'<th scope="row">{_words(entry)}{below}</th>'


def _cell(entry: EntryView, column: Column, stack: bool) -> str:
    names = column.classes(entry)
    classes = f' class="{names}"' if names else ""
    label, start, end = (f' data-label="{escape(column.title)}"', "<div>", "</div>") if stack else ("", "", "")
    star = ' <span class="star" title="best mean of its row">★</span>' if entry.best else ""
    return f"<td{classes}{label}>{start}{_words(entry)}{star}{_published(entry)}{end}</td>"


def _words(entry: EntryView) -> str:
    """Return the text, in which a number and its deviation stay on one line."""
    text = escape(entry.text).replace(" ± ", "\u00a0±\u00a0").replace(" ≈", "\u00a0≈")
    return f'<a href="{escape(entry.href)}">{text}</a>' if entry.href else text


def _published(entry: EntryView) -> str:
    gap = f' <span class="gap {entry.gap_class}">{entry.gap_text}</span>' if entry.gap is not None else ""
    paper = f"<small>{escape(entry.paper_text)}{gap}</small>" if entry.paper else ""
    return paper + (f"<small>{escape(entry.replications)}</small>" if entry.replications else "")
