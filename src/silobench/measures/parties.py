"""Periodic diagnostics of parties' models: accuracy by class, accuracy on others' data, distance from the shared model.

They are those of the quagmire study (Hsieh et al., ICML 2020, appendices G and J). All look at a finished round and
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


def periodic(every: int, look: Look, check: Callable[[Setting, int], None] = lambda *_: None) -> Measure:
    """Return a measure that calls `look` after every `every`-th round and after the last; `check` may refuse a run."""

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            due = _is_due(record, schedule, every)
            return (look(schedule.setting, schedule.engine, record.state) if due else {}), {}

        return observe

    return Measure(begin, check)


def _is_due(record: RoundRecord, schedule: Schedule, every: int) -> bool:
    return record.round % every == 0 or record.round == schedule.rounds or record.state.has_ended


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

    def check(setting: Setting, cohort: int) -> None:
        dataset = setting.federation.dataset
        if dataset.task != "classification":
            rows = "tests pairs" if dataset.task == "verification" else "has numbers as labels"
            raise ConfigError(
                f"replicas measures the test accuracy by class, but {dataset.name} {rows}: choose a dataset for "
                "classification, or leave the measure out."
            )

    return periodic(every, look, check)


def _models(setting: Setting, state: State) -> list[Weights]:
    return [setting.model_at(state.server, state.memory.get(party.id, {})) for party in setting.federation.parties]


@MEASURES.register
def accuracy_loss(every: Count = 500, sample: Count = 500, trips: Count = 1) -> Measure:
    """How much accuracy parties' models lose on the training rows of other parties (Figure 24 of the quagmire study).

    With another main metric than accuracy, it is how much worse that metric is. SkewScout steers by this loss. The
    measure steers nothing, and its traffic is not counted.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        result = travel(setting, engine, state, sample, trips)
        home, away = (sum(of) / len(of) for of in (result.home, result.away))
        return {"loss": result.loss, "home": home, "away": away}

    return periodic(every, look)


@MEASURES.register
def update_delta(every: Count = 500) -> Measure:
    """How far parties' models moved by local changes, relative to the shared model: |Δw / w| over weights and parties.

    With DGC, Δw is what a party has not sent yet (Figure 22 of the quagmire study); with Gaia, what is not significant.
    With FedAvg it is how far a party has moved since the last average; in a round that averages, how far it had moved
    before that (Figure 23: the "local weight update" at a synchronisation, relative to the averaged weight). `mean` is
    the mean over weights that are not 0, which small ones dominate; `ratio` is the ratio of the lengths, ‖Δw‖ / ‖w‖.
    """

    def look(setting: Setting, before: Vector, state: State) -> Findings:
        shared = state.server.params
        memories = [state.memory.get(party.id, {}) for party in setting.federation.parties]
        deltas = [setting.moved_at(before, state.server, memory) for memory in memories]
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
