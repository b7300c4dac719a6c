"""Networks of single papers: the three that Zhao et al. (2018) train, on MNIST, CIFAR-10 and spoken keywords."""

import math
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.data.augment import random_windows
from silobench.errors import ConfigError
from silobench.models.architectures import MODELS, Model, Sizes
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.pooling import relu_of_pool
from silobench.spec.ranges import Count

_KWS = {"small": (28, 30, 16), "medium": (64, 48, 16), "large": (60, 76, 58)}  # two convolutions, the low-rank layer
_RADIUS, _ALPHA, _BETA = 4, 0.001 / 9, 0.75  # of the tutorial's local response normalisation


@partial(MODELS.register, later=NORM_ARGUMENTS)
def mcmahan_mnist(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """McMahan et al.'s CNN for MNIST (AISTATS 2017): conv 5x5 (32) - pool - conv 5x5 (64) - pool - 512 - classes.

    Convolutions are padded to keep the sides, pools are 2x2, ReLU follows both and the dense layer: 1,663,370
    parameters on 28 x 28 pixels and ten classes, as the paper counts. Normalisation, where asked for, follows each
    convolution.

    Departures: the paper does not say how weights begin; here as PyTorch's own.
    """
    return Model(lambda sizes: _McMahanMnist(sizes, norm_of(norm, group_size, renorm_from) or nn.Identity))


@partial(MODELS.register, later=NORM_ARGUMENTS)
def mcmahan_cifar(
    crop: Count | None = 24,
    response_norm: bool = True,
    standardise: bool = True,
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """McMahan et al.'s CNN for CIFAR-10 (AISTATS 2017), which is that of TensorFlow's tutorial.

    conv 5x5 (64) - pool - norm - conv 5x5 (64) - norm - pool - 384 - 192 - classes, with ReLU after all but the last;
    pools are 3x3 in steps of two, both paddings TensorFlow's "same", and norm is local response normalisation:
    1,068,298 parameters on three colours and ten classes. Another `norm`, where asked for, follows each convolution;
    `response_norm=false` leaves out the local one.

    As in the tutorial a picture is cut to `crop` x `crop` pixels, in training a window anywhere and mirrored half of
    the time, in a test the middle, and then standardised by its own mean and deviation. A picture that is smaller on
    a side is taken whole and as it is, as all are with `crop=none`. Take `cifar-10(augment=false)`, whose windows and
    mirrors would come on top. A loss that asks two networks about a batch (MOON) shows each a window of its own.

    Departures: weights begin as PyTorch's own, and the tutorial's weight decay on dense layers is left to the solver.
    Brightness and contrast are not distorted; standardising undoes the first in the tutorial too. Its least deviation,
    1/sqrt(numbers), is meant for pixels up to 255, and here holds for those that the data give.
    """
    layer = norm_of(norm, group_size, renorm_from) or nn.Identity
    return Model(lambda sizes: _McMahanCifar(sizes, crop, response_norm, standardise, layer))


@partial(MODELS.register, later=("group_size", "renorm_from"))
def kws(
    size: Literal["small", "medium", "large"] = "small",
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """The CNN of "Hello Edge" (Zhang et al., 2017), which Zhao et al. (2018) train on 50 x 10 MFCC of spoken keywords.

    conv 10x4 - ReLU - conv 10x4, every second step of time - ReLU - low-rank linear layer - 128 - ReLU - classes;
    nothing is padded. With ten classes small (28 and 30 filters, rank 16) has 68,980 parameters, medium (64, 48, 16)
    178,186 and large (60, 76, 58) 475,948. Zhao et al. do not say which they took.

    Departures: the public code has BatchNorm before every ReLU and dropout after; Zhao et al. mention neither. Averaged
    BatchNorm statistics are a confound under label skew, so there are none unless `norm=batch`, which has PyTorch's
    momentum and epsilon; dropout is left out. `norm=group` normalises the 128 together: of two numbers without pixels
    little more than a sign would be left. Weights begin as PyTorch's own.
    """
    layer = norm_of(norm, group_size, renorm_from) or nn.Identity
    dense = norm_of("layer" if norm == "group" else norm, group_size, renorm_from) or nn.Identity
    return Model(lambda sizes: _Kws(sizes, *_KWS[size], layer, dense))


class _McMahanMnist(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm):
        super().__init__()
        channels, height, width = _picture("mcmahan-mnist", sizes, 4)
        self.conv1, self.norm1 = nn.Conv2d(channels, 32, 5, padding=2), norm(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 5, padding=2), norm(64)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.out = nn.Linear(512, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = relu_of_pool(self.norm1(self.conv1(x)))
        x = relu_of_pool(self.norm2(self.conv2(x)))
        return F.relu(self.fc1(x.flatten(1)))

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]  # torch types module calls as Any


class _McMahanCifar(Classifier):
    def __init__(self, sizes: Sizes, crop: int | None, response_norm: bool, standardise: bool, norm: Norm):
        super().__init__()
        channels, *sides = _picture("mcmahan-cifar", sizes, 1)
        self.crop = crop if crop is not None and crop <= min(sides) else None
        self.response_norm, self.standardise = response_norm, standardise
        self.conv1, self.norm1 = nn.Conv2d(channels, 64, 5, padding=2), norm(64)
        self.conv2, self.norm2 = nn.Conv2d(64, 64, 5, padding=2), norm(64)
        self.fc1 = nn.Linear(64 * math.prod(math.ceil((self.crop or side) / 4) for side in sides), 384)
        self.fc2 = nn.Linear(384, 192)
        self.out = nn.Linear(192, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(self._seen(x)))
        x = self._normed(F.relu(_pool(x)))  # ReLU and pool commute: the later has less to do
        x = _pool(self._normed(F.relu(self.norm2(self.conv2(x)))))
        return F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]

    def _seen(self, x: Tensor) -> Tensor:
        """What the first layer sees of pictures."""
        if self.crop is not None:
            x = random_windows(x, self.crop) if self.training else _middle(x, self.crop)
        x = _standardised(x) if self.standardise else x
        return x.contiguous(memory_format=torch.channels_last)  # in which a step takes two thirds of the time

    def _normed(self, x: Tensor) -> Tensor:
        return local_response_norm(x) if self.response_norm else x


class _Kws(Classifier):
    def __init__(self, sizes: Sizes, first: int, second: int, rank: int, norm: Norm, dense: Norm):
        super().__init__()
        if len(sizes.shape) != 3 or sizes.shape[1] < 19 or sizes.shape[2] < 7:
            raise ConfigError(
                "kws needs sounds (channels, time, frequency) of at least 19 x 7 numbers, but rows have shape "
                f"{sizes.shape}: use cnn for small images, mlp or linear for other rows."
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
        return F.relu(self.norm3(x[:, :, None, None]).flatten(1))  # to the norm each is a picture of one pixel

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


def local_response_norm(x: Tensor) -> Tensor:
    """x / (1 + α · the sum of x² over the channel and 4 on either side)^β, with the tutorial's α and β.

    A product with a band of ones adds up neighbours: five times as fast on a CPU as torch's, which pools in 3-D.
    """
    channel = torch.arange(x.shape[1])
    near = ((channel[:, None] - channel).abs() <= _RADIUS).to(x.dtype)
    divisor = F.conv2d(x * x, _ALPHA * near[:, :, None, None], x.new_ones(len(channel)))
    return x * divisor**-_BETA


def _pool(x: Tensor) -> Tensor:
    """The largest of 3x3 in steps of two, padded as TensorFlow's "same": at the end of even sides, around odd ones."""
    height, width = x.shape[2:]
    return F.max_pool2d(x, 3, 2, padding=(height % 2, width % 2), ceil_mode=True)


def _middle(x: Tensor, side: int) -> Tensor:
    top, left = ((whole - side) // 2 for whole in x.shape[2:])
    return x[:, :, top : top + side, left : left + side]


def _standardised(x: Tensor) -> Tensor:
    """Each picture less its mean, divided by its deviation, or 1/sqrt(numbers) where that is nearly nothing."""
    deviation, mean = torch.std_mean(x, (1, 2, 3), correction=0, keepdim=True)
    return (x - mean) / deviation.clamp_min(x[0].numel() ** -0.5)


def _picture(model: str, sizes: Sizes, least: int) -> tuple[int, int, int]:
    """Channels, height and width of a row."""
    if len(sizes.shape) != 3 or min(sizes.shape[1:]) < least:
        raise ConfigError(
            f"{model} needs images (channels, height, width) of at least {least} x {least} pixels, but rows have shape "
            f"{sizes.shape}: use mlp or linear."
        )
    channels, height, width = sizes.shape
    return channels, height, width
