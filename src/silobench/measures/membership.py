"""Membership inference: how well the loss of the final model tells training rows from test rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.errors import ConfigError
from silobench.federation import Federation, Part
from silobench.loop.evaluation import models_to_test
from silobench.loop.loop import one_thread
from silobench.loop.schedule import Schedule
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.method.types import Count, Memory
from silobench.partitions.skew import apportion
from silobench.rng import stream
from silobench.tasks.formulas import auc
from silobench.tasks.task import Weights
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

FALSE_ALARMS = 0.01  # the share of other rows that an attacker takes for training rows, at `tpr`
_BLOCK = 500  # rows at a time
_NORMAL_95 = 1.959963984540054
_HALVINGS = 50


@MEASURES.register
def membership(rows: Count = 1000) -> Measure:
    """Membership inference after the last round: the AUC of an attacker who has the model and the loss of a row.

    The attacker takes rows with a low loss for training rows. `difference` is a stronger attack: it takes those whose
    loss fell most since the initial model. Up to `rows` training rows of a party, and of all parties together, are
    compared with up to `rows` test rows that have the same shares of classes.
    """

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        course = schedule.pooled()

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            is_last = record.round == course.rounds or record.state.has_ended
            return (_findings(course, record.state, rows) if is_last else {}), {}

        return observe

    return Measure(begin, _check)


def _check(setting: Setting, cohort: int) -> None:
    dataset = setting.federation.dataset
    if dataset.task == "verification":
        raise ConfigError(
            f"membership compares the losses of training rows and test rows, but {dataset.name} tests pairs: choose "
            "another dataset, or leave the measure out."
        )


def _findings(course: Schedule, state: State, rows: int) -> Findings:
    setting, federation = course.setting, course.setting.federation
    with one_thread(setting.task):
        models = models_to_test(setting, course.engine, state)
        every = federation.pooled().parties[0].rows
        if len(models) > 1:
            parties = [_attack(setting, model, place, rows) for place, model in enumerate(models)]
            return {**_mean(parties), "parties": parties}
        whole = _attack_rows(setting, models[0], _drawn(federation, every, rows, -1), 0)
        if len(federation.parties) == 1:
            return whole
        return {**whole, "parties": [_attack(setting, models[0], place, rows) for place in range(state.server.parties)]}


def _attack(setting: Setting, model: Weights, party: int, rows: int) -> Findings:
    federation = setting.federation
    return _attack_rows(setting, model, _drawn(federation, federation.parties[party].rows, rows, party), party)


def _mean(parties: Sequence[Findings]) -> Findings:
    """Return the means over parties with their own models; the mean of intervals is an interval of the mean."""
    known = [each for each in parties if each]
    if not known:
        return {}
    numbers = {name: float(np.mean([each[name] for each in known])) for name in ("auc", "low", "high", "tpr")}
    rows = sum(each["rows"] for each in known)
    return {**numbers, "rows": rows, "difference": _mean_of([each["difference"] for each in known])}


def _mean_of(attacks: Sequence[Findings]) -> Findings:
    return {name: float(np.mean([each[name] for each in attacks])) for name in attacks[0]}


# --- rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Drawn:
    """Training rows, and test rows with the same shares of classes."""

    members: Tensor
    others: Tensor


def _drawn(federation: Federation, members: Tensor, rows: int, party: int) -> _Drawn:
    """Draw up to `rows` of the training rows of a party, and test rows that match them: as many, or a multiple.

    Matching by class, or by bin of a numeric target, keeps a party's skew of labels from looking like membership.
    """
    dataset, draw = federation.dataset, stream(federation.seed, "membership", party=party + 1)
    test = dataset.bins.codes(dataset.test.y) if dataset.task == "regression" else dataset.test.y.astype(np.int64)
    train, kinds = dataset.codes[members.numpy()], len(dataset.label_names)
    tested = np.bincount(test, minlength=kinds)
    counts = np.minimum(np.bincount(train, minlength=kinds), tested)
    if counts.sum() > rows:
        counts = apportion(rows, counts)
    times = min([rows // max(1, counts.sum()), *(tested[counts > 0] // counts[counts > 0])])  # test rows per row

    def some(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Tensor:
        """Return places of so many entries of each kind."""
        order = draw.permutation(len(codes))
        taken = [order[codes[order] == kind][:count] for kind, count in enumerate(counts.tolist())]
        return torch.from_numpy(np.sort(np.concatenate(taken)))

    return _Drawn(members[some(train, counts)], some(test, times * counts))


def _attack_rows(setting: Setting, model: Weights, drawn: _Drawn, copy: int) -> Findings:
    """Return the success of both attacks on some rows; empty if there is no row to attack."""
    if not len(drawn.members):
        return {}
    initial = setting.task.initial, setting.task.buffers
    copy = copy if setting.federation.partition.noisy_test else 0
    parts = Part(drawn.members, None), Part(drawn.others, copy)
    members, others = (_losses(setting, model, part) for part in parts)
    members_before, others_before = (_losses(setting, initial, part) for part in parts)
    difference = success(members_before - members, others_before - others)
    return {**success(-members, -others), "rows": len(members), "difference": difference}


@torch.no_grad()
def _losses(setting: Setting, model: Weights, part: Part) -> NDArray[np.float64]:
    """Return the loss of every row of a part; infinity in place of NaN, where a model diverged."""
    network, objective = setting.task.network, setting.task.objective
    network.params.copy_(model[0])
    network.buffers.copy_(model[1])
    network.module.eval()
    losses: list[float] = []
    for rows in part.rows.split(_BLOCK):
        x, y = setting.federation.part(Part(rows, part.copy))
        outputs = network.module(x.to(network.params.device)).cpu()
        pairs = zip(outputs.split(1), y.cpu().split(1), strict=True)
        losses += [float(objective.loss(output, label)) for output, label in pairs]
    network.module.train()
    values = np.array(losses)
    values[np.isnan(values)] = math.inf
    return values


# --- statistics ---------------------------------------------------------------------------------------


def success(members: NDArray[np.float64], others: NDArray[np.float64]) -> dict[str, Any]:
    """Return how well scores tell members from others: AUC, its interval of 95%, and `tpr`.

    `tpr` is the share of members that are recognised where at most one of a hundred others is taken for a member.
    """
    scores = np.concatenate([members, others])
    area = auc(scores, np.arange(len(scores)) < len(members))
    assert area is not None  # there are rows of both kinds
    low, high = auc_interval(area, len(members), len(others))
    allowed = math.floor(FALSE_ALARMS * len(others))
    threshold = np.sort(others)[::-1][allowed]  # only `allowed` others or fewer are above it
    return {"auc": area, "low": low, "high": high, "tpr": float((members > threshold).mean())}


def auc_interval(area: float, members: int, others: int) -> tuple[float, float]:
    """Return the interval of 95% of an AUC: method 5 of Newcombe (2006), which also holds where the AUC is 0 or 1.

    Its bounds are the values whose standard error, by Hanley and McNeil (1982), puts the measured AUC at 1.96 of it.
    """

    def edge(end: float) -> float:
        near, far = area, end
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            within = abs(area - middle) <= _NORMAL_95 * _deviation(middle, members, others)
            near, far = (middle, far) if within else (near, middle)
        return near

    return edge(0.0), edge(1.0)


def _deviation(area: float, members: int, others: int) -> float:
    """Return the standard error of an AUC with this true value."""
    pairs, mean = members * others, (members + others) / 2 - 1
    spread = 1 + mean * ((1 - area) / (2 - area) + area / (1 + area))
    return math.sqrt(area * (1 - area) * spread / pairs)
