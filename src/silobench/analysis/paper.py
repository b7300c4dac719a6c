"""The papers' own numbers, to stand beside ours."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

PAPER_SETTING = "NIID-Bench, Table III, 50 rounds of 10 local epochs, 3 trials"
_FEDPROX_GRID = ["fedprox", *(f"fedprox(mu={mu})" for mu in (0.001, 0.1, 1.0))]  # 0.01 is the default


def paper_accuracy(label: Mapping[str, Any], parties: int) -> dict[str, float] | None:
    """NIID-Bench's Table III for a setting, as fractions; FedProx at its best mu. None if the paper has no such cell.

    The federation and the algorithm must be the paper's; rounds and local epochs may be fewer, as `PAPER_SETTING` says.

    >>> plain = {"participation": 1.0, "transforms": "", "server": "step"}
    >>> paper_accuracy({"dataset": "fcube", "partition": "octants", "algorithm": "fedavg", **plain}, parties=4)
    {'mean': 0.998, 'std': 0.002}
    """
    algorithm = "fedprox" if label["algorithm"] in _FEDPROX_GRID else label["algorithm"]
    plain = (label["participation"], label["transforms"], label["server"]) == (1.0, "", "step")
    if not plain or parties != (4 if label["dataset"] == "fcube" else 10):
        return None
    return _table3().get((label["dataset"], label["partition"], algorithm))


@cache
def _table3() -> dict[tuple[str, str, str], dict[str, float]]:
    text = (resources.files("silobench.suites") / "niid_table3_accuracy.csv").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = list(csv.DictReader(text.splitlines()))
    return {
        (row["dataset"], row["partition"], row["algorithm"]): {
            "mean": round(float(row["accuracy_percent"]) / 100, 6),
            "std": round(float(row["std_percent"]) / 100, 6),
        }
        for row in rows
    }
