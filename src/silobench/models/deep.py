"""Deep networks for pictures: VGG-9 and residual networks, with a choice of normalisation."""

import math
from functools import partial
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.architectures import MODELS, Model, Sizes
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of

_LEAST = 8  # pixels a side


@partial(MODELS.register, later=NORM_ARGUMENTS)
def vgg9(
    dropout: bool = True,
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """NIID-Bench's VGG-9: conv 3x3 (32, 64) - pool - (128, 128) - pool - (256, 256) - pool - 512 - 512 - classes.

    As in its public code for CIFAR-10 a twentieth of the channels is dropped after the second pool, and a tenth of the
    numbers before the first dense layer and the last; and weights begin as PyTorch's own do, so that the loss hardly
    falls in the first few hundred steps. Normalisation, where asked for, stands between a convolution and its ReLU.
    """
    return Model(lambda sizes: _Vgg(sizes, dropout, norm_of(norm, group_size, renorm_from)))


@partial(MODELS.register, later=("renorm_from",))
def resnet(
    depth: Literal[18, 20, 50] = 18,
    norm: NormName = "batch",
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """Residual networks in their CIFAR form (He et al., CVPR 2016): a 3x3 convolution first, and no pool after it.

    20 is the paper's own for CIFAR (16, 32, 64 channels; a shortcut into more channels pads with zeros); 18 and 50 have
    64 to 512 and projections. `norm=group` normalises groups of `group_size` channels (2 in the quagmire study),
    `layer` all channels together; `batch-renorm` is BatchNorm for `renorm_from` steps and batch renormalisation after.
    `norm=none` has biases instead and begins near the identity: the last convolution of every block is zero and the
    others are scaled as in Fixup (Zhang et al., ICLR 2019), whose scalars it does without.

    Where a batch has one value per channel, which is its own mean, BatchNorm uses its running statistics.
    """
    return Model(lambda sizes: _ResNet(sizes, depth, norm_of(norm, group_size, renorm_from)))


class _Vgg(Classifier):
    def __init__(self, sizes: Sizes, dropout: bool, norm: Norm | None):
        super().__init__()
        channels, *sides = picture("vgg9", sizes)
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(pairwise((channels, 32, 64, 128, 128, 256, 256))):
            layers += [nn.Conv2d(before, after, 3, padding=1), *([norm(after)] if norm else []), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] * (place % 2)
            layers += [nn.Dropout2d(0.05)] * (place == 3 and dropout)
        self.convolutions = nn.Sequential(*layers)
        inputs = 256 * math.prod(side // 8 for side in sides)
        dropped = nn.Dropout(0.1) if dropout else nn.Identity()
        dense = [dropped, nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), dropped]
        self.dense = nn.Sequential(*dense)
        self.out = nn.Linear(512, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        return self.dense(self.convolutions(x).flatten(1))  # type: ignore[no-any-return]  # torch types calls as Any

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


class _ResNet(Classifier):
    def __init__(self, sizes: Sizes, depth: int, norm: Norm | None):
        super().__init__()
        channels, *_ = picture("resnet", sizes)
        counts, width = {18: ((2, 2, 2, 2), 64), 20: ((3, 3, 3), 16), 50: ((3, 4, 6, 3), 64)}[depth]
        self.stem = convolution(channels, width, 3, 1, norm)
        blocks: list[nn.Module] = []
        before = width
        for stage, count in enumerate(counts):
            for place in range(count):
                narrow, stride = width << stage, 2 if stage and not place else 1
                after = 4 * narrow if depth == 50 else narrow
                blocks.append(_Block(before, narrow, after, stride, norm, projects=depth != 20))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.out = nn.Linear(before, sizes.classes)
        _initialise(self, norm)

    def features(self, x: Tensor) -> Tensor:
        return self.blocks(F.relu(self.stem(x))).mean((2, 3))  # type: ignore[no-any-return]  # torch types calls as Any

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


class _Block(nn.Module):
    """Two convolutions 3x3, or three where it is wider than it is narrow inside, beside a shortcut."""

    def __init__(self, before: int, narrow: int, after: int, stride: int, norm: Norm | None, projects: bool):
        super().__init__()
        if after == narrow:
            parts = [convolution(before, narrow, 3, stride, norm), convolution(narrow, after, 3, 1, norm)]
        else:
            inner = convolution(narrow, narrow, 3, stride, norm)
            parts = [convolution(before, narrow, 1, 1, norm), inner, convolution(narrow, after, 1, 1, norm)]
        self.parts = nn.ModuleList(parts)
        self.stride, self.wider = stride, after - before
        changes = stride > 1 or before != after
        self.shortcut = convolution(before, after, 1, stride, norm) if changes and projects else None

    def forward(self, x: Tensor) -> Tensor:
        *inner, last = self.parts
        found = x
        for part in inner:
            found = F.relu(part(found))
        return F.relu(last(found) + self._short(x))

    def _short(self, x: Tensor) -> Tensor:
        if self.shortcut is not None:
            return self.shortcut(x)  # type: ignore[no-any-return]
        # He et al.'s option A: every second pixel, and zeros for the channels that are new.
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.wider))


def convolution(before: int, after: int, side: int, stride: int, norm: Norm | None) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, side, stride, padding=side // 2, bias=norm is None)
    return nn.Sequential(convolution, *([] if norm is None else [norm(after)]))


def _initialise(network: _ResNet, norm: Norm | None) -> None:
    """He et al.'s normal weights; without normalisation, Fixup's scales, so that the sum over blocks does not grow."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    blocks = [block for block in network.blocks if isinstance(block, _Block)]
    for block in blocks if norm is None else ():
        *inner, last = (part.get_submodule("0") for part in block.parts)
        for convolution in inner:
            convolution.get_parameter("weight").data.mul_(len(blocks) ** (-1 / (2 * len(inner))))
        nn.init.zeros_(last.get_parameter("weight"))


def picture(model: str, sizes: Sizes) -> tuple[int, ...]:
    """Channels, height and width of a row."""
    if len(sizes.shape) != 3 or min(sizes.shape[1:]) < _LEAST:
        raise ConfigError(
            f"{model} needs images (channels, height, width) of at least {_LEAST} x {_LEAST} pixels, but rows have "
            f"shape {sizes.shape}: use cnn for smaller ones, mlp or linear for what is no image."
        )
    return sizes.shape
