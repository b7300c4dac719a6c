"""A check for leaks of the label by presence: a model that sees only which party has a row."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.tasks.objectives import Objective
from silobench.tasks.objectives.regression import Regression
from silobench.vertical.federation import ALL, VerticalFederation


def mask_check(federation: VerticalFederation, objective: Objective) -> dict[str, Any]:
    """Return the main metric, on all test rows, of a model that knows only which parties have a row.

    Its answer to a row is the mean label, or the shares of classes, of the training rows that the same parties have.
    `constant` is the score of one answer to all rows. Empty if every party has every row.
    """
    deal, dataset = federation.deal, federation.dataset
    if deal.train.all() and deal.test.all():
        return {}
    rows = federation.rows.numpy()
    patterns = _patterns(np.concatenate([deal.train[:, rows], deal.test], axis=1))
    train, test = patterns[: len(rows)], patterns[len(rows) :]
    y = dataset.train.y[rows]
    answers = {pattern: _answer(y[train == pattern], objective, dataset.classes) for pattern in np.unique(train)}
    overall = _answer(y, objective, dataset.classes)
    tested = federation.test_sets[ALL]
    by_mask = torch.stack([answers.get(pattern, overall) for pattern in test[tested.numpy()].tolist()])
    labels = federation.test_y[tested]
    scores = [_score(outputs, labels, objective) for outputs in (by_mask, overall.expand(len(tested), -1))]
    return {"metric": objective.main.name, "score": scores[0], "constant": scores[1], "patterns": len(answers)}


def _patterns(known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a number for each row that says which parties have it."""
    packed = np.ascontiguousarray(np.packbits(known, axis=0).T)
    as_bytes = packed.view(f"S{packed.shape[1]}").reshape(-1)  # any number of parties fits, unlike in an integer
    return np.unique(as_bytes, return_inverse=True)[1]


def _answer(y: NDArray[Any], objective: Objective, classes: tuple[str, ...]) -> Tensor:
    """Return the outputs of a network for the best constant answer to these labels."""
    if classes:
        counts = np.bincount(y, minlength=len(classes)) + 1e-3  # an absent class is unlikely, not impossible
        return torch.from_numpy(np.log(counts / counts.sum())).float()
    mean = torch.from_numpy(np.atleast_1d(y.mean(0))).double()
    if isinstance(objective, Regression):
        mean = (mean - objective.mean) / objective.scale
    return mean.float()


def _score(outputs: Tensor, y: Tensor, objective: Objective) -> float | None:
    return objective.values(objective.score(outputs, y))[objective.main.name]
