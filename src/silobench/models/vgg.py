"""The VGG-9 of NIID-Bench, with a choice of normalisation."""

import math
from itertools import pairwise

from torch import Tensor, nn

from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.registry import MODELS


@MODELS.register(added_later=NORM_ARGUMENTS)
def vgg9(
    dropout: bool = True,
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """NIID-Bench's VGG-9: conv 3x3 (32, 64) - pool - (128, 128) - pool - (256, 256) - pool - 512 - 512 - classes.

    As in its public code for CIFAR-10, dropout removes 5 % of the channels after the second pool, and 10 % of the
    inputs of the first and the last dense layer. Weights start from PyTorch's default, so the loss hardly falls in the
    first few hundred steps. With `norm`, normalisation is between a convolution and its ReLU.
    """
    return Model(lambda sizes: _Vgg(sizes, dropout, norm_of(norm, group_size, renorm_from)))


class _Vgg(Classifier):
    def __init__(self, sizes: Sizes, dropout: bool, norm: Norm | None):
        super().__init__()
        channels, *sides = image_shape("vgg9", sizes, least=8)
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(pairwise((channels, 32, 64, 128, 128, 256, 256))):
            layers += [nn.Conv2d(before, after, 3, padding=1), *([norm(after)] if norm else []), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] * (place % 2)
            layers += [nn.Dropout2d(0.05)] * (place == 3 and dropout)
        self.convolutions = nn.Sequential(*layers)
        inputs = 256 * math.prod(side // 8 for side in sides)
        drop = nn.Dropout(0.1) if dropout else nn.Identity()
        dense = [drop, nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), drop]
        self.dense = nn.Sequential(*dense)
        self.out = nn.Linear(512, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        return self.dense(self.convolutions(x).flatten(1))  # type: ignore[no-any-return]  # torch types calls as Any
