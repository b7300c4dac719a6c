"""A network for faces, trained with center loss so that embeddings of the same person are close to each other."""

import math
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import CustomLoss
from silobench.models.pooling import relu_of_pool
from silobench.models.registry import MODELS
from silobench.spec.ranges import Count, NonNegative


@MODELS.register
def face_cnn(
    dim: Count = 64,
    width: Count = 32,
    strength: NonNegative = 0.003,
    rate: NonNegative = 0.5,
    distance: Literal["cosine", "euclidean"] = "cosine",
) -> Model:
    """A small CNN that embeds each image in `dim` dimensions, trained with center loss (Wen et al., ECCV 2016).

    conv 3x3 (width) - pool - conv 3x3 (2 width) - pool - conv 3x3 (4 width) - pool - dim, and for training a linear
    layer with one output per identity. With f_i the embedding of an image, y_i its identity and c_j the centre of
    identity j, a batch minimises

        cross-entropy + λ/2 · mean of ‖f_i - c_{y_i}‖²,    and    c_j ← c_j - α · Σ_{y_i = j} (c_j - f_i) / (1 + n_j)

    where n_j is the number of images of identity j in the batch, λ the `strength` and α the `rate`. In a test, two
    images are compared by the `distance` of their embeddings only.

    Departures from the paper: the network is smaller, with ReLU instead of PReLU, and reads images from 8 x 8 pixels.
    Centres are parameters, so that parties exchange them like all others, and the update above is their gradient: a
    step moves them by the solver's learning rate times α, with its momentum and weight decay. They start at 0.
    Embeddings are compared directly, without those of mirrored images and without PCA.
    """
    return Model(lambda sizes: _FaceCnn(sizes, dim, width, strength, rate, distance))


class _FaceCnn(CustomLoss):
    def __init__(self, sizes: Sizes, dim: int, width: int, strength: float, rate: float, distance: str):
        super().__init__()
        channels, *sides = image_shape("face-cnn", sizes, least=8)
        self.strength, self.rate, self.distance = strength, rate, distance
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise((channels, width, 2 * width, 4 * width))
        )
        self.place = nn.Linear(4 * width * math.prod(side // 8 for side in sides), dim)
        self.out = nn.Linear(dim, sizes.classes)
        self.centres = nn.Parameter(torch.zeros(sizes.classes, dim))

    def features(self, x: Tensor) -> Tensor:
        x = 2 * x - 1  # pixels from -1 to 1, as in the paper
        for layer in (self.conv1, self.conv2, self.conv3):
            x = relu_of_pool(layer(x))
        return self.place(x.flatten(1))  # type: ignore[no-any-return]  # torch types module calls as Any

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        features = self.features(x)
        center = center_loss(features, self.centres, y, self.strength, self.rate)
        return F.cross_entropy(self.last(features), y) + center

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        if self.distance == "cosine":
            return super().similarity(first, second)
        return (first - second).square().sum(1).sqrt().add(1).reciprocal()


def center_loss(features: Tensor, centres: Tensor, y: Tensor, strength: float, rate: float) -> Tensor:
    """Return λ/2 · mean of ‖feature - centre‖², whose gradient with respect to centres is α times their update.

    >>> centres = torch.zeros(2, 1, requires_grad=True)
    >>> loss = center_loss(torch.tensor([[3.0], [1.0]]), centres, torch.tensor([0, 0]), strength=0.1, rate=0.5)
    >>> loss.backward()
    >>> round(loss.item(), 6), centres.grad.flatten().tolist()
    (0.25, [-0.6666666865348816, 0.0])
    """
    centre = centres[y]
    distance = (features - centre.detach()).square().sum(1).mean()
    rows = torch.bincount(y, minlength=len(centres))[y]  # of the same identity
    update = ((centre - features.detach()).square().sum(1) / (1 + rows)).sum()
    return strength / 2 * distance + rate / 2 * (update - update.detach())  # the last term is 0 and has only a gradient
