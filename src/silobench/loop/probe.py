"""Model travelling: parties' models tested on the training rows of others, to see what skew costs (Hsieh et al., 2020).

A party's model includes the local changes that it has not sent: these are what diverges.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from silobench.engines import Engine
from silobench.errors import ConfigError
from silobench.federation import Part
from silobench.method.control import Travel
from silobench.rng import stream
from silobench.tasks.task import Weights
from silobench.training.setting import Setting
from silobench.training.state import State


@dataclass
class ModelProbe:
    """The `Probe` that a controller gets before a round. It counts the bytes of models that travel for it."""

    setting: Setting
    engine: Engine
    state: State
    full_exchange_bytes: Callable[[], int]  # of a round in which everything is exchanged
    nbytes: int = 0
    largest: int = 0  # bytes that one party sends
    may_travel: bool = True

    @property
    def whole(self) -> int:
        return self.full_exchange_bytes()

    @property
    def spent(self) -> int:
        return self.state.spent + self.nbytes

    def travel(self, sample: int, trips: int) -> Travel:
        if not self.may_travel:
            raise ConfigError(
                "the controller calls probe.travel in a run that protects rows or parties, but does not state it: "
                "write travels=True in sb.Controller(...)."
            )
        result = travel(self.setting, self.engine, self.state, sample, trips)
        self.nbytes += result.nbytes
        self.largest += result.nbytes // len(result.home)
        return result

    def draw(self, count: int) -> list[float]:
        numbers: list[float] = stream(self.setting.seed, "control", self.state.server.round).random(count).tolist()
        return numbers


def travel(setting: Setting, engine: Engine, state: State, sample: int, trips: int) -> Travel:
    """Test every party's model at home and at `trips` other parties, on up to `sample` training rows of each."""
    parties, now = setting.federation.parties, state.server.round
    models = [setting.local_model_at(state.server, state.memory.get(party.id, {})) for party in parties]
    parts = [_some_rows(setting, party.rows, sample, now, party.id) for party in parties]
    trips = min(trips, len(parties) - 1)
    offsets = stream(setting.seed, "travel", now).permutation(len(parties) - 1)[:trips] + 1

    objective = setting.task.objective
    metric = objective.travel_metric

    def score(model: Weights, part: list[Part]) -> float:
        value = objective.values(engine.score(setting, [model], part)[0])[metric.name]
        assert value is not None  # a travel metric is defined on any rows
        return value

    home = tuple(score(model, part) for model, part in zip(models, parts, strict=True))
    places = [[(place + int(offset)) % len(parties) for offset in offsets] for place in range(len(parties))]
    away = tuple(
        float(np.mean([score(model, parts[place]) for place in visited])) if visited else at_home
        for model, visited, at_home in zip(models, places, home, strict=True)
    )
    return Travel(home, away, sum(params.nbytes + buffers.nbytes for params, buffers in models) * trips, metric)


def _some_rows(setting: Setting, rows: Tensor, sample: int, now: int, party: int) -> list[Part]:
    count = min(sample, len(rows))
    drawn = stream(setting.seed, "travel rows", now, party).choice(rows.numpy(), count, replace=False)
    return [Part(torch.from_numpy(np.sort(drawn)), None)]
