"""Bulk synchronous parallel SGD: what all decentralised methods are measured against."""

from collections.abc import Mapping
from typing import Literal

from silobench.method.types import Algorithm, Local, Memory, Server, Update, Vector


def bsp(combine: Literal["sum", "mean"] = "sum") -> Algorithm:
    """Every update of every party is shared after every minibatch (BSP of the quagmire study, Hsieh et al., ICML 2020).

        u_k ← m u_k - η ∇f_k(w),    w ← w + Σ_k u_k

    Updates are added, as Gaia and DGC add them, so that K parties step K times as far as their mean does. With
    `combine=mean` they are averaged, as FedAvg averages models.
    """

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        parts = update.total if combine == "sum" else update.mean()
        return parts["delta"], server.extras

    return Algorithm(message=_send, absorb=absorb, lockstep=True)


def _send(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
    return Update.of(1.0, delta=local.delta), memory


def fedsgd() -> Algorithm:
    """FedAvg with one minibatch a round, averaged by samples (McMahan et al., AISTATS 2017).

    Departures from the paper: a gradient is that of a minibatch, of any size (`batch=full` is the paper's), and a
    momentum, where the solver has one, stays with the party.
    """
    return Algorithm(lockstep=True)
