"""`CutView`: what crosses the cut of a split network for some rows, as the other side receives it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class CutView:
    """Some training rows that every party has, at one time of a run.

    Inputs, activations and gradients are by name of a party, for parties without labels only. Activations are as they
    arrive at the label holder, and gradients as they arrive at the party: after defences and transforms.
    """

    inputs: Mapping[str, Tensor]
    """The columns of each party, [n, d]."""
    activations: Mapping[str, Tensor]
    """[n, k]"""
    gradients: Mapping[str, Tensor]
    """Gradients of the loss with respect to the activations, [n, k]."""
    y: Tensor
    """Labels, [n]."""
    classes: int
    """Number of classes; 0 for a numeric target."""

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def joined(cls, views: Sequence["CutView"]) -> "CutView":
        """Return the rows of several views of the same parties, one after the other."""

        def stacked(parts: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
            return {party: torch.cat([part[party] for part in parts]) for party in parts[0]}

        return cls(
            stacked([view.inputs for view in views]),
            stacked([view.activations for view in views]),
            stacked([view.gradients for view in views]),
            torch.cat([view.y for view in views]),
            views[0].classes,
        )

    def sample(self, rows: int, rng: np.random.Generator) -> "CutView":
        """Return the view of at most `rows` of its rows, drawn at random."""
        if len(self) <= rows:
            return self
        places = torch.from_numpy(np.sort(rng.choice(len(self), rows, replace=False)))
        inputs, activations, gradients = (
            {party: values[places] for party, values in part.items()}
            for part in (self.inputs, self.activations, self.gradients)
        )
        return replace(self, inputs=inputs, activations=activations, gradients=gradients, y=self.y[places])
