"""The first page: the answer, one chart, the main table, then what the numbers rest on."""

from collections.abc import Sequence
from typing import Any

from silobench.analysis.answers import Sentence, answer
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import by_metric
from silobench.analysis.malicious import malicious_tables
from silobench.analysis.privacy import privacy_sentence
from silobench.analysis.tables import score_tables
from silobench.analysis.vertical import vertical_notes
from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.headline import headline
from silobench.report.page import Page
from silobench.report.pages.runs import runs_title
from silobench.report.table_view import by_partition
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY

_CHOICES = ("model", "solver", "rounds", "participation")
_OF_ROWS = ("participation",)  # keys of parties that hold rows


def overview_page(contents: Contents) -> Page:
    """Return the first page of a site."""
    cells = contents.cells
    charts = [drawing for group in by_metric(cells) for drawing in headline(group, contents.colours)]
    sections = [_section(group) for group in by_metric(cells)]
    sections += [Section(table.title, (), table) for table in malicious_tables(cells)]
    content: dict[str, Any] = {
        "answer": [*answer(cells), *_missing(contents)],
        "privacy": privacy_sentence(cells),
        "charts": charts,
        "facts": _facts(contents),
        "provenance": _provenance(contents.runs),
    }
    return Page("index.html", "Overview", sections, template="overview.html", content=content)


def _section(cells: Sequence[CellResult]) -> Section:
    """Return the scores by one metric: the main table, and those on own rows and of other metrics."""
    main, *more = score_tables(cells)
    title = cells[0].metric.title
    return Section(title[:1].upper() + title[1:], (), by_partition(main), more=more, is_stacked=True)


def _missing(contents: Contents) -> list[Sentence]:
    """Return sentences about runs that are not in the numbers."""
    unfinished, absent, damaged = len(contents.unfinished), contents.not_started, len(contents.problems)
    some = f"{unfinished} {'run is' if unfinished == 1 else 'runs are'}"
    texts = {
        f"{some} not finished and not in these numbers.": unfinished,
        f"{absent} planned {'run has' if absent == 1 else 'runs have'} not been started.": absent,
        f"{damaged} {'run is' if damaged == 1 else 'runs are'} damaged and left out.": damaged,
    }
    return [Sentence(text, is_warning=True) for text, count in texts.items() if count]


def _facts(contents: Contents) -> list[tuple[str, str]]:
    """Return what the numbers rest on: data, runs, choices and notes."""
    runs, cells = contents.runs, contents.cells
    datasets = {run.dataset.name: run.dataset for run in runs}
    counted = f"{runs_title(runs)}, {len(contents.settings)} setting{'s' * (len(contents.settings) != 1)}"
    return [
        ("runs", ", ".join(filter(None, (counted, _trials(cells))))),
        *(("data", f"{name}: {data.train} training rows, {data.test} test rows") for name, data in datasets.items()),
        *(("objective", text) for text in dict.fromkeys(map(_objective, runs)) if text),
        *((key, ", ".join(dict.fromkeys(run.label.text(key) for run in runs))) for key in _choices(runs)),
        *(("note", f"{name}: {note}") for name, data in datasets.items() for note in data.notes),
        *(("note", note) for note in vertical_notes(cells)),
    ]


def _trials(cells: Sequence[CellResult]) -> str:
    trials = sorted({len(cell.seeds) for cell in cells})
    if len(trials) > 1:
        return f"{trials[0]} to {trials[-1]} trials of each method"
    return f"{'one trial' if trials == [1] else f'{trials[0]} trials'} of each method" if trials else ""


def _provenance(runs: Sequence[StoredRun]) -> list[tuple[str, str]]:
    """Return licences, versions and engines of all runs, each once."""
    licences = {run.dataset.name: run.dataset.licence for run in runs if run.dataset.licence}
    versions: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in run.facts.environment.items():
            versions.setdefault(name, {})[version] = None
    return [
        *((f"licence of {name}", licence) for name, licence in licences.items()),
        *((name, ", ".join(each)) for name, each in versions.items()),
    ]


def _choices(runs: Sequence[StoredRun]) -> Sequence[str]:
    """Return the keys to state: those of parties that hold rows only if there are such, and not at their defaults."""
    partly = any(run.label.participation != 1.0 for run in runs if run.facts.vertical is None)
    return [key for key in _CHOICES if key not in _OF_ROWS or partly]


def _objective(run: StoredRun) -> str:
    """Return what a run trained for, and why; empty for plain classification."""
    objective = run.facts.objective
    if len(objective.metrics) == 1 and run.metric.name == ACCURACY.name:
        return ""
    why = f", because {objective.reason}" if objective.reason else ""
    return f"{run.dataset.name}: {objective.spec or objective.name}, judged by {run.metric.title}{why}"
