"""The papers' own numbers, to stand beside ours."""

import csv
from functools import cache
from importlib import resources
from typing import Any


def paper_accuracy(dataset: str, partition: str, algorithm: str) -> dict[str, float] | None:
    """NIID-Bench's Table III for a setting, as fractions; FedProx at its best mu. None if the paper has no such cell.

    >>> paper_accuracy("fcube", "octants", "fedavg")
    {'mean': 0.998, 'std': 0.002}
    """
    return _table3().get((dataset, partition, algorithm.partition("(")[0]))


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
