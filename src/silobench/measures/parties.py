"""What parties' own models are like, from time to time: by class, away from home, and how far they went alone.

The diagnostics of the quagmire study (Hsieh et al., ICML 2020, appendices G and J). All look at a finished round and
remember nothing.
"""

from collections.abc import Callable

import torch

from silobench.engines import Engine
from silobench.loop.probe import travel
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.types import Count, Memory, Vector
from silobench.tasks.task import Weights
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

Look = Callable[[Setting, Engine, State], Findings]


def from_time_to_time(every: int, look: Look) -> Measure:
    """A measure that looks after every so many rounds, and after the last."""

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            due = record.round % every == 0 or record.round == schedule.rounds
            return (look(schedule.setting, schedule.engine, record.state) if due else {}), {}

        return observe

    return Measure(begin)


@MEASURES.register
def replicas(every: Count = 500) -> Measure:
    """The test accuracy of every party's model, over all classes and on each (Figure 21 of the quagmire study)."""

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        federation = setting.federation
        scores = engine.score(setting, _models(setting, state), federation.test_parts())
        named = {party.name: score for party, score in zip(federation.parties, scores, strict=True)}
        return {
            "accuracy": {name: score.accuracy for name, score in named.items()},
            "by_class": {
                name: dict(zip(federation.dataset.classes, score.by_class, strict=True))
                for name, score in named.items()
            },
        }

    return from_time_to_time(every, look)


def _models(setting: Setting, state: State) -> list[Weights]:
    return [setting.model_at(state.server, state.memory.get(party.id, {})) for party in setting.federation.parties]


@MEASURES.register
def accuracy_loss(every: Count = 500, sample: Count = 500, trips: Count = 1) -> Measure:
    """How much worse parties' models do on the training rows of others than at home (Figure 24 of the quagmire study).

    It is what SkewScout steers by; nothing is steered here, and no traffic is counted.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        found = travel(setting, engine, state, sample, trips)
        home, away = (sum(of) / len(of) for of in (found.home, found.away))
        return {"loss": found.loss, "home": home, "away": away}

    return from_time_to_time(every, look)


@MEASURES.register
def update_delta(every: Count = 500) -> Measure:
    """How far parties are from the shared model by what they learnt alone: |Δw / w|, over weights and parties.

    Of DGC that is what it has not sent yet (Figure 22 of the quagmire study), of FedAvg what its parties had moved by
    when models were averaged last (Figure 23), of Gaia what is not significant. `mean` is the mean over the weights
    that are not 0, which small ones dominate; `ratio` is the ratio of the lengths, ‖Δw‖ / ‖w‖.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        shared, kept = state.server.params, [state.memory.get(party.id, {}) for party in setting.federation.parties]
        deltas = [setting.apart_at(state.server, memory)[0] - shared for memory in kept]
        relative = [_relative(delta, shared) for delta in deltas]
        length = float(torch.linalg.vector_norm(shared))
        ratios = [float(torch.linalg.vector_norm(delta)) / length for delta in deltas]
        return {"mean": sum(relative) / len(relative), "ratio": sum(ratios) / len(ratios)}

    return from_time_to_time(every, look)


def _relative(delta: Vector, weights: Vector) -> float:
    some = weights != 0
    return float((delta[some] / weights[some]).abs().double().mean())
