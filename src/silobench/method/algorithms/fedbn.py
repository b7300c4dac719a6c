"""FedBN (Li et al., ICLR 2021)."""

from silobench.method.types import Algorithm, Layout


def fedbn() -> Algorithm:
    """FedAvg over all but the normalisation layers: every party keeps its own of these, weights and statistics.

    FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, Li et al., ICLR 2021:

        w^(l) ← Σ_i (n_i / n) w_i^(l)  for every layer l that does not normalise

    Departures from the paper: GroupNorm and LayerNorm stay with the parties too, where a network has them. The accuracy
    is the mean over the parties' models, each tested on the whole test set; the paper tests each on its own domain. On
    a network without normalisation it is FedAvg.
    """

    def personal(layout: Layout) -> frozenset[str]:
        return layout.norms

    return Algorithm(personal=personal)
