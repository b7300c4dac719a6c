"""The page of a leaderboard: standings, a chart of mean ranks, and every setting; a script filters and ranks anew.

All pairs that are decided are in the page, by setting and budget, so a choice of settings and methods needs no server:
ranks are counted from the pairs. The tables are complete without the script.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from silobench.analysis.board_tables import RULES, rank_text, score_text, standings_table
from silobench.analysis.budget import Budget, levels, spendings
from silobench.analysis.cells import CellResult
from silobench.analysis.leaderboard import Board, RankedContest
from silobench.analysis.tables import published_text
from silobench.analysis.units import duration, size
from silobench.atomic import replace_atomically
from silobench.errors import listed
from silobench.report.charts.values import Axis, DotChart, Dots, Heatmap, Value
from silobench.report.drawing import Drawing
from silobench.report.escaping import json_of_script
from silobench.report.page import Page
from silobench.report.rendering import Frame, Link, refuse_foreign, render
from silobench.runs.stored import StoredRun

SCRIPT, STYLE = "leaderboard.js", "leaderboard.css"
MOST_WITH_BUDGETS = 2_000  # runs
NO_BUDGETS = (
    f"There are more than {MOST_WITH_BUDGETS:,} runs, so the page has no budgets to choose from: `silobench "
    "leaderboard DIR` ranks within one by its options `--max-rounds`, `--max-bytes`, `--max-seconds` and "
    "`--max-epsilon`."
)
_MOST_ROWS = 40  # settings of a heatmap
_BUDGETS: dict[str, Callable[[float], Budget]] = {
    "rounds": lambda level: Budget(rounds=int(level) or None),  # half a round is no budget
    "bytes": lambda level: Budget(bytes=level),
    "seconds": lambda level: Budget(seconds=level),
    "epsilon": lambda level: Budget(epsilon=level),
}
_REFERENCE = "reference"  # in the place of a rank


@dataclass(frozen=True)
class Record:
    """A run behind an entry: its seed, its id, and where its record is, if it is a file beside the page."""

    seed: int
    id: str
    href: str


@dataclass(frozen=True)
class Line:
    """One row of a setting, as text."""

    method: str
    rank: str
    is_first: bool
    score: str
    published: str | None  # what others print; None if nobody prints a number for the setting
    trials: str
    rounds: str
    sent: str
    time: str
    records: Sequence[Record]

    @property
    def texts(self) -> list[str]:
        """The cells after the method."""
        published = [] if self.published is None else [self.published]
        return [self.score, *published, self.trials, self.rounds, self.sent, self.time]


@dataclass(frozen=True)
class Block:
    """A setting on the page."""

    title: str
    dataset: str
    skew: str
    metric: str
    lines: Sequence[Line]

    @property
    def has_published(self) -> bool:
        """Whether somebody printed numbers for the setting."""
        return any(line.published is not None for line in self.lines)


def budgets_of(runs: Sequence[StoredRun]) -> list[Budget]:
    """Return a few budgets to choose from on a page: round numbers below what runs spend; none for very many runs.

    A board with a budget needs every round of every run.
    """
    if len(runs) > MOST_WITH_BUDGETS:
        return []
    lasts = [list(spendings(run))[-1] for run in runs if run.complete and run.rounds]
    chosen: list[Budget] = []
    for name, of in _BUDGETS.items():
        amounts = [getattr(last, name) for last in lasts if getattr(last, name) is not None]
        chosen += [budget for budget in map(of, levels(amounts)) if budget]
    return chosen


def write_board(boards: Sequence[Board], path: Path, title: str = "Leaderboard") -> Path:
    """Write a page with a board for each budget, of which the first is shown; all have the same settings.

    Only a page of silobench is replaced.
    """
    refuse_foreign(path)
    page = Page(path.name, "Leaderboard", template="leaderboard.html", content=_content(boards, path))
    links = [Link(f"#{part.lower()}", part) for part in ("Standings", "Settings", "Rules")]
    frame = Frame(title, links, is_alone=True, more_scripts=(SCRIPT,), more_styles=(STYLE,))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, render(page, frame).encode())
    return path


def _content(boards: Sequence[Board], path: Path) -> dict[str, Any]:
    first = boards[0]
    methods = _methods(boards)
    trials = sum(len(cell.runs) for one in first.contests for cell in one.contest.methods.values())
    blocks = [_block(one, path) for one in first.contests]
    published = [block.has_published for block in blocks]  # in boards with a budget, this column is empty
    data = [_board_data(board, methods, path, published) for board in boards]
    return {
        "standings": standings_table(first) if first.standings else None,
        "charts": [drawing for drawing in (_chart(first), _heatmap(first)) if drawing],
        "answer": _answer(first),
        "blocks": blocks,
        "methods": methods,
        "datasets": sorted({block.dataset for block in blocks}),
        "skews": sorted({block.skew for block in blocks}),
        "budgets": [board.budget.text for board in boards],
        "rules": RULES,
        "trials": trials,
        "note": NO_BUDGETS if trials > MOST_WITH_BUDGETS and not first.budget else "",
        "data": _as_script({"methods": methods, "boards": data}),
    }


def _methods(boards: Sequence[Board]) -> list[str]:
    """Return the names of all methods, those of the best standing first."""
    ordered = [standing.method for standing in boards[0].standings]
    others = [name for board in boards for one in board.contests for name in (*one.listed, *one.contest.outside)]
    return list(dict.fromkeys((*ordered, *others)))


def _as_script(data: Any) -> Markup:
    return Markup(json_of_script(data))


# --- settings -----------------------------------------------------------------------------------------


def _block(one: RankedContest, path: Path) -> Block:
    contest = one.contest
    cells = [*contest.methods.values(), *contest.baselines.values()]
    lines = _lines(one, path, any(cell.published for cell in cells))
    return Block(contest.name, contest.dataset, contest.skew, contest.metric.heading, lines)


def _lines(one: RankedContest, path: Path, has_published: bool) -> list[Line]:
    contest = one.contest
    cells = {**{name: contest.methods[name] for name in one.listed}, **contest.baselines}
    return [_line(name, cell, one, path, has_published) for name, cell in cells.items()]


def _line(name: str, cell: CellResult, one: RankedContest, path: Path, has_published: bool) -> Line:
    place = one.places.get(name)
    seconds = cell.virtual_seconds
    return Line(
        name,
        _REFERENCE if name in one.contest.baselines else rank_text(place),
        bool(place and place.above == 0),
        score_text(cell),
        published_text(cell.published) if has_published else None,
        str(len(cell.runs)),
        f"{cell.rounds:g}",
        size(cell.bytes_up + cell.bytes_down),
        "-" if seconds is None else duration(seconds),
        [Record(run.seed, run.facts.id, _href(run, path)) for run in cell.runs],
    )


def _href(run: StoredRun, path: Path) -> str:
    """Return the way from the page to the record of a run; empty where it is in an archive.

    A folder may have any name, also one that a browser would take for the beginning of an address (javascript:).
    """
    file = run.path / "run.json"
    return quote(Path(os.path.relpath(file.resolve(), path.parent.resolve())).as_posix()) if file.is_file() else ""


def _board_data(board: Board, methods: Sequence[str], path: Path, published: Sequence[bool]) -> dict[str, Any]:
    """Return what the script needs to rank anew: lines and decided pairs by setting, with methods by number."""
    number = {name: place for place, name in enumerate(methods)}
    return {
        "settings": [
            {
                "lines": [[number.get(line.method, line.method), *line.texts] for line in _lines(one, path, shown)],
                "ranked": [number[name] for name in one.ranked],
                "better": sorted([number[a], number[b]] for a, b in one.better),
                "outside": [number[name] for name in one.contest.outside],
            }
            for one, shown in zip(board.contests, published, strict=True)
        ]
    }


# --- the chart ----------------------------------------------------------------------------------------


def _chart(board: Board) -> Drawing | None:
    """Return the mean ranks with their intervals; None without a setting to rank in."""
    if len(board.ranked) < 2:
        return None
    values = [_value(one.mean_rank, one.interval) for one in board.listed]
    chart = DotChart(
        "Mean rank over settings",
        [standing.method for standing in board.listed],
        Axis("mean rank", low=1.0, high=1.0 + max(value.mean + (value.spread or 0.0) for value in values)),
        [Dots("mean rank", values)],
        row_title="method",
    )
    note = (
        "1 is best. Bars are as wide as the 95% interval by resampling settings. Methods whose differences are not "
        "decided share the mean of their places."
    )
    return Drawing("Mean rank over settings", chart, note)


def _heatmap(board: Board) -> Drawing | None:
    """Return the ranks by setting and method; None without ranks, or with more settings than a figure holds."""
    ranked, names = board.ranked, [standing.method for standing in board.listed]
    if not 2 <= len(ranked) <= _MOST_ROWS:
        return None
    places = [[one.places.get(name) for name in names] for one in ranked]
    chart = Heatmap(
        "Rank by setting",
        _row_names(ranked),
        names,
        [[None if place is None else place.above + 1 for place in row] for row in places],
        column_title="method",
        texts=[["" if place is None else rank_text(place) for place in row] for row in places],
        low=1.0,
        high=float(max(2, len(names))),
        is_reversed=True,
    )
    return Drawing("Rank by setting", chart, "1 is best; = shares its rank, because no difference is decided.")


def _row_names(settings: Sequence[RankedContest]) -> list[str]:
    """Return the names of settings, without a dataset that all of them share."""
    names = [one.contest.name for one in settings]
    shared = len({one.contest.dataset for one in settings}) == 1
    return [name.partition(" / ")[2] or name if shared else name for name in names]


def _answer(board: Board) -> str:
    """Return who leads over all settings, in a sentence."""
    first = [standing.method for standing in board.listed if standing.rank == 1]
    if not first:
        return ""
    settings = f"{len(board.ranked)} setting{'s' * (len(board.ranked) != 1)}"
    if len(first) == len(board.listed) > 1:
        return f"No method is ahead over {settings}: all {len(first)} share the first place."
    leads = "leads" if len(first) == 1 else "share the first place"
    return f"{listed(first)} {leads} over {settings}, {board.budget.text}."


def _value(mean: float, interval: tuple[float, float] | None) -> Value:
    return Value(mean, (interval[1] - interval[0]) / 2 if interval else None)
