"""FedRS (Li and Zhan, KDD 2021)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.method.types import ALGORITHMS, Algorithm, Batch, Fraction, Memory, Server


@ALGORITHMS.register
def fedrs(alpha: Fraction = 0.5) -> Algorithm:
    """FedAvg with a restricted softmax: a party scales down the logits of classes that it does not hold.

    FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data, Li and Zhan, KDD 2021.
    Party i, with rows of the classes C_i, minimises the cross-entropy of

        p(c) = exp(α_c h_c) / Σ_j exp(α_j h_j),    α_c = 1 for c in C_i, else α

    so its rows change the weights of classes that it does not hold less.

    Departures from the paper: the paper's logits are products w_c · h; here they also have a bias, which is scaled too.
    """

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        _, logits = batch.network(None)
        return F.cross_entropy(logits * torch.where(batch.class_counts > 0, 1.0, alpha), batch.y)

    return Algorithm(loss=loss)
