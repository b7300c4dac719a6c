"""FedAvg (McMahan et al., AISTATS 2017)."""

from silobench.types import Algorithm


def fedavg() -> Algorithm:
    """Parties train from the server's model; the server takes the mean of what they learnt, by samples.

    Communication-Efficient Learning of Deep Networks from Decentralized Data, McMahan et al., AISTATS 2017:

        w ← w + Σ_i (n_i / n) (w_i - w),    n = Σ n_i over the cohort

    Departures from the paper: none. Every other algorithm is this one with some hooks replaced.
    """
    return Algorithm()
