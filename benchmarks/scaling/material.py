"""Synthetic rows for measurements with any number of parties, as a file that silobench reads."""

from pathlib import Path

import numpy as np

FEATURES, CLASSES = 32, 10
_BLOCK = 1_000_000  # rows


def write(folder: Path, rows: int, tested: int) -> str:
    """Write rows around one centre per class; return the spec of the dataset."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=rows + tested)
    centres = rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    x = centres[y]
    for begin in range(0, len(x), _BLOCK):
        part = x[begin : begin + _BLOCK]
        part += rng.standard_normal(part.shape, dtype=np.float32)
    path = folder / "rows.npz"
    np.savez(path, x_train=x[:rows], y_train=y[:rows], x_test=x[rows:], y_test=y[rows:])
    return f"npz(path={path})"
