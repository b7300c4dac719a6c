"""Small networks: NIID-Bench's CNN and MLP, a linear model, and a bag of words."""

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.mlp import Mlp as Mlp
from silobench.models.model import Model, Sizes, image_shape
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.pooling import relu_of_pool, relu_of_pooled_convolution
from silobench.models.registry import MODELS
from silobench.spec.ranges import Count


@MODELS.register(added_later=NORM_ARGUMENTS)
def cnn(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """NIID-Bench's CNN: conv 5x5 (6) - pool - conv 5x5 (16) - pool - 120 - 84 - classes.

    Images under 16 pixels are padded by 2 in both convolutions, because two unpadded convolutions would leave nothing.
    NIID-Bench has no normalisation; with `norm`, it follows each convolution.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(Cnn if layer is None else lambda sizes: _NormedCnn(sizes, layer))


@MODELS.register
def mlp(*widths: Count, init: Literal["normal", "torch"] = "normal") -> Model:
    """Fully connected layers of these widths with ReLU; mlp() is NIID-Bench's mlp(32, 16, 8).

    `init=normal` draws weights from N(0, 0.1²) and sets biases to 0.1, as NIID-Bench's public code does;
    `init=torch` is PyTorch's default.
    """
    return Model(lambda sizes: Mlp(sizes, widths or (32, 16, 8), init))


@MODELS.register
def linear() -> Model:
    """One linear layer: multinomial logistic regression."""
    return Model(lambda sizes: Mlp(sizes, (), "torch"))


@MODELS.register
def bag(width: Count = 32) -> Model:
    """A bag of words: the vectors of a row's words are added, and one linear layer reads the sum."""
    return Model(lambda sizes: _Bag(sizes, width), reads_words=True)


class Cnn(Classifier):
    """NIID-Bench's network. Engines may compute it without calling its methods."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        channels, height, width = image_shape("cnn", sizes, least=4)
        padding = self.padding = 2 if min(height, width) < 16 else 0
        height, width = (((side + 2 * padding - 4) // 2 + 2 * padding - 4) // 2 for side in (height, width))
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6, 16, 5, padding=padding)
        self.widths = (16 * height * width, 120, 84, sizes.classes)  # of the dense layers, inputs first
        self.fc1, self.fc2, self.out = (nn.Linear(a, b) for a, b in pairwise(self.widths))

    def features(self, x: Tensor) -> Tensor:
        x = relu_of_pool(self.conv1(x)) if torch.is_grad_enabled() else relu_of_pooled_convolution(self.conv1, x)
        x = relu_of_pool(self.conv2(x)).flatten(1)
        return F.relu(self.fc2(F.relu(self.fc1(x))))


class _NormedCnn(Classifier):
    """`Cnn` with normalisation after each convolution. It is not a subclass, because engines compute a `Cnn`."""

    def __init__(self, sizes: Sizes, norm: Norm):
        super().__init__()
        plain = Cnn(sizes)
        self.conv1, self.norm1 = plain.conv1, norm(plain.conv1.out_channels)
        self.conv2, self.norm2 = plain.conv2, norm(plain.conv2.out_channels)
        self.fc1, self.fc2, self.out = plain.fc1, plain.fc2, plain.out

    def features(self, x: Tensor) -> Tensor:
        x = relu_of_pool(self.norm1(self.conv1(x)))
        x = relu_of_pool(self.norm2(self.conv2(x))).flatten(1)
        return F.relu(self.fc2(F.relu(self.fc1(x))))


class _Bag(Classifier):
    def __init__(self, sizes: Sizes, width: int):
        super().__init__()
        self.words = nn.EmbeddingBag(sizes.vocabulary, width, mode="sum", padding_idx=0)
        nn.init.normal_(self.words.weight, 0.0, 0.1)
        self.out = nn.Linear(width, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        return self.words(x)  # type: ignore[no-any-return]  # torch types module calls as Any
