"""AlexNet for small images, as Hsieh et al. (ICML 2020) train it on CIFAR-10."""

import math
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.layers import convolution, initialise_convolutions, overlapping_pool, scaled
from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.plain import channels_last
from silobench.models.registry import MODELS
from silobench.spec.ranges import Positive


@MODELS.register
def alexnet(
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
    dropout: bool = True,
    width: Positive = 1.0,
) -> Model:
    """AlexNet (Krizhevsky et al., NeurIPS 2012) in the CIFAR size of Hsieh et al.'s public configuration (ICML 2020).

    conv 7x7 (24) - pool - conv 5x5 (64) - pool - conv 3x3 (96, 96, 64) - pool - 512 - classes, with ReLU after all but
    the last: the five convolutions of the original with a quarter of its channels, and one dense layer less. Only pools
    have a stride, of two over 3x3 windows; dropout removes half of the 512 in training. It has 765,738 parameters on
    32 x 32 pixels, three colours and ten classes. `width` scales the channels and the 512.

    Departures from the paper: weights start from He et al.'s initialisation. Biases start at zero and have the same
    learning rate as weights. With `norm`, normalisation replaces the biases of convolutions.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(lambda sizes: _AlexNet(sizes, layer, dropout, width))


class _AlexNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm | None, dropout: bool, width: float):
        super().__init__()
        channels, *sides = image_shape("alexnet", sizes, least=8)
        counts = [channels, *(scaled(count, width) for count in (24, 64, 96, 96, 64))]
        shapes = zip(pairwise(counts), (7, 5, 3, 3, 3), strict=True)
        self.convolutions = nn.ModuleList(convolution(*pair, side, 1, norm) for pair, side in shapes)
        self.fc1 = nn.Linear(counts[-1] * math.prod(side // 8 for side in sides), scaled(512, width))
        self.dropout = nn.Dropout(0.5 if dropout else 0.0)
        self.out = nn.Linear(self.fc1.out_features, sizes.classes)
        initialise_convolutions(self)

    def features(self, x: Tensor) -> Tensor:
        x = channels_last(x)  # CPUs pool this format much faster
        for place, layer in enumerate(self.convolutions):
            x = layer(x)
            x = (x if place in (2, 3) else overlapping_pool(x)).relu_()  # ReLU is cheaper after the pool, and commutes
        return self.dropout(F.relu(self.fc1(x.flatten(1))))  # type: ignore[no-any-return]  # torch types calls as Any
