"""Augmentation of a training batch as one batched tensor operation."""

import torch
from torch import Tensor


def crop_and_flip(images: Tensor, pad: int = 4) -> Tensor:
    """Each image seen through a window shifted by up to `pad` pixels, mirrored left to right half of the time.

    What the window shows beyond the edge is the image reflected: the same as padding by reflection, cropping at
    random and flipping at random, but nothing is padded. Draws from torch's generator. Images are ``[n, c, h, w]``.
    """
    count, _, height, width = images.shape
    down, right, mirrored = draw_windows(count, pad).long().unsqueeze(2).unbind(1)
    rows = _reflected(height, pad)[pad + down + torch.arange(height)]
    columns = _reflected(width, pad)[pad + right + torch.arange(width)]
    return _seen(images, rows, torch.where(mirrored > 0, columns.flip(1), columns))


def random_windows(images: Tensor, side: int) -> Tensor:
    """A square window of each image, anywhere within it, mirrored left to right half of the time.

    Draws from torch's generator. Images are ``[n, c, h, w]``, of at least `side` pixels a side.
    """
    count, _, height, width = images.shape
    rows, columns = (torch.randint(whole - side + 1, (count, 1)) + torch.arange(side) for whole in (height, width))
    return _seen(images, rows, torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns))


def draw_windows(count: int, pad: int = 4) -> Tensor:
    """How far each image's window is shifted down and to the right, and if it is mirrored: ``[n, 3]`` of int8."""
    shifts = torch.randint(0, 2 * pad + 1, (2, count, 1)) - pad
    return torch.cat([*shifts, torch.rand(count, 1) < 0.5], 1).to(torch.int8)


def _seen(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels of each image in its own rows ``[n, h]`` and columns ``[n, w]``."""
    count, channels, _, width = images.shape
    pixels = (rows[:, :, None] * width + columns[:, None, :]).view(count, 1, -1).expand(count, channels, -1)
    found = images.reshape(count, channels, -1).gather(2, pixels)
    return found.view(count, channels, rows.shape[1], columns.shape[1])


def _reflected(side: int, pad: int) -> Tensor:
    """Positions -pad .. side + pad - 1, those beyond an edge mirrored in it.

    >>> _reflected(4, 2).tolist()
    [2, 1, 0, 1, 2, 3, 2, 1]
    """
    positions = torch.arange(-pad, side + pad).abs()
    return torch.where(positions >= side, 2 * (side - 1) - positions, positions)
