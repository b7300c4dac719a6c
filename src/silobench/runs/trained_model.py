"""A trained network and what its answers mean; whose weights it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.errors import ConfigError, suggest
from silobench.federation import as_input, evaluation_batch
from silobench.loop.loop import one_thread
from silobench.models import Network, Sizes
from silobench.runs.new_rows import as_stored, features, numbers_per_row
from silobench.runs.stored import StoredRun
from silobench.tasks.objectives import Objective
from silobench.tasks.row_format import RowFormat
from silobench.tasks.task import Weights
from silobench.training.state import State

_MOST_PARTIES = 10  # that a message lists


@dataclass(frozen=True)
class TrainedModel:
    """A trained network, its objective, and how rows enter it."""

    network: Network
    objective: Objective
    rows: RowFormat
    spec: str = ""  # of the model, with all its arguments
    sizes: Sizes | None = None
    seed: int = 0
    run: "StoredRun | None" = None
    unwritable: str = ""  # why no file of another tool can state the model; empty if one can

    def outputs(self, rows: Any, encoded: bool = False) -> Tensor:
        """Return the outputs of the network for rows, computed as in a test: with one thread, in the same batches.

        `encoded` states that an array has features of the dataset, which are not encoded or scaled again.
        """
        x = features(rows, self.rows, encoded)
        stored, size, count = as_stored(x), evaluation_batch(numbers_per_row(x, self.rows)), x.shape[0]
        module = self.network.module.eval()
        with one_thread(), torch.no_grad():
            parts = [module(as_input(stored[begin : begin + size])) for begin in range(0, count, size)]
        return torch.cat(parts)

    def predictions(self, outputs: Tensor) -> NDArray[Any]:
        """Return the name of the class, or the number, that the network's outputs mean for each row."""
        answers = self.objective.predictions(outputs)
        return np.array(self.rows.classes)[answers] if self.objective.has_classes else answers

    def probabilities(self, outputs: Tensor) -> NDArray[np.float64]:
        """Return the probability of each class for each row."""
        probabilities = self.objective.probabilities(outputs)
        if probabilities is None:
            raise ConfigError(
                f"the objective {self.objective.name} has no probabilities: leave out probabilities, or train with "
                "cross-entropy."
            )
        return probabilities


def party_number(party: str | None, names: Sequence[str]) -> int:
    """Return the number of a party by its name."""
    shown = ", ".join(names[:_MOST_PARTIES]) + (", ..." if len(names) > _MOST_PARTIES else "")
    if party is None:
        raise ConfigError(f"every party has its own model: choose one with --party (or party=...) from {shown}.")
    if party not in names:
        raise ConfigError(f"there is no party '{party}': {suggest(party, names)}")
    return list(names).index(party)


def shared_weights(state: State, party: str | None) -> Weights:
    """Return the model that all parties share; refuse the name of a party."""
    if party is not None:
        raise ConfigError(f"all parties share one model, so that of '{party}' is not another: leave out the party.")
    return state.server.params, state.server.buffers


def with_weights(network: Network, weights: Weights) -> Network:
    """Return a copy of a network with these weights."""
    if weights[0].shape != network.params.shape:
        raise ConfigError(
            f"the state has a model of {len(weights[0])} numbers, but the task's has {len(network.params)}: give the "
            "task that the state was trained with."
        )
    filled = network.copy()
    with torch.no_grad():
        filled.params.copy_(weights[0])
        filled.buffers.copy_(weights[1])
    return filled
