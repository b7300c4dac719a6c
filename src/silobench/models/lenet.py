"""The LeNet of Hsieh et al. (ICML 2020), with a choice of normalisation."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.plain import channels_last
from silobench.models.registry import MODELS


@MODELS.register(added_later=("renorm_from",))
def lenet(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """The LeNet of Hsieh et al. (ICML 2020), which comes from Caffe's example for CIFAR-10.

    conv 5x5 (32) - max pool - conv 5x5 (32) - average pool - conv 5x5 (64) - average pool - classes, with ReLU after
    each convolution. Convolutions keep the sides; pools are 3x3 with stride two, cut off at the edge. There are 89,578
    parameters on 32 x 32 pixels, three colours and ten classes. With `norm`, normalisation follows each convolution:
    `batch` is the paper's BN-LeNet, `group` its GN-LeNet with groups of `group_size` channels, `layer` takes all
    channels together, and `batch-renorm` is BatchNorm for `renorm_from` steps and batch renormalisation after that.

    Departures from the paper: weights start from PyTorch's default. The public configuration has local response
    normalisation if there is no other. With another, it pools before the first normalisation, and has neither biases of
    convolutions nor weights of BatchNorm. The paper normalises after each convolution, as here.
    """
    return Model(lambda sizes: _LeNet(sizes, norm_of(norm, group_size, renorm_from) or nn.Identity))


class _LeNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm):
        super().__init__()
        channels, *sides = image_shape("lenet", sizes, least=8)
        self.conv1, self.norm1 = nn.Conv2d(channels, 32, 5, padding=2), norm(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 32, 5, padding=2), norm(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 64, 5, padding=2), norm(64)
        self.out = nn.Linear(64 * math.prod(side // 8 for side in sides), sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = channels_last(x)  # takes a third off the time of a step
        x = F.max_pool2d(self.norm1(self.conv1(x)), 3, 2, ceil_mode=True).relu_()  # ReLU commutes with the max pool
        x = F.avg_pool2d(self.norm2(self.conv2(x)).relu_(), 3, 2, ceil_mode=True)
        x = F.avg_pool2d(self.norm3(self.conv3(x)).relu_(), 3, 2, ceil_mode=True)
        return x.flatten(1)
