"""Accuracy that federated training loses against SGD on the same rows in one place (Zhao et al., Table 1)."""

from collections.abc import Hashable, Iterator
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, accuracy_json, label_json, of_algorithms
from silobench.analysis.specs import arguments, starts_at_random
from silobench.analysis.tables import BASELINES, Table, entries, shown_choices
from silobench.papers.losses import Loss
from silobench.papers.zhao2018.emd import study_choices


class SgdLoss(Loss):
    """A cell, and centralised SGD with batches as large as those of all parties together."""

    def as_json(self) -> dict[str, Any]:
        sgd = accuracy_json(self.reference)
        return {**label_json(self.cell), "sgd_accuracy": sgd, "lost": self.lost, "paper": self.paper}


def losses(cells: Cells) -> list[SgdLoss]:
    """Return the losses of all cells that have such a reference, in their order."""
    return list(_losses(cells))


def _losses(cells: Cells) -> Iterator[SgdLoss]:
    sgd = centralised(cells)
    for cell in cells:
        batch = solver_arguments(cell).get("batch")
        if cell.label["algorithm"] in BASELINES or not isinstance(batch, int):
            continue
        # The paper compares five local epochs with SGD that makes one pass per round.
        keys = [training_key(cell, cell.label.rounds, cell.cohort * batch, epochs) for epochs in (None, 1)]
        if reference := next((sgd[key] for key in keys if key in sgd), None):
            yield SgdLoss(cell, reference)


def centralised(cells: Cells) -> dict[Hashable, CellResult]:
    """Return the cells of SGD on all rows, from a random start, by the key of their training."""
    return {
        training_key(cell, cell.label.rounds): cell
        for cell in of_algorithms(cells, "combined")
        if cell.label["partition"] == "iid" and starts_at_random(cell.label)
    }


def training_key(cell: CellResult, rounds: int | None, batch: int | None = None, epochs: int | None = None) -> Hashable:
    """Return a key of all choices that federated and centralised training share.

    `batch` and `epochs` replace the cell's own where they are stated.
    """
    label = cell.label.without("algorithm", "solver", "partition", "rounds", "start", "measure", "eval_every")
    changes = {name: value for name, value in (("batch", batch), ("epochs", epochs)) if value is not None}
    return label, tuple(sorted(map(str, {**solver_arguments(cell), **changes}.items()))), rounds


def solver_arguments(cell: CellResult) -> dict[str, Any]:
    """Return every argument of the solver, also those at their defaults."""
    return arguments(cell.config.solver)


def loss_table(cells: Cells) -> Table:
    """Return one row per cell: accuracy of SGD and of the cell, and the difference beside the paper's."""
    rivals = losses(cells)
    names = [name for name in study_choices([loss.cell for loss in rivals]) if name not in ("solver", "measure")]
    rows = [
        [
            *shown_choices(loss.cell, names, cells),
            *entries(
                loss.cell.label["partition"], *(str(solver_arguments(loss.cell)[name]) for name in ("batch", "epochs"))
            ),
            *loss.entries(),
        ]
        for loss in rivals
    ]
    columns = [*names, "partition", "batch", "local epochs", "SGD", "accuracy", "lost"]
    note = "SGD: all rows in one place, batches as large as all parties' together, the same rounds"
    return Table("Loss against centralised SGD, points of accuracy", columns, rows, note)
