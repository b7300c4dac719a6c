"""FedProx (Li et al., MLSys 2020)."""

from silobench.method.types import ALGORITHMS, Algorithm, Memory, NonNegative, Pull, Server


@ALGORITHMS.register
def fedprox(mu: NonNegative = 0.01) -> Algorithm:
    """FedAvg with a proximal term that pulls local training back to the server's model.

    Federated Optimization in Heterogeneous Networks, Li et al., MLSys 2020. Starting from w, party i minimises

        f_i(x) + (μ / 2) ‖x - w‖²,    so its gradient is  ∇f_i(x) + μ (x - w)

    Departures from the paper: every party trains for the same number of epochs (the paper also lets slow parties stop
    early); parties are drawn uniformly and weighted by samples, as in NIID-Bench.
    """

    def pull(server: Server, memory: Memory) -> Pull:
        return Pull(strength=mu, anchor=server.params)

    return Algorithm(pull=pull)
