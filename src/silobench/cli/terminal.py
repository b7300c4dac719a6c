"""What a person sees in a terminal: tables, a heatmap, progress. Plain lines where the output is no terminal."""

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
    """The terminal as it is; a wide page where there is none, so that no table is folded."""
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
    shown.add_column("what it is", overflow="fold", ratio=3)
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
    """Sizes, distances and a heatmap of party x class counts."""
    console = _console()
    console.print(
        f"[bold]{escape(facts['dataset'])}[/bold] cut by [bold]{escape(facts['spec'])}[/bold] "
        f"into {facts['parties']} parties, seed {facts['seed']}, fingerprint {fingerprint}"
    )
    few = 0 < len(dataset.classes) <= _MOST_CLASSES
    shown = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(("party", "rows", "EMD", *(dataset.classes if few else ()))):
        shown.add_column(Text(name), justify="right" if place else "left", no_wrap=True)
    most = max(map(max, skew.counts))
    for party in range(min(facts["parties"], _MOST_PARTIES)):
        heat = [_heat(count, most) for count in skew.counts[party]] if few else []
        distance = f"{skew.emd[party]:.3f}" if dataset.classes else "-"
        shown.add_row(Text(facts["names"][party]), str(skew.sizes[party]), distance, *heat)
    console.print(shown)
    if facts["parties"] > _MOST_PARTIES:
        console.print(f"... and {facts['parties'] - _MOST_PARTIES} more parties; --json or --plot shows all.")
    of_labels = (
        f"mean EMD {skew.emd_weighted:.3f} of at most 2, Jensen-Shannon {skew.jensen_shannon:.3f} bit, "
        if dataset.classes
        else "labels are numbers, "
    )
    console.print(f"{of_labels}Gini of sizes {skew.gini:.3f}, feature shift {skew.feature_shift:.3f}")
    if shared:
        console.print(
            f"shared: {shared.rows} rows were set aside and {shared.each} of them given to each party, "
            f"{size(shared.bytes)} in all; mean EMD before {shared.emd_weighted_before:.3f}"
        )
    for note in notes:
        console.print(f"note: {escape(note)}")


def _heat(count: int, most: int) -> Text:
    """A count on a background that darkens with it."""
    share = count / most
    red, green, blue = (round(255 - share * (255 - end)) for end in (8, 81, 156))
    ink = "white" if share > 0.5 else "black"
    return Text(f"{count:>4}", style=f"{ink} on #{red:02x}{green:02x}{blue:02x}")


