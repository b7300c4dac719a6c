"""Export of a partition to files that any framework can read."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from silobench.errors import PartitionError
from silobench.partitions.skew import Partition
from silobench.safety.texts import cells


def export_partition(
    partition: Partition, counts: Sequence[Sequence[int]], names: Sequence[str], classes: Sequence[str], out: Path
) -> None:
    """Write rows.csv (party, row), rows.npz (an array of row numbers per party) and counts.csv (party x class).

    Row numbers count the training rows from 0. ``like(reference=...)`` reads counts.csv back.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["party", "row"])
            writer.writerows((party, row) for party, rows in enumerate(partition.rows) for row in rows.tolist())
        arrays: dict[str, Any] = {f"party_{party}": rows for party, rows in enumerate(partition.rows)}
        np.savez_compressed(out / "rows.npz", **arrays)
        with (out / "counts.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(cells(["party", *(f"class {name}" for name in classes)]))
            writer.writerows(cells([name, *row]) for name, row in zip(names, counts, strict=True))
    except OSError as error:
        raise PartitionError(f"{out} cannot be written ({error.strerror}): choose another folder.") from error
