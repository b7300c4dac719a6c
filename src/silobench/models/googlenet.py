"""GoogLeNet for small images, as Hsieh et al. (ICML 2020) train it on CIFAR-10."""

from typing import Literal

import torch
from torch import Tensor, nn

from silobench.models.layers import convolution, initialise_convolutions, overlapping_pool, scaled
from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.plain import channels_last
from silobench.models.registry import MODELS
from silobench.spec.ranges import Positive

# Szegedy et al., Table 1. Channels of a block: 1x1; 1x1 before 3x3; 3x3; 1x1 before 5x5; 5x5; 1x1 after the pool.
# There is a pool between the stages.
_STAGES = (
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
def googlenet(
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
    stem: Literal["original", "small"] = "original",
    width: Positive = 1.0,
) -> Model:
    """GoogLeNet (Szegedy et al., CVPR 2015): nine inception blocks and the mean over pixels.

    `stem=original` is the paper's start, conv 7x7 (64) with stride two - pool - conv 1x1 (64) - conv 3x3 (192) - pool.
    Hsieh et al.'s public configuration (ICML 2020) also uses it for CIFAR-10: of images with 32 x 32 pixels, the blocks
    see 4 x 4, 2 x 2 and 1 x 1, so the 5,983,802 parameters have little to compute. `stem=small` is one 3x3 convolution
    (192) instead, as is usual for small images: the blocks see 32 x 32, 16 x 16 and 8 x 8, which is more accurate and
    costs fifty times as much. `width` scales all channels.

    Departures from the paper: there are no auxiliary classifiers, whose losses would change the task, no local response
    normalisation, and no dropout, which Hsieh et al. leave out of the main classifier too. Weights start from He et
    al.'s initialisation, so that it learns without normalisation. With `norm`, normalisation replaces the biases of
    convolutions. If blocks see one pixel, groups of two channels keep little more than a sign: take a larger
    `group_size`, or `norm=layer`.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(lambda sizes: _GoogLeNet(sizes, layer, stem, width))


class _GoogLeNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm | None, stem: str, width: float):
        super().__init__()
        channels, *_ = image_shape("googlenet", sizes, least=8)
        first, before = scaled(64, width), scaled(192, width)
        if stem == "small":
            self.stem = nn.Sequential(_rectified(channels, before, 3, 1, norm))
        else:
            layers = [_rectified(channels, first, 7, 2, norm), _Pool()]
            layers += [_rectified(first, first, 1, 1, norm), _rectified(first, before, 3, 1, norm), _Pool()]
            self.stem = nn.Sequential(*layers)
        blocks: list[nn.Module] = []
        for stage in _STAGES:
            blocks += [_Pool()] * bool(blocks)
            for shape in stage:
                block = _Inception(before, [scaled(count, width) for count in shape], norm)
                blocks.append(block)
                before = block.channels
        self.blocks = nn.Sequential(*blocks)
        self.out = nn.Linear(before, sizes.classes)
        initialise_convolutions(self)

    def features(self, x: Tensor) -> Tensor:
        x = channels_last(x)  # CPUs pool this format much faster
        return self.blocks(self.stem(x)).mean((2, 3))  # type: ignore[no-any-return]  # torch types calls as Any


class _Inception(nn.Module):
    """Four branches side by side: 1x1; 3x3 and 5x5, each after a 1x1 into fewer channels; and 1x1 after a 3x3 pool."""

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
        return overlapping_pool(x)


def _rectified(before: int, after: int, side: int, stride: int, norm: Norm | None) -> nn.Sequential:
    return nn.Sequential(*convolution(before, after, side, stride, norm), nn.ReLU(inplace=True))
