"""Which parties were malicious in runs with an adversary."""

from silobench.analysis.groups import Cells
from silobench.analysis.tables import Table, entries, shown, varying
from silobench.runs.stored import StoredRun


def malicious_tables(cells: Cells) -> list[Table]:
    """Return the malicious parties of every cell that has some; empty if no cell has any."""
    attacked = [cell for cell in cells if any(run.facts.malicious for run in cell.runs)]
    names = list(dict.fromkeys((*varying(cells), "algorithm", "adversary")))
    rows = [
        entries(*(shown(cell, name, cells) for name in names), "; ".join(dict.fromkeys(map(_names, cell.runs))))
        for cell in attacked
    ]
    note = "malicious: the parties that do what the adversary wants; a list for each trial where trials differ"
    return [Table("Malicious parties", [*names, "malicious"], rows, note)] if rows else []


def _names(run: StoredRun) -> str:
    """Return the names of a run's malicious parties."""
    names = run.partition.parties
    return ", ".join(names[party] if party < len(names) else str(party) for party in run.facts.malicious)
