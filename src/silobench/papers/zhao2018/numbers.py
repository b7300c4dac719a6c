"""The numbers that Zhao and others print (2018, "Federated Learning with Non-IID Data")."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from silobench.analysis.cells import Published
from silobench.analysis.specs import arguments, starts_at_random
from silobench.papers.published import fraction, is_usual, participation, published_tables
from silobench.papers.zhao2018.sharing import sharing_of
from silobench.runs.label import Label

FOLDER = Path(__file__).parent
_SETTINGS = {
    "Zhao Table 2": "Zhao et al., Table 2: McMahan et al.'s CNN (KWS: a small CNN), 500 rounds, 5 distributions",
    "Zhao Table 3": "Zhao et al., Table 3: McMahan et al.'s CNN (KWS: a small CNN), 500 rounds",
    "Zhao Figure 7": "Zhao et al., Figure 7: McMahan et al.'s CNN, 300 rounds, a fifth of the rows set aside for G",
}
ONE_CLASS = "shards(per_party=1)"
_LARGE = {"mnist": 100, "cifar-10": 100, "kws": 50}  # batches
_SMALL = 10
_PARTIES = 10
_HOLDOUT = 0.2
_USUAL = ("fedavg", "large", 1, True)  # algorithm, batch, local epochs, a random start
_TRAINING = {"iid": "fedavg iid", "shards": "fedavg 2-class", ONE_CLASS: "fedavg 1-class"}
_SHARED = {  # beta, and whether training begins with a warm-up model
    "accuracy 1-class without sharing": (0.0, False),
    "accuracy with beta=10% (whole G shared)": (0.1, False),
    "accuracy with beta=25% (whole G shared; the maximum)": (0.25, False),
    "accuracy with warm-up from G20% and alpha=100%": (0.2, True),
    "accuracy with warm-up from G10% and alpha=100%": (0.1, True),
}


class Point(NamedTuple):
    """A printed number, by what it is drawn against."""

    at: float
    mean: float
    std: float | None


def accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that the paper prints where ten parties train in every round; None if it has no such cell.

    Table 2 for `target-emd`, Table 3 for SGD (`combined`, with batches of all ten), iid and shards, Figure 7 for
    `share`. SGD has neither momentum nor weight decay. The convolutions, the learning rate and the rounds may differ:
    `Published.setting` has the paper's.
    """
    solver, dataset = arguments(label.solver), dataset_of(label)
    everyone = parties == _PARTIES and participation(label, parties) == 1 and is_usual(label, any_start=True)
    convolutional = label.model.name not in ("linear", "mlp", "bag")
    if not (everyone and convolutional and _is_plain(solver) and dataset in _LARGE):
        return None
    setting = (label["algorithm"], _batch(label, solver), solver.get("epochs"), starts_at_random(label))
    if sharing := sharing_of(label):
        choices = (dataset, sharing.base, sharing.alpha, sharing.holdout, setting)
        if choices != ("cifar-10", ONE_CLASS, 1.0, _HOLDOUT, _USUAL):
            return None
        return _published(_figure7().get((sharing.beta, sharing.warmup > 0)), None, "Zhao Figure 7")
    if (emd := _target_emd(label)) is not None:
        points = table2(dataset) if setting == _USUAL else []
        point = next((point for point in points if abs(point.at - emd) < 1e-9), None)
        return _published(point.mean, point.std, "Zhao Table 2") if point else None
    return _published(_table3().get((_training(label), *setting[1:3], dataset)), None, "Zhao Table 3")


def dataset_of(label: Label) -> str:
    """Return the dataset; CIFAR-10 without its options, such as cropping."""
    return "cifar-10" if label.dataset.name == "cifar-10" else str(label["dataset"])


def _is_plain(solver: Mapping[str, Any]) -> bool:
    """Whether it is SGD as the paper has it; the defaults are others."""
    stated = (solver.get("momentum"), solver.get("weight_decay")) == (0.0, 0.0)
    return stated and solver.keys() <= {"lr", "momentum", "weight_decay", "epochs", "batch"}


def _batch(label: Label, solver: Mapping[str, Any]) -> str | None:
    """Return the paper's name of a batch size; for SGD it is that of all parties together."""
    times = _PARTIES if label["algorithm"] == "combined" else 1
    names: dict[Any, str] = {times * _SMALL: "small", times * _LARGE[dataset_of(label)]: "large"}
    return names.get(solver.get("batch"))


def _target_emd(label: Label) -> float | None:
    first, *others = label.partition
    return float(arguments(first)["emd"]) if first.name == "target-emd" and not others else None


def _training(label: Label) -> str | None:
    """Return the row of Table 3 that a cell belongs to."""
    if label["algorithm"] == "combined":
        return "sgd" if label["partition"] == "iid" and starts_at_random(label) else None
    name = _TRAINING.get(label["partition"]) if label["algorithm"] == "fedavg" else None
    if starts_at_random(label):
        return name
    pretrained = label.start.name == "centralised" and label.start.kwargs
    return f"{name} pre-trained" if pretrained and label["partition"] == ONE_CLASS and name else None


def _published(mean: float | None, std: float | None, table: str) -> Published | None:
    return None if mean is None else Published(mean, std, table, _SETTINGS[table])


# --- tables -------------------------------------------------------------------------------------------


def table2(dataset: str) -> list[Point]:
    """Return accuracy by EMD; empty for a dataset that the paper does not have."""
    (rows,) = published_tables(FOLDER, "zhao-emd")
    return [
        Point(float(row["emd"]), float(row["accuracy_mean"]), float(row["accuracy_std"]))
        for row in rows
        if row["dataset"] == dataset
    ]


@cache
def _table3() -> dict[tuple[Any, ...], float]:
    """Read Table 3. It states no local epochs for SGD: a round is one pass."""
    (rows,) = published_tables(FOLDER, "zhao-table3")
    columns = {"mnist": "mnist_percent", "cifar-10": "cifar10_percent", "kws": "kws_percent"}
    return {
        (row["training"], row["batch"], int(row["local_epochs"] or 1), dataset): fraction(row[column])
        for row in rows
        for dataset, column in columns.items()
    }


@cache
def _figure7() -> dict[tuple[float, bool], float]:
    (rows,) = published_tables(FOLDER, "zhao-sharing")
    numbers = {row["quantity"]: row["value"] for row in rows}
    return {key: fraction(numbers[quantity]) for quantity, key in _SHARED.items()}
