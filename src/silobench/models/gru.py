"""A recurrent network for rows of steps, such as the speeds that a road sensor measured."""

import math

import torch
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.model import Model, Sizes
from silobench.models.network import Classifier
from silobench.models.registry import MODELS
from silobench.spec.ranges import Count


@MODELS.register
def gru(hidden: Count = 64, layers: Count = 2) -> Model:
    """Gated recurrent units (Cho et al., 2014) that read a row step by step; a linear layer reads their last state.

    A row of T numbers has T steps of one number; a row of shape (T, F) has T steps of F numbers. Cells, parameters and
    initial weights are those of PyTorch's nn.GRU, and states start at 0.

    OARF's DCRNN for traffic has as many layers and units, but it also reads the graph of the roads, and a decoder
    predicts one step after another. Here one linear layer predicts all steps, from the speeds of one sensor.
    """
    return Model(lambda sizes: _Gru(sizes, hidden, layers))


class _Gru(Classifier):
    def __init__(self, sizes: Sizes, hidden: int, layers: int):
        super().__init__()
        if len(sizes.shape) not in (1, 2):
            raise ConfigError(
                f"gru needs rows of steps, (steps) or (steps, numbers), but rows have shape {sizes.shape}: use cnn for "
                "images, or mlp or linear for other rows."
            )
        numbers = sizes.shape[1] if len(sizes.shape) == 2 else 1
        widths = [numbers, *[hidden] * (layers - 1)]
        self.layers = nn.Sequential(*(GruLayer(width, hidden) for width in widths))
        self.out = nn.Linear(hidden, sizes.outputs)

    def features(self, x: Tensor) -> Tensor:
        steps = x.unsqueeze(2) if x.dim() == 2 else x
        return self.layers(steps)[:, -1]  # type: ignore[no-any-return]  # torch types module calls as Any


class GruLayer(nn.Module):
    """One layer of gated recurrent units: reads [rows, steps, numbers] and returns its states, [rows, steps, hidden].

    It is written out because nn.GRU keeps a list of its weights, which does not follow when other weights are put in
    their place.
    """

    def __init__(self, numbers: int, hidden: int):
        super().__init__()
        self.inputs = nn.Linear(numbers, 3 * hidden)  # of the gates reset and update, and of the candidate
        self.states = nn.Linear(hidden, 3 * hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def forward(self, x: Tensor) -> Tensor:
        inputs = self.inputs(x)  # of all steps at once: one product is faster than one per step
        hidden = self.states.in_features
        state, states = x.new_zeros(len(x), hidden), []
        for step in inputs.unbind(1):
            state = self._next(step, state)
            states.append(state)
        return torch.stack(states, 1)

    def _next(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the next state, (1 - update) * candidate + update * state."""
        hidden = state.shape[1]
        recurrent = self.states(state)
        gates = torch.sigmoid(inputs[:, : 2 * hidden] + recurrent[:, : 2 * hidden])
        reset, update = gates[:, :hidden], gates[:, hidden:]
        candidate = torch.tanh(torch.addcmul(inputs[:, 2 * hidden :], reset, recurrent[:, 2 * hidden :]))
        return torch.lerp(candidate, state, update)
