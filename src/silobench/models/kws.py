"""The CNN for keyword spotting that Zhao et al. (2018) train on spoken commands."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.model import Model, Sizes
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.registry import MODELS

_SIZES = {"small": (28, 30, 16), "medium": (64, 48, 16), "large": (60, 76, 58)}  # two convolutions, the low-rank layer


@MODELS.register(added_later=("group_size", "renorm_from"))
def kws(
    size: Literal["small", "medium", "large"] = "small",
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """The CNN of "Hello Edge" (Zhang et al., 2017), which Zhao et al. (2018) train on 50 x 10 MFCC of spoken keywords.

    conv 10x4 - ReLU - conv 10x4, stride two in time - ReLU - low-rank linear layer - 128 - ReLU - classes, without
    padding. With ten classes, small (28 and 30 filters, rank 16) has 68,980 parameters, medium (64, 48, 16) 178,186 and
    large (60, 76, 58) 475,948. Zhao et al. do not report which size they used.

    Departures from the paper: the public code has BatchNorm before every ReLU and dropout after it; Zhao et al. mention
    neither. Averaged BatchNorm statistics are a confounder under label skew, so there is no BatchNorm unless
    `norm=batch`, with PyTorch's momentum and epsilon. There is no dropout. `norm=group` normalises the 128 together: in
    a group of two single numbers, little more than a sign would remain. Weights start from PyTorch's default.
    """
    layer = norm_of(norm, group_size, renorm_from) or nn.Identity
    dense = norm_of("layer" if norm == "group" else norm, group_size, renorm_from) or nn.Identity
    return Model(lambda sizes: _Kws(sizes, *_SIZES[size], layer, dense))


class _Kws(Classifier):
    def __init__(self, sizes: Sizes, first: int, second: int, rank: int, norm: Norm, dense: Norm):
        super().__init__()
        if len(sizes.shape) != 3 or sizes.shape[1] < 19 or sizes.shape[2] < 7:
            raise ConfigError(
                "kws needs sounds (channels, time, frequency) of at least 19 x 7 numbers, but rows have shape "
                f"{sizes.shape}: use cnn for small images, or mlp or linear for other rows."
            )
        channels, time, frequency = sizes.shape
        time, frequency = (time - 9 - 10) // 2 + 1, frequency - 3 - 3
        self.conv1, self.norm1 = nn.Conv2d(channels, first, (10, 4)), norm(first)
        self.conv2, self.norm2 = nn.Conv2d(first, second, (10, 4), stride=(2, 1)), norm(second)
        self.low_rank = nn.Linear(second * time * frequency, rank)
        self.fc1, self.norm3 = nn.Linear(rank, 128), dense(128)
        self.out = nn.Linear(128, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = self.fc1(self.low_rank(x.flatten(1)))
        return F.relu(self.norm3(x[:, :, None, None]).flatten(1))  # norms read images: here of one pixel
