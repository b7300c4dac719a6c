"""The six workloads, and their material as plain files that every contender can read.

Contenders run in separate environments, which need not have silobench. So `prepare.py` writes a workload's rows,
parties and initial model into a directory once, and this module, which needs only NumPy, reads them.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

LR = 0.01
MOMENTUM = 0.9  # restarted by every party in every round
SEED = 0


@dataclass(frozen=True)
class Workload:
    """FedAvg over an IID partition into equal parts, with SGD on the mean cross-entropy and without weight decay."""

    name: str
    title: str
    dataset: str  # silobench's spec
    model: str  # silobench's spec
    widths: tuple[int, ...] | None  # of the hidden layers of a multilayer perceptron; None for the CNN
    parties: int = 10
    cohort: int = 10  # parties per round
    epochs: int = 1
    batch: int = 64
    eval_every: int = 1
    unit: int = 1  # rounds per reported time
    frameworks: bool = True  # whether Flower and pfl take part

    @property
    def per(self) -> str:
        return "round" if self.unit == 1 else f"{self.unit} rounds"


_PICTURES = {"dataset": "cifar-10(augment=false)", "model": "cnn", "widths": None}
_PERCEPTRON = {"model": "mlp(32, 16, 8)", "widths": (32, 16, 8)}
_ALL = (
    Workload("W1", "CIFAR-10, CNN, 10 parties", **_PICTURES),
    Workload("W2", "adult, MLP, 10 parties, 10 epochs", dataset="adult", **_PERCEPTRON, epochs=10),
    Workload(
        "W3", "MNIST, logistic regression, 10 of 1,000 parties", dataset="mnist", model="linear", widths=(),
        parties=1000, batch=10, eval_every=100, unit=100,
    ),
    Workload("W4", "CIFAR-10, CNN, 10 of 100 parties", **_PICTURES, parties=100),
    Workload("W5", "rcv1-shaped sparse rows, MLP, 10 parties", dataset="sparse", **_PERCEPTRON, frameworks=False),
    Workload("W6", "covtype, MLP, 10 parties", dataset="covtype", **_PERCEPTRON),
)  # fmt: skip
WORKLOADS = {workload.name: workload for workload in _ALL}


@dataclass(frozen=True)
class Rows:
    """Features and labels; sparse features are the three arrays of a CSR matrix."""

    x: np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]  # or (values, columns, begin of each row)
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> "Rows":
        if isinstance(self.x, np.ndarray):
            return Rows(self.x[rows], self.y[rows])
        values, columns, begins = self.x
        counts = np.diff(begins)[rows]
        ends = np.cumsum(counts)
        cells = np.arange(ends[-1]) + np.repeat(begins[rows] - (ends - counts), counts)
        return Rows((values[cells], columns[cells], np.concatenate([[0], ends])), self.y[rows])


@dataclass(frozen=True)
class Material:
    """The contents of a workload's directory."""

    workload: Workload
    spec: str  # of the dataset, for silobench
    stand_in: bool  # whether random rows of the same shape replace the dataset
    shape: tuple[int, ...]  # of a row
    classes: int
    train: Rows
    test: Rows
    parties: list[np.ndarray]  # row numbers
    initial: np.ndarray  # the initial model, flat, in the order of the network's parameters

    def party(self, number: int) -> Rows:
        return self.train.take(self.parties[number])

    def cohorts(self) -> Iterator[list[int]]:
        """Yield the parties of each round, drawn without replacement."""
        rng = np.random.default_rng(SEED)
        while True:
            yield np.sort(rng.choice(len(self.parties), self.workload.cohort, replace=False)).tolist()

    def evaluates(self, done: int) -> bool:
        """Whether the model is tested after round `done`."""
        return done % self.workload.eval_every == 0


def write(folder: Path, material: Material) -> None:
    """Write a workload's material as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, rows in (("train", material.train), ("test", material.test)):
        parts = {"x": rows.x} if isinstance(rows.x, np.ndarray) else dict(zip(_CSR, rows.x, strict=True))
        for name, array in {**parts, "y": rows.y}.items():
            np.save(folder / f"{side}-{name}.npy", array)
    np.save(folder / "rows.npy", np.concatenate(material.parties))
    np.save(folder / "sizes.npy", np.array([len(rows) for rows in material.parties]))
    np.save(folder / "initial.npy", material.initial)
    facts = {"workload": asdict(material.workload), "spec": material.spec, "stand_in": material.stand_in}
    facts |= {"shape": material.shape, "classes": material.classes}
    (folder / "facts.json").write_text(json.dumps(facts))


def read_facts(folder: Path) -> dict:
    return json.loads((folder / "facts.json").read_text())


def read(folder: Path) -> Material:
    """Read what `write` wrote; arrays are mapped, so only used pages are in memory."""
    facts = read_facts(folder)
    facts["workload"]["widths"] = facts["workload"]["widths"] and tuple(facts["workload"]["widths"])
    sides = []
    for side in ("train", "test"):
        sparse = not (folder / f"{side}-x.npy").exists()
        parts = [_load(folder / f"{side}-{name}.npy") for name in (_CSR if sparse else ("x",))]
        sides.append(Rows(tuple(parts) if sparse else parts[0], _load(folder / f"{side}-y.npy")))
    ends = np.cumsum(np.load(folder / "sizes.npy"))
    return Material(
        Workload(**facts["workload"]),
        facts["spec"],
        facts["stand_in"],
        tuple(facts["shape"]),
        facts["classes"],
        *sides,
        np.split(np.load(folder / "rows.npy"), ends[:-1]),
        np.load(folder / "initial.npy"),
    )


_CSR = ("values", "columns", "begins")


def _load(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="c")
