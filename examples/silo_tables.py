"""Write the tables of three invented clinics: one file each, all of them in one file, and new patients to predict.

    python examples/silo_tables.py [FOLDER]

It writes north.csv, south.csv, west.csv, patients.csv (with a column for the clinic) and new.csv. Half of the answers
of the largest clinic, west, are guesses of whoever typed them.
"""

import sys
from pathlib import Path

import numpy as np

_ROWS = {"north": 200, "south": 250, "west": 450}
_GUESSED = {"west"}
_COLUMNS = "age,dose,ward,answer"
_NEW = ("84.0,0.5,a", "31.0,9.0,b", "76.0,1.0,a")


def patients(place: int, rows: int, guessed: bool) -> list[str]:
    """Return lines of invented patients, older and with higher doses than those of the clinic before."""
    draw = np.random.default_rng(place)
    age, dose = draw.normal(50 + 5 * place, 12, rows).round(1), draw.gamma(2, 1 + place / 2, rows).round(2)
    ward = draw.choice(["a", "b"], rows)
    helps = age / 12 - dose + (ward == "a") + draw.normal(0, 0.7, rows) > 3
    helps ^= draw.random(rows) < (0.5 if guessed else 0.0)
    answers = np.where(helps, "yes", "no")
    return [f"{a},{d},{w},{y}" for a, d, w, y in zip(age, dose, ward, answers, strict=True)]


def main(folder: Path) -> None:
    tables = {name: patients(place, rows, name in _GUESSED) for place, (name, rows) in enumerate(_ROWS.items())}
    files = {f"{name}.csv": [_COLUMNS, *lines] for name, lines in tables.items()}
    files["patients.csv"] = [f"clinic,{_COLUMNS}", *(f"{name},{line}" for name in tables for line in tables[name])]
    files["new.csv"] = [_COLUMNS.rpartition(",")[0], *_NEW]
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
