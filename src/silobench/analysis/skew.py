"""What label skew does, as Zhao et al. look at it: what is lost, accuracy by EMD, divergence, sharing; all at once."""

from typing import Any

from silobench.analysis.divergence import divergence_table, divergences
from silobench.analysis.emd import emd_json, emd_table
from silobench.analysis.families import Cells
from silobench.analysis.loss import loss_table, losses
from silobench.analysis.sharing import shared, sharing_table
from silobench.analysis.tables import Table


def skew_tables(cells: Cells) -> list[Table]:
    """Those that these cells bear on."""
    made = (loss_table, emd_table, divergence_table, sharing_table)
    return [table for table in (make(cells) for make in made) if table.rows]


def skew_json(cells: Cells) -> dict[str, list[dict[str, Any]]]:
    """The same as plain values, by name."""
    return {
        "emd": emd_json(cells),
        "divergence": [one.as_json() for one in divergences(cells)],
        "sharing": [one.as_json() for one in shared(cells)],
        "loss": [one.as_json() for one in losses(cells)],
    }
