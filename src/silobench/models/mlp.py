"""`Mlp`: dense layers, which engines can also compute without torch."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.model import Sizes
from silobench.models.network import Classifier


class Mlp(Classifier):
    """Linear layers with ReLU between them. Engines can also compute it for many parties at once."""

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
