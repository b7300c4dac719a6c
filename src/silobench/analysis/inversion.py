"""Findings of the measure `inversion`: how much of an image a server reconstructs."""

from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.measured import cells_with, choices_of, finding_text, known
from silobench.analysis.statistics import spread
from silobench.analysis.tables import Table, entries, shown_choices
from silobench.runs.stored import StoredRun

INVERSION = "inversion"
_COLUMNS = {
    "psnr": "PSNR, dB",
    "baseline_psnr": "PSNR of the mean image, dB",
    "mse": "squared error",
    "images": "images in the sum",
    "method": "reconstructed from",
}
_NOTE = (
    "PSNR: of the images that the server reconstructs from one training step, as a mean over victims, 100 if exact; "
    "images are protected if it is no better than that of the mean image, which needs no message; images in the sum: "
    "those behind what the server sees; it sees messages before the noise that it adds itself"
)


def inversion_tables(cells: Cells) -> list[Table]:
    """Return the quality of reconstructed images by cell; empty if no cell was attacked."""
    attacked = cells_with(cells, INVERSION)
    names = choices_of(attacked)
    rows = [
        [*shown_choices(cell, names, attacked), *entries(*(finding_text(cell, INVERSION, key) for key in _COLUMNS))]
        for cell in attacked
    ]
    return [Table("Gradient inversion", [*names, *_COLUMNS.values()], rows, _NOTE)] if rows else []


def pictures_of(run: StoredRun) -> dict[str, Any]:
    """Return the pictures of a run's attack: originals, reconstructions and the PSNR of each."""
    rows = list(run.measured(INVERSION).values())
    return dict(rows[-1].get("pictures", {})) if rows else {}


def psnr_text(cell: CellResult) -> str:
    """Return the PSNR of a cell, over trials."""
    over = spread(known(row.get("psnr") for run in cell.runs for row in run.measured(INVERSION).values()))
    return f"{over.mean:.1f} dB" if over else ""
