"""What skew does, as Zhao et al. and the quagmire study look at it: all of their tables at once."""

from typing import Any

from silobench.analysis.families import Cells
from silobench.analysis.tables import Table
from silobench.papers.hsieh2020.bsp_loss import bsp_loss_table, bsp_losses
from silobench.papers.hsieh2020.decisions import decisions_json, steering_table
from silobench.papers.hsieh2020.diagnostics import (
    causes_json,
    delta_table,
    norms_table,
    replicas_table,
    travelling_table,
)
from silobench.papers.hsieh2020.savings import savings, savings_table
from silobench.papers.zhao2018.divergence import divergence_table, divergences
from silobench.papers.zhao2018.emd import emd_json, emd_table
from silobench.papers.zhao2018.loss import loss_table, losses
from silobench.papers.zhao2018.sharing import shared, sharing_table


def skew_tables(cells: Cells) -> list[Table]:
    """Those that these cells bear on."""
    made = (
        loss_table, emd_table, divergence_table, sharing_table, bsp_loss_table, savings_table, steering_table,
        travelling_table, delta_table, replicas_table, norms_table,
    )  # fmt: skip
    return [table for table in (make(cells) for make in made) if table.rows]


def skew_json(cells: Cells) -> dict[str, list[dict[str, Any]]]:
    """The same as plain values, by name."""
    return {
        "emd": emd_json(cells),
        "divergence": [one.as_json() for one in divergences(cells)],
        "sharing": [one.as_json() for one in shared(cells)],
        "loss": [one.as_json() for one in losses(cells)],
        "bsp_loss": [one.as_json() for one in bsp_losses(cells)],
        "savings": [one.as_json() for one in savings(cells)],
        "decisions": decisions_json(cells),
        "causes": causes_json(cells),
    }
