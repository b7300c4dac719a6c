"""MOON (Li, He and Song, CVPR 2021)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.method.types import (
    ALGORITHMS,
    Algorithm,
    Batch,
    Local,
    Memory,
    NonNegative,
    Positive,
    Server,
    Update,
    Vector,
)


@ALGORITHMS.register
def moon(mu: NonNegative = 1.0, temperature: Positive = 0.5) -> Algorithm:
    """FedAvg with a contrastive loss: representations move towards the server's and away from the party's last ones.

    Model-Contrastive Federated Learning, Li, He and Song, CVPR 2021. Let z, z_glob and z_prev be the representations of
    a row by the model in training, by the server's model and by the party's model at the end of its last round, and s
    the cosine similarity. Party i minimises

        f_i + μ · mean of -log( exp(s(z, z_glob)/τ) / (exp(s(z, z_glob)/τ) + exp(s(z, z_prev)/τ)) )

    Departures from the paper: the paper adds a projection head to its networks and contrasts its output; here there is
    none, and the input of the last layer is contrasted. In a party's first round, its last model is the initial model.
    """

    def memory(params: Vector) -> Memory:
        return {"previous": params}

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        z, logits = batch.network(None)
        others = (batch.network(params)[0] for params in (server.params, memory["previous"]))
        similarity = torch.stack([F.cosine_similarity(z, other) for other in others], 1) / temperature
        contrast = F.cross_entropy(similarity, torch.zeros_like(batch.y))  # the server's is class 0, the target
        return F.cross_entropy(logits, batch.y) + mu * contrast

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update.of(local.samples, delta=local.delta), {"previous": local.end}

    return Algorithm(memory=memory, loss=loss, message=message)
