"""Datasets that need no download: two from scikit-learn, and two that are generated from a seed."""

from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, concatenate, hold_out, standardise
from silobench.spec.ranges import NonNegative


def digits() -> Dataset:
    """1,797 handwritten digits of 8 x 8 pixels (UCI, from scikit-learn): 1,438 for training, 359 for testing.

    Pixels are scaled to [-1, 1]: with so few rows, a centred input saves the cnn hundreds of steps.
    """
    from sklearn.datasets import load_digits  # imported here because the import takes half a second

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
    """569 tumours by 30 measurements (UCI, from scikit-learn), standardised; the classes are malignant and benign."""
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
    """NIID-Bench's synthetic cube: 3 features in [-1, 1]; the label is the side of the plane x1 = 0.

    There are 4,000 training points, 500 in each octant, and 1,000 test points anywhere in the cube. Label 0 is x1 > 0.
    The groups are the pairs of octants that the `octants` partition uses.
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
    """Return 0 to 3 for each 3-d point: its pair of octants that are symmetric about the origin."""
    flip = np.where(x[:, :1] < 0, -1, 1)  # map every point to the octant of its pair with x1 > 0
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
    """The generator of FedProx and LEAF: 60 features, 10 classes; every party has its own model and features.

    Party k draws u_k ~ N(0, alpha) and W_k, b_k ~ N(u_k, 1); B_k ~ N(0, beta), v_k ~ N(B_k, 1) and
    x ~ N(v_k, diag(j^-1.2)); y = argmax(W_k x + b_k). A party has log-normal(4, 2) + 50 rows, a tenth of them for
    testing. `alpha` controls how much the models differ, `beta` how much the features differ. The party is the group.

    u_k shifts all ten classes of a party by the same amount, so `alpha` changes the weights but not the labels. The
    models of the parties differ through W_k even at alpha = 0.
    """
    rng = np.random.default_rng([seed, 60])
    scale = np.arange(1, 61) ** -0.6  # standard deviation: the variance is j^-1.2
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
        concatenate(train),
        concatenate(test),
        tuple("0123456789"),
        "generated, no rights reserved",
        defaults={"model": "linear", "partition": "by-group"},
    )
