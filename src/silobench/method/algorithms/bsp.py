"""Synchronous SGD with an exchange after every minibatch: BSP (Hsieh et al., ICML 2020) and FedSGD (McMahan et al.)."""

from collections.abc import Mapping
from typing import Literal

from silobench.method.types import ALGORITHMS, Algorithm, Local, Memory, Server, Update, Vector


@ALGORITHMS.register
def bsp(combine: Literal["sum", "mean"] = "sum") -> Algorithm:
    """Bulk synchronous parallel SGD: every party sends every update after every minibatch (Hsieh et al., ICML 2020).

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020. With momentum m, learning rate
    η and party k:

        u_k ← m u_k - η ∇f_k(w),    w ← w + Σ_k u_k

    Updates are summed, as in Gaia and DGC, so K parties move K times as far as their mean would. `combine=mean`
    averages them, as FedAvg averages models.
    """

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update.of(1.0, delta=local.delta), memory

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        parts = update.total if combine == "sum" else update.mean()
        return parts["delta"], server.extras

    return Algorithm(message=message, absorb=absorb, lockstep=True, weighs_rows=False)


@ALGORITHMS.register
def fedsgd() -> Algorithm:
    """FedAvg with one minibatch per round, averaged by samples (McMahan et al., AISTATS 2017).

    Communication-Efficient Learning of Deep Networks from Decentralized Data, McMahan et al., AISTATS 2017. With
    n_k rows at party k and n in total:

        w ← w - η Σ_k (n_k / n) ∇f_k(w)

    Departures from the paper: gradients come from minibatches of any size (`batch=full` is the paper's), and each party
    keeps its own momentum if the solver has one.
    """
    return Algorithm(lockstep=True)
