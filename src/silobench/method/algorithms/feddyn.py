"""FedDyn (Acar et al., ICLR 2021)."""

from collections.abc import Mapping

import torch

from silobench.method.types import Algorithm, Local, Memory, Positive, Pull, Server, Update, Vector


def feddyn(alpha: Positive = 0.01) -> Algorithm:
    """Parties minimise a loss that is changed from round to round until all agree on the optimum of the whole.

    Federated Learning Based on Dynamic Regularization, Acar et al., ICLR 2021. Party i, from w, minimises

        f_i(x) - <g_i, x> + (α / 2) ‖x - w‖²,    then    g_i ← g_i - α (w_i - w)
        h ← h - α (1 / N) Σ_i (w_i - w),    w ← mean of w_i - h / α

    with N the number of all parties. At a fixed point g_i is ∇f_i(w), and the mean of the g_i is 0.

    Departures from the paper: parties do a fixed number of steps instead of minimising to the end. The mean is the
    plain one over the cohort, as in the paper, and not by samples as in FedAvg: what is found is the optimum of the
    plain mean of the parties' losses. Weight decay, where the solver has it, is part of f_i.
    """

    def zeros(params: Vector) -> dict[str, Vector]:
        return {"gradient": torch.zeros_like(params)}

    def server_state(params: Vector) -> dict[str, Vector]:
        return {"tilt": torch.zeros_like(params)}

    def pull(server: Server, memory: Memory) -> Pull:
        return Pull(strength=alpha, anchor=server.params, linear=-memory["gradient"])

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        kept = {"gradient": memory["gradient"] - alpha * local.delta}
        return Update.of(1.0, delta=local.delta), kept

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        tilt = server.extras["tilt"] - alpha * update.total["delta"] / server.parties
        return update.mean()["delta"] - tilt / alpha, {"tilt": tilt}

    return Algorithm(extras=server_state, memory=zeros, pull=pull, message=message, absorb=absorb, broadcast=())
