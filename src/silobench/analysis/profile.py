"""Where the time of runs went, from the seconds that every round states."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Entry, Table, shown, varying
from silobench.runs.record import StoredRun
from silobench.units import duration

PHASES = ("data", "control", "train", "encode", "aggregate", "evaluate", "measure", "record", "idle")


def profile_table(cells: Sequence[CellResult]) -> Table:
    """Seconds of the clock a run, and the share of each phase in percent; mean over trials."""
    names = [*varying(cells), "algorithm"]
    rows = []
    for cell in cells:
        spent = {phase: sum(_seconds(run, phase) for run in cell.runs) / len(cell.runs) for phase in PHASES}
        total = sum(spent.values())
        shares = [f"{100 * spent[phase] / total:.1f}" for phase in PHASES]
        told = [*(shown(cell, name, cells) for name in names), _engines(cell), duration(total), *shares]
        rows.append([Entry(text) for text in told])
    columns = [*names, "engine", "time", *(f"{phase} %" for phase in PHASES)]
    return Table("Where the time went (by the clock, mean over trials)", columns, rows, _reading())


def _seconds(run: StoredRun, phase: str) -> float:
    return float(sum(row["seconds"].get(phase, 0.0) for row in run.rounds))


def _engines(cell: CellResult) -> str:
    """What computed a cell's rounds: usually one thing, more after a resume under other conditions."""
    used = {(row["engine"], row["workers"]) for run in cell.runs for row in run.rounds}
    return ", ".join(f"{engine} x {workers}" if workers > 1 else engine for engine, workers in sorted(used))


def _reading() -> str:
    return (
        "data: load, cut, build; control: what a controller finds out and decides; train and encode: parties at work, "
        "by their share where several work side by side; "
        "aggregate: the server's step; evaluate: tests; record: files and progress; idle: waiting and messages"
    )
