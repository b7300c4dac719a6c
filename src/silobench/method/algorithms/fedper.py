"""FedPer (Arivazhagan et al., 2019)."""

from silobench.method.types import ALGORITHMS, Algorithm, CountOrZero, Layout, last_layers


@ALGORITHMS.register
def fedper(layers: CountOrZero = 1) -> Algorithm:
    """FedAvg over all layers except the last ones: each party keeps its own last `layers` layers.

    Federated Learning with Personalization Layers, Arivazhagan et al., 2019. Party i has base layers B, shared by all,
    and its own personal layers P_i. It trains both together; with n_i rows at party i and n = Σ n_i:

        B ← Σ_i (n_i / n) B_i,    P_i stays with party i and is never sent

    A layer is a module with trainable tensors, in the order in which the network defines them.

    Departures from the paper: a layer is any such module, whereas the paper counts the blocks of a residual network as
    layers. Normalisation statistics stay with each party too. `layers=0` is FedAvg.
    """

    def personal(layout: Layout) -> frozenset[str]:
        return last_layers(layout, layers)

    return Algorithm(personal=personal) if layers else Algorithm()
