"""The test of a model after a round: on the test rows, and on the validation rows of each party."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from silobench.engines import Engine
from silobench.tasks.metrics import ACCURACY
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import State


def evaluated(setting: Setting, engine: Engine, models: Sequence[Weights], test_share: float | int) -> dict[str, Any]:
    """Score models, which `models_to_test` returns, on a share of the test rows."""
    federation, several, objective = setting.federation, setting.has_party_models, setting.task.objective
    scores = engine.score(setting, models, federation.test_parts(test_share))
    values = [objective.values(score) for score in scores]
    summary: dict[str, Any] = {"loss": float(np.mean([score.loss for score in scores]))}
    if objective.has_classes:
        summary |= {
            "accuracy": mean_of_known([score.accuracy for score in scores]),
            "class_accuracy": sum(scores, Score()).by_class,
        }
    if objective.metrics != (ACCURACY,):
        summary["metrics"] = {
            metric.name: mean_of_known([each[metric.name] for each in values]) for metric in objective.metrics
        }
    if several:
        main = [value for each in values if (value := each[objective.main.name]) is not None]
        summary["accuracy_std"] = float(np.array(main).std()) if main else None
    if federation.has_validation:
        summary |= _on_validation_rows(setting, engine, models)
    return summary


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are defined; None if there are none."""
    defined = [value for value in values if value is not None]
    return float(np.array(defined).mean()) if defined else None


def _on_validation_rows(setting: Setting, engine: Engine, models: Sequence[Weights]) -> dict[str, Any]:
    """Score each party's validation rows by its own model or the shared one: the main metric, and the loss."""
    parties, objective = setting.federation.parties, setting.task.objective
    by_party = models if len(models) == len(parties) else [models[0]] * len(parties)
    parts = map(setting.federation.validation_parts, parties)
    jobs = zip(by_party, parts, strict=True)
    scores = [engine.score(setting, [model], some)[0] if some else None for model, some in jobs]

    def main(score: Score) -> float | None:
        return objective.values(score)[objective.main.name]

    whole = sum(filter(None, scores), Score())
    return {
        "validation": main(whole),
        "validation_loss": whole.loss,
        "party_accuracy": tuple(score and main(score) for score in scores),
    }


def models_to_test(setting: Setting, engine: Engine, state: State) -> list[Weights]:
    """Return the shared model; where parties have their own models, all of these, after their adaptation if any."""
    server, parties, adapting = state.server, setting.federation.parties, setting.adapting
    if not setting.has_party_models:
        return [(server.params, server.buffers)]
    models = [setting.model_at(server, state.memory.get(party.id, {})) for party in parties]
    if adapting is None:
        return models
    memory = {party.id: adapting.memory_of(model) for party, model in zip(parties, models, strict=True)}
    # The learning rate is that of the round before the test.
    broadcast = adapting.sent(replace(server, round=server.round - 1, extras={}))
    _, replies = engine.train(LocalRound(adapting, broadcast, tuple(memory)), memory)
    after = {party: memory for reply in replies for party, memory in reply.memory.items()}
    return [adapting.model_at(server, after[party.id]) for party in parties]
