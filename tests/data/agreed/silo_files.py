"""Tables of silos for tests: numbers, dates, categories, texts, and missing cells."""

from pathlib import Path

import numpy as np
import pandas as pd

from silobench.data.agreed import Columns, columns_of

SIZES = {"north": 60, "south": 90, "west": 45}


def table(rows: int, seed: int, ages: float = 50.0) -> pd.DataFrame:
    """Return patients whose outcome follows from their age."""
    rng = np.random.default_rng(seed)
    age = np.round(rng.normal(ages, 12, rows), 1)
    frame = pd.DataFrame({
        "age": np.where(rng.random(rows) < 0.1, np.nan, age),
        "ward": rng.choice(["heart", "lung", "skin"], rows),
        "admitted": [f"2024-{month:02}-{day:02}" for month, day in rng.integers(1, 12, (rows, 2))],
        "notes": rng.choice(["fever and cough", "chest pain", "dizzy, weak"], rows),
        "outcome": np.where(age + rng.normal(0, 6, rows) > ages, "died", "alive"),
        "days": np.round(age / 5 + rng.exponential(4, rows), 2),
    })  # fmt: skip
    frame.loc[:1, "ward"] = ["heart", "lung"]
    return frame


def write_tables(folder: Path, suffix: str = "csv") -> list[str]:
    """Write a table for each silo, and return their paths."""
    paths = []
    for place, (name, rows) in enumerate(SIZES.items()):
        path, frame = folder / f"{name}.{suffix}", table(rows, place, 50 + 4 * place)
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        paths.append(str(path))
    return paths


def agreement(path: str, label: str = "outcome") -> Columns:
    """Return what a file suggests, with every kind of column but hashed categories."""
    drop = "days" if label == "outcome" else "outcome"
    return columns_of(path, label, dates="admitted", text="notes", text_features=4, drop=drop)
