"""What federated training loses against SGD on the same rows in one place (Zhao et al., Table 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.choices import begins_at_random, solver_of
from silobench.analysis.families import Cells, chosen, percent, rest_of
from silobench.analysis.tables import BASELINES, Entry, Table, beside, shown
from silobench.papers.zhao2018.emd import choices, of_label


@dataclass(frozen=True)
class Loss:
    """A cell, and that of centralised SGD with batches as large as all of its parties' together."""

    cell: CellResult
    sgd: CellResult

    @property
    def lost(self) -> float:
        return self.sgd.accuracy.mean - self.cell.accuracy.mean

    @property
    def paper(self) -> float | None:
        """What the paper's cell loses, where it has both numbers."""
        both = self.cell.paper, self.sgd.paper
        return None if None in both else both[1]["mean"] - both[0]["mean"]  # type: ignore[index]

    def as_json(self) -> dict[str, Any]:
        sgd = {"mean": self.sgd.accuracy.mean, "std": self.sgd.accuracy.std}
        return {**of_label(self.cell), "sgd_accuracy": sgd, "lost": self.lost, "paper": self.paper}


def losses(cells: Cells) -> list[Loss]:
    """All cells that have such a rival, in their order."""
    return list(_losses(cells))


def _losses(cells: Cells) -> Iterator[Loss]:
    sgd = centralised(cells)
    for cell in cells:
        batch = solver(cell).get("batch")
        if cell.label["algorithm"] in BASELINES or not isinstance(batch, int):
            continue
        # The paper compares five local epochs with SGD that makes one pass a round.
        ways = [training(cell, cell.label["rounds"], cell.cohort * batch, epochs) for epochs in (None, 1)]
        if rival := next((sgd[way] for way in ways if way in sgd), None):
            yield Loss(cell, rival)


def centralised(cells: Cells) -> dict[str, CellResult]:
    """The cells of SGD on all rows as they are, from a random start, by how they were trained."""
    plain = [c for c in chosen(cells, "combined") if c.label["partition"] == "iid" and begins_at_random(c.label)]
    return {training(cell, cell.label["rounds"]): cell for cell in plain}


def training(cell: CellResult, rounds: Any, batch: Any = None, epochs: Any = None) -> str:
    """What a cell's training shares with SGD's: all but who trains, with this batch and so many rounds and epochs."""
    same = rest_of(cell, "algorithm", "solver", "partition", "rounds", "start", "measure", "eval_every")
    changed = {name: value for name, value in (("batch", batch), ("epochs", epochs)) if value is not None}
    return f"{same} {sorted(map(str, {**solver(cell), **changed}.items()))} {rounds}"


def solver(cell: CellResult) -> dict[str, Any]:
    """Every argument, with those left to their defaults."""
    return dict(solver_of(cell.runs[0].facts["config"]))


def loss_table(cells: Cells) -> Table:
    """One row a cell: SGD's accuracy, its own, and the difference beside the paper's."""
    found = losses(cells)
    told = [one.cell for one in found]
    names = [name for name in choices(told) if name not in ("solver", "measure")]
    rows = [
        [
            *(Entry(shown(one.cell, name, cells)) for name in names),
            *map(Entry, (str(one.cell.label["partition"]), _number(one, "batch"), _number(one, "epochs"))),
            Entry(percent(one.sgd), paper=beside(one.sgd)),
            Entry(percent(one.cell), paper=beside(one.cell)),
            Entry(f"{100 * one.lost:.1f}", paper="" if one.paper is None else f"paper {100 * one.paper:.1f}"),
        ]
        for one in found
    ]
    columns = [*names, "partition", "batch", "local epochs", "SGD", "accuracy", "lost"]
    note = "SGD: all rows in one place, batches as large as all parties' together, the same rounds"
    return Table("What is lost against centralised SGD, points of accuracy", columns, rows, note)


def _number(one: Loss, name: str) -> str:
    return str(solver(one.cell)[name])
