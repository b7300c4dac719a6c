"""Write two tables of invented patients of six hospitals: hospital.csv to learn from, and new_patients.csv to predict.

    python examples/hospital_data.py [FOLDER]

The tables have what real ones have: identifiers, dates, categories, missing cells, free text, hospitals of different
sizes with different patients, and an uneven label. About one in seven patients dies, and few are more likely to die
than to live, so a model that always answers "alive" has an accuracy that is hard to beat.
"""

import csv
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np

_HOSPITALS = {"Aarhus": 400, "Bilbao": 600, "Cork": 800, "Dresden": 900, "Espoo": 1000, "Faro": 1300}
_WARDS = ("cardiology", "surgery", "oncology", "neurology", "geriatrics", "general")
_PHRASES = {
    "well": ("stable on arrival", "eats well", "walks without help", "no fever"),
    "ill": ("septic", "confused on arrival", "shortness of breath", "kidney failure"),
}
_HEADER = (
    "patient_id", "hospital", "admitted", "age", "sex", "ward", "blood_pressure", "creatinine", "lactate", "notes",
    "outcome",
)  # fmt: skip


def patients(rng: np.random.Generator, hospital: str, place: int, count: int) -> list[list[object]]:
    """Return rows of invented patients; hospitals differ in their patients' age and in their instruments."""
    age = np.clip(rng.normal(52 + 4 * place, 16, count), 18, 99)
    lactate = rng.lognormal(0.4 + 0.05 * place, 0.5, count)
    pressure = rng.normal(125 + 3 * place, 18, count)
    creatinine = rng.lognormal(0.0, 0.4, count)
    risk = -2.15 + 0.03 * (age - 62) + 0.55 * (lactate - 1.7) + 0.7 * (creatinine - 1.08) - 0.01 * (pressure - 132)
    dies = rng.random(count) < 1 / (1 + np.exp(-risk))
    ill = rng.random(count) < 1 / (1 + np.exp(-0.8 * (risk + 1.8)))
    rows: list[list[object]] = []
    for i in range(count):
        words = rng.choice(_PHRASES["ill" if ill[i] else "well"], 2, replace=False)
        admitted = date(2025, 1, 1) + timedelta(days=int(rng.integers(365)))
        measured = "" if rng.random() < 0.08 else f"{creatinine[i]:.2f}"
        rows.append([
            f"{hospital[:2].upper()}{100000 + int(rng.integers(900000))}-{i}", hospital, admitted.isoformat(),
            round(float(age[i])), rng.choice(("female", "male")), rng.choice(_WARDS), f"{pressure[i]:.0f}", measured,
            f"{lactate[i]:.2f}", "; ".join(map(str, words)), "died" if dies[i] else "alive",
        ])  # fmt: skip
    return rows


def main(folder: Path) -> None:
    rng = np.random.default_rng(20)
    rows = [row for place, (name, count) in enumerate(_HOSPITALS.items()) for row in patients(rng, name, place, count)]
    new = [row[:-1] for place, name in enumerate(_HOSPITALS) for row in patients(rng, name, place, 5)]
    for name, header, table in (("hospital.csv", _HEADER, rows), ("new_patients.csv", _HEADER[:-1], new)):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *table])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
