"""Output for people: tables, a heatmap, progress bars. Plain lines if the output is not a terminal."""

import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from silobench.analysis.units import size
from silobench.cli.layout import Grid, Item, lay_out, wrap

if TYPE_CHECKING:
    from silobench.analysis.tables import Entry, Table
    from silobench.data import Dataset
    from silobench.data.store.fetch import Step
    from silobench.partitions import Sharing, Skewness
    from silobench.runs.sweep import Event

_MOST_CLASSES = 20
_MOST_PARTIES = 40


def _console() -> Console:
    """Return the terminal, or a wide page if there is none, so that tables do not wrap."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_table(table: "Table") -> None:
    console = _console()
    _print_text(console, table.title, "italic")
    _print_grid(console, grid_of(table))
    if table.note:
        _print_text(console, table.note, "dim")
    console.print()


def grid_of(table: "Table") -> Grid:
    rows, footer = ([list(map(_item, row)) for row in rows] for rows in (table.rows, table.footer))
    return Grid(table.columns, rows, footer)


def _item(entry: "Entry") -> Item:
    return Item(entry.text + " *" * entry.best, "bold green" if entry.best else "", entry.paper)


def _print_text(console: Console, text: str, style: str = "") -> None:
    """Print text in lines that fit the terminal."""
    for line in wrap(text, console.width):
        console.print(Text(line, style), soft_wrap=True)


def _print_grid(console: Console, grid: Grid) -> None:
    for line in lay_out(grid, console.width):
        console.print(Text.assemble(*line), soft_wrap=True)


def print_list(kind: str, rows: Sequence[dict[str, str]], note: str = "") -> None:
    items = [(Item(row["signature"]), Item(row["summary"])) for row in rows]
    console = _console()
    _print_grid(console, Grid((kind, "description"), items))
    if note:
        _print_text(console, note)


def print_partition(
    facts: dict[str, Any],
    skew: "Skewness",
    dataset: "Dataset",
    notes: Iterable[str],
    fingerprint: str,
    shared: "Sharing | None" = None,
) -> None:
    """Print sizes, distances and a heatmap of the party x class counts."""
    console = _console()
    console.print(
        f"[bold]{escape(facts['dataset'])}[/bold] partitioned by [bold]{escape(facts['spec'])}[/bold] "
        f"into {facts['parties']} parties, seed {facts['seed']}, fingerprint {fingerprint}"
    )
    names = ("party", "rows", "EMD", *(dataset.label_names if len(dataset.label_names) <= _MOST_CLASSES else ()))
    largest = max(map(max, skew.counts))
    rows = []
    for party in range(min(facts["parties"], _MOST_PARTIES)):
        heat = [_heat(count, largest) for count in skew.counts[party][: len(names) - 3]]
        size_, emd = Item(str(skew.sizes[party])), Item(f"{skew.emd[party]:.3f}")
        rows.append([Item(facts["names"][party]), size_, emd, *heat])
    _print_grid(console, Grid(names, rows, right=frozenset(names[1:])))
    if facts["parties"] > _MOST_PARTIES:
        console.print(f"... and {facts['parties'] - _MOST_PARTIES} more parties: --json or --plot shows all of them.")
    if skew.wasserstein is not None:
        target = f"the target {dataset.target}" if dataset.target else "the target"
        console.print(
            f"{target} is numeric: {len(dataset.bins)} quantile bins take the place of classes, and the mean "
            f"Wasserstein distance is {skew.wasserstein:.3f} standard deviations"
        )
    label_skew = (
        f"mean EMD {skew.emd_weighted:.3f} (maximum 2), Jensen-Shannon divergence {skew.jensen_shannon:.3f} bits, "
    )
    console.print(f"{label_skew}Gini of party sizes {skew.gini:.3f}, feature shift {skew.feature_shift:.3f}")
    if shared:
        console.print(
            f"shared data: {shared.rows} rows; each party gets {shared.each} of them ({size(shared.bytes)} in total); "
            f"mean EMD without sharing {shared.emd_weighted_before:.3f}"
        )
    for note in notes:
        console.print(f"note: {escape(note)}")


def _heat(count: int, largest: int) -> Item:
    """Return a count on a background that is darker for larger counts."""
    share = count / largest
    red, green, blue = (round(255 - share * (255 - end)) for end in (8, 81, 156))
    ink = "white" if share > 0.5 else "black"
    return Item(str(count), f"{ink} on #{red:02x}{green:02x}{blue:02x}", fill=True)


def print_catalog(entries: Sequence[dict[str, Any]]) -> None:
    """Print one line per dataset."""
    names = ("dataset", "ready", "task", "train", "test", "classes", "groups", "description")
    rows = []
    for entry in entries:
        sizes = [f"{entry[key]:,}" if entry[key] else "" for key in ("train", "test", "classes")]
        available = Item("yes", "green") if entry["available"] else Item("no", "dim")
        texts = (entry["task"], *sizes, ", ".join(entry["groups"]), entry["summary"])
        rows.append([Item(entry["name"]), available, *map(Item, texts)])
    console = _console()
    _print_grid(console, Grid(names, rows, right=frozenset(names[3:6])))
    console.print(f"data directory: {entries[0]['data_dir']}", highlight=False, soft_wrap=True)
    console.print(
        "`silobench data fetch NAME` downloads one; `silobench data list NAME` shows licence, sources and checksums.",
        style="dim", highlight=False,
    )  # fmt: skip


def print_entry(entry: dict[str, Any]) -> None:
    """Print everything that the catalogue knows about a dataset."""
    console = _console()
    console.print(f"[bold]{entry['name']}[/bold] (version {entry['version']}): {escape(entry['summary'])}")
    sizes = {key: entry[key] for key in ("task", "train", "test", "classes") if entry[key]}
    available = entry["path"] or ("yes" if entry["available"] else f"no; run: {entry['get']}")
    lines = {
        **sizes, "groups": ", ".join(entry["groups"]), "available": available, "licence": entry["licence"],
        "terms": entry["terms"], "accepted": entry["accepted"], "cite": entry["citation"],
        "home page": entry["homepage"], "needs": ", ".join(entry["needs"]),
    }  # fmt: skip
    for key, value in lines.items():
        if value:
            _print_fact(console.width, f"  {key:<10}", str(value))
    for source in entry["sources"]:
        for download in source["downloads"]:
            _print_fact(console.width, f"  {source['client']:<10}", download["what"])
    for name, file in entry["files"].items():
        checksum = file["sha256"] or "no published checksum; recorded when the file arrives"
        _print_fact(console.width, "  file      ", f"{name}  {checksum}")


def _print_fact(width: int, name: str, text: str) -> None:
    """Print a name and a text that continues below itself; addresses and checksums stay whole, to be copied."""
    indent = " " * (len(name) + 1)
    print(
        textwrap.fill(
            text, width, initial_indent=f"{name} ", subsequent_indent=indent,
            break_long_words=False, break_on_hyphens=False,
        )
    )  # fmt: skip


class FetchProgress:
    """A progress bar for downloads; plain lines if the output is not a terminal."""

    def __init__(self) -> None:
        self.console = _console()
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[note]}"))
        self.bars = Bars(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.task = self.bars.add_task("", total=None, visible=False, note="")
        self.last_line = ""

    def __enter__(self) -> "FetchProgress":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, step: "Step") -> None:
        """Update the bar or print a line. Without a terminal, each line is printed once."""
        line = f"{step.dataset}: {step.text}"
        passing = step.kind in ("bytes", "seconds", "file")
        if passing and self.console.is_terminal:
            self.bars.update(
                self.task,
                description=escape(line),
                completed=step.done,
                total=step.total,
                visible=True,
                note=_amount(step),
            )
        elif step.kind != "file":
            line = f"{step.dataset}: reading {step.text}" if passing else line
            if line != self.last_line:
                self.bars.update(self.task, visible=False)
                self.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self.last_line = line


def _amount(step: "Step") -> str:
    if step.kind == "seconds":
        return f"{step.done:.0f} s"
    if step.kind == "file":
        return ""
    return size(step.done) + (f" of {size(step.total)}" if step.total else "")


class Progress:
    """Progress of a sweep: finished runs, rounds, scores, time left. One line per run if there is no terminal."""

    def __init__(self, total: int, done: int, live: bool = True):
        self.total, self.done = total, done
        self.console = Console(stderr=True)
        self.live = live and self.console.is_terminal  # a debugger needs the terminal for itself
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
        self.tasks: dict[str, Any] = {}  # run id -> bar of a run in progress
        self.spent: dict[str, float] = {}  # seconds of computing, without waiting for other runs
        self.score: dict[str, float | None] = {}
        self.share: dict[str, float] = {}
        self.last_print = time.monotonic()
        self.notes: set[str] = set()  # already printed

    def __enter__(self) -> "Progress":
        if self.done:
            self._print(f"{self.done} of {self.total} runs are already finished")
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, event: "Event") -> None:
        """Update the display with an event."""
        run = event.id
        if event.kind == "begin":
            for note in sorted(set(event.notes) - self.notes):
                self._print(f"note: {note}")
            self.notes |= set(event.notes)
            self.spent[run], self.score[run] = 0.0, None
            self.tasks[run] = self.bars.add_task("  run", total=event.rounds, note=escape(event.name))
        elif event.kind == "round":
            self.score[run] = self.score[run] if event.score is None else event.score
            self.share[run] = event.round / event.rounds
            self.spent[run] += event.seconds
            self.bars.update(self.tasks[run], completed=event.round, note=escape(self._line(event)))
            if not self.live and time.monotonic() - self.last_print > 10:  # a long run must not look dead
                self._print(f"{self._line(event)}, round {event.round} of {event.rounds}")
        else:
            self.done += 1
            self.share.pop(run, None)
            self.bars.remove_task(self.tasks.pop(run))
            self._print(f"[{self.done}/{self.total}] {self._line(event)}, {self.spent[run]:.1f} s")
        finished = self.done + sum(self.share.values())
        self.bars.update(self.all, completed=finished, note=f"{self.done} of {self.total}")

    def _line(self, event: "Event") -> str:
        score, metric = self.score[event.id], event.metric
        return event.name if score is None else f"{event.name}: {metric.title} {metric.text(score)}"

    def _print(self, line: str) -> None:
        self.last_print = time.monotonic()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_facts(facts: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values in two columns, and a group of facts under its name."""
    width = max(len(_readable(name)) for name in facts)
    for name, value in facts.items():
        if isinstance(value, Mapping):
            print(f"{indent}{_readable(name)}")
            print_facts(value, indent + "  ")
        else:
            text = "unknown" if value is None else ("no", "yes")[value] if isinstance(value, bool) else value
            _print_fact(_console().width, f"{indent}{_readable(name):{width}} ", str(text))


def _readable(name: str) -> str:
    return name.replace("_gb", ", GB").replace("_", " ")
