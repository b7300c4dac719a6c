"""The section of the page about gradient inversion: originals, and what a server makes of each run's messages."""

from collections.abc import Sequence
from html import escape

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.inversion import INVERSION, inversion_tables, pictures_of, psnr_text
from silobench.analysis.measured import cells_with, choices_of
from silobench.analysis.tables import shown
from silobench.report.drawing import Drawing, Section
from silobench.report.svg import GREY, svg, text

_SIDE = 72  # pixels of a picture
_GAP = 10
_LINE = 14  # pixels of a line of text
_MOST_LETTERS = 88  # in a line beside pictures
_MOST = 12  # figures; the table has all cells


def inversion_sections(cells: Cells) -> list[Section]:
    """Return a section with originals beside reconstructions, for runs with and without protection."""
    attacked = [cell for cell in cells_with(cells, INVERSION) if pictures_of(cell.runs[0])]
    tables = inversion_tables(cells)
    if not tables:
        return []
    groups = grouped(attacked, lambda cell: tuple(pictures_of(cell.runs[0])["original"]))
    drawings = [Drawing(_title(group), pictures_svg(_rows(group))) for group in groups]
    return [Section(tables[0].title, drawings[:_MOST], tables[0])]


def _title(cells: Sequence[CellResult]) -> str:
    names = ("dataset", "partition", "model")
    return " · ".join(", ".join(dict.fromkeys(shown(cell, name, cells) for cell in cells)) for name in names)


def _rows(cells: Sequence[CellResult]) -> list[tuple[str, list[str], list[str]]]:
    """Return lines of pictures, each with its title and a text below each picture: originals, then each cell."""
    rows: list[tuple[str, list[str], list[str]]] = [("original", pictures_of(cells[0].runs[0])["original"], [])]
    names = [name for name in choices_of(cells) if len({cell.label.text(name) for cell in cells}) > 1]
    for cell in cells:
        pictures = pictures_of(cell.runs[0])
        choices = [cell.label.text(name) or f"no {name}" for name in names]
        title = f"{', '.join(choices) or 'reconstruction'}: {psnr_text(cell)}"
        rows.append((title, pictures["reconstruction"], [f"{ratio:.1f} dB" for ratio in pictures["psnr"]]))
    return rows


def pictures_svg(rows: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> str:
    """Return lines of pictures below each other. A line has a title, addresses of PNGs, and a text for each of them."""
    marks, y, most = [], 4.0, max(len(pictures) for _, pictures, _ in rows)
    for title, pictures, texts in rows:
        for line in _wrapped(title):
            marks.append(text(4, y + _LINE - 3, line))
            y += _LINE
        y += 2
        marks += [_picture(address, 4 + place * (_SIDE + _GAP), y) for place, address in enumerate(pictures)]
        y += _SIDE
        for place, words in enumerate(texts):
            marks.append(text(4 + place * (_SIDE + _GAP) + _SIDE / 2, y + _LINE - 2, words, anchor="middle"))
        y += (_LINE if texts else 0) + _GAP
    widest = max(len(line) for title, _, _ in rows for line in _wrapped(title))
    return svg(max(8 + most * (_SIDE + _GAP), 8 + 5.6 * widest), y, marks)


def _picture(address: str, x: float, y: float) -> str:
    """Return a picture with sharp pixels and a frame; only a picture that is part of the page is drawn."""
    frame = f'<rect x="{x:g}" y="{y:g}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="{GREY}"/>'
    if not address.startswith("data:image/png;base64,"):
        return frame
    place = f'x="{x:g}" y="{y:g}" width="{_SIDE}" height="{_SIDE}"'
    return f'<image {place} href="{escape(address)}" style="image-rendering: pixelated"/>{frame}'


def _wrapped(title: str) -> list[str]:
    """Return a title in lines that fit."""
    lines = [""]
    for word in title.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= _MOST_LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
