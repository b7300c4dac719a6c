"""FedProx (Li et al., MLSys 2020)."""

from silobench.types import Algorithm, Memory, NonNegative, Server, Vector


def fedprox(mu: NonNegative = 0.01) -> Algorithm:
    """FedAvg with a proximal term that pulls local training back to the server's model.

    Federated Optimization in Heterogeneous Networks, Li et al., MLSys 2020: party i minimises

        f_i(x) + (μ / 2) ‖x - w‖²,    so its gradient is  ∇f_i(x) + μ (x - w)

    Departures from the paper: every party does the same number of epochs (the paper also lets slow parties
    stop early); parties are drawn uniformly and weighted by samples, as in NIID-Bench.
    """

    def correct(grad: Vector, at: Vector, server: Server, memory: Memory) -> Vector:
        return grad.add(at - server.params, alpha=mu)

    return Algorithm(correct=correct)
