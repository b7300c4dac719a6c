"""What a command is doing, and for how long: bars on a terminal, otherwise a plain line now and then.

The bar and the time are always visible; the text beside them is shortened to the space that is left.
"""

import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from silobench.analysis.units import size
from silobench.cli.output import Console
from silobench.cli.wrapping import wrap
from silobench.errors import SpecError
from silobench.spec import parse

if TYPE_CHECKING:
    from silobench.data.store.fetch import Step
    from silobench.runs.sweep import Event

_BAR, _TIME = 16, 7  # characters
_EVERY = 10.0  # seconds between plain lines


def shortened(text: str, room: int) -> str:
    """Return a text of parts between slashes in at most `room` characters: the longest part loses its middle.

    >>> shortened("digits / label-dirichlet(beta=0.5) / scaffold / seed 0", 45)
    'digits / label-d…eta=0.5) / scaffold / seed 0'
    """
    parts, kept = text.split(" / "), [*text.split(" / ")]
    while cell_len(" / ".join(kept)) > room:
        place = max(range(len(kept)), key=lambda index: cell_len(kept[index]))
        left = len(kept[place]) - 2 if "…" in kept[place] else len(parts[place]) - 2
        if left < 2:
            return text[: max(room - 1, 0)] + "…"
        kept[place] = f"{parts[place][: left // 2]}…{parts[place][len(parts[place]) - (left - left // 2) :]}"
    return " / ".join(kept)


def short_name(run: str) -> str:
    """Return the name of a run with the names of its files in place of a dataset spec with paths.

    >>> short_name("csv(path=data/patients.csv, label=outcome) / by-group / fedavg / seed 0")
    'patients / by-group / fedavg / seed 0'
    >>> short_name("linked(files=[data/bank.csv, data/shop.csv], label=paid) / columns / split / seed 0")
    'bank+shop / columns / split / seed 0'
    """
    dataset, *others = run.split(" / ")
    try:
        arguments = dict(parse(dataset).kwargs)
    except SpecError:
        return run
    files = arguments.get("files") or arguments.get("path") or ()
    stems = [PurePath(str(file)).stem for file in (files if isinstance(files, tuple) else (files,))]
    return " / ".join(["+".join(stems) or dataset, *others])


def _bars(console: Console, time_column: ProgressColumn, is_live: bool, redirects: bool = True) -> Bars:
    """Return bars; with `redirects`, what is printed while they are live appears above them."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=_BAR),
        time_column,
        TextColumn("{task.fields[note]}"),
    )
    return Bars(
        *columns, console=console, transient=True, disable=not is_live, redirect_stdout=redirects,
        redirect_stderr=redirects,
    )  # fmt: skip


def _note(console: Console, text: str, end: str = "", description: str = "") -> str:
    """Return a text for the line of a bar. Its end is always visible."""
    room = console.width - cell_len(description) - _BAR - _TIME - 3
    return escape(shortened(text, max(room - cell_len(end), 1)) + end)


class Waiting:
    """A bar for one step; without a terminal, a plain line at once and every ten seconds.

    It writes to `stream` only, and leaves sys.stdout and sys.stderr to the step, which may silence a library by them.
    """

    def __init__(self, stream: TextIO, since: float) -> None:
        self.console = Console(file=stream)
        self.since = since  # by time.monotonic
        self.bars = _bars(self.console, TimeElapsedColumn(), self.console.is_terminal, redirects=False)
        self.task = self.bars.add_task("", total=None, note="")
        self.pause = 0.2 if self.console.is_terminal else _EVERY  # seconds between calls of `show`

    def show(self, text: str, done: int, total: int) -> None:
        amount = f", {done:,} of {total:,}" if total else ""
        if self.console.is_terminal:
            note = _note(self.console, text, amount)
            self.bars.update(self.task, completed=done, total=total or None, note=note)
            self.bars.start()
        else:
            line = f"{text}{amount}, {time.monotonic() - self.since:.0f} s"
            self.print(line)

    def print(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        self.bars.stop()


class FetchProgress:
    """A progress bar for downloads; plain lines if the output is not a terminal."""

    def __init__(self) -> None:
        self.console = Console()
        self.bars = _bars(self.console, TimeElapsedColumn(), self.console.is_terminal)
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
            note = _note(self.console, line, _amount(step))
            self.bars.update(self.task, completed=step.done, total=step.total, visible=True, note=note)
        elif step.kind != "file":
            line = f"{step.dataset}: reading {step.text}" if passing else line
            if line != self.last_line:
                self.bars.update(self.task, visible=False)
                self.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self.last_line = line


def _amount(step: "Step") -> str:
    if step.kind == "seconds":
        return f", {step.done:.0f} s"
    if step.kind == "file":
        return ""
    return f", {size(step.done)}" + (f" of {size(step.total)}" if step.total else "")


class Progress:
    """Progress of a sweep: finished runs, rounds, scores, time left. One line per run if there is no terminal."""

    def __init__(self, total: int, done: int, live: bool = True):
        self.total, self.done = total, done
        self.console = Console(stderr=True)
        self.live = live and self.console.is_terminal  # a debugger needs the terminal for itself
        self.bars = _bars(self.console, TimeRemainingColumn(), self.live)
        self.all = self.bars.add_task("runs", total=total, completed=done, note=f"{done} of {total}")
        self.tasks: dict[str, Any] = {}  # run id -> bar of a run in progress
        self.spent: dict[str, float] = {}  # seconds of computing, without waiting for other runs
        self.score: dict[str, str] = {}  # the last, as text
        self.lost: dict[str, list[bool]] = {}  # for each round of this command, whether it was lost
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
        run, name = event.id, short_name(event.name)
        if event.score is not None:
            self.score[run] = f": {event.metric.title} {event.metric.text(event.score)}"
        score = self.score.setdefault(run, "")
        if event.kind == "begin":
            for note in dict.fromkeys(event.notes):
                if note not in self.notes:
                    self._print(f"note: {note}")
            self.notes.update(event.notes)
            self.spent[run], self.lost[run] = 0.0, []
            self.tasks[run] = self.bars.add_task(
                "  run", total=event.rounds, note=_note(self.console, name, "", "  run")
            )
        elif event.kind == "round":
            self.share[run] = event.round / event.rounds
            self.spent[run] += event.seconds
            self.lost[run].append(event.is_lost)
            self.bars.update(self.tasks[run], completed=event.round, note=_note(self.console, name, score, "  run"))
            if not self.live and time.monotonic() - self.last_print > _EVERY:  # a long run must not look dead
                self._print(f"{name}{score}, round {event.round} of {event.rounds}")
        else:
            self.done += 1
            self.share.pop(run, None)
            self.bars.remove_task(self.tasks.pop(run))
            lost = self.lost.pop(run)
            losses = f", {sum(lost)} of {len(lost)} rounds were lost" if any(lost) else ""
            self._print(f"[{self.done}/{self.total}] {name}{score}{losses}, {self.spent[run]:.1f} s")
        finished = self.done + sum(self.share.values())
        self.bars.update(self.all, completed=finished, note=f"{self.done} of {self.total}")

    def _print(self, text: str) -> None:
        self.last_print = time.monotonic()
        for line in wrap(text, self.console.width) if self.console.is_terminal else [text]:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)
