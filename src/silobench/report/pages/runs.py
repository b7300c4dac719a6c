"""The list of all runs, and the page of each: its configuration, how to do it again, its rounds and environment."""

from collections.abc import Sequence
from typing import Any

from silobench.analysis.tables import Entry, Table, entries
from silobench.analysis.units import duration, size
from silobench.report.contents import Contents
from silobench.report.drawing import Drawing, Section
from silobench.report.headline import run_curve
from silobench.report.page import Page
from silobench.runs.label import distinguishing
from silobench.runs.reproduction import command, experiment_text, plugins_of
from silobench.runs.stored import RoundRow, StoredRun

FOLDER = "runs"
MOST_ALONE = 200  # runs whose pages are in a report of one file
MOST_PAGES = 1000  # runs that have pages in a folder
_MOST_ROUNDS = 200  # rows of the table of rounds
_ALWAYS = ("dataset", "partition", "algorithm")


def runs_page(contents: Contents) -> Page:
    """Return the list of all runs."""
    unfinished = f" {len(contents.unfinished)} of them are not finished." if contents.unfinished else ""
    planned = f" {contents.not_started} more were planned and not started." if contents.not_started else ""
    most = MOST_ALONE if contents.is_alone else MOST_PAGES
    some = "Every run" if len(contents.runs) <= most else f"Each of the first {most:,} runs"
    lead = f"{some} has a page with its configuration and the command that does it again.{unfinished}{planned}"
    sections = (
        [Section(runs_title(contents.runs), (), runs_table(contents.runs, contents.is_alone))] if contents.runs else []
    )
    if contents.problems:
        problems = Table("Runs that cannot be read", ["problem"], [entries(text) for text in contents.problems])
        sections.append(Section(problems.title, (), problems))
    return Page("runs.html", "Runs", sections, lead)


def runs_title(runs: Sequence[StoredRun]) -> str:
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def runs_table(runs: Sequence[StoredRun], is_alone: bool = False) -> Table:
    """Return one row per run, with a link to its page, or to its part of a report of one file."""
    others = distinguishing([run.label for run in runs], but=(*_ALWAYS, "seed"))
    names = [*_ALWAYS, *others]
    rows = []
    for place, run in enumerate(runs):
        curve = run.curve()
        anchor = f"#{FOLDER}/{run.facts.id}" if place < MOST_ALONE else ""
        page = address(run) if place < MOST_PAGES else ""
        score = run.metric.number(curve[-1][1]) if curve else ""
        state = "finished" if run.complete else f"{len(run.rounds)} of {run.label.rounds} rounds"
        sent = size(run.totals.bytes_up + run.totals.bytes_down)
        spent = duration(run.totals.seconds)
        rows.append([
            Entry(run.facts.id, href=anchor if is_alone else page),
            *entries(*(run.label.text(name) for name in names)),
            *entries(str(run.seed), score, run.metric.heading, state, str(len(run.rounds)), sent, spent),
        ])  # fmt: skip
    columns = ["run", *names, "seed", "score", "metric", "state", "rounds done", "bytes", "computing"]
    return Table(runs_title(runs), columns, rows, "score: of the last tested round")


def address(run: StoredRun) -> str:
    """Return where the page of a run is."""
    return f"{FOLDER}/{run.facts.id}.html"


def run_page(run: StoredRun) -> Page:
    """Return the page of one run."""
    content: dict[str, Any] = {
        "facts": _facts(run),
        "toml": experiment_text(run),
        "toml_file": f"{run.facts.id}.toml",
        "command": command(run, f"{run.facts.id}.toml"),
        "plugins": plugins_of(run),
        "notes": [*run.facts.warnings, *run.partition.notes, *run.dataset.notes],
        "environment": [(name, str(value)) for name, value in run.facts.environment.items()],
        "curve": [Drawing(f"{run.metric.heading} by round", run_curve(run))] if len(run.curve()) > 1 else [],
        "rounds": rounds_table(run),
        "list_page": "runs.html",
    }
    title = f"{run.label.text('partition')} · {run.label.text('algorithm')} · seed {run.seed}"
    return Page(address(run), title, template="run.html", content=content)


def _facts(run: StoredRun) -> list[tuple[str, str]]:
    curve, rounds = run.curve(), f"{len(run.rounds)} of {run.label.rounds}"
    total = run.totals.bytes_up + run.totals.bytes_down
    return [
        ("state", "finished" if run.complete else f"not finished: {rounds} rounds"),
        *([(f"test {run.metric.title}", run.metric.text(curve[-1][1]))] if curve else []),
        ("data", f"{run.dataset.name}, {run.dataset.train} training rows, {run.dataset.test} test rows"),
        ("parties", str(run.partition.party_count)),
        *([("parameters", f"{run.facts.parameters:,}")] if run.facts.parameters else []),
        ("rounds", rounds),
        ("bytes", size(total)),
        ("computing", duration(run.totals.seconds)),
        ("id", run.facts.id),
    ]


def rounds_table(run: StoredRun) -> Table:
    """Return the rounds of a run; of many, every k-th and the last one."""
    step = -(-len(run.rounds) // _MOST_ROUNDS) or 1
    chosen = [row for place, row in enumerate(run.rounds) if place % step == 0 or place == len(run.rounds) - 1]
    columns = [
        "round", run.metric.heading, "loss", "training loss", "validation", "parties", "sent up", "sent down",
        "virtual clock", "computing",
    ]  # fmt: skip
    rows = [entries(*_texts(row, run)) for row in chosen]
    note = f"every {step}th round of {len(run.rounds)}; rounds.jsonl has all of them" if step > 1 else ""
    return Table("Rounds", columns, rows, note)


def _texts(row: RoundRow, run: StoredRun) -> list[str]:
    metric, score = run.metric, row.score(run.metric.name)
    return [
        str(row.round),
        metric.number(score) if score is not None else "-" if row.tested else "",
        *("" if loss is None else f"{loss:.4f}" for loss in (row.loss, row.train_loss)),
        "" if row.validation is None else metric.number(row.validation),
        str(len(row.cohort)),
        *map(size, (row.bytes_up, row.bytes_down)),
        *map(duration, (row.clock, row.total_seconds)),
    ]
