"""Digests of suite cells: a line for each cell, in a file for each CPU type.

    # {"vendor": ..., "aten": ..., "torch": ...}          the type
    # id  suite  mode  work  state  exact  train 1  loss 1  train 2  loss 2  score

`state` is the start of the digest of all bits of the final state. `exact` is one of everything that does not depend on
rounding: cohorts, steps, rows, sizes of dense messages. Losses of the first two rounds and the last score are stored as
numbers, for machines of other types.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from determinism.suite_cells import SuiteCell
from silobench.runs.stored import StoredRun, read_json, read_run
from silobench.tasks.metrics import ACCURACY

FOLDER = Path(__file__).with_name("digests")
SENSITIVITY = FOLDER / "sensitivity.tsv"
_SHORT = 5e8  # row visits times parameters
_BY_TORCH = 4  # how much longer PyTorch takes for the same work
_EXACT = ("round", "cohort", "replied", "steps", "rows", "dense_up", "dense_down")


@dataclass(frozen=True)
class Digest:
    """What a run of a cell must give again."""

    id: str
    suite: str
    mode: str
    work: str  # row visits times parameters, by which short cells are chosen
    state: str
    exact: str
    train_1: str  # numbers as texts: equal bits are equal texts
    loss_1: str
    train_2: str
    loss_2: str
    score: str

    @property
    def cost(self) -> float:
        """How long the run takes, in units of the native mode."""
        return float(self.work) * (1 if self.mode == "native" else _BY_TORCH)

    def losses(self, number: int) -> tuple[str, str]:
        """Return the training loss and the test loss of round 1 or 2."""
        return (self.train_1, self.loss_1) if number == 1 else (self.train_2, self.loss_2)


def digest_of(path: Path, suite: str) -> Digest:
    """Return the digest of a finished run."""
    facts, rows = read_json(path)
    exact = json.dumps([[row.get(key) for key in _EXACT] for row in rows])
    work = sum(int(row.get("rows", 0)) for row in rows) * int(facts.get("parameters", 1))
    score = _number(_score(read_run(path)))
    state, mode = str(facts["state_sha256"])[:16], str(facts["made_by"]["engine"])
    return Digest(path.name, suite, mode, f"{work:.2g}", state, _short(exact), *losses_of(rows), score)


def losses_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the training loss and the test loss of rounds 1 and 2 as texts."""
    first = [*rows[:2], *[{}] * (2 - len(rows))]
    return [_number(row.get(key)) for row in first for key in ("train_loss", "loss")]


def _score(run: StoredRun) -> float | None:
    row = run.tested[-1]
    value = row.metrics.get(run.metric.name)
    return row.accuracy if value is None and run.metric.name == ACCURACY.name else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_digests(path: Path, facts: Mapping[str, str], digests: Iterable[Digest]) -> None:
    """Write the digests of a CPU type."""
    names = "\t".join(field.name for field in fields(Digest))
    lines = [f"# {json.dumps(facts)}", f"# {names}", *("\t".join(astuple(digest)) for digest in digests)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]))


def read_digests(path: Path) -> tuple[dict[str, str], dict[str, Digest]]:
    """Return the CPU type of a file, and its digests by run id."""
    first, _, *lines = path.read_text().splitlines()
    facts: dict[str, str] = json.loads(first.removeprefix("# "))
    digests = [Digest(*line.split("\t")) for line in lines]
    return facts, {digest.id: digest for digest in digests}


def recorded_types() -> list[Path]:
    """Return the files of all CPU types."""
    return sorted(path for path in FOLDER.glob("*.tsv") if path != SENSITIVITY)


def shortest(cells: Iterable[SuiteCell], digests: Mapping[str, Digest]) -> list[SuiteCell]:
    """Return the cell of each suite with the least work, of suites that have one of less than a second."""
    best: dict[str, SuiteCell] = {}
    for cell in sorted(cells, key=lambda cell: digests[cell.plan.id].cost):
        best.setdefault(cell.suite, cell)
    return [cell for cell in best.values() if digests[cell.plan.id].cost <= _SHORT]


def write_sensitivity(path: Path, sensitivities: Mapping[str, Sequence[float]]) -> None:
    """Write how much the losses of rounds 1 and 2 change if the start changes by one unit in the last place."""
    lines = [f"{id}\t" + "\t".join(f"{value:.1e}" for value in values) for id, values in sensitivities.items()]
    path.write_text("\n".join(["# id\tround 1\tround 2", *lines, ""]))


def read_sensitivity(path: Path = SENSITIVITY) -> dict[str, tuple[float, ...]]:
    """Return the sensitivities of rounds 1 and 2, by run id."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return {row[0]: tuple(map(float, row[1:])) for row in rows}


def differing_facts(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the facts in which two CPU types differ."""
    return [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]
