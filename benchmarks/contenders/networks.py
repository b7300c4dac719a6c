"""The networks as a user writes them in torch, with the initial parameters that all contenders share."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from workloads import Material, Rows


def build(material: Material) -> nn.Module:
    widths = material.workload.widths
    module = _cnn(material.shape, material.classes) if widths is None else _mlp(material, widths)
    initial = torch.from_numpy(material.initial).clone()  # a copy, because the parameters become views of it
    nn.utils.vector_to_parameters(initial, module.parameters())
    return module


def _cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return NIID-Bench's CNN for pictures of 28 or 32 pixels."""
    side = ((shape[1] - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * side * side, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


def _mlp(material: Material, widths: tuple[int, ...]) -> nn.Module:
    inputs = int(torch.Size(material.shape).numel())
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise((inputs, *widths, material.classes)):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def tensors(rows: Rows) -> tuple[Tensor, Tensor]:
    """Return dense rows as features and labels."""
    return floats(rows.x), torch.from_numpy(rows.y)


def floats(x) -> Tensor:
    """Return dense features as floats; pixels are 0..1."""
    rows = torch.from_numpy(x)
    return rows.float() / 255 if rows.dtype == torch.uint8 else rows.float()
