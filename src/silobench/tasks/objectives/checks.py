"""What an objective of a plugin must return; its methods are tried once, before the first round."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.spec.contract import Contract, Form, Origin, described, hooked, is_ours
from silobench.tasks.metrics import Metric
from silobench.tasks.objectives.objective import OBJECTIVES, Objective
from silobench.tasks.score import Score

_ROWS = 8  # that the methods are tried with


def _is_objective(value: Any, arguments: Sequence[Any]) -> str | None:
    if not isinstance(value, Objective):
        return f"{described(value)}, but an sb.Objective is expected"
    if not isinstance(getattr(value, "name", None), str):
        return f"{described(value)} without a name, but one is expected: write name = '...' in its class"
    metrics = value.metrics if isinstance(value.metrics, tuple) else (value.metrics,)
    if not isinstance(value.metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        return f"{described(value)} with {described(value.metrics)} as metrics, but a tuple of sb.Metric is expected"
    if value.main not in metrics:
        return f"{described(value)} with a main metric that is not one of its metrics: put it into both"
    return None


def _is_loss(value: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(value, Tensor) and value.dim() == 0 and value.requires_grad:
        return None
    gradient = " without a gradient" if isinstance(value, Tensor) and not value.requires_grad else ""
    return f"{described(value)}{gradient}, but a mean loss is expected: a tensor with a single number, of the outputs"


def _is_score(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if isinstance(value, Score) else f"{described(value)}, but an sb.Score is expected"


def _is_count(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if type(value) is int and value >= 1 else f"{described(value)}, but a number of outputs is expected"


def _are_values(objective: Objective) -> Form:
    names = [metric.name for metric in objective.metrics]

    def check(value: Any, arguments: Sequence[Any]) -> str | None:
        if not isinstance(value, Mapping):
            return f"{described(value)}, but a dictionary is expected: a value of each metric by its name"
        for name in (name for name in names if name not in value):
            return f"no value of '{name}', which is one of the metrics: add it, or None where it is undefined"
        wrong = [each for each in value.values() if each is not None and not isinstance(each, int | float)]
        return f"{described(wrong[0])} as a value, but a number is expected: write float(...)" if wrong else None

    return Form("score", check)


def _try(objective: Objective, arguments: Sequence[Any], origin: Origin) -> None:
    """Call the methods of an objective with some rows and outputs of zeros."""
    dataset: Dataset = arguments[0]
    if is_ours(type(objective).loss) and is_ours(type(objective).values):
        return
    count = hooked(objective.outputs, "outputs", origin, Form("dataset", _is_count))(dataset)
    y = torch.from_numpy(dataset.train.y[:_ROWS])
    outputs = torch.zeros(len(y), count, requires_grad=True)
    hooked(objective.loss, "loss", origin, Form("outputs, y", _is_loss))(outputs, y)
    if dataset.task == "verification" or not is_ours(type(objective).score_of):
        return  # its score is not that of outputs and labels
    with torch.no_grad():
        score = hooked(objective.score, "score", origin, Form("outputs, y", _is_score))(outputs, y)
    judged = sum([score], Score()).judged()
    hooked(objective.values, "values", origin, _are_values(objective))(judged)


OBJECTIVES.contract = Contract(None, "a function fit(dataset)", {"fit": Form("dataset", _is_objective, trial=_try)})
