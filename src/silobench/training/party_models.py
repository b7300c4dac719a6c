"""`PartyModels`: the model of each party, put together from the server and the party's memory. It needs no rows."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from silobench.errors import ConfigError, suggest
from silobench.method.method import Buffers, Method
from silobench.method.types import Memory, Server, Vector
from silobench.tasks.task import Task, Weights
from silobench.training.state import PartyMemory


class PartyModels:
    """What method, task and exchange mean for the models of parties. A `Setting` is one of a run with its data."""

    method: Method
    task: Task
    mixes: bool

    @cached_property
    def personal(self) -> Tensor | None:
        """Which parameters stay with each party, [d] of booleans; None if all are shared."""
        algorithm, layout = self.method.algorithm, self.task.network.layout
        places = self.places(algorithm.personal(layout) if algorithm.personal else ())
        return places if places.any() else None

    def places(self, names: Collection[str]) -> Tensor:
        """Return which parameters belong to these tensors, [d] of booleans."""
        layout = self.task.network.layout
        for name in frozenset(names).difference(layout.names):
            raise ConfigError(f"the network has no tensor '{name}' to stay with parties: {suggest(name, layout.names)}")
        places = torch.zeros(layout.trainable, dtype=torch.bool)
        for name in names:
            places[layout.slices[name]] = True  # buffers are beyond the end: they stay with parties anyway
        return places

    @property
    def buffers(self) -> Buffers:
        """Treatment of normalisation statistics: always "local" when parties have personal parameters or models."""
        algorithm = self.method.algorithm
        shares_all = algorithm.replica is None and algorithm.personal is None and not self.mixes
        return self.method.buffers if shares_all else "local"

    @property
    def has_party_models(self) -> bool:
        """Whether every party has its own model, so that there is no shared model to test."""
        own_buffers = self.buffers == "local" and self.task.buffers.numel() > 0
        algorithm = self.method.algorithm
        has_models = algorithm.replica is not None or algorithm.adaptation is not None
        return self.mixes or has_models or self.personal is not None or own_buffers

    def params_at(self, shared: Vector, memory: PartyMemory) -> Vector:
        """Return a party's parameters: the shared ones with its personal ones, or those of its own model."""
        if self.mixes:
            return memory["exchange"]["model"] if "exchange" in memory else self.task.initial
        if self.personal is None:
            return shared
        values = memory["personal"]["params"] if "personal" in memory else self.task.initial[self.personal]
        return filled(self.personal, shared, values)

    def buffers_at(self, server: Server, memory: PartyMemory) -> Vector:
        """Return the normalisation statistics that a party trains with."""
        if self.buffers == "average":
            return server.buffers
        return memory["network"]["buffers"] if "network" in memory else self.task.buffers

    def model_at(self, server: Server, memory: PartyMemory) -> Weights:
        """Return a party's model, from the server and the party's memory."""
        algorithm = self.method.algorithm
        if algorithm.replica is not None:
            server = replace(server, params=algorithm.replica(server, self.algorithm_memory(memory)))
        shared = server.params if self.personal is None else server.params[~self.personal]
        return self.params_at(shared, memory), self.buffers_at(server, memory)

    def algorithm_memory(self, memory: PartyMemory) -> Memory:
        """Return the algorithm's memory at a party, or the memory that it starts with."""
        return memory["algorithm"] if "algorithm" in memory else self.method.algorithm.memory(self.task.initial)


@dataclass(frozen=True)
class StoredModels(PartyModels):
    """The models of a run's parties, without its data."""

    method: Method
    task: Task
    mixes: bool = False


def filled(places: Tensor, rest: Vector, values: Vector | None = None) -> Vector:
    """Return a vector with `values` (None for zeros) at some places, and `rest` at the others."""
    whole = rest.new_zeros(places.shape)
    whole[~places] = rest
    if values is not None:
        whole[places] = values
    return whole
