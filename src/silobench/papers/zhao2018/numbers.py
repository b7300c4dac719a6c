"""The numbers of Zhao and others (2018, "Federated Learning with Non-IID Data"), to stand beside ours."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from silobench.analysis.choices import begins_at_random, sharing_of, solver_of, start_of
from silobench.papers.published import fraction, rows
from silobench.spec import parse, parse_terms

SETTINGS = {
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
    """A number of the paper, by what it is drawn against."""

    at: float
    mean: float
    std: float | None


def zhao_accuracy(label: Mapping[str, Any]) -> dict[str, Any] | None:
    """The paper's accuracy where ten parties train, all in every round; None if it has no such cell.

    Table 2 for `target-emd`, Table 3 for SGD (`combined`, with batches of all ten), iid and shards, Figure 7 for
    `share`. SGD has no momentum and no weight decay; the convolutions, the learning rate and the rounds may be others:
    `SETTINGS` has the paper's.
    """
    solver, dataset = solver_of(label), dataset_of(label)
    pictured = parse(str(label["model"])).name not in ("linear", "mlp", "bag")
    if not (pictured and _plain(solver) and dataset in _LARGE):
        return None
    setting = (label["algorithm"], _batch(label, solver), solver.get("epochs"), begins_at_random(label))
    if sharing := sharing_of(label):
        own = (dataset, sharing.base, sharing.alpha, sharing.holdout, setting)
        papers = own == ("cifar-10", ONE_CLASS, 1.0, _HOLDOUT, _USUAL)
        found = _figure7().get((sharing.beta, sharing.warmup > 0)) if papers else None
        return _number(found, None, "Zhao Figure 7")
    if (emd := _target(label)) is not None:
        points = table2(dataset) if setting == _USUAL else []
        point = next((point for point in points if abs(point.at - emd) < 1e-9), None)
        return _number(point.mean, point.std, "Zhao Table 2") if point else None
    return _number(_table3().get((_training(label), *setting[1:3], dataset)), None, "Zhao Table 3")


def dataset_of(label: Mapping[str, Any]) -> str:
    """Of CIFAR-10 without how its pictures are cropped and where they came from; all else as it stands."""
    return "cifar-10" if parse(label["dataset"]).name == "cifar-10" else str(label["dataset"])


def _plain(solver: Mapping[str, Any]) -> bool:
    """Whether it is SGD as the paper has it; the defaults are NIID-Bench's."""
    stated = (solver.get("momentum"), solver.get("weight_decay")) == (0.0, 0.0)
    return stated and solver.keys() <= {"lr", "momentum", "weight_decay", "epochs", "batch"}


def _batch(label: Mapping[str, Any], solver: Mapping[str, Any]) -> str | None:
    """The paper's name of a batch size; of SGD it is that of all parties together."""
    times = _PARTIES if label["algorithm"] == "combined" else 1
    names: dict[Any, str] = {times * _SMALL: "small", times * _LARGE[dataset_of(label)]: "large"}
    return names.get(solver.get("batch"))


def _target(label: Mapping[str, Any]) -> float | None:
    first, *others = parse_terms(str(label["partition"]), "+")
    given: Any = dict(first.kwargs).get("emd")
    return float(given) if first.name == "target-emd" and not others else None


def _training(label: Mapping[str, Any]) -> str | None:
    """The row of Table 3 that a cell belongs to."""
    if label["algorithm"] == "combined":
        return "sgd" if label["partition"] == "iid" and begins_at_random(label) else None
    name = _TRAINING.get(label["partition"]) if label["algorithm"] == "fedavg" else None
    if begins_at_random(label):
        return name
    return f"{name} pre-trained" if start_of(label) and label["partition"] == ONE_CLASS and name else None


def _number(mean: float | None, std: float | None, table: str) -> dict[str, Any] | None:
    return None if mean is None else {"mean": mean, "std": std, "table": table}


def table2(dataset: str) -> list[Point]:
    """Accuracy by EMD; nothing for a dataset that the paper does not have."""
    return [
        Point(float(row["emd"]), float(row["accuracy_mean"]), float(row["accuracy_std"]))
        for row in rows("zhao_table2_accuracy_vs_emd.csv")
        if row["dataset"] == dataset
    ]


@cache
def _table3() -> dict[tuple[Any, ...], float]:
    """SGD has no local epochs; a round of ours is one pass."""
    columns = {"mnist": "mnist_percent", "cifar-10": "cifar10_percent", "kws": "kws_percent"}
    return {
        (row["training"], row["batch"], int(row["local_epochs"] or 1), dataset): fraction(row[column])
        for row in rows("zhao_table3_accuracy.csv")
        for dataset, column in columns.items()
    }


@cache
def _figure7() -> dict[tuple[float, bool], float]:
    numbers = {row["quantity"]: row["value"] for row in rows("zhao_data_sharing_cifar10.csv")}
    return {key: fraction(numbers[quantity]) for quantity, key in _SHARED.items()}
