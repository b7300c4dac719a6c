"""Datasets that need no download: two that ship with scikit-learn, and two generated from a fixed seed."""

from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, hold_out, standardise
from silobench.spec.ranges import NonNegative


def digits() -> Dataset:
    """1,797 real handwritten digits of 8 x 8 pixels (UCI, with scikit-learn): 1,438 to train, 359 to test.

    Pixels are scaled to [-1, 1]: on so few rows a centred input spares the cnn hundreds of steps.
    """
    from sklearn.datasets import load_digits  # takes half a second: only where it is needed

    raw = load_digits()
    x = (raw.images[:, None] / 8 - 1).astype(np.float32)
    train, test = hold_out(Split(x, raw.target.astype(np.int64)), 0.2)
    return Dataset(
        "digits",
        train,
        test,
        tuple("0123456789"),
        "CC BY 4.0 (UCI Machine Learning Repository)",
    )


def breast_cancer() -> Dataset:
    """569 real tumour measurements of 30 columns (UCI, with scikit-learn), standardised; malignant or benign."""
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    train, test = hold_out(Split(raw.data, raw.target.astype(np.int64)), 0.2)
    train, test = standardise(train, test)
    return Dataset(
        "breast-cancer",
        train,
        test,
        tuple(map(str, raw.target_names)),
        "CC BY 4.0 (UCI Machine Learning Repository)",
        notes=("columns standardised by the pooled training rows",),
    )


def fcube(seed: Annotated[int, Ge(0)] = 0) -> Dataset:
    """NIID-Bench's synthetic cube: 3 features in [-1, 1], the label is the side of the plane x1 = 0.

    4,000 training points, 500 in each of the eight octants, and 1,000 test points anywhere in the cube;
    x1 > 0 is label 0. The octant pairs of the `octants` partition are the groups.
    """
    rng = np.random.default_rng(seed)
    signs = np.array([[a, b, c] for a in (1, -1) for b in (1, -1) for c in (1, -1)])
    train = _cube_split(np.concatenate([s * rng.uniform(0, 1, (500, 3)) for s in signs]))
    test = _cube_split(rng.uniform(-1, 1, (1000, 3)))
    return Dataset(
        "fcube",
        train,
        test,
        ("x1 > 0", "x1 <= 0"),
        "generated, no rights reserved",
        defaults={"model": "linear"},
    )


def octant_pairs(x: NDArray[np.float32]) -> NDArray[np.int64]:
    """0..3: which pair of octants symmetric about the origin a 3-d point lies in."""
    flip = np.where(x[:, :1] < 0, -1, 1)  # of each pair, the octant with x1 > 0 names it
    side = (x[:, 1:] * flip) < 0
    return 2 * side[:, 0].astype(np.int64) + side[:, 1]


def _cube_split(points: NDArray[np.float64]) -> Split:
    x = points.astype(np.float32)
    return Split(x, (x[:, 0] <= 0).astype(np.int64), {"octants": octant_pairs(x)})


def synthetic(
    alpha: NonNegative = 1.0,
    beta: NonNegative = 1.0,
    parties: Annotated[int, Ge(1)] = 30,
    seed: Annotated[int, Ge(0)] = 0,
) -> Dataset:
    """The FedProx / LEAF generator: 60 features, 10 classes, every party with a model and features of its own.

    Party k draws u_k ~ N(0, alpha) and W_k, b_k ~ N(u_k, 1); B_k ~ N(0, beta), v_k ~ N(B_k, 1) and
    x ~ N(v_k, diag(j^-1.2)); y = argmax(W_k x + b_k). Sizes are log-normal(4, 2) + 50, a tenth of each is
    for testing. alpha is how much the models differ, beta the features; the party is the group.

    In this recipe u_k shifts all ten classes of a party alike, so alpha moves the weights but leaves every label as
    it is: the parties' models differ by their own draws of W_k, also at alpha = 0.
    """
    rng = np.random.default_rng([seed, 60])
    scale = np.arange(1, 61) ** -0.6  # a standard deviation: the variance falls as j^-1.2
    sizes = rng.lognormal(4, 2, parties).astype(int) + 50
    train, test = [], []
    for party, size in enumerate(sizes):
        centre = rng.normal(rng.normal(0, np.sqrt(beta)), 1, 60)
        model_mean = rng.normal(0, np.sqrt(alpha))
        weights, bias = rng.normal(model_mean, 1, (60, 10)), rng.normal(model_mean, 1, 10)
        x = rng.normal(centre, scale, (size, 60))
        y = (x @ weights + bias).argmax(1).astype(np.int64)
        whole = Split(x.astype(np.float32), y, {"party": np.full(size, party)})
        cut = size - max(1, size // 10)
        train.append(whole.take(np.arange(cut)))
        test.append(whole.take(np.arange(cut, size)))
    return Dataset(
        f"synthetic({alpha}, {beta})",
        _joined(train),
        _joined(test),
        tuple("0123456789"),
        "generated, no rights reserved",
        defaults={"model": "linear", "partition": "by-group"},
    )


def _joined(splits: list[Split]) -> Split:
    return Split(
        np.concatenate([s.x for s in splits]),
        np.concatenate([s.y for s in splits]),
        {"party": np.concatenate([s.groups["party"] for s in splits])},
    )
