"""What parties' own models are like, from time to time: by class, away from home, and how far they went alone.

The diagnostics of the quagmire study (Hsieh et al., ICML 2020, appendices G and J). All look at a finished round and
remember nothing.
"""

import math
from collections.abc import Callable

import torch

from silobench.engines import Engine
from silobench.errors import ConfigError
from silobench.loop.probe import travel
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.types import Count, Memory, Vector
from silobench.tasks.task import Weights
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

Look = Callable[[Setting, Engine, State], Findings]


def from_time_to_time(every: int, look: Look, check: Callable[[Setting, int], None] = lambda *_: None) -> Measure:
    """A measure that looks after every so many rounds, and after the last; `check` refuses what it cannot measure."""

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            due = _is_due(record, schedule, every)
            return (look(schedule.setting, schedule.engine, record.state) if due else {}), {}

        return observe

    return Measure(begin, check)


def _is_due(record: RoundRecord, schedule: Schedule, every: int) -> bool:
    return record.round % every == 0 or record.round == schedule.rounds


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

    def check(setting: Setting, cohort: int) -> None:
        dataset = setting.federation.dataset
        if dataset.task == "verification":
            raise ConfigError(
                f"replicas measures the test accuracy by class, but {dataset.name} tests pairs: choose a dataset for "
                "classification, or leave the measure out."
            )

    return from_time_to_time(every, look, check)


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
    """What parties learnt alone, relative to the shared model w: |Δw / w|, over weights and parties.

    For DGC, Δw is what it has not sent yet (Figure 22 of the quagmire study), for Gaia what is not significant. For
    FedAvg it is how far a party has moved since the last average; in a round that averages, how far it had moved
    before that (Figure 23: the "local weight update" at a synchronisation, relative to the averaged weight). `mean` is
    the mean over the weights that are not 0, which small ones dominate; `ratio` is ‖Δw‖ / ‖w‖.
    """

    def look(setting: Setting, before: Vector, state: State) -> Findings:
        shared, kept = state.server.params, [state.memory.get(party.id, {}) for party in setting.federation.parties]
        deltas = [setting.moved_at(before, state.server, memory) for memory in kept]
        relative = [_relative(delta, shared) for delta in deltas]
        length = float(torch.linalg.vector_norm(shared)) or math.nan  # a model of zeros has no ratio
        ratios = [float(torch.linalg.vector_norm(delta)) / length for delta in deltas]
        return {"mean": sum(relative) / len(relative), "ratio": sum(ratios) / len(ratios)}

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        before = state.server.params if state else schedule.setting.task.initial

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            nonlocal before
            start, before = before, record.state.server.params
            return (look(schedule.setting, start, record.state) if _is_due(record, schedule, every) else {}), {}

        return observe

    return Measure(begin)


def _relative(delta: Vector, weights: Vector) -> float:
    some = weights != 0
    return float((delta[some] / weights[some]).abs().double().mean())
