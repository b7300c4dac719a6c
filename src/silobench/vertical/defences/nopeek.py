"""NoPeek: activations that depend little on the columns behind them (Vepakomma et al., 2020)."""

from torch import Tensor

from silobench.method.types import Positive
from silobench.vertical.defences.defence import DEFENCES, Defence
from silobench.vertical.leaks.distances import centred_distances, correlation


@DEFENCES.register
def nopeek(weight: Positive = 0.1) -> Defence:
    """Add `weight` times the distance correlation of a party's columns and its activations to the party's loss.

    The correlation is that of the batch (Székely et al., 2007). From Vepakomma et al., ICDM Workshops 2020. The party
    needs no labels for it. Activations still depend on the columns, so measure how much they reveal.
    """

    def penalty(columns: Tensor, activations: Tensor) -> Tensor:
        return weight * correlation(centred_distances(columns), centred_distances(activations))

    return Defence(penalty=penalty)
