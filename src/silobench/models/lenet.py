"""The LeNet of the quagmire study, with and without normalisation."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.architectures import MODELS, Model, Sizes
from silobench.models.deep import picture
from silobench.models.network import Classifier
from silobench.models.norms import GroupSize, Norm, NormName, RenormFrom, norm_of


@partial(MODELS.register, later=("renorm_from",))
def lenet(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """The LeNet of the quagmire study (Hsieh et al., ICML 2020), which is that of Caffe for CIFAR-10.

    conv 5x5 (32) - max pool - conv 5x5 (32) - average pool - conv 5x5 (64) - average pool - classes, ReLU after each
    convolution; convolutions keep the sides, pools are 3x3 in steps of two, cut at the edge: 89,578 parameters on
    32 x 32 pixels, three colours and ten classes. Normalisation, where asked for, follows each convolution:
    `norm=batch` is the study's BN-LeNet, `norm=group` its GN-LeNet, in groups of `group_size` channels. `layer` takes
    all channels together, `batch-renorm` is BatchNorm for `renorm_from` steps and batch renormalisation after.

    Departures: weights begin as PyTorch's own. The study's public configuration normalises local responses where there
    is no other normalisation; with one it pools before the first, and has neither biases of convolutions nor weights
    of BatchNorm. The paper has them after each convolution, as here.
    """
    return Model(lambda sizes: _LeNet(sizes, norm_of(norm, group_size, renorm_from) or nn.Identity))


class _LeNet(Classifier):
    def __init__(self, sizes: Sizes, norm: Norm):
        super().__init__()
        channels, *sides = picture("lenet", sizes)
        self.conv1, self.norm1 = nn.Conv2d(channels, 32, 5, padding=2), norm(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 32, 5, padding=2), norm(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 64, 5, padding=2), norm(64)
        self.out = nn.Linear(64 * math.prod(side // 8 for side in sides), sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # in which a step takes two thirds of the time
        x = F.max_pool2d(self.norm1(self.conv1(x)), 3, 2, ceil_mode=True).relu_()  # they commute: ReLU has less to do
        x = F.avg_pool2d(self.norm2(self.conv2(x)).relu_(), 3, 2, ceil_mode=True)
        x = F.avg_pool2d(self.norm3(self.conv3(x)).relu_(), 3, 2, ceil_mode=True)
        return x.flatten(1)

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]  # torch types module calls as Any
