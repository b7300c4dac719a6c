"""`Model`, an architecture that becomes a torch module once the shape of its input is known, and their registry."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from silobench.errors import ConfigError
from silobench.rng import torch_seed
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, expects


@dataclass(frozen=True)
class Sizes:
    """Sizes for a network to fit: the shape of a row, the number of classes and, for rows of words, the vocabulary.

    A network has one output per class; for a numeric target, `classes` is 1.
    """

    shape: tuple[int, ...]
    classes: int
    vocabulary: int = 0

    @property
    def inputs(self) -> int:
        """The count of numbers in a row."""
        return int(torch.Size(self.shape).numel())


@dataclass(frozen=True)
class Model:
    """An architecture; `build` returns the module for given sizes, initialised from a seed."""

    module: Callable[[Sizes], nn.Module]
    reads_words: bool = False

    def build(self, sizes: Sizes, seed: int) -> nn.Module:
        """Return the module for these sizes."""
        if self.reads_words != bool(sizes.vocabulary):
            rows, remedy = ("numbers", "cnn, mlp or linear") if self.reads_words else ("word numbers", "bag")
            raise ConfigError(f"this model cannot read rows of {rows}: use {remedy}.")
        # torch initialises from its global generator, so its state is saved and restored.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(seed, "init"))
            return self.module(sizes)


MODELS: Registry[Model] = Registry(
    "model",
    Contract(
        Model,
        "an sb.Model(module), where module(sizes) returns a torch module",
        {"module": Form("sizes", expects(nn.Module, "a torch.nn.Module"))},
    ),
)


def image_shape(model: str, sizes: Sizes, least: int) -> tuple[int, int, int]:
    """Return channels, height and width of a row; raise `ConfigError` if it is not an image of `least` pixels a side.

    >>> image_shape("vgg9", Sizes((3, 32, 32), classes=10), least=8)
    (3, 32, 32)
    """
    if len(sizes.shape) != 3 or min(sizes.shape[1:]) < least:
        other = "mlp or linear" if least <= 4 else "cnn for smaller images, or mlp or linear for other rows"
        raise ConfigError(
            f"{model} needs images (channels, height, width) of at least {least} x {least} pixels, but rows have shape "
            f"{sizes.shape}: use {other}."
        )
    channels, height, width = sizes.shape
    return channels, height, width
