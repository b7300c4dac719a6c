"""Hsieh, Phanishayee, Mutlu and Gibbons (ICML 2020), "the quagmire study": communication methods under label skew."""

from silobench.papers.hsieh2020.bsp_loss import bsp_loss_table, bsp_losses
from silobench.papers.hsieh2020.decisions import decisions_json, steering_table
from silobench.papers.hsieh2020.diagnostics import (
    DELTA,
    NORMS,
    REPLICAS,
    TRAVELLING,
    causes_json,
    delta_table,
    norms_table,
    replicas_table,
    travelling_table,
)
from silobench.papers.hsieh2020.figures import sections
from silobench.papers.hsieh2020.findings import FINDINGS, NAME
from silobench.papers.hsieh2020.numbers import FOLDER, accuracy
from silobench.papers.hsieh2020.savings import savings, savings_table
from silobench.papers.paper import Paper

PAPER = Paper(
    name=NAME,
    citation=(
        "Hsieh, Phanishayee, Mutlu and Gibbons: The Non-IID Data Quagmire of Decentralized Machine Learning, ICML 2020"
    ),
    folder=FOLDER,
    findings=FINDINGS,
    accuracy=accuracy,
    tables=(
        bsp_loss_table,
        savings_table,
        steering_table,
        travelling_table,
        delta_table,
        replicas_table,
        norms_table,
    ),
    measures=(TRAVELLING, DELTA, REPLICAS, NORMS),
    facts={
        "bsp_loss": lambda cells: [loss.as_json() for loss in bsp_losses(cells)],
        "savings": lambda cells: [saving.as_json() for saving in savings(cells)],
        "decisions": decisions_json,
        "causes": causes_json,
    },
    sections=sections,
)
