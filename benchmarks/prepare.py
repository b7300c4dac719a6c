"""Write one workload's material into a directory: `python prepare.py W1 DIRECTORY`.

The rows come from silobench's data directory. If a dataset is missing, random rows of the same shape and type, which a
model can learn, replace it; silobench reads them as a user's file. The sparse rows of W5 are always random.
"""

import sys
from pathlib import Path

import numpy as np
from scipy import sparse

import silobench as sb
from silobench.errors import SilobenchError
from workloads import SEED, WORKLOADS, Material, Rows, Workload, write

SHAPES = {  # dataset: shape of a row, whether of bytes, classes, training rows, test rows
    "cifar-10(augment=false)": ((3, 32, 32), True, 10, 50_000, 10_000),
    "mnist": ((1, 28, 28), True, 10, 60_000, 10_000),
    "adult": ((123,), False, 2, 32_561, 16_281),
    "covtype": ((54,), False, 2, 435_759, 145_253),
}


def prepare(workload: Workload, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    spec, stand_in = workload.dataset, True
    if spec == "sparse":
        spec = sparse_file(folder)
    else:
        try:
            sb.load(spec)
            stand_in = False
        except SilobenchError:
            spec = dense_file(workload.dataset, folder)
    dataset = sb.load(spec)
    federation = sb.federate(dataset, "iid", workload.parties, SEED)
    sides = [Rows(_features(split.x), split.y) for split in (dataset.train, dataset.test)]
    parties = [party.rows.numpy() for party in federation.parties]
    initial = sb.task(workload.model, dataset, SEED).initial.numpy()
    write(folder, Material(workload, spec, stand_in, dataset.shape, len(dataset.classes), *sides, parties, initial))


def _features(x):
    return (x.data, x.indices, x.indptr) if sparse.issparse(x) else x


def dense_file(dataset: str, folder: Path) -> str:
    """Write random rows around one centre per class, in the shape and type of a dataset; return the spec."""
    shape, as_bytes, classes, train, test = SHAPES[dataset]
    rng = np.random.default_rng(SEED)
    y = rng.integers(classes, size=train + test)
    centres = rng.random((classes, *shape), dtype=np.float32)
    x = np.empty((train + test, *shape), np.uint8 if as_bytes else np.float32)
    for begin in range(0, len(x), 10_000):
        part = slice(begin, begin + 10_000)
        mixed = 0.3 * centres[y[part]] + 0.7 * rng.random((len(y[part]), *shape), dtype=np.float32)
        x[part] = mixed * 255 if as_bytes else mixed
    path = folder / "stand-in.npz"
    np.savez(path, x_train=x[:train], y_train=y[:train], x_test=x[train:], y_test=y[train:])
    return f"npz(path={path})"


def sparse_file(folder: Path, train: int = 20_242, test: int = 2_000, features: int = 47_236, words: int = 75) -> str:
    """Write documents like rcv1's: Zipf's law over columns, rows of norm 1, a few words per class; return the spec."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(2, size=train + test)
    lengths = rng.poisson(1.08 * words, train + test)  # a word that is drawn twice counts once
    rows = np.repeat(np.arange(train + test), lengths)
    chances = 1 / (np.arange(features) + 10.0)
    rank = rng.choice(features, len(rows), p=chances / chances.sum())
    frequent = (rank < 2_000) & (rng.random(len(rows)) < 0.8)
    rank = np.where(frequent, rank - rank % 2 + y[rows], rank)  # even ranks are words of class 0, odd ones of class 1
    cells = np.unique(rows * features + rng.permutation(features)[rank])
    cells = np.union1d(cells, [features - 1])  # the width of a file is its last column
    rows, columns = cells // features, cells % features
    values = 1 + rng.random(len(cells))
    values /= np.sqrt(np.bincount(rows, values**2))[rows]
    x = sparse.csr_matrix((values, (rows, columns)), (train + test, features))
    for name, part in (("train", slice(0, train)), ("test", slice(train, None))):
        _write_libsvm(folder / f"{name}.svm", x[part], y[part])
    return f"libsvm(path={folder / 'train.svm'}, test_path={folder / 'test.svm'})"


def _write_libsvm(path: Path, x: sparse.csr_matrix, y: np.ndarray) -> None:
    with path.open("w") as file:
        for row, label in enumerate(y):
            part = slice(x.indptr[row], x.indptr[row + 1])
            cells = (f"{c + 1}:{v:.6g}" for c, v in zip(x.indices[part], x.data[part], strict=True))
            file.write(f"{label} {' '.join(cells)}\n")


if __name__ == "__main__":
    prepare(WORKLOADS[sys.argv[1]], Path(sys.argv[2]))
