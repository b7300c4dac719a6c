"""The papers' own numbers, to stand beside ours."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from silobench.analysis.choices import begins_at_random
from silobench.papers.hsieh2020 import numbers as quagmire_paper
from silobench.papers.published import fraction as _fraction
from silobench.papers.published import rows as _rows
from silobench.papers.zhao2018 import numbers as zhao_paper

SETTINGS = {
    "Table III": "NIID-Bench, Table III: 50 rounds of 10 local epochs, 3 trials",
    "Table V": "NIID-Bench, Table V: 50 rounds of 10 local epochs",
    "leaderboard": "NIID-Bench's leaderboard: 500 rounds of 10 local epochs",
    **zhao_paper.SETTINGS,
    **quagmire_paper.SETTINGS,
}
_FEDPROX_GRID = ["fedprox", *(f"fedprox(mu={mu})" for mu in (0.001, 0.1, 1.0))]  # 0.01 is the default
_MODELS = {"fcube": "linear", "adult": "mlp", "rcv1": "mlp", "covtype": "mlp"}  # the CNN for all others
_CHOICES = {
    "transforms": "",
    "controller": "fixed",
    "validation": 0.0,
    "server": "step",
    "buffers": "average",
    "selection": "uniform",
}


def paper_accuracy(label: Mapping[str, Any], parties: int) -> dict[str, Any] | None:
    """A paper's accuracy in a setting, as fractions, and where it stands; None if no paper has such a cell.

    NIID-Bench's Table III, Table V for mixed skew, and its authors' leaderboard for a tenth of 100 parties. The data,
    the network, the federation and the algorithm must be the paper's (FedProx at any mu of its grid: the paper gives
    the best); rounds, local epochs and the batch may be others: `SETTINGS` has the paper's. Runs whose SGD has neither
    momentum nor weight decay are none of NIID-Bench's, and stand beside Zhao et al.; runs that exchange after every
    minibatch, or count their local steps, beside the quagmire study.

    >>> plain = {"participation": 1.0, "transforms": "", "server": "step", "model": "linear", "solver": "sgd"}
    >>> paper_accuracy({"dataset": "fcube", "partition": "octants", "algorithm": "fedavg", **plain}, parties=4)
    {'mean': 0.998, 'std': 0.002, 'table': 'Table III'}
    """
    if not _is_the_papers(label):
        if not _is_plain(label) or _share(label, parties) != 1:
            return None
        found = quagmire_paper.quagmire_accuracy(label, parties)
        return zhao_paper.zhao_accuracy(label) if found is None and parties == 10 else found
    algorithm = "fedprox" if label["algorithm"] in _FEDPROX_GRID else label["algorithm"]
    key = label["dataset"], label["partition"], algorithm
    if (parties, _share(label, parties)) == (100, 0.1):
        return _sampled().get(key)
    everyone = _share(label, parties) == 1 and parties == (4 if label["dataset"] == "fcube" else 10)
    return _table3().get(key, _table5().get(key)) if everyone else None


def _share(label: Mapping[str, Any], parties: int) -> float:
    """Of the parties that take part in a round; it may be given as a count."""
    given = label["participation"]
    return given / parties if isinstance(given, int) else float(given)


def _is_the_papers(label: Mapping[str, Any]) -> bool:
    """Whether network and solver are NIID-Bench's."""
    solver = label["solver"].replace("lr=0.1, " if label["dataset"] == "rcv1" else "", "")
    as_given = set(re.findall(r"(\w+)=", solver)) <= {"epochs", "batch"}
    own = as_given and label["model"] == _MODELS.get(label["dataset"], "cnn")
    return own and _is_plain(label) and begins_at_random(label)


def _is_plain(label: Mapping[str, Any]) -> bool:
    return all(label.get(key, usual) == usual for key, usual in _CHOICES.items())


def paper_cost(label: Mapping[str, Any], parties: int) -> dict[str, float] | None:
    """NIID-Bench's Table IV: what a round of ten parties costs, in seconds on the paper's hardware and in bytes.

    The paper counts what ten parties send and one copy of what the server sends.
    """
    algorithm = "fedprox" if label["algorithm"] in _FEDPROX_GRID else label["algorithm"]
    if not _is_the_papers(label) or parties != 10 or _share(label, parties) != 1:
        return None
    return _table4().get((label["dataset"], algorithm))


@cache
def _table3() -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (row["dataset"], row["partition"], row["algorithm"]): {
            "mean": _fraction(row["accuracy_percent"]),
            "std": _fraction(row["std_percent"]),
            "table": "Table III",
        }
        for row in _rows("niid_table3_accuracy.csv")
    }


@cache
def _table4() -> dict[tuple[str, str], dict[str, float]]:
    return {
        (row["dataset"], row["algorithm"]): {
            "seconds": float(row["seconds_per_round_paper_hardware"]),
            "bytes": 1e6 * float(row["communication_megabytes_per_round"]),
        }
        for row in _rows("niid_table4_efficiency.csv")
    }


@cache
def _table5() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Of its rows with one kind of skew Table III has the same numbers, with their deviations."""
    return {
        ("cifar-10", row["partition"].replace("+", " + "), algorithm): {
            "mean": _fraction(row[algorithm]),
            "std": None,
            "table": "Table V",
        }
        for row in _rows("niid_table5_mixed_skew_cifar10.csv")
        for algorithm in ("fedavg", "fedprox", "scaffold", "fednova")
    }


@cache
def _sampled() -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (row["dataset"], row["partition"], row["algorithm"].split("(")[0]): {
            "mean": _fraction(row["accuracy_percent"]),
            "std": None,
            "table": "leaderboard",
        }
        for row in _rows("niid_party_sampling.csv")
    }
