"""The CNNs of McMahan et al. (AISTATS 2017) for MNIST and CIFAR-10, which Zhao et al. (2018) train too."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.data.augment import random_windows
from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.plain import channels_last
from silobench.models.pooling import relu_of_pool
from silobench.models.registry import MODELS
from silobench.spec.ranges import Count

_RADIUS, _ALPHA, _BETA = 4, 0.001 / 9, 0.75  # of the tutorial's local response normalisation


@MODELS.register(added_later=NORM_ARGUMENTS)
def mcmahan_mnist(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """McMahan et al.'s CNN for MNIST (AISTATS 2017): conv 5x5 (32) - pool - conv 5x5 (64) - pool - 512 - classes.

    Convolutions are padded to keep the sides, pools are 2x2, and ReLU follows both and the dense layer. There are
    1,663,370 parameters on 28 x 28 pixels and ten classes, as the paper counts. With `norm`, normalisation follows each
    convolution.

    Departures from the paper: weights start from PyTorch's default; the paper does not describe its initialisation.
    """
    return Model(lambda sizes: _McMahanMnist(sizes, norm_of(norm, group_size, renorm_from) or nn.Identity))


@MODELS.register(added_later=NORM_ARGUMENTS)
def mcmahan_cifar(
    crop: Count | None = 24,
    response_norm: bool = True,
    standardise: bool = True,
    norm: NormName = None,
    group_size: GroupSize = 2,
    renorm_from: RenormFrom = 500,
) -> Model:
    """McMahan et al.'s CNN for CIFAR-10 (AISTATS 2017), which comes from TensorFlow's tutorial.

    conv 5x5 (64) - pool - norm - conv 5x5 (64) - norm - pool - 384 - 192 - classes, with ReLU after all but the last.
    Pools are 3x3 with stride two, convolutions and pools have TensorFlow's "same" padding, and norm is local response
    normalisation. There are 1,068,298 parameters on three colours and ten classes. With `norm`, another normalisation
    follows each convolution; `response_norm=false` omits the local one.

    As in the tutorial, an image is cropped to `crop` x `crop` pixels, in training at a random place and mirrored half
    of the time, in a test at the centre, and then standardised by its mean and deviation. An image with a shorter side
    is not cropped or mirrored; with `crop=none`, none is. Use it with `cifar-10(augment=false)`, because the crops of
    the dataset would be added to these. If a loss evaluates two networks on a batch (MOON), each gets its own crops.

    Departures from the tutorial: weights start from PyTorch's default, and weight decay on dense layers is left to the
    solver. Brightness and contrast are not distorted; standardising undoes the first in the tutorial too. The lower
    bound of the deviation, 1/sqrt(numbers), was meant for pixels up to 255, and applies here to pixels up to 1.
    """
    layer = norm_of(norm, group_size, renorm_from) or nn.Identity
    return Model(lambda sizes: _McMahanCifar(sizes, crop, response_norm, standardise, layer))


class _McMahanMnist(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm):
        super().__init__()
        channels, height, width = image_shape("mcmahan-mnist", sizes, least=4)
        self.conv1, self.norm1 = nn.Conv2d(channels, 32, 5, padding=2), norm(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 5, padding=2), norm(64)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.out = nn.Linear(512, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = relu_of_pool(self.norm1(self.conv1(x)))
        x = relu_of_pool(self.norm2(self.conv2(x)))
        return F.relu(self.fc1(x.flatten(1)))


class _McMahanCifar(Classifier):
    def __init__(self, sizes: Sizes, crop: int | None, response_norm: bool, standardise: bool, norm: Norm):
        super().__init__()
        channels, *sides = image_shape("mcmahan-cifar", sizes, least=1)
        self.crop = crop if crop is not None and crop <= min(sides) else None
        self.response_norm, self.standardise = response_norm, standardise
        self.conv1, self.norm1 = nn.Conv2d(channels, 64, 5, padding=2), norm(64)
        self.conv2, self.norm2 = nn.Conv2d(64, 64, 5, padding=2), norm(64)
        self.fc1 = nn.Linear(64 * math.prod(math.ceil((self.crop or side) / 4) for side in sides), 384)
        self.fc2 = nn.Linear(384, 192)
        self.out = nn.Linear(192, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(self._crop(x)))
        x = self._normed(F.relu(_pool(x)))  # ReLU is cheaper after the pool, and commutes with it
        x = _pool(self._normed(F.relu(self.norm2(self.conv2(x)))))
        return F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))

    def _crop(self, x: Tensor) -> Tensor:
        """Return images as the first layer reads them: cropped and standardised."""
        if self.crop is not None:
            x = random_windows(x, self.crop) if self.training else _centre(x, self.crop)
        x = _standardised(x) if self.standardise else x
        return channels_last(x)  # takes a third off the time of a step

    def _normed(self, x: Tensor) -> Tensor:
        return local_response_norm(x) if self.response_norm else x


def local_response_norm(x: Tensor) -> Tensor:
    """Return x / (1 + α · the sum of x² over the channel and 4 on either side)^β, with the tutorial's α and β.

    A product with a band of ones sums the neighbours, five times as fast on a CPU as torch's pooling in 3-D.
    """
    channel = torch.arange(x.shape[1], device=x.device)
    near = ((channel[:, None] - channel).abs() <= _RADIUS).to(x.dtype)
    divisor = F.conv2d(x * x, _ALPHA * near[:, :, None, None], x.new_ones(len(channel)))
    return x * divisor**-_BETA


def _pool(x: Tensor) -> Tensor:
    """Return the maximum over 3x3 windows with stride two and TensorFlow's "same" padding.

    That padding is at the end of even sides, and around odd ones.
    """
    height, width = x.shape[2:]
    return F.max_pool2d(x, 3, 2, padding=(height % 2, width % 2), ceil_mode=True)


def _centre(x: Tensor, side: int) -> Tensor:
    top, left = ((whole - side) // 2 for whole in x.shape[2:])
    return x[:, :, top : top + side, left : left + side]


def _standardised(x: Tensor) -> Tensor:
    """Return each image minus its mean, divided by its deviation, which is at least 1/sqrt(numbers)."""
    deviation, mean = torch.std_mean(x, (1, 2, 3), correction=0, keepdim=True)
    return (x - mean) / deviation.clamp_min(x[0].numel() ** -0.5)
