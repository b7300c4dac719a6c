"""Residual networks for CIFAR (He et al., CVPR 2016), with a choice of normalisation."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.layers import convolution, initialise_convolutions
from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.plain import channels_last
from silobench.models.registry import MODELS


@MODELS.register(added_later=("renorm_from",))
def resnet(
    depth: Literal[18, 20, 50] = 18,
    norm: NormName = "batch",
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """Residual networks in their CIFAR form (He et al., CVPR 2016): a 3x3 convolution first, and no pool after it.

    Depth 20 is the paper's network for CIFAR (16, 32, 64 channels; a shortcut into more channels pads with zeros);
    depths 18 and 50 have 64 to 512 channels and projections. `norm=group` normalises groups of `group_size` channels (2
    in Hsieh et al., 2020), `layer` all channels together; `batch-renorm` is BatchNorm for `renorm_from` steps and batch
    renormalisation after that; `batch-stats` is BatchNorm without running statistics, which OARF (Hu et al., TIST 2022)
    trains. `norm=none` has biases instead and starts near the identity: the last convolution of every block is zero,
    and the others are scaled as in Fixup (Zhang et al., ICLR 2019), but without its scalars.

    If a batch has only one value per channel, BatchNorm uses its running statistics.
    """
    # The order of channels affects rounding, so networks of former versions keep theirs.
    channels_last = norm == "batch-stats"
    return Model(lambda sizes: _ResNet(sizes, depth, norm_of(norm, group_size, renorm_from), channels_last))


class _ResNet(Classifier):
    def __init__(self, sizes: Sizes, depth: int, norm: Norm | None, channels_last: bool):
        super().__init__()
        self.channels_last = channels_last
        channels, *_ = image_shape("resnet", sizes, least=8)
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
        initialise_convolutions(self, "fan_out")
        if norm is None:
            _scale_as_fixup(self)

    def features(self, x: Tensor) -> Tensor:
        if self.channels_last:
            x = channels_last(x)
        return self.blocks(F.relu_(self.stem(x))).mean((2, 3))  # type: ignore[no-any-return]  # torch types calls as Any


class _Block(nn.Module):
    """Two 3x3 convolutions, or a bottleneck of three (1x1, 3x3, 1x1), beside a shortcut."""

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
        hidden = x
        for part in inner:
            hidden = F.relu_(part(hidden))
        return F.relu_(last(hidden).add_(self._short(x)))

    def _short(self, x: Tensor) -> Tensor:
        if self.shortcut is not None:
            return self.shortcut(x)  # type: ignore[no-any-return]
        # He et al.'s option A: every second pixel, and zeros for the new channels.
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.wider))


def _scale_as_fixup(network: _ResNet) -> None:
    """Scale the weights as Fixup does, so that the sum over blocks does not grow without normalisation."""
    blocks = [block for block in network.blocks if isinstance(block, _Block)]
    for block in blocks:
        *inner, last = (part.get_submodule("0") for part in block.parts)
        for layer in inner:
            layer.get_parameter("weight").data.mul_(len(blocks) ** (-1 / (2 * len(inner))))
        nn.init.zeros_(last.get_parameter("weight"))
