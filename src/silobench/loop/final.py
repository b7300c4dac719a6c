"""The final test, after the last round of a run: confusions, calibration, metrics, results by party and cross-tests.

PyTorch scores the rows, whatever the engine: compiled code counts correct rows by class only, and these results need
the outputs for single rows. Existing fields of a record do not depend on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.engines import Engine
from silobench.federation import Federation
from silobench.loop.evaluation import mean_of_known
from silobench.tasks.calibration import Calibration, calibration
from silobench.tasks.formulas import confusion
from silobench.tasks.objectives import Objective, Values
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.setting import Setting

MOST_CLASSES = 100  # of a confusion matrix in a record
MOST_CROSSED = 32  # parties of a cross-test in a record


def final_test(setting: Setting, engine: Engine, models: Sequence[Weights]) -> dict[str, Any]:
    """Return what the last record of a run says besides its scores; empty where test rows are pairs.

    Where parties have their own models, each is tested on all test rows: confusions and calibration are those of all
    models together, and metrics are means over models.
    """
    objective, federation = setting.task.objective, setting.federation
    if (final := engine.mode_of(engine.mode).final) is not None:
        return final(setting, models)
    if type(objective).score_of is not Objective.score_of:  # it does not judge the outputs for single rows
        return {}
    is_pooled = setting.method.algorithm.pooled  # it has one model, whatever its normalisation statistics
    several, parties = setting.has_party_models and not is_pooled, _Parties(federation, objective)
    whole = WholeTest(len(federation.dataset.classes))
    for place, model in enumerate(models):
        rows = tested_rows(setting, engine, model)  # one by one: outputs of all models may not fit memory
        whole.add(objective, rows)
        parties.add(rows, place if several else None)
    return whole.as_json(objective) | parties.as_json()


def tested_rows(setting: Setting, engine: Engine, model: Weights) -> "TestedRows":
    """Return the outputs of a model on all test rows."""
    objective = setting.task.objective
    test_setting = replace(setting, task=replace(setting.task, objective=_Outputs(objective.main, objective.metrics)))
    (score,) = engine.score(test_setting, [model], setting.federation.test_parts())
    return TestedRows(torch.from_numpy(score.joined("outputs")), torch.from_numpy(score.joined("labels")))


@dataclass(frozen=True)
class TestedRows:
    """The outputs of a model on rows, and the labels of these."""

    outputs: Tensor
    y: Tensor

    def take(self, rows: Tensor) -> "TestedRows":
        return TestedRows(self.outputs[rows], self.y[rows])

    def main(self, objective: Objective) -> float | None:
        """Return the main metric; None without rows, or where it is undefined."""
        return objective.values(objective.score(self.outputs, self.y))[objective.main.name] if len(self.y) else None


@dataclass
class WholeTest:
    """Results on all test rows, over models."""

    classes: int  # 0 for a numeric target
    table: NDArray[np.int64] | None = None
    calibration: Calibration | None = None
    metrics: list[Values] = field(default_factory=list)  # by model

    def add(self, objective: Objective, rows: TestedRows) -> None:
        if self.classes and rows.outputs.shape[1] == self.classes:
            answers, y = rows.outputs.argmax(1).numpy(), rows.y.numpy()
            table = confusion(y, answers, rows.outputs.shape[1])
            self.table = table if self.table is None else self.table + table
            if (probabilities := objective.probabilities(rows.outputs)) is not None:
                of_model = calibration(y, answers, probabilities)
                self.calibration = of_model if self.calibration is None else self.calibration + of_model
        if objective.extra:
            inputs = objective.metric_inputs(rows.outputs, rows.y)
            self.metrics.append({extra.metric.name: extra.value(*inputs) for extra in objective.extra})

    def as_json(self, objective: Objective) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.table is not None and len(self.table) <= MOST_CLASSES:
            facts["confusion"] = self.table.tolist()
        if self.calibration is not None:
            facts["calibration"] = self.calibration.as_json()
        names = [extra.metric.name for extra in objective.extra]
        if names:
            facts["metrics"] = {name: mean_of_known([each[name] for each in self.metrics]) for name in names}
        return facts


class _Parties:
    """Results by party, and the cross-test: each model on the test rows of every party and on all of them."""

    def __init__(self, federation: Federation, objective: Objective) -> None:
        partition, self.objective = federation.partition, objective
        self.rows = [federation.own_test_rows(party) for party in range(len(partition))]
        self.names = partition.names or tuple(map(str, range(len(partition))))
        self.copies = [party if partition.noisy_test else 0 for party in range(len(partition))]
        self.test_rows = len(federation.dataset.test)
        self.results: list[dict[str, Any]] = [{"rows": len(rows), "own": None} for rows in self.rows]
        self.models: list[str] = []  # of the cross-test
        self.scores: list[list[float | None]] = []  # by model, and then by party and on all test rows

    def add(self, rows: TestedRows, party: int | None) -> None:
        """Add the results of a party's own model, or of the model of all parties if `party` is None."""
        is_crossed, parties = len(self.rows) <= MOST_CROSSED, range(len(self.rows))
        places = parties if party is None else (party,)
        scores = {place: self._score(rows, place) for place in (parties if is_crossed else places)}
        for place in places:
            self.results[place]["own"] = scores[place]
        on_all = rows.main(self.objective)
        if party is not None:
            self.results[party]["all"] = on_all
        if is_crossed:
            self.models.append("shared" if party is None else self.names[party])
            self.scores.append([*scores.values(), on_all])

    def _score(self, rows: TestedRows, party: int) -> float | None:
        """Return the main metric of a model on the test rows of a party."""
        copy = self.rows[party] + self.copies[party] * self.test_rows  # its copy of the test rows has its noise
        return rows.take(copy).main(self.objective)

    def as_json(self) -> dict[str, Mapping[str, Any]]:
        """Return the results by the name of the party and the cross-test; empty if no test row belongs to a party."""
        if not any(len(rows) for rows in self.rows):
            return {}
        facts: dict[str, Mapping[str, Any]] = {"parties": dict(zip(self.names, self.results, strict=True))}
        if self.scores:
            facts["cross"] = {"models": self.models, "tests": [*self.names, "all"], "scores": self.scores}
        return facts


@dataclass(frozen=True)
class _Outputs(Objective):
    """An objective whose score has the outputs for every row, in order."""

    name: ClassVar[str] = "outputs"
    is_cross_entropy: ClassVar[bool] = True  # so that a setting accepts it, whatever the loss of its algorithm

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError  # nothing is trained with it

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        return Score(answers={"outputs": (outputs.numpy(),), "labels": (y.numpy(),)})

    def values(self, score: Score) -> Values:
        return {}
