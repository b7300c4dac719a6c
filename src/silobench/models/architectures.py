"""Architectures by name. A `Model` becomes a torch module once the shape of its input is known."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.network import Classifier
from silobench.models.norms import NORM_ARGUMENTS, GroupSize, Norm, NormName, RenormFrom, norm_of
from silobench.models.pooling import relu_of_pool, relu_of_pooled_convolution
from silobench.rng import torch_seed
from silobench.spec import Registry
from silobench.spec.ranges import Count


@dataclass(frozen=True)
class Sizes:
    """What a network has to fit: the shape of a row, the classes, and the words where rows are word numbers."""

    shape: tuple[int, ...]
    classes: int
    vocabulary: int = 0

    @property
    def inputs(self) -> int:
        """The numbers in a row."""
        return int(torch.Size(self.shape).numel())


@dataclass(frozen=True)
class Model:
    """An architecture; `build` gives the module for these sizes, freshly initialised from a seed."""

    module: Callable[[Sizes], nn.Module]
    reads_words: bool = False

    def build(self, sizes: Sizes, seed: int) -> nn.Module:
        if self.reads_words != bool(sizes.vocabulary):
            given, remedy = ("numbers", "cnn, mlp or linear") if self.reads_words else ("word numbers", "bag")
            raise ConfigError(f"this model cannot read rows of {given}: use {remedy}.")
        # torch initialises from its global generator, so that is set aside meanwhile.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(seed, "init"))
            return self.module(sizes)


MODELS: Registry[Model] = Registry("model")


@partial(MODELS.register, later=NORM_ARGUMENTS)
def cnn(norm: NormName = None, group_size: GroupSize = 2, renorm_from: RenormFrom = 500) -> Model:
    """NIID-Bench's CNN: conv 5x5 (6) - pool - conv 5x5 (16) - pool - 120 - 84 - classes.

    Images under 16 pixels are padded by 2 in both convolutions, because two unpadded ones would leave nothing.
    NIID-Bench's has no normalisation; where asked for, it follows each convolution.
    """
    layer = norm_of(norm, group_size, renorm_from)
    return Model(Cnn if layer is None else lambda sizes: _NormedCnn(sizes, layer))


@MODELS.register
def mlp(*widths: Count, init: Literal["normal", "torch"] = "normal") -> Model:
    """Fully connected layers of these widths with ReLU; mlp() is NIID-Bench's mlp(32, 16, 8).

    `init=normal` draws weights from N(0, 0.1²) and sets biases to 0.1, as NIID-Bench's public code does;
    `init=torch` is PyTorch's own.
    """
    return Model(lambda sizes: Mlp(sizes, widths or (32, 16, 8), init))


@MODELS.register
def linear() -> Model:
    """One linear layer: multinomial logistic regression."""
    return Model(lambda sizes: Mlp(sizes, (), "torch"))


@MODELS.register
def bag(width: Count = 32) -> Model:
    """A bag of words: the vectors of a row's words are added up, and one linear layer reads the sum."""
    return Model(lambda sizes: _Bag(sizes, width), reads_words=True)


class Cnn(Classifier):
    """NIID-Bench's network. Engines may compute it by other means than its methods."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        shape = sizes.shape
        if len(shape) != 3:
            raise ConfigError(
                f"cnn needs images (channels, height, width), but rows have shape {shape}: use mlp or linear."
            )
        channels, height, width = shape
        padding = self.padding = 2 if min(height, width) < 16 else 0
        height, width = (((side + 2 * padding - 4) // 2 + 2 * padding - 4) // 2 for side in (height, width))
        if height < 1 or width < 1:
            raise ConfigError(f"cnn needs images of at least 4 x 4 pixels, but rows have shape {shape}.")
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6, 16, 5, padding=padding)
        self.widths = (16 * height * width, 120, 84, sizes.classes)  # of the dense layers, inputs first
        self.fc1, self.fc2, self.out = (nn.Linear(a, b) for a, b in pairwise(self.widths))

    def features(self, x: Tensor) -> Tensor:
        x = relu_of_pool(self.conv1(x)) if torch.is_grad_enabled() else relu_of_pooled_convolution(self.conv1, x)
        x = relu_of_pool(self.conv2(x)).flatten(1)
        return F.relu(self.fc2(F.relu(self.fc1(x))))

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]  # torch types module calls as Any


class _NormedCnn(Classifier):
    """The same with a normalisation after each convolution; no `Cnn`, for that is what engines know how to compute."""

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

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]


class Mlp(Classifier):
    """Linear layers with ReLU between them: the network that engines can also compute for many parties at once."""

    def __init__(self, sizes: Sizes, widths: tuple[int, ...], init: str):
        super().__init__()
        self.widths = (sizes.inputs, *widths, sizes.classes)
        layers = [nn.Linear(a, b) for a, b in pairwise(self.widths)]
        self.layers = nn.ModuleList(layers)
        if init == "normal":
            for layer in layers:
                nn.init.normal_(layer.weight, 0.0, 0.1)
                nn.init.constant_(layer.bias, 0.1)

    def features(self, x: Tensor) -> Tensor:
        x = x if x.is_sparse_csr else x.flatten(1)  # sparse rows are flat already
        *hidden, _ = self._linear
        for layer in hidden:
            x = F.relu(_affine(x, layer))
        return x

    def last(self, features: Tensor) -> Tensor:
        return _affine(features, self._linear[-1])

    @property
    def _linear(self) -> list[nn.Linear]:
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]


def _affine(x: Tensor, layer: nn.Linear) -> Tensor:
    if x.is_sparse_csr:
        return torch.addmm(layer.bias, x, layer.weight.t())
    return F.linear(x, layer.weight, layer.bias)


class _Bag(Classifier):
    def __init__(self, sizes: Sizes, width: int):
        super().__init__()
        self.words = nn.EmbeddingBag(sizes.vocabulary, width, mode="sum", padding_idx=0)
        nn.init.normal_(self.words.weight, 0.0, 0.1)
        self.out = nn.Linear(width, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        return self.words(x)  # type: ignore[no-any-return]  # torch types module calls as Any

    def last(self, features: Tensor) -> Tensor:
        return self.out(features)  # type: ignore[no-any-return]
