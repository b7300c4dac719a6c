"""Where the time of runs went, from the seconds that every round records."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Table, entries, shown, varying
from silobench.analysis.units import duration
from silobench.runs.stored import StoredRun

PHASES = ("data", "control", "train", "encode", "aggregate", "evaluate", "measure", "record", "idle")
_NOTE = (
    "data: load, partition, build; control: probes and decisions; train and encode: the parties' work, "
    "divided where several parties train at once; aggregate: the server's step; evaluate: tests; record: "
    "files and progress; idle: waiting and messages"
)


def profile_table(cells: Sequence[CellResult]) -> Table:
    """Return the wall-clock time of a run and the share of each phase in percent, as a mean over trials."""
    names = [*varying(cells), "algorithm"]
    rows = []
    for cell in cells:
        spent = {phase: sum(_seconds(run, phase) for run in cell.runs) / len(cell.runs) for phase in PHASES}
        total = sum(spent.values())
        shares = [f"{100 * spent[phase] / total:.1f}" if total else "-" for phase in PHASES]
        rows.append(entries(*(shown(cell, name, cells) for name in names), _engines(cell), duration(total), *shares))
    columns = [*names, "engine", "time", *(f"{phase} %" for phase in PHASES)]
    return Table("Where the time went (by the clock, mean over trials)", columns, rows, _NOTE)


def _seconds(run: StoredRun, phase: str) -> float:
    return float(sum(row.seconds.get(phase, 0.0) for row in run.rounds))


def _engines(cell: CellResult) -> str:
    """Return what computed a cell's rounds: usually one engine, several if a run was resumed with another one."""
    used = {(row.engine, row.workers) for run in cell.runs for row in run.rounds}
    return ", ".join(f"{engine} x {workers}" if workers > 1 else engine for engine, workers in sorted(used))
