"""What a person sees in a terminal: tables, a heatmap, progress. Plain lines where the output is no terminal."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table as RichTable
from rich.text import Text

from silobench.analysis.tables import Entry, Table
from silobench.data import Dataset
from silobench.partition import Skewness
from silobench.sweep import Event

_MOST_CLASSES = 20
_MOST_PARTIES = 40


def _console() -> Console:
    """The terminal as it is; a wide page where there is none, so that no table is folded."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_table(table: Table) -> None:
    console = _console()
    console.print(table.title, style="italic", highlight=False)
    shown = RichTable(header_style="bold", box=None, pad_edge=False)
    for column in table.columns:
        shown.add_column(Text(column), overflow="fold")
    for row in table.rows:
        shown.add_row(*map(_entry, row))
    console.print(shown)
    if any(entry.best for row in table.rows for entry in row):
        console.print(table.note, style="dim", highlight=False, markup=False)
    console.print()


def _entry(entry: Entry) -> Text:
    text = Text(entry.text + (" *" if entry.best else ""), style="bold green" if entry.best else "")
    return text.append(f" ({entry.paper})", style="not bold dim") if entry.paper else text


def print_list(kind: str, rows: Sequence[dict[str, str]]) -> None:
    shown = RichTable(box=None, header_style="bold", pad_edge=False, show_lines=False)
    shown.add_column(kind, overflow="fold", ratio=2)
    shown.add_column("what it is", overflow="fold", ratio=3)
    for row in rows:
        shown.add_row(Text(row["signature"]), Text(row["summary"]))
    _console().print(shown)


def print_partition(facts: dict[str, Any], skew: Skewness, dataset: Dataset, fingerprint: str) -> None:
    """Sizes, distances and a heatmap of party x class counts."""
    console = _console()
    console.print(
        f"[bold]{escape(facts['dataset'])}[/bold] cut by [bold]{escape(facts['spec'])}[/bold] "
        f"into {facts['parties']} parties, seed {facts['seed']}, fingerprint {fingerprint}"
    )
    few = len(dataset.classes) <= _MOST_CLASSES
    shown = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(("party", "rows", "EMD", *(dataset.classes if few else ()))):
        shown.add_column(Text(name), justify="right" if place else "left", no_wrap=True)
    most = max(map(max, skew.counts))
    for party in range(min(facts["parties"], _MOST_PARTIES)):
        heat = [_heat(count, most) for count in skew.counts[party]] if few else []
        shown.add_row(Text(facts["names"][party]), str(skew.sizes[party]), f"{skew.emd[party]:.3f}", *heat)
    console.print(shown)
    if facts["parties"] > _MOST_PARTIES:
        console.print(f"... and {facts['parties'] - _MOST_PARTIES} more parties; --json or --plot shows all.")
    console.print(
        f"mean EMD {skew.emd_weighted:.3f} of at most 2, Jensen-Shannon {skew.jensen_shannon:.3f} bit, "
        f"Gini of sizes {skew.gini:.3f}, feature shift {skew.feature_shift:.3f}"
    )
    for note in dataset.notes:
        console.print(f"note: {escape(note)}")


def _heat(count: int, most: int) -> Text:
    """A count on a background that darkens with it."""
    share = count / most
    red, green, blue = (round(255 - share * (255 - end)) for end in (8, 81, 156))
    ink = "white" if share > 0.5 else "black"
    return Text(f"{count:>4}", style=f"{ink} on #{red:02x}{green:02x}{blue:02x}")


class Progress:
    """Run k of n, with rounds, accuracy and the time left; one line a run where the output is no terminal."""

    def __init__(self, total: int, done: int):
        self.total, self.done = total, done
        self.console = Console(stderr=True)
        self.live = self.console.is_terminal
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.all = self.bars.add_task("runs", total=total, completed=done, note=f"{done} of {total}")
        self.tasks: dict[str, Any] = {}  # by run, those under way
        self.started: dict[str, float] = {}
        self.accuracy: dict[str, float | None] = {}
        self.share: dict[str, float] = {}
        self.spoken = time.monotonic()
        self.said: set[str] = set()

    def __enter__(self) -> "Progress":
        if self.done:
            self._say(f"{self.done} of {self.total} runs are there already")
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, event: Event) -> None:
        """Take in what happened and bring the view up to date."""
        run = event.id
        if event.kind == "begin":
            for note in sorted(set(event.notes) - self.said):
                self._say(f"note: {note}")
            self.said |= set(event.notes)
            self.started[run], self.accuracy[run] = time.monotonic(), None
            self.tasks[run] = self.bars.add_task("  run", total=event.rounds, note=escape(event.name))
        elif event.kind == "round":
            self.accuracy[run] = self.accuracy[run] if event.accuracy is None else event.accuracy
            self.share[run] = event.round / event.rounds
            self.bars.update(self.tasks[run], completed=event.round, note=escape(self._line(event)))
            if not self.live and time.monotonic() - self.spoken > 10:  # a long run must not look dead
                self._say(f"{self._line(event)}, round {event.round} of {event.rounds}")
        else:
            self.done += 1
            self.share.pop(run, None)
            self.bars.remove_task(self.tasks.pop(run))
            self._say(f"[{self.done}/{self.total}] {self._line(event)}, {time.monotonic() - self.started[run]:.1f} s")
        finished = self.done + sum(self.share.values())
        self.bars.update(self.all, completed=finished, note=f"{self.done} of {self.total}")

    def _line(self, event: Event) -> str:
        accuracy = self.accuracy[event.id]
        return event.name if accuracy is None else f"{event.name}: accuracy {accuracy:.3f}"

    def _say(self, line: str) -> None:
        self.spoken = time.monotonic()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)
