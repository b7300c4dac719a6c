"""Output for people: tables, a heatmap, progress bars. Plain lines if the output is not a terminal."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table as RichTable
from rich.text import Text

from silobench.analysis.units import size

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
    console.print(table.title, style="italic", highlight=False)
    shown = RichTable(header_style="bold", box=None, pad_edge=False)
    for column in table.columns:
        shown.add_column(Text(column), overflow="fold")
    for row in table.rows:
        shown.add_row(*map(_entry, row))
    for place, row in enumerate(table.footer):
        if place == 0:
            shown.add_row()
        shown.add_row(*map(_entry, row))
    console.print(shown)
    if table.note:
        console.print(table.note, style="dim", highlight=False, markup=False)
    console.print()


def _entry(entry: "Entry") -> Text:
    text = Text(entry.text + (" *" if entry.best else ""), style="bold green" if entry.best else "")
    return text.append(f" ({entry.paper})", style="not bold dim") if entry.paper else text


def print_list(kind: str, rows: Sequence[dict[str, str]]) -> None:
    shown = RichTable(box=None, header_style="bold", pad_edge=False, show_lines=False)
    shown.add_column(kind, overflow="fold", ratio=2)
    shown.add_column("description", overflow="fold", ratio=3)
    for row in rows:
        shown.add_row(Text(row["signature"]), Text(row["summary"]))
    _console().print(shown)


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
    few = len(dataset.label_names) <= _MOST_CLASSES
    shown = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(("party", "rows", "EMD", *(dataset.label_names if few else ()))):
        shown.add_column(Text(name), justify="right" if place else "left", no_wrap=True)
    largest = max(map(max, skew.counts))
    for party in range(min(facts["parties"], _MOST_PARTIES)):
        heat = [_heat(count, largest) for count in skew.counts[party]] if few else []
        shown.add_row(Text(facts["names"][party]), str(skew.sizes[party]), f"{skew.emd[party]:.3f}", *heat)
    console.print(shown)
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


def _heat(count: int, largest: int) -> Text:
    """Return a count on a background that is darker for larger counts."""
    share = count / largest
    red, green, blue = (round(255 - share * (255 - end)) for end in (8, 81, 156))
    ink = "white" if share > 0.5 else "black"
    return Text(f"{count:>4}", style=f"{ink} on #{red:02x}{green:02x}{blue:02x}")


def print_catalog(entries: Sequence[dict[str, Any]]) -> None:
    """Print one line per dataset."""
    shown = RichTable(box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(("dataset", "available", "task", "train", "test", "classes", "groups", "description")):
        shown.add_column(name, justify="right" if place in (3, 4, 5) else "left", overflow="fold")
    for entry in entries:
        sizes = [f"{entry[key]:,}" if entry[key] else "" for key in ("train", "test", "classes")]
        available = Text("yes", style="green") if entry["available"] else Text("no", style="dim")
        shown.add_row(
            entry["name"], available, entry["task"], *sizes, ", ".join(entry["groups"]), Text(entry["summary"])
        )
    console = _console()
    console.print(shown)
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
            console.print(f"  {key:<10} {escape(str(value))}", highlight=False, soft_wrap=True)
    for source in entry["sources"]:
        for download in source["downloads"]:
            console.print(f"  {source['client']:<10} {escape(download['what'])}", highlight=False, soft_wrap=True)
    for name, file in entry["files"].items():
        checksum = file["sha256"] or "no published checksum; recorded when the file arrives"
        console.print(f"  file       {escape(name)}  {checksum}", highlight=False, soft_wrap=True)


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
            print(f"{indent}{_readable(name):{width}}  {text}")


def _readable(name: str) -> str:
    return name.replace("_gb", ", GB").replace("_", " ")
