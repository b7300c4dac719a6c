"""Output for people: tables, lists, a heatmap. Wide lines if the output is not a terminal."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from silobench.analysis.units import size
from silobench.cli.layout import Grid, Item, lay_out
from silobench.cli.output import Console, print
from silobench.cli.wrapping import wrap
from silobench.errors import listed

if TYPE_CHECKING:
    from silobench.analysis.tables import Entry, Table
    from silobench.data import Dataset
    from silobench.partitions import Sharing, Skewness

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
    return Item(entry.text + " *" * entry.best, "bold green" if entry.best else "", entry.beside)


def _print_text(console: Console, text: str, style: str = "") -> None:
    """Print text in lines that fit the terminal."""
    for line in wrap(text, console.width):
        console.print(Text(line, style), soft_wrap=True)


def _print_grid(console: Console, grid: Grid) -> None:
    for line in lay_out(grid, console.width):
        console.print(Text.assemble(*line), soft_wrap=True)


def print_lines(title: str, lines: Iterable[str]) -> None:
    """Print a title and sentences below it, each with a dash."""
    console = _console()
    console.print(Text(title, "bold"), soft_wrap=True)
    for line in lines:
        for place, part in enumerate(wrap(line, console.width - 4)):
            console.print(Text(f"{'  ' if place else '- '}{part}"), soft_wrap=True)


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
        f"mean EMD {skew.emd_weighted:.3f} (maximum 2), total variation {skew.total_variation:.3f} (maximum 1), "
        f"Jensen-Shannon divergence {skew.jensen_shannon:.3f} bits, "
    )
    console.print(f"{label_skew}Gini of party sizes {skew.gini:.3f}, feature shift {skew.feature_shift:.3f}")
    if shared:
        console.print(
            f"shared data: {shared.rows} rows; each party gets {shared.each} of them ({size(shared.bytes)} in total); "
            f"mean EMD without sharing {shared.emd_weighted_before:.3f}"
        )
    for note in notes:
        console.print(f"note: {escape(note)}")


def print_deal(facts: dict[str, Any]) -> None:
    """Print the columns and the numbers of rows of parties that hold columns."""
    console = _console()
    console.print(
        f"columns of [bold]{escape(facts['dataset'])}[/bold] dealt by [bold]{escape(facts['spec'])}[/bold] "
        f"to {facts['parties']} parties, seed {facts['seed']}, fingerprint {facts['fingerprint']}"
    )
    names = ("party", "labels", "features", "training rows", "test rows", "columns")
    rows = []
    for party, name in enumerate(facts["names"][:_MOST_PARTIES]):
        label = "yes" if name == facts["label"] else ""
        counts = len(facts["features"][party]), facts["train_rows"][party], facts["test_rows"][party]
        columns = listed(facts["columns"][party], _MOST_CLASSES)
        rows.append([Item(text) for text in (name, label, *map(str, counts), columns)])
    _print_grid(console, Grid(names, rows, right=frozenset(names[2:5])))
    if facts["parties"] > _MOST_PARTIES:
        console.print(f"... and {facts['parties'] - _MOST_PARTIES} more parties: --json shows all of them.")
    for note in facts["notes"]:
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
