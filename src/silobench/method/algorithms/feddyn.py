"""FedDyn (Acar et al., ICLR 2021)."""

from collections.abc import Mapping

import torch

from silobench.method.types import ALGORITHMS, Algorithm, Local, Memory, Positive, Pull, Server, Update, Vector


@ALGORITHMS.register
def feddyn(alpha: Positive = 0.01) -> Algorithm:
    """Each party's loss is tilted from round to round, until the optima of all parties agree with that of the whole.

    Federated Learning Based on Dynamic Regularization, Acar et al., ICLR 2021. Starting from w, party i minimises

        f_i(x) - <g_i, x> + (α / 2) ‖x - w‖²,    then    g_i ← g_i - α (w_i - w)

    and the server, with N the number of all parties, computes

        h ← h - α (1 / N) Σ_i (w_i - w),    w ← mean of w_i - h / α

    At a fixed point g_i is ∇f_i(w), and the mean of the g_i is 0.

    Departures from the paper: parties take a fixed number of steps instead of minimising exactly. As in the paper, the
    mean over the cohort is not weighted by samples, unlike in FedAvg, so the result is the optimum of the unweighted
    mean of the parties' losses. Weight decay, if the solver has it, is part of f_i.
    """

    def server_state(params: Vector) -> dict[str, Vector]:
        return {"tilt": torch.zeros_like(params)}

    def party_state(params: Vector) -> dict[str, Vector]:
        return {"gradient": torch.zeros_like(params)}

    def pull(server: Server, memory: Memory) -> Pull:
        return Pull(strength=alpha, anchor=server.params, linear=-memory["gradient"])

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        gradient = memory["gradient"] - alpha * local.delta
        return Update.of(1.0, delta=local.delta), {"gradient": gradient}

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        tilt = server.extras["tilt"] - alpha * update.total["delta"] / server.parties
        return update.mean()["delta"] - tilt / alpha, {"tilt": tilt}

    return Algorithm(
        extras=server_state,
        memory=party_state,
        pull=pull,
        message=message,
        absorb=absorb,
        broadcast=(),
        weighs_rows=False,
    )
