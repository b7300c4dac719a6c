"""What label skew does, as Zhao et al. look at it: accuracy by EMD, weight divergence, sharing. All of it at once."""

from typing import Any

from silobench.analysis.divergence import divergence_table, divergences
from silobench.analysis.emd import emd_json, emd_table
from silobench.analysis.families import Cells
from silobench.analysis.sharing import shared, sharing_table
from silobench.analysis.tables import Table


def skew_tables(cells: Cells) -> list[Table]:
    """Those that these cells bear on."""
    return [table for table in (emd_table(cells), divergence_table(cells), sharing_table(cells)) if table.rows]


def skew_json(cells: Cells) -> dict[str, list[dict[str, Any]]]:
    """The same as plain values, by name."""
    return {
        "emd": emd_json(cells),
        "divergence": [one.as_json() for one in divergences(cells)],
        "sharing": [one.as_json() for one in shared(cells)],
    }
