"""Random crops and flips of a training batch of images, as one batched tensor operation."""

import torch
from torch import Tensor


def crop_and_flip(images: Tensor, pad: int = 4) -> Tensor:
    """Shift each image ``[n, c, h, w]`` by up to `pad` pixels and flip it left to right with probability 1/2.

    Pixels beyond the edge are reflected. The result equals reflection padding, a random crop and a random flip, but
    no padded copy is made. Random numbers come from torch's default generator on the CPU, also for images elsewhere.
    """
    count, _, height, width = images.shape
    down, right, flipped = draw_windows(count, pad).long().unsqueeze(2).unbind(1)
    rows = _reflected_positions(height, pad)[pad + down + torch.arange(height)]
    columns = _reflected_positions(width, pad)[pad + right + torch.arange(width)]
    return _gather(images, rows, torch.where(flipped > 0, columns.flip(1), columns))


def random_windows(images: Tensor, side: int) -> Tensor:
    """Crop a random square of `side` pixels from each image and flip it left to right with probability 1/2.

    Images ``[n, c, h, w]`` must have at least `side` rows and columns. Random numbers come from torch's default
    generator on the CPU, also for images elsewhere.
    """
    count, _, height, width = images.shape
    rows, columns = (torch.randint(length - side + 1, (count, 1)) + torch.arange(side) for length in (height, width))
    return _gather(images, rows, torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns))


def draw_windows(count: int, pad: int = 4) -> Tensor:
    """Draw the window of each image: the shift down, the shift right, and 1 if it is flipped (int8 ``[n, 3]``)."""
    shifts = torch.randint(0, 2 * pad + 1, (2, count, 1)) - pad
    return torch.cat([*shifts, torch.rand(count, 1) < 0.5], 1).to(torch.int8)


def _gather(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Select rows ``[n, h]`` and columns ``[n, w]`` of each image."""
    count, channels, _, width = images.shape
    pixels = (rows[:, :, None] * width + columns[:, None, :]).view(count, 1, -1).to(images.device)
    selected = images.reshape(count, channels, -1).gather(2, pixels.expand(count, channels, -1))
    return selected.view(count, channels, rows.shape[1], columns.shape[1])


def _reflected_positions(side: int, pad: int) -> Tensor:
    """Map the positions -pad .. side + pad - 1 to positions in the image; those beyond an edge are reflected.

    >>> _reflected_positions(4, 2).tolist()
    [2, 1, 0, 1, 2, 3, 2, 1]
    """
    positions = torch.arange(-pad, side + pad).abs()
    return torch.where(positions >= side, 2 * (side - 1) - positions, positions)
