"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Mapping

import torch

from silobench.method.types import Algorithm, Local, Memory, Server, Update, Vector


def fednova() -> Algorithm:
    """FedAvg over normalised updates, so that parties with more local steps do not bend the objective.

    Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization, Wang et al.,
    NeurIPS 2020. With p_i = n_i / n and a_i the reach of party i (the 1-norm of the weights its τ_i
    gradients get; τ_i itself without momentum, (τ - ρ(1 - ρ^τ)/(1 - ρ)) / (1 - ρ) with momentum ρ):

        w ← w + (Σ_i p_i a_i) Σ_i p_i (w_i - w) / a_i

    Departures from the paper: none. The reach is sent beside the update: four bytes more than FedAvg. It
    describes a momentum that starts from zero in every round, so with `keep_momentum` it is approximate.
    """

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        reach = torch.tensor(local.reach)
        return Update.of(local.samples, direction=local.delta / reach, reach=reach), memory

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        mean = update.mean()
        return mean["reach"] * mean["direction"], server.extras

    return Algorithm(message=message, absorb=absorb)
