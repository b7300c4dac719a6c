"""Reading the tables that papers print, which are stored as CSV files in each paper's folder."""

import csv
from pathlib import Path


def rows(file: str) -> list[dict[str, str]]:
    """Read a table from the folder ``published`` of any paper."""
    (path,) = Path(__file__).parent.glob(f"*/published/{file}")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def fraction(percent: str) -> float:
    """Convert percent to a fraction."""
    return round(float(percent) / 100, 6)
