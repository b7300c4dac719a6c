"""FedBN (Li et al., ICLR 2021)."""

from silobench.method.types import ALGORITHMS, Algorithm, Layout


@ALGORITHMS.register
def fedbn() -> Algorithm:
    """FedAvg over all layers except normalisation: each party keeps its own normalisation weights and statistics.

    FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, Li et al., ICLR 2021. With n_i rows at
    party i and n = Σ n_i:

        w^(l) ← Σ_i (n_i / n) w_i^(l)  for every layer l that is not a normalisation layer

    Departures from the paper: GroupNorm and LayerNorm are kept local too, if a network has them. The accuracy is the
    mean over the parties' models, each tested on the whole test set; the paper tests each on its own domain. On a
    network without normalisation it is FedAvg.
    """

    def personal(layout: Layout) -> frozenset[str]:
        return layout.norms

    return Algorithm(personal=personal)
