"""Periodic diagnostics of parties' models: accuracy by class, accuracy on others' data, distance from the shared model.

They are those of the quagmire study (Hsieh et al., ICML 2020, appendices G and J). All look at a finished round and
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


def periodic(every: int, look: Look) -> Measure:
    """Return a measure that calls `look` after every `every`-th round and after the last."""

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            due = record.round % every == 0 or record.round == schedule.rounds
            return (look(schedule.setting, schedule.engine, record.state) if due else {}), {}

        return observe

    return Measure(begin)


@MEASURES.register
def replicas(every: Count = 500) -> Measure:
    """The test accuracy of every party's model, overall and by class (Figure 21 of the quagmire study)."""

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        federation = setting.federation
        scores = engine.score(setting, _models(setting, state), federation.test_parts())
        by_name = {party.name: score for party, score in zip(federation.parties, scores, strict=True)}
        return {
            "accuracy": {name: score.accuracy for name, score in by_name.items()},
            "by_class": {
                name: dict(zip(federation.dataset.classes, score.by_class, strict=True))
                for name, score in by_name.items()
            },
        }

    return periodic(every, look)


def _models(setting: Setting, state: State) -> list[Weights]:
    return [setting.model_at(state.server, state.memory.get(party.id, {})) for party in setting.federation.parties]


@MEASURES.register
def accuracy_loss(every: Count = 500, sample: Count = 500, trips: Count = 1) -> Measure:
    """How much accuracy parties' models lose on the training rows of other parties (Figure 24 of the quagmire study).

    SkewScout steers by this loss. The measure steers nothing, and its traffic is not counted.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        result = travel(setting, engine, state, sample, trips)
        home, away = (sum(of) / len(of) for of in (result.home, result.away))
        return {"loss": result.loss, "home": home, "away": away}

    return periodic(every, look)


@MEASURES.register
def update_delta(every: Count = 500) -> Measure:
    """How far parties' models are from the shared one by local changes: |Δw / w|, averaged over weights and parties.

    With DGC, Δw is what a party has not sent yet (Figure 22 of the quagmire study); with FedAvg, how far it had moved
    when models were last averaged (Figure 23); with Gaia, what is not significant. `mean` is the mean over weights
    that are not 0, which small ones dominate; `ratio` is the ratio of the lengths, ‖Δw‖ / ‖w‖.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        shared = state.server.params
        memories = [state.memory.get(party.id, {}) for party in setting.federation.parties]
        deltas = [setting.apart_at(state.server, memory)[0] - shared for memory in memories]
        relative = [_relative(delta, shared) for delta in deltas]
        length = float(torch.linalg.vector_norm(shared))
        ratios = [float(torch.linalg.vector_norm(delta)) / length for delta in deltas]
        return {"mean": sum(relative) / len(relative), "ratio": sum(ratios) / len(ratios)}

    return periodic(every, look)


def _relative(delta: Vector, weights: Vector) -> float:
    some = weights != 0
    return float((delta[some] / weights[some]).abs().double().mean())
