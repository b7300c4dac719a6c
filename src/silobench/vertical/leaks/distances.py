"""Distance correlation of two samples of vectors (Székely, Rizzo and Bakirov, 2007), in torch, with gradients."""

import math

import torch
from torch import Tensor

_TINY = 1e-12  # a correlation below its root is shown as its root; there, the root has a finite slope


def centred_distances(x: Tensor) -> Tensor:
    """Return the distances between rows, minus the means of rows and columns, plus the mean of all: [n, n].

    >>> centred_distances(torch.tensor([[0.0], [2.0]]))
    tensor([[-1.,  1.],
            [ 1., -1.]])
    """
    distances = _distances(x)
    return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Return the distance correlation from two matrices of centred distances, a number from 0 to 1.

    This is the version of 2007, which is biased: it is above 0 for independent samples. It is 0 if one sample is
    constant.
    """
    scale = (a.square().mean() * b.square().mean()).sqrt()
    if not float(scale.detach()):
        return (a * b).mean()  # 0, with a gradient of 0
    return ((a * b).mean() / scale).clamp_min(_TINY).sqrt()


def unbiased_squared_correlation(x: Tensor, y: Tensor) -> float | None:
    """Return the bias-corrected squared distance correlation (Székely and Rizzo, 2013).

    It is near 0, and may be below 0, for independent samples. None for fewer than 4 rows or a constant sample.
    """
    if len(x) < 4:
        return None
    a, b = _u_centred(x), _u_centred(y)
    scale = float((a.square().sum() * b.square().sum()).sqrt())
    return float((a * b).sum()) / scale if scale and math.isfinite(scale) else None


def _distances(x: Tensor) -> Tensor:
    """Return the distances between rows; by differences, because a product of matrices is inexact for close rows."""
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


def _u_centred(x: Tensor) -> Tensor:
    """Return U-centred distances, whose diagonal is 0."""
    distances, n = _distances(x), len(x)
    rows = distances.sum(1, keepdim=True) / (n - 2)
    centred = distances - rows - rows.T + distances.sum() / ((n - 1) * (n - 2))
    return centred.fill_diagonal_(0.0)
