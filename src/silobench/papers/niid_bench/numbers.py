"""The numbers that NIID-Bench prints, Tables III to V and its authors' leaderboard, and those of a replication."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from silobench.analysis.cells import Published, PublishedCost
from silobench.analysis.specs import arguments
from silobench.papers.published import fraction, is_usual, participation, published_tables
from silobench.runs.label import Label
from silobench.spec import Spec, parse, parse_terms

FOLDER = Path(__file__).parent
_SETTINGS = {
    "Table III": "NIID-Bench, Table III: 50 rounds of 10 local epochs, 3 trials",
    "Table V": "NIID-Bench, Table V: 50 rounds of 10 local epochs",
    "leaderboard": "NIID-Bench's leaderboard: 500 rounds of 10 local epochs",
    "Flower": "Flower's baseline niid_bench: 50 rounds of 10 local epochs, one trial, FedProx at the best of four mu",
}
_ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova")
_DEFAULT_MU = 0.01
_MU = (0.001, 0.01, 0.1, 1.0)  # the grid, of which the paper prints the best
_MODELS = {"fcube": "linear", "adult": "mlp", "rcv1": "mlp", "covtype": "mlp"}  # the CNN for all others
_SOLVER: dict[str, dict[str, Any]] = {"rcv1": {"lr": 0.1}}  # arguments besides epochs and batch

Key: TypeAlias = tuple[str, str, str]  # dataset, partition, algorithm


def accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that the paper prints for a setting; None if it has no such setting.

    Table III; Table V for mixed skew; the leaderboard for a tenth of 100 parties. The data, the network, the
    federation and the algorithm must be the paper's (FedProx at any mu of its grid: the paper prints the best).
    Rounds, local epochs and the batch size may differ: `Published.setting` has the paper's. So may the balancing of
    `label-dirichlet`: the paper's text does not have it, its public code does.

    >>> plain = {"participation": 1.0, "transforms": "", "server": "step", "model": "linear", "solver": "sgd"}
    >>> accuracy(Label({"dataset": "fcube", "partition": "octants", "algorithm": "fedavg", **plain}), 4).mean
    0.998
    """
    if not _is_published(label):
        return None
    key = _key(label)
    if (parties, participation(label, parties)) == (100, 0.1):
        return _leaderboard().get(key)
    return _table3().get(key, _table5().get(key)) if _all_take_part(label, parties) else None


def flower_accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that Flower's replication of Table III has for a setting; None if it has no such setting.

    >>> plain = {"participation": 1.0, "transforms": "", "server": "step", "model": "cnn", "solver": "sgd"}
    >>> flower_accuracy(Label({"dataset": "mnist", "partition": "iid", "algorithm": "scaffold", **plain}), 10).mean
    0.992
    """
    is_repeated = _is_published(label) and _all_take_part(label, parties)
    return _replication().get(_key(label)) if is_repeated else None


def cost(label: Label, parties: int) -> PublishedCost | None:
    """Return what Table IV prints for a round of ten parties: seconds on the paper's hardware, and bytes.

    The paper counts what ten parties send and one copy of what the server sends.
    """
    if not _is_published(label) or parties != 10 or participation(label, parties) != 1:
        return None
    return _table4().get((label["dataset"], _algorithm(label)))


def _is_published(label: Label) -> bool:
    """Whether network, solver and all other choices are the paper's."""
    fixed = _SOLVER.get(label["dataset"], {})
    solver = {name: value for name, value in label.solver.kwargs if fixed.get(name) != value}
    network = label["model"] == _MODELS.get(label["dataset"], "cnn")
    return network and label.solver.name == "sgd" and solver.keys() <= {"epochs", "batch"} and is_usual(label)


def _all_take_part(label: Label, parties: int) -> bool:
    """Whether a run has the paper's number of parties, and all of them train in every round."""
    return participation(label, parties) == 1 and parties == (4 if label["dataset"] == "fcube" else 10)


def _key(label: Label) -> Key:
    terms = parse_terms(label["partition"], "+")
    return label["dataset"], " + ".join(str(_as_printed(term)) for term in terms), _algorithm(label)


def _as_printed(term: Spec) -> Spec:
    """Return a term of a partition without the balancing of `label-dirichlet`, which the paper's tables do not name."""
    kwargs = tuple((name, value) for name, value in term.kwargs if name != "balance")
    return replace(term, kwargs=kwargs) if term.name == "label-dirichlet" else term


def _algorithm(label: Label) -> str:
    """Return the name of an algorithm in the paper's tables."""
    in_grid = arguments(label.algorithm).get("mu", _DEFAULT_MU) in _MU
    return "fedprox" if label.algorithm.name == "fedprox" and in_grid else str(label["algorithm"])


# --- tables -------------------------------------------------------------------------------------------


def _published(mean: str, std: str | None, table: str) -> Published:
    return Published(fraction(mean), None if std is None else fraction(std), table, _SETTINGS[table])


@cache
def _table3() -> dict[Key, Published]:
    rows, _ = published_tables(FOLDER, "niid-table3")
    return {
        (row["dataset"], row["partition"], row["algorithm"]): _published(
            row["accuracy_percent"], row["std_percent"], "Table III"
        )
        for row in rows
    }


@cache
def _table4() -> dict[tuple[str, str], PublishedCost]:
    (rows,) = published_tables(FOLDER, "niid-efficiency")
    return {
        (row["dataset"], row["algorithm"]): PublishedCost(
            float(row["seconds_per_round_paper_hardware"]), 1e6 * float(row["communication_megabytes_per_round"])
        )
        for row in rows
    }


@cache
def _table5() -> dict[Key, Published]:
    """Read Table V. Its rows with one kind of skew have the numbers of Table III, without deviations."""
    (rows,) = published_tables(FOLDER, "niid-mixed-skew")
    return {
        ("cifar-10", _partition(row["partition"]), algorithm): _published(row[algorithm], None, "Table V")
        for row in rows
        for algorithm in _ALGORITHMS
    }


@cache
def _replication() -> dict[Key, Published]:
    _, rows = published_tables(FOLDER, "niid-table3")
    return {
        (row["dataset"], row["partition"], algorithm): Published(
            fraction(row[algorithm]), None, "niid_bench", _SETTINGS["Flower"], by="Flower"
        )
        for row in rows
        for algorithm in _ALGORITHMS
    }


def _partition(text: str) -> str:
    """Return a partition as labels write it."""
    return " + ".join(map(str, parse_terms(text, "+")))


@cache
def _leaderboard() -> dict[Key, Published]:
    (rows,) = published_tables(FOLDER, "niid-party-sampling")
    return {
        (row["dataset"], row["partition"], parse(row["algorithm"]).name): _published(
            row["accuracy_percent"], None, "leaderboard"
        )
        for row in rows
    }
