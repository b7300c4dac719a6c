"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Mapping

import torch

from silobench.method.types import ALGORITHMS, Algorithm, Local, Memory, Server, Update, Vector, needs_linear_steps


@ALGORITHMS.register
def fednova() -> Algorithm:
    """FedAvg over normalised updates, so that parties with more local steps do not shift the objective.

    Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization, Wang et al., NeurIPS 2020.
    With p_i = n_i / n the share of rows of party i, and a_i its reach:

        w ← w + (Σ_i p_i a_i) Σ_i p_i (w_i - w) / a_i

    The reach is the sum of the weights of its τ_i gradients in w_i - w: τ_i itself without momentum, and
    (τ - ρ(1 - ρ^τ)/(1 - ρ)) / (1 - ρ) with momentum ρ. It is sent with the update: four bytes more than FedAvg.

    Departures from the paper: none. The reach assumes that momentum starts from zero in every round, so it is an
    approximation with `keep_momentum`.
    """

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        reach = torch.tensor(local.reach)
        return Update.of(local.samples, direction=local.delta / reach, reach=reach), memory

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        mean = update.mean()
        return mean["reach"] * mean["direction"], server.extras

    reason = "fednova divides a party's change by the weights of its gradients in it, which only sgd has"
    return Algorithm(message=message, absorb=absorb, refuses=needs_linear_steps(reason))