def print_catalog(entries: Sequence[dict[str, Any]]) -> None:
    """One line a dataset."""
    shown = RichTable(box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(("dataset", "here", "task", "train", "test", "classes", "groups", "what it is")):
        shown.add_column(name, justify="right" if place in (3, 4, 5) else "left", overflow="fold")
    for entry in entries:
        sizes = [f"{entry[key]:,}" if entry[key] else "" for key in ("train", "test", "classes")]
        here = Text("yes", style="green") if entry["available"] else Text("no", style="dim")
        shown.add_row(entry["name"], here, entry["task"], *sizes, ", ".join(entry["groups"]), Text(entry["summary"]))
    console = _console()
    console.print(shown)
    console.print(f"data directory: {entries[0]['data_dir']}", highlight=False, soft_wrap=True)
    console.print(
        "silobench data fetch NAME brings one; silobench data list NAME shows its licence, sources and sums.",
        style="dim", highlight=False,
    )  # fmt: skip


def print_entry(entry: dict[str, Any]) -> None:
    """Everything that the catalogue knows of a dataset."""
    console = _console()
    console.print(f"[bold]{entry['name']}[/bold] (version {entry['version']}): {escape(entry['summary'])}")
    sizes = {key: entry[key] for key in ("task", "train", "test", "classes") if entry[key]}
    here = entry["path"] or ("yes" if entry["available"] else f"no; run: {entry['get']}")
    lines = {
        **sizes, "groups": ", ".join(entry["groups"]), "here": here, "licence": entry["licence"],
        "terms": entry["terms"], "accepted": entry["accepted"], "cite": entry["citation"],
        "home page": entry["homepage"], "made from": ", ".join(entry["needs"]),
    }  # fmt: skip
    for key, value in lines.items():
        if value:
            console.print(f"  {key:<10} {escape(str(value))}", highlight=False, soft_wrap=True)
    for source in entry["sources"]:
        for download in source["downloads"]:
            console.print(f"  {source['client']:<10} {escape(download['what'])}", highlight=False, soft_wrap=True)
    for name, file in entry["files"].items():
        known = file["sha256"] or "no published sum; the one it arrives with is recorded"
        console.print(f"  file       {escape(name)}  {known}", highlight=False, soft_wrap=True)


class FetchProgress:
    """A bar while a dataset arrives; plain lines where the output is no terminal."""

    def __init__(self) -> None:
        self.console = _console()
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[note]}"))
        self.bars = Bars(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.task = self.bars.add_task("", total=None, visible=False, note="")
        self.said = ""

    def __enter__(self) -> "FetchProgress":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, step: "Step") -> None:
        """Move the bar, or say a line; without a terminal also what is being read, once."""
        line = f"{step.dataset}: {step.text}"
        passing = step.kind in ("bytes", "seconds", "file")
        if passing and self.console.is_terminal:
            self.bars.update(
                self.task,
                description=escape(line),
                completed=step.done,
                total=step.total,
                visible=True,
                note=_so_far(step),
            )
        elif step.kind != "file":
            line = f"{step.dataset}: reading {step.text}" if passing else line
            if line != self.said:
                self.bars.update(self.task, visible=False)
                self.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self.said = line


def _so_far(step: "Step") -> str:
    if step.kind == "seconds":
        return f"{step.done:.0f} s"
    if step.kind == "file":
        return ""
    return size(step.done) + (f" of {size(step.total)}" if step.total else "")


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
        self.spent: dict[str, float] = {}  # seconds of its own, not those that it waited for others
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

    def show(self, event: "Event") -> None:
        """Take in what happened and bring the view up to date."""
        run = event.id
        if event.kind == "begin":
            for note in sorted(set(event.notes) - self.said):
                self._say(f"note: {note}")
            self.said |= set(event.notes)
            self.spent[run], self.accuracy[run] = 0.0, None
            self.tasks[run] = self.bars.add_task("  run", total=event.rounds, note=escape(event.name))
        elif event.kind == "round":
            self.accuracy[run] = self.accuracy[run] if event.accuracy is None else event.accuracy
            self.share[run] = event.round / event.rounds
            self.spent[run] += event.seconds
            self.bars.update(self.tasks[run], completed=event.round, note=escape(self._line(event)))
            if not self.live and time.monotonic() - self.spoken > 10:  # a long run must not look dead
                self._say(f"{self._line(event)}, round {event.round} of {event.rounds}")
        else:
            self.done += 1
            self.share.pop(run, None)
            self.bars.remove_task(self.tasks.pop(run))
            self._say(f"[{self.done}/{self.total}] {self._line(event)}, {self.spent[run]:.1f} s")
        finished = self.done + sum(self.share.values())
        self.bars.update(self.all, completed=finished, note=f"{self.done} of {self.total}")

    def _line(self, event: "Event") -> str:
        accuracy = self.accuracy[event.id]
        return event.name if accuracy is None else f"{event.name}: accuracy {accuracy:.3f}"

    def _say(self, line: str) -> None:
        self.spoken = time.monotonic()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_facts(facts: Mapping[str, Any], indent: str = "") -> None:
    """Names and values in two columns; a group of facts under its name."""
    width = max(len(_spoken(name)) for name in facts)
    for name, value in facts.items():
        if isinstance(value, Mapping):
            print(f"{indent}{_spoken(name)}")
            print_facts(value, indent + "  ")
        else:
            said = "unknown" if value is None else ("no", "yes")[value] if isinstance(value, bool) else value
            print(f"{indent}{_spoken(name):{width}}  {said}")


def _spoken(name: str) -> str:
    return name.replace("_gb", ", GB").replace("_", " ")
