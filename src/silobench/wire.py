"""How a vector crosses the network: as it is or, where most of it is zero, as what is not and where that lies."""

import numpy as np
import torch
from torch import Tensor

_PLACE = 4  # bytes of a place that is named by its number


def packed(vector: Tensor) -> tuple[Tensor, ...]:
    """The shortest of three forms: all entries; a bit for each and the entries that are not 0; or numbers and these.

    >>> [part.nbytes for part in packed(torch.tensor([0.0] * 99 + [1.0]))]
    [4, 4]
    """
    flat = vector.numpy().reshape(-1)  # NumPy finds and gathers entries in a third of torch's time
    kept = flat != 0
    count = int(np.count_nonzero(kept))
    bits, places = -(-len(flat) // 8), count * _PLACE
    if vector.nbytes <= count * flat.itemsize + min(bits, places):
        return (vector,)
    where = np.packbits(kept) if bits < places else np.flatnonzero(kept).astype(np.int32)
    return torch.from_numpy(where), torch.from_numpy(flat[kept])


def unpacked(parts: tuple[Tensor, ...], like: Tensor) -> Tensor:
    """The vector that was packed, in the shape of another."""
    if len(parts) == 1:
        return parts[0]
    where, values = parts
    flat = torch.zeros(like.numel(), dtype=values.dtype)
    if where.dtype == torch.uint8:
        bits = np.unpackbits(where.numpy(), count=like.numel())
        flat[torch.from_numpy(bits).bool()] = values
    else:
        flat[where.long()] = values
    return flat.view(like.shape)


def largest(vector: Tensor, share: float) -> Tensor:
    """Which entries are the largest `share` of a vector, by magnitude; at least one.

    >>> largest(torch.tensor([0.1, -3.0, 2.0, 0.0]), 0.5)
    tensor([False,  True,  True, False])
    """
    count = max(1, round(share * vector.numel()))
    if count >= vector.numel():
        return torch.ones_like(vector, dtype=torch.bool)
    chosen = torch.zeros_like(vector, dtype=torch.bool)
    chosen[vector.abs().topk(count, sorted=False).indices] = True
    return chosen
