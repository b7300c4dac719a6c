"""The command `report`: runs as HTML pages, and figures as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import LoadedPlugins
from silobench.cli.output import print
from silobench.cli.results import print_missing, readable, report_damage
from silobench.cli.sources import Directory, Published, Source
from silobench.errors import RecordError

if TYPE_CHECKING:
    from silobench.report.page import Page
    from silobench.runs.results import Results

_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "--out",
        help="The folder to write the pages into, DIR/report by default; or a file that ends in .html, to have "
        "everything in one file.",
    ),
]
_Figures = Annotated[
    str | None,
    typer.Option(
        metavar="pdf|svg|png",
        help="Write every figure as a file too, for papers: into DIR/figures, or with --out into the folder "
        "'figures' in that folder or beside that file.",
    ),
]


def report(
    directory: Directory = None, output: _Output = None, published: Published = False, figures: _Figures = None,
    plugin: LoadedPlugins = None,
) -> None:  # fmt: skip
    """Write runs as HTML pages: the answer, tables, curves, partitions, costs, and a page for each run.

    The pages open from disk and load nothing from a network.
    """
    source = Source(directory, published)
    results = source.read()
    readable(results)
    place = output or _in_results(source.folder / "report")
    _check_place(output)
    if figures:
        from silobench.report.charts.forms import check_form

        check_form(figures)
    with waiting("writing the report"):
        page = write_report(results, place, source.folder.resolve().name)
    print(f"report: {page.resolve()}")
    if figures:
        with waiting("drawing the figures"):
            folder = _figures_folder(source.folder, output)
            paths = _write_figures(results, source.folder.resolve().name, folder, figures)
        print(f"figures: {len(paths)} {figures} files in {folder.resolve()}")
    print_missing(results)
    report_damage(results)
    from silobench.report.study import study_problems

    if problems := study_problems(results.runs):
        raise RecordError(problems[0])


def _figures_folder(runs: Path, output: Path | None) -> Path:
    """Return the folder of figures: that of the runs, or one at the place that was chosen for the report."""
    from silobench.report.site import is_one_file

    if output is None:
        return _in_results(runs / "figures")
    return (output.parent if is_one_file(output) else output) / "figures"


def _in_results(folder: Path) -> Path:
    """Return a folder in a results directory, which somebody else may have made: a link is refused."""
    from silobench.runs.folders import need_no_link

    return need_no_link(folder)


def _write_figures(results: "Results", title: str, folder: Path, form: str) -> list[Path]:
    from silobench.papers import FINDINGS, collect_cells, paper_pages
    from silobench.report.figure_files import figure_sections, write_figures
    from silobench.report.pages import pages_of
    from silobench.report.site import contents_of
    from silobench.report.study import study_pages

    cells = collect_cells(results.runs)
    pages = [*paper_pages(cells), *study_pages(results.runs)]
    contents = contents_of(results, title, cells, FINDINGS, pages)
    return write_figures(figure_sections(pages_of(contents)), folder, form)


def _check_place(output: Path | None) -> None:
    """Refuse a run, or a folder of runs, as the place of a report: its pages would lie between the records."""
    if output and output.is_dir() and ((output / "run.json").is_file() or any(output.glob("*/run.json"))):
        raise RecordError(
            f"{output} holds runs, and a report needs a folder of its own: choose another place, such as "
            f"{output / 'report'}."
        )


def write_report(
    results: "Results", path: Path, title: str, more: "Sequence[Page]" = (), *, live: bool = False
) -> Path:
    """Write the pages of some runs, with those of papers and measures and `more`, and return the first page."""
    from silobench.papers import FINDINGS, collect_cells, paper_pages
    from silobench.report.site import write_site
    from silobench.report.study import study_pages

    cells = collect_cells(results.runs)
    pages = [*paper_pages(cells), *study_pages(results.runs), *more]
    return write_site(results, path, title, cells=cells, findings=FINDINGS, more=pages, live=live)
