"""The section of the page about gradient inversion: originals, and what a server makes of each run's messages."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.inversion import INVERSION, inversion_tables, pictures_of, psnr_text
from silobench.analysis.measured import cells_with, choices_of
from silobench.analysis.tables import shown
from silobench.report.charts.values import Pictures
from silobench.report.drawing import Drawing, Section

_MOST = 12  # figures; the table has all cells


def inversion_sections(cells: Cells) -> list[Section]:
    """Return a section with originals beside reconstructions, for runs with and without protection."""
    attacked = [cell for cell in cells_with(cells, INVERSION) if pictures_of(cell.runs[0])]
    tables = inversion_tables(cells)
    if not tables:
        return []
    groups = grouped(attacked, lambda cell: tuple(pictures_of(cell.runs[0])["original"]))
    drawings = [
        Drawing(_title(group), Pictures("originals, and what a server makes of messages", _rows(group)))
        for group in groups
    ]
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
