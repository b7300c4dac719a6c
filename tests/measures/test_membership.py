"""The measure membership: its statistics by hand, and runs that memorise their rows or do not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from precision import bound
from silobench.data import Dataset, Split, load
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.rounds import rounds
from silobench.measures import Course, measured, membership
from silobench.measures.membership import _drawn, auc_interval, success
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.formulas import auc
from silobench.tasks.task import task
from silobench.training.setting import Setting

MEMORISING = sgd(lr=0.05, momentum=0.9, epochs=40, batch=20)
LEARNING = sgd(lr=0.01, momentum=0.9, epochs=1, batch=64)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


@pytest.fixture(scope="module")
def chance(digits: Dataset) -> Dataset:
    """Digits with labels by chance: there is nothing to learn but the rows themselves."""
    y = np.random.default_rng(0).permutation(digits.train.y)
    return replace(digits, train=replace(digits.train, y=y))


def attacked(federation: Federation, solver: Any, n: int = 1, algorithm: str = "fedavg", **options: Any) -> Any:
    """Return the setting of a run, the records of its rounds, and the findings after the last."""
    method, built = Method(ALGORITHMS.build(algorithm), solver), task("mlp", federation.dataset)
    setting = Setting(method, federation, built, 0)
    records = rounds(method, federation, built, rounds=n, eval_every=n)
    results = list(measured(records, {"membership": membership(**options)}, Course(setting, rounds=n)))
    return setting, results, results[-1].measures["membership"]


def first(federation: Federation) -> Federation:
    """Return a federation with the first party only."""
    return replace(federation, parties=federation.parties[:1])


def test_rows_that_were_memorised_are_recognised(chance: Dataset) -> None:
    _, records, seen = attacked(first(federate(chance, "iid", 7)), MEMORISING, 2)
    assert "membership" not in records[0].measures
    assert 0.65 < seen["low"] < seen["auc"] < seen["high"]
    assert seen["difference"]["low"] > 0.65
    assert "parties" not in seen  # there is one


def test_rows_that_were_not_memorised_look_like_test_rows(digits: Dataset) -> None:
    """The seeds are fixed: an honest interval of 95% covers one half."""
    _, _, seen = attacked(federate(digits, "iid", 2), LEARNING, rows=300)
    assert seen["low"] < 0.5 < seen["high"]
    assert len(seen["parties"]) == 2
    assert seen["tpr"] < 0.1


def test_findings_by_hand(digits: Dataset) -> None:
    setting, records, seen = attacked(federate(digits, "iid", 2), LEARNING, rows=200)
    federation, network = setting.federation, setting.task.network
    drawn, params = _drawn(federation, federation.parties[1].rows, 200, 1), records[-1].state.server.params

    def losses(params: torch.Tensor, x: Any, y: Any) -> np.ndarray:
        network.params.copy_(params)
        with torch.no_grad():
            outputs = network.module(torch.from_numpy(x).float())
        return F.cross_entropy(outputs, torch.from_numpy(y), reduction="none").double().numpy()

    data, members, others = federation.dataset, drawn.members.numpy(), drawn.others.numpy()
    rows = [(data.train.x[members], data.train.y[members]), (data.test.x[others], data.test.y[others])]
    after, before = ([losses(at, *some) for some in rows] for at in (params, setting.task.initial))
    is_member = np.arange(400) < 200
    by_hand = seen["parties"][1]
    assert by_hand["rows"] == 200
    # Losses by another order of operations may swap rows with nearly equal losses: a swap changes 1 of 40,000 pairs.
    assert by_hand["auc"] == pytest.approx(auc(-np.concatenate(after), is_member), abs=1e-3)
    change = np.concatenate(before) - np.concatenate(after)
    assert by_hand["difference"]["auc"] == pytest.approx(auc(change, is_member), abs=1e-3)


def test_a_partys_classes_do_not_look_like_membership(digits: Dataset) -> None:
    """A model that knows one class has a low loss on the rows of the party with that class, members or not."""
    federation = federate(digits, "label-count(k=2)", 5)
    for party in federation.parties:
        drawn = _drawn(federation, party.rows, 80, party.id)
        train, test = digits.train.y[drawn.members.numpy()], digits.test.y[drawn.others.numpy()]
        assert len(train) <= 80
        times = len(test) // len(train)
        assert np.array_equal(times * np.bincount(train, minlength=10), np.bincount(test, minlength=10))
        assert np.isin(drawn.members.numpy(), party.rows.numpy()).all()
        assert len(np.unique(drawn.others)) == len(drawn.others)


def test_every_partys_own_model_is_attacked_with_its_own_rows(chance: Dataset) -> None:
    federation = federate(chance, "iid", 7)
    _, _, seen = attacked(replace(federation, parties=federation.parties[:2]), MEMORISING, algorithm="solo")
    assert len(seen["parties"]) == 2
    for name in ("auc", "low", "high", "tpr"):
        assert seen[name] == pytest.approx(np.mean([party[name] for party in seen["parties"]]))
    assert all(party["low"] > 0.6 for party in seen["parties"])


def test_numeric_targets_can_be_attacked() -> None:
    rng = np.random.default_rng(0)
    train, test = (Split(rng.random((60, 40), np.float32), rng.random(60)) for _ in range(2))
    numbers = Dataset("numbers", train, test, (), task="regression")
    _, _, seen = attacked(federate(numbers, "iid", 1), sgd(lr=0.05, momentum=0.9, epochs=300, batch=20))
    assert seen["low"] > 0.6


def test_a_model_that_diverged_is_no_error(digits: Dataset) -> None:
    _, _, seen = attacked(first(federate(digits, "iid", 7)), sgd(lr=1e6, epochs=2, batch=20))
    assert seen["auc"] == 0.5  # all losses are infinite, or the same


def test_pairs_are_refused() -> None:
    data = load("synthetic-faces")
    setting = Setting(Method(ALGORITHMS.build("fedavg"), LEARNING), federate(data, "iid", 2), task("face-cnn", data), 0)
    with pytest.raises(ConfigError, match="tests pairs: choose another dataset"):
        membership().check(setting, 2)


def test_success_by_hand() -> None:
    members, others = np.array([5.0, 3.0, 2.5, 1.0]), np.arange(200) / 100  # 0 .. 1.99
    seen = success(members, others)
    pairs = [(m > o) + 0.5 * (m == o) for m in members for o in others]
    assert seen["auc"] == np.mean(pairs)
    assert seen["tpr"] == 0.75  # two of 200 others may be above: the threshold is 1.97
    assert success(np.array([1.975, 1.965]), others)["tpr"] == 0.5


@pytest.mark.parametrize(("area", "members", "others"), [(0.5, 100, 200), (0.8, 30, 30), (0.95, 50, 50)])
def test_the_interval_covers_the_truth(area: float, members: int, others: int) -> None:
    """Of normal scores, from a fixed seed: about 95% of intervals."""
    rng, runs = np.random.default_rng(0), 400
    shift = 2**0.5 * float(torch.special.ndtri(torch.tensor(area, dtype=torch.float64)))
    hits = 0
    for _ in range(runs):
        scores = np.concatenate([rng.normal(shift, 1, members), rng.normal(0, 1, others)])
        low, high = auc_interval(auc(scores, np.arange(members + others) < members) or 0.0, members, others)
        hits += low <= area <= high
    assert 0.92 <= hits / runs <= 0.99


def test_the_interval_at_its_ends() -> None:
    assert auc_interval(1.0, 50, 50)[0] < 0.99
    assert auc_interval(1.0, 50, 50)[1] == pytest.approx(1.0, abs=bound(1))
    low, high = auc_interval(0.3, 40, 60)
    assert (1 - high, 1 - low) == pytest.approx(auc_interval(0.7, 40, 60))
