"""Networks for faces: one that is trained by center loss, so that pictures of a person lie near each other."""

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.architectures import MODELS, Model, Sizes
from silobench.models.network import OwnLoss
from silobench.models.pooling import relu_of_pool
from silobench.spec.ranges import Count, NonNegative


@MODELS.register
def face_cnn(
    dim: Count = 64,
    width: Count = 32,
    strength: NonNegative = 0.003,
    rate: NonNegative = 0.5,
    distance: Literal["cosine", "euclidean"] = "cosine",
) -> Model:
    """A small CNN that gives each picture a place of `dim` numbers, trained by center loss (Wen et al., ECCV 2016).

    conv 3x3 (width) - pool - conv 3x3 (2 width) - pool - conv 3x3 (4 width) - pool - dim, and for training a layer of
    as many outputs as there are identities. With f_i the place of a picture, y_i its identity and c_j the centre of
    identity j, a batch of m minimises

        cross-entropy + λ/2 · mean of ‖f_i - c_{y_i}‖²,    and    c_j ← c_j - α · Σ_{y_i = j} (c_j - f_i) / (1 + n_j)

    where n_j is how many of the batch are of identity j, λ the `strength` and α the `rate`. Two pictures are compared
    by the `distance` of their places, and neither centres nor identities matter any more.

    Departures from the paper: the network is smaller, with ReLU for PReLU and pictures of any size from 8 x 8 pixels.
    Centres are parameters, so that parties exchange them as all others, and what is said above is their gradient: a
    step moves them by the solver's learning rate times α, with its momentum and weight decay. They begin at 0. Places
    are compared as they are, without a mirrored picture's beside them and without PCA.
    """
    return Model(lambda sizes: _FaceCnn(sizes, dim, width, strength, rate, distance))


class _FaceCnn(OwnLoss):
    def __init__(self, sizes: Sizes, dim: int, width: int, strength: float, rate: float, distance: str):
        super().__init__()
        if len(sizes.shape) != 3 or min(sizes.shape[1:]) < 8:
            raise ConfigError(
                "face-cnn needs images (channels, height, width) of at least 8 x 8 pixels, but rows have shape "
                f"{sizes.shape}: use mlp or linear."
            )
        channels, height, wide = sizes.shape
        self.strength, self.rate, self.distance = strength, rate, distance
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise((channels, width, 2 * width, 4 * width))
        )
        self.place = nn.Linear(4 * width * (height // 8) * (wide // 8), dim)
        self.out = nn.Linear(dim, sizes.classes)
        self.centres = nn.Parameter(torch.zeros(sizes.classes, dim))

    def features(self, x: Tensor) -> Tensor:
        x = 2 * x - 1  # pixels from -1 to 1, as in the paper
        for layer in (self.conv1, self.conv2, self.conv3):
            x = relu_of_pool(layer(x))
        return self.place(x.flatten(1))  # type: ignore[no-any-return]  # torch types module calls as Any

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        places = self.features(x)
        return F.cross_entropy(self.last(places), y) + center_loss(places, self.centres, y, self.strength, self.rate)

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        if self.distance == "cosine":
            return super().similarity(first, second)
        return (first - second).square().sum(1).sqrt().add(1).reciprocal()


def center_loss(places: Tensor, centres: Tensor, y: Tensor, strength: float, rate: float) -> Tensor:
    """λ/2 · mean of ‖place - centre‖² as far as places go; the gradient of centres is α times their update.

    >>> centres = torch.zeros(2, 1, requires_grad=True)
    >>> loss = center_loss(torch.tensor([[3.0], [1.0]]), centres, torch.tensor([0, 0]), strength=0.1, rate=0.5)
    >>> loss.backward()
    >>> round(loss.item(), 6), centres.grad.flatten().tolist()
    (0.25, [-0.6666666865348816, 0.0])
    """
    own = centres[y]
    apart = (places - own.detach()).square().sum(1).mean()
    alike = torch.bincount(y, minlength=len(centres))[y]
    moving = ((own - places.detach()).square().sum(1) / (1 + alike)).sum()
    return strength / 2 * apart + rate / 2 * (moving - moving.detach())  # of which the last has a gradient alone
