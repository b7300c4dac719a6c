"""Measures of parties' own models, each against a slow version by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from precision import bound
from silobench.data import load
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.probe import travel
from silobench.loop.rounds import rounds
from silobench.measures import MEASURES, Course, measured
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.rng import stream
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_runs
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

SOLVER = sgd(lr=0.02, momentum=0.9, steps=1, batch=10, keep_momentum=True)
ROUNDS = 25


@pytest.fixture(scope="module")
def skewed() -> tuple[Federation, Task]:
    data = load("digits")
    return federate(data, "label-percent(percent=100)", 2), task("cnn", data)


def run(algorithm: str, federated: Any, measure: str, n: int = ROUNDS) -> tuple[Setting, list[RoundRecord]]:
    method = Method(ALGORITHMS.build(algorithm), SOLVER)
    setting, name = Setting(method, *federated, 0), MEASURES.bind(measure).full.name
    records = rounds(method, *federated, rounds=n, eval_every=n)
    return setting, list(measured(records, {name: MEASURES.build(measure)}, Course(setting, rounds=n)))


def found(records: list[RoundRecord], name: str) -> dict[int, Any]:
    return {record.round: record.measures[name] for record in records if name in record.measures}


def test_they_look_every_so_many_rounds_and_after_the_last(skewed) -> None:
    _, records = run("gaia", skewed, "update-delta(every=10)")
    assert list(found(records, "update-delta")) == [10, 20, 25]
    assert "measures" not in records[0].as_json()
    assert records[9].as_json()["measures"] == {"update-delta": found(records, "update-delta")[10]}


def test_replicas_know_their_own_classes(skewed) -> None:
    """Figure 21: on labels that only one party has, the model of the other is no good."""
    setting, records = run("gaia(threshold=0.5)", skewed, "replicas(every=500)", n=200)
    seen = found(records, "replicas")[200]
    assert seen["accuracy"].keys() == {"0", "1"}
    by_class = seen["by_class"]
    for own, other in (("0", "1"), ("1", "0")):
        mine = [by_class[own][name] for name in setting.federation.dataset.classes[int(own) :: 2]]
        theirs = [by_class[other][name] for name in setting.federation.dataset.classes[int(own) :: 2]]
        assert np.mean(mine) > np.mean(theirs) + 0.3
    assert records[-1].accuracy == pytest.approx(np.mean(list(seen["accuracy"].values())))


def test_accuracy_loss_is_what_travelling_finds(skewed) -> None:
    setting, records = run("gaia", skewed, "accuracy-loss(every=25, sample=40)")
    by_hand = travel(setting, Course(setting).engine, records[-1].state, 40, 1)
    assert found(records, "accuracy-loss")[25] == {
        "loss": pytest.approx(by_hand.loss),
        "home": pytest.approx(sum(by_hand.home) / 2),
        "away": pytest.approx(sum(by_hand.away) / 2),
    }
    assert records[-1].bytes_up == records[-1].state.spent - records[-2].state.spent - records[-1].bytes_down


@pytest.mark.parametrize(
    ("algorithm", "delta"),
    [
        ("gaia(threshold=0.5)", lambda state, k: state.memory[k]["algorithm"]["residual"]),
        ("dgc(warmup=0)", lambda state, k: state.memory[k]["algorithm"]["v"]),
    ],
)
def test_update_delta_by_hand(skewed, algorithm: str, delta: Any) -> None:
    _, records = run(algorithm, skewed, "update-delta(every=25)")
    state, weights = records[-1].state, records[-1].state.server.params.double()
    deltas = [delta(state, k).double() for k in (0, 1)]
    seen, rounding = found(records, "update-delta")[25], bound(len(weights))
    assert seen["mean"] == pytest.approx(
        np.mean([float((some / weights).abs().mean()) for some in deltas]), rel=rounding
    )
    assert seen["ratio"] == pytest.approx(
        np.mean([float(some.norm() / weights.norm()) for some in deltas]), rel=rounding
    )


@pytest.mark.parametrize(("n", "average", "end"), [(10, 5, "apart"), (13, 10, "model")])
def test_update_delta_of_fedavg_is_what_a_party_moved_by(skewed, n: int, average: int, end: str) -> None:
    """Figure 23: from the average before. Round 10 averages itself; round 13 is the third after an average."""
    _, records = run("fedavg(iter_local=5)", skewed, "update-delta", n=n)
    state, start = records[-1].state, records[average - 1].state.server.params.double()
    weights = state.server.params.double()
    ends = [state.memory[k]["algorithm"][end].double() for k in (0, 1)]
    seen = found(records, "update-delta")[n]
    by_hand = [float((end - start).norm() / weights.norm()) for end in ends]
    assert seen["ratio"] == pytest.approx(np.mean(by_hand), rel=1e-4)
    relative = [float(((end - start) / weights).abs().mean()) for end in ends]
    assert seen["mean"] == pytest.approx(np.mean(relative), rel=1e-3)


def test_update_delta_is_the_same_in_a_run_that_was_resumed(skewed) -> None:
    setting, records = run("fedavg(iter_local=5)", skewed, "update-delta", n=10)
    state = records[8].state  # the next round averages
    rest = rounds(setting.method, *skewed, rounds=10, eval_every=10, state=state)
    (again,) = measured(rest, {"update-delta": MEASURES.build("update-delta")}, Course(setting, rounds=10), state)
    assert again.measures == records[-1].measures


def test_a_model_of_zeros_has_no_ratio(skewed) -> None:
    federation, model = skewed
    zeros = federation, replace(model, initial=torch.zeros_like(model.initial))
    _, records = run("fedavg(iter_local=5)", zeros, "update-delta", n=1)
    assert found(records, "update-delta")[1] == {"mean": None, "ratio": None}


def test_parties_that_share_everything_are_not_apart(skewed) -> None:
    _, records = run("bsp", skewed, "update-delta")
    assert found(records, "update-delta")[ROUNDS] == {"mean": 0.0, "ratio": 0.0}


def test_norm_divergence_by_hand(skewed) -> None:
    federation, model = skewed
    _, records = run("bsp", skewed, "norm-divergence(every=100, minibatches=3)")
    params, module = records[-1].state.server.params, model.network.module
    model.network.params.copy_(params)
    means, variances = [], []
    for party in federation.parties:
        rng = stream(0, "norm divergence", ROUNDS, party.id)
        batches = [rng.choice(party.rows.numpy(), 10, replace=False) for _ in range(3)]
        with torch.no_grad():
            outputs = [module.conv1(federation.batch(torch.from_numpy(rows))[0]).double() for rows in batches]
        of_channels = [[out[:, channel].reshape(-1) for out in outputs] for channel in range(6)]
        means.append([np.mean([float(v.mean()) for v in channel]) for channel in of_channels])
        variances.append([np.mean([float(v.var(correction=0)) for v in channel]) for channel in of_channels])
    seen = found(records, "norm-divergence")[ROUNDS]
    assert seen["mean"].keys() == seen["variance"].keys() == {"conv1", "conv2"}
    for kind, (a, b) in (("mean", np.array(means)), ("variance", np.array(variances))):
        np.testing.assert_allclose(seen[kind]["conv1"], np.abs(a - b) / np.abs((a + b) / 2), rtol=1e-3)


def test_statistics_differ_more_where_labels_are_skewed(skewed) -> None:
    even = federate(load("digits"), "iid", 2), skewed[1]
    spread = []
    for federated in (even, skewed):
        _, records = run("bsp", federated, "norm-divergence(every=100, minibatches=20)")
        spread.append(np.mean(found(records, "norm-divergence")[ROUNDS]["mean"]["conv1"]))
    assert spread[1] > 2 * spread[0]


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"model": "mlp(8)"}, "this model has no convolution: choose a model with convolutions"),
        ({"model": "cnn", "parties": 1}, "there is 1 party: use two parties or more"),
    ],
)
def test_norm_divergence_is_refused_where_it_cannot_be_measured(choices: dict[str, Any], sentence: str) -> None:
    cell = {
        "dataset": "digits",
        "algorithm": "bsp",
        "solver": "sgd(batch=10)",
        "measure": "norm-divergence",
        "parties": 2,
    }
    with pytest.raises(ConfigError, match=sentence):
        prepare(bind({**cell, **choices}))


def test_replicas_are_refused_where_classes_are_not_tested() -> None:
    faces = {"dataset": "synthetic-faces(size=16)", "model": "face-cnn", "algorithm": "gaia", "parties": 2}
    with pytest.raises(ConfigError, match="synthetic-faces tests pairs: choose a dataset for classification"):
        prepare(bind({**faces, "solver": "sgd(batch=10)", "measure": "replicas"}))


def test_measuring_moves_nothing(skewed) -> None:
    data = load("digits")
    normed = skewed[0], task("resnet(depth=20)", data)
    plain = list(rounds(Method(ALGORITHMS.build("bsp"), SOLVER), *normed, rounds=2))
    _, records = run("bsp", normed, "norm-divergence(every=1, minibatches=2)", n=2)
    assert torch.equal(plain[-1].state.server.params, records[-1].state.server.params)
    assert torch.equal(plain[-1].state.server.buffers, records[-1].state.server.buffers)
    assert "blocks.0.parts.0.0" in records[-1].measures["norm-divergence"]["mean"]


def test_a_run_records_all_of_them(tmp_path) -> None:
    every = ["replicas(every=2)", "accuracy-loss(every=2)", "update-delta(every=2)", "norm-divergence(every=2)"]
    cell = {"dataset": "digits", "parties": 3, "model": "cnn", "algorithm": "gaia", "rounds": 3, "measure": every}
    ready = prepare(bind({**cell, "solver": "sgd(lr=0.01, batch=10)"}))
    assert len(list(execute(ready, tmp_path))) == 3
    rows = read_runs(tmp_path)[0].rounds
    assert not rows[0].measures
    assert rows[1].measures.keys() == rows[2].measures.keys() == {spec.split("(")[0] for spec in every}
