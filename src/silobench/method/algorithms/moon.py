"""MOON (Li, He and Song, CVPR 2021)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.method.types import Algorithm, Batch, Local, Memory, NonNegative, Positive, Server, Update, Vector


def moon(mu: NonNegative = 1.0, temperature: Positive = 0.5) -> Algorithm:
    """FedAvg whose parties keep their representations near the server's and away from their own of the last round.

    Model-Contrastive Federated Learning, Li, He and Song, CVPR 2021. With z, z_glob and z_prev the representations of a
    row by the model in training, the server's and the party's own of its last round, and s the cosine similarity, party
    i minimises

        f_i + μ · mean of -log( exp(s(z, z_glob)/τ) / (exp(s(z, z_glob)/τ) + exp(s(z, z_prev)/τ)) )

    Departures from the paper: its networks get a projection head, whose output is contrasted; ours have none, and what
    the last layer reads is contrasted. A party that was never drawn has the initial model as its last one.
    """

    def memory(params: Vector) -> Memory:
        return {"previous": params}

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        own, logits = batch.network(None)
        others = (batch.network(params)[0] for params in (server.params, memory["previous"]))
        similar = torch.stack([F.cosine_similarity(own, other) for other in others], 1) / temperature
        contrast = F.cross_entropy(similar, torch.zeros_like(batch.y))  # the server's is the right one of the two
        return F.cross_entropy(logits, batch.y) + mu * contrast

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update.of(local.samples, delta=local.delta), {"previous": local.end}

    return Algorithm(memory=memory, loss=loss, message=message)
