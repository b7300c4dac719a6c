"""`Model`: an architecture that becomes a torch module once the shape of its input is known."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from silobench.errors import ConfigError
from silobench.models.devices import seed_torch
from silobench.models.lazy import initialise_lazy
from silobench.rng import torch_seed
from silobench.spec.contract import described
from silobench.spec.registry import part_name


@dataclass(frozen=True)
class Sizes:
    """Sizes for a network to fit: the shape of a row, the number of classes and, for rows of words, the vocabulary.

    A network has one output per class; for a numeric target, `classes` is 1. `words` are the words by number, for a
    network that looks them up.
    """

    shape: tuple[int, ...]
    classes: int
    vocabulary: int = 0
    words: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def inputs(self) -> int:
        """The count of numbers in a row."""
        return int(torch.Size(self.shape).numel())

    @property
    def outputs(self) -> int:
        """The count of outputs of a network: another name of `classes`."""
        return self.classes


@dataclass(frozen=True)
class Model:
    """An architecture; `build` returns the module for given sizes, initialised from a seed.

    `reads_words` is None for a network that may read rows of numbers or of words. `name` is shown in messages, and
    `content` is the text of the file that a user's network is read from: it is part of a run's identity. `needs_words`
    states that `Sizes.words` are needed to build it.
    """

    module: Callable[[Sizes], nn.Module]
    reads_words: bool | None = False
    name: str = ""
    content: str = ""
    needs_words: bool = False

    def build(self, sizes: Sizes, seed: int) -> nn.Module:
        """Return the module for these sizes."""
        if self.reads_words is not None and self.reads_words != bool(sizes.vocabulary):
            rows, remedy = ("numbers", "cnn, mlp or linear") if self.reads_words else ("word numbers", "bag")
            raise ConfigError(f"{part_name(self, 'model')} cannot read rows of {rows}: use {remedy}.")
        # torch initialises from its global generator, so its state is saved and restored.
        with torch.random.fork_rng(devices=[]):
            seed_torch(torch_seed(seed, "init"))
            module = self.module(sizes)
            if not isinstance(module, nn.Module):
                raise ConfigError(
                    f"the model {self.name} returned {described(module)}, but a torch.nn.Module is needed: return "
                    "a module."
                )
            initialise_lazy(module, sizes.shape, bool(sizes.vocabulary))
            return module


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
