"""AlexNet and GoogLeNet for small pictures, as the quagmire study (Hsieh et al., ICML 2020) trains them on CIFAR-10."""

import math
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.architectures import MODELS, Model, Sizes
from silobench.models.deep import convolution, picture
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.spec.ranges import Positive

# Szegedy et al., Table 1: 1x1; 1x1 before 3x3; 3x3; 1x1 before 5x5; 5x5; 1x1 after the pool. A pool stands between.
_BLOCKS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


@MODELS.register
def alexnet(
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
    dropout: bool = True,
    width: Positive = 1.0,
) -> Model:
    """AlexNet (Krizhevsky et al., NeurIPS 2012) in the CIFAR size of the quagmire study's public configuration.

    conv 7x7 (24) - pool - conv 5x5 (64) - pool - conv 3x3 (96, 96, 64) - pool - 512 - classes, with ReLU after all but
    the last: the five convolutions of the original with a quarter of its channels, and one dense layer less. Nothing is
    strided but the pools, 3x3 in steps of two; half of the 512 are dropped in training. 765,738 parameters on 32 x 32
    pixels, three colours and ten classes. `width` scales channels and the 512.

    Departures: weights begin as He et al.'s, biases at zero and learn as fast as weights. Normalisation, where asked
    for, stands in for the biases of convolutions.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(lambda sizes: _AlexNet(sizes, layer, dropout, width))


@MODELS.register
def googlenet(
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
    stem: Literal["original", "small"] = "original",
    width: Positive = 1.0,
) -> Model:
    """GoogLeNet (Szegedy et al., CVPR 2015): nine inception blocks and the mean over pixels.

    `stem=original` is what the paper has before them, conv 7x7 (64) in steps of two - pool - conv 1x1 (64) - conv 3x3
    (192) - pool, and what the quagmire study's public configuration has for CIFAR-10: of 32 pixels a side the blocks
    see 4, 2 and 1, and 5,983,802 parameters have little to compute. `stem=small` is one convolution 3x3 (192) instead,
    as is usual for small pictures: they see 32, 16 and 8, more accurately and at fifty times the cost. `width` scales
    all channels.

    Departures: no auxiliary classifiers, whose losses would be another task, no local response normalisation, and no
    dropout, which the study does without at its main end too. Weights begin as He et al.'s, so that it learns without
    normalisation; this, where asked for, stands in for the biases of convolutions. Where blocks see one pixel, groups
    of two channels keep little more than a sign: take a larger `group_size`, or `layer`.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(lambda sizes: _GoogLeNet(sizes, layer, stem, width))


class _AlexNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm | None, dropout: bool, width: float):
        super().__init__()
        channels, *sides = picture("alexnet", sizes)
        counts = [channels, *(_scaled(count, width) for count in (24, 64, 96, 96, 64))]
        shapes = zip(pairwise(counts), (7, 5, 3, 3, 3), strict=True)
        self.convolutions = nn.ModuleList(convolution(*pair, side, 1, norm) for pair, side in shapes)
        self.fc1 = nn.Linear(counts[-1] * math.prod(side // 8 for side in sides), _scaled(512, width))
        self.dropout = nn.Dropout(0.5 if dropout else 0.0)
        self.out = nn.Linear(self.fc1.out_features, sizes.classes)
        _initialise(self)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # in which CPUs pool much faster
        for place, layer in enumerate(self.convolutions):
            x = layer(x)
            x = (x if place in (2, 3) else _pooled(x)).relu_()  # they commute: ReLU has less to do
        return self.dropout(F.relu(self.fc1(x.flatten(1))))  # type: ignore[no-any-return]  # torch types calls as Any

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


class _GoogLeNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm | None, stem: str, width: float):
        super().__init__()
        channels, *_ = picture("googlenet", sizes)
        first, before = _scaled(64, width), _scaled(192, width)
        if stem == "small":
            self.stem = nn.Sequential(_rectified(channels, before, 3, 1, norm))
        else:
            layers = [_rectified(channels, first, 7, 2, norm), _Pool()]
            layers += [_rectified(first, first, 1, 1, norm), _rectified(first, before, 3, 1, norm), _Pool()]
            self.stem = nn.Sequential(*layers)
        blocks: list[nn.Module] = []
        for stage in _BLOCKS:
            blocks += [_Pool()] * bool(blocks)
            for shape in stage:
                block = _Inception(before, [_scaled(count, width) for count in shape], norm)
                blocks.append(block)
                before = block.channels
        self.blocks = nn.Sequential(*blocks)
        self.out = nn.Linear(before, sizes.classes)
        _initialise(self)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # in which CPUs pool much faster
        return self.blocks(self.stem(x)).mean((2, 3))  # type: ignore[no-any-return]

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


class _Inception(nn.Module):
    """Four ways side by side: 1x1; 3x3 and 5x5, each on fewer channels; and 1x1 on the largest of 3x3."""

    def __init__(self, before: int, shape: list[int], norm: Norm | None):
        super().__init__()
        direct, less3, after3, less5, after5, pooled = shape
        self.channels = direct + after3 + after5 + pooled
        self.one = _rectified(before, direct, 1, 1, norm)
        self.three = nn.Sequential(_rectified(before, less3, 1, 1, norm), _rectified(less3, after3, 3, 1, norm))
        self.five = nn.Sequential(_rectified(before, less5, 1, 1, norm), _rectified(less5, after5, 5, 1, norm))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), _rectified(before, pooled, 1, 1, norm))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)


class _Pool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return _pooled(x)


def _pooled(x: Tensor) -> Tensor:
    """The largest of 3x3 in steps of two, cut at the edge; a side of one pixel stays."""
    return F.max_pool2d(x, 3, 2, padding=[int(side == 1) for side in x.shape[2:]], ceil_mode=True)


def _rectified(before: int, after: int, side: int, stride: int, norm: Norm | None) -> nn.Sequential:
    return nn.Sequential(*convolution(before, after, side, stride, norm), nn.ReLU(inplace=True))


def _scaled(channels: int, width: float) -> int:
    """An even number, so that there are pairs to normalise."""
    return max(2 * round(channels * width / 2), 2)


def _initialise(network: nn.Module) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
