"""All charts of a report as files, for papers."""

import re
from collections.abc import Sequence
from pathlib import Path

from silobench.errors import RecordError
from silobench.report.charts.files import draw
from silobench.report.charts.forms import check_form
from silobench.report.drawing import Drawing, Section
from silobench.report.page import Page

_NAME = re.compile(r"\d{2,3}-[a-z0-9.-]+-\d{2,3}-[a-z0-9.-]+")  # of a figure, as `write_figures` names it; not a date
_MOST_LETTERS = 70  # of a title in a file name


def figure_sections(pages: Sequence[Page]) -> list[Section]:
    """Return the sections with charts of some pages, and the charts above the first section of a page as one."""
    sections = []
    for page in pages:
        if charts := page.content.get("charts"):
            sections.append(Section(page.title, charts))
        sections += [section for section in page.sections if section.drawings]
    return sections


def write_figures(sections: Sequence[Section], folder: Path, form: str) -> list[Path]:
    """Write every chart of some sections into a folder, which is emptied of earlier figures of this format first.

    A file is named by the number of the section, its title, the number of the chart and its title.
    """
    check_form(form)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"*.{form}"):
            if _NAME.fullmatch(old.stem):
                old.unlink()
    except OSError as error:
        raise RecordError(f"{folder} cannot be written ({error.strerror}): choose another place.") from error
    paths = []
    for place, section in enumerate(sections, 1):
        for number, drawing in enumerate(section.drawings, 1):
            path = folder / f"{place:02d}-{slug(section.title, 30)}-{number:02d}-{slug(_name(drawing))}.{form}"
            draw(drawing.chart, path)
            paths.append(path)
    return paths


def _name(drawing: Drawing) -> str:
    return drawing.name or drawing.chart.title


def slug(title: str, most: int = _MOST_LETTERS) -> str:
    """Return a title as a part of a file name that every system takes.

    >>> slug("label-count(k=1) · fedavg: A/B"), slug("<script>"), slug("β")
    ('label-count-k-1-fedavg-a-b', 'script', 'figure')
    """
    words = re.sub(r"[^a-z0-9.]+", "-", title.lower().replace("..", ".")).strip("-.")
    if len(words) > most:
        words = words[: most + 1].rpartition("-")[0] or words[:most]  # whole words, unless the first is too long
    return words.strip("-.") or "figure"
