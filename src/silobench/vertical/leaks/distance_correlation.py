"""Distance correlation of a party's columns and the activations that it sends."""

import numpy as np
import torch
from torch import Tensor

from silobench.loop.loop import one_thread
from silobench.spec.ranges import Count, CountOrZero
from silobench.vertical.leaks.distances import centred_distances, correlation, unbiased_squared_correlation
from silobench.vertical.leaks.measure import VERTICAL_MEASURES, Facts, LeakMeasure, largest
from silobench.vertical.leaks.view import CutView

_SHUFFLES = 20


@VERTICAL_MEASURES.register
def distance_correlation(rows: Count = 500, every: CountOrZero = 0) -> LeakMeasure:
    """Distance correlation between the columns of a party and its activations as they arrive (Székely et al., 2007).

    It is 0 for independent variables and 1 for a rotated, scaled copy. The version of 2007 is biased upwards, so `null`
    states it for shuffled rows, with its standard error. `unbiased_squared` is the square, corrected for the bias.
    Columns are used in the units in which the model sees them. Time and memory grow with the square of `rows`.
    """

    def measure(view: CutView, rng: np.random.Generator) -> Facts:
        view = view.sample(rows, rng)
        with one_thread(), torch.no_grad():
            parties = {
                party: _facts(view.inputs[party].double(), view.activations[party].double(), rng)
                for party in view.activations
            }
        return {"rows": len(view), "parties": parties, "largest": largest(parties, "correlation")}

    return LeakMeasure(measure, every, rows)


def _facts(x: Tensor, h: Tensor, rng: np.random.Generator) -> Facts:
    a, b = centred_distances(x), centred_distances(h)
    orders = [torch.from_numpy(rng.permutation(len(x))) for _ in range(_SHUFFLES)]
    null = np.array([float(correlation(a, b[order][:, order])) for order in orders])
    return {
        "correlation": float(correlation(a, b)),
        "null": float(null.mean()),
        "null_se": float(null.std(ddof=1)),
        "unbiased_squared": unbiased_squared_correlation(x, h),
    }
