"""Zhao, Li, Lai, Suda, Civin and Chandra (2018): accuracy against EMD, weight divergence, and sharing a little data."""

from silobench.papers.paper import Paper
from silobench.papers.zhao2018.divergence import MEASURE, divergence_table, divergences
from silobench.papers.zhao2018.emd import emd_json, emd_table
from silobench.papers.zhao2018.figures import sections
from silobench.papers.zhao2018.findings import FINDINGS, NAME
from silobench.papers.zhao2018.loss import loss_table, losses
from silobench.papers.zhao2018.numbers import FOLDER, accuracy
from silobench.papers.zhao2018.sharing import sharing_cells, sharing_table

PAPER = Paper(
    name=NAME,
    citation="Zhao, Li, Lai, Suda, Civin and Chandra: Federated Learning with Non-IID Data, arXiv 1806.00582, 2018",
    folder=FOLDER,
    findings=FINDINGS,
    accuracy=accuracy,
    tables=(loss_table, emd_table, divergence_table, sharing_table),
    measures=(MEASURE,),
    facts={
        "emd": emd_json,
        "divergence": lambda cells: [divergence.as_json() for divergence in divergences(cells)],
        "sharing": lambda cells: [cell.as_json() for cell in sharing_cells(cells)],
        "loss": lambda cells: [loss.as_json() for loss in losses(cells)],
    },
    sections=sections,
)
