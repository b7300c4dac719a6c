"""`CutView`: what crosses the cut for some training rows, as it arrives."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class CutView:
    """What parties without labels send and receive for some training rows, with what they must not tell.

    The keys of the mappings are the names of the parties without labels.
    """

    inputs: Mapping[str, Tensor]  # columns of a party, [rows, columns]
    activations: Mapping[str, Tensor]  # as they arrive at the label holder, [rows, width]
    gradients: Mapping[str, Tensor]  # as they arrive at the party, [rows, width]
    y: Tensor  # labels, [rows]
    classes: int  # 0 for numbers
