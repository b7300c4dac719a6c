"""The papers' tables as they lie beside the suites."""

import csv
from importlib import resources


def rows(file: str) -> list[dict[str, str]]:
    text = (resources.files("silobench.suites") / file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def fraction(percent: str) -> float:
    return round(float(percent) / 100, 6)
