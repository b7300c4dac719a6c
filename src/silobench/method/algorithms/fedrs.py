"""FedRS (Li and Zhan, KDD 2021)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.method.types import Algorithm, Batch, Fraction, Memory, Server


def fedrs(alpha: Fraction = 0.5) -> Algorithm:
    """FedAvg whose parties hold back the logits of classes of which they have no rows, and so leave them alone.

    FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data, Li and Zhan, KDD 2021.
    Party i, which holds the classes C_i, minimises the cross-entropy of

        p(c) = exp(α_c h_c) / Σ_j exp(α_j h_j),    α_c = 1 for c in C_i, else α

    Departures from the paper: its logits are products w_c · h; ours have a bias too, which is scaled with the weights.
    """

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        _, logits = batch.network(None)
        return F.cross_entropy(logits * torch.where(batch.held > 0, 1.0, alpha), batch.y)

    return Algorithm(loss=loss)
