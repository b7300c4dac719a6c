"""The page of training curves, with bands over trials; unfinished runs too."""

from collections.abc import Mapping, Sequence

from silobench.analysis.methods import Setting
from silobench.report.contents import Contents
from silobench.report.drawing import Drawing, Section
from silobench.report.headline import curves, run_curve
from silobench.report.page import Page
from silobench.runs.stored import StoredRun

_AT_ONCE = 12  # charts that a section shows


def curves_page(contents: Contents) -> Page:
    """Return the page of curves: a chart per setting, with all of its methods."""
    tested = [setting for setting in contents.settings if any(len(cell.curve) > 1 for cell in setting.cells.values())]
    parts = [tested[start : start + _AT_ONCE] for start in range(0, len(tested), _AT_ONCE)]
    sections = [_section(part, place, len(parts), contents.colours) for place, part in enumerate(parts)]
    running = [run for run in contents.unfinished if len(run.curve()) > 1]
    if running:
        sections.append(_running(running))
    lead = (
        "How the score on the test rows changes from round to round: the mean over trials, with a band of one standard "
        "deviation where there are several. The dotted level is the best constant answer."
    )
    return Page("curves.html", "Curves", sections, lead)


def _section(part: Sequence[Setting], place: int, total: int, colours: Mapping[str, int]) -> Section:
    drawings = [Drawing(setting.name, curves(setting, colours)) for setting in part]
    if total == 1:
        return Section("By setting", drawings)
    start = place * _AT_ONCE
    return Section(f"Settings {start + 1} to {start + len(part)}", drawings, is_folded=place > 0)


def _running(runs: Sequence[StoredRun]) -> Section:
    drawings = [
        Drawing(f"{run.label.text('partition')} · {run.label.text('algorithm')} · seed {run.seed}", run_curve(run))
        for run in runs[:_AT_ONCE]
    ]
    some = "1 run is not finished" if len(runs) == 1 else f"{len(runs)} runs are not finished"
    few = f"of the first {_AT_ONCE} of them" if len(runs) > _AT_ONCE else "so far"
    return Section("Not finished", drawings, lead=[f"{some}; these are the rounds {few}."])
