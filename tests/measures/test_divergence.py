"""Weight divergence: laws of the measure, the bound of Proposition 3.1, and records that go on where they stopped."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import call, write
from precision import bound, bound_of_steps, in_default_precision
from silobench.data import Dataset
from silobench.data.dataset import Split
from silobench.errors import ConfigError
from silobench.federation import Federation, Party
from silobench.loop.rounds import rounds
from silobench.measures import Course, measured
from silobench.measures.divergence import _centralised, weight_divergence
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import Solver, sgd
from silobench.partitions import Partition
from silobench.rng import stream
from silobench.runs.checkpoint import load_state
from silobench.runs.execute import execute
from silobench.runs.experiment import bind, expand, plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.tasks.task import task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

PLAIN = "sgd(lr=0.05, momentum=0, weight_decay=0, epochs=1, batch=20)"
CELL: dict[str, Any] = {
    "dataset": "digits",
    "parties": 5,
    "model": "linear",
    "solver": PLAIN,
    "rounds": 3,
    "measure": ["weight-divergence"],
}


def run(directory: Path, engine: str = "auto", **changed: Any) -> list[dict[str, Any]]:
    """What was measured in every round."""
    (made,) = plan({**CELL, **changed})
    list(execute(prepare(made), directory, engine))
    return [row.measures["weight-divergence"] for row in read_run(directory / made.id).rounds]


# --- laws ---------------------------------------------------------------------------------------------


ONE_STEP = 0.1 * bound(1438)  # a gradient is a sum over all rows; a step is at most a tenth as long as the weights


@pytest.mark.parametrize("partition", ["iid", "shards(1)", "quantity-dirichlet(0.5)", "shards(1) + share(beta=0.1)"])
def test_one_round_of_one_full_batch_is_centralised_sgd_to_rounding(tmp_path: Path, partition: str) -> None:
    """Means of parties' gradients by rows are the gradient of all rows."""
    solver = "sgd(lr=0.1, momentum=0, weight_decay=0, epochs=1, batch=full)"
    for model in ("linear", "cnn"):
        (found,) = run(tmp_path, partition=partition, solver=solver, rounds=1, model=model)
        assert 0 <= found["all"] < ONE_STEP
        assert max(found["layers"].values()) < ONE_STEP


@pytest.mark.parametrize(
    "solver",
    [
        "sgd(epochs=2)",
        PLAIN,
        "sgd(lr=exponential(0.1, 0.9), momentum=0.9, epochs=2, batch=14, keep_momentum=true)",
        "sgd(lr=step(0.1, at=[1]), momentum=0.5, steps=5, batch=16)",
        "sgd(lr=0.1, batch=full)",
    ],
)
@pytest.mark.parametrize(("model", "engine"), [("linear", "stacked"), ("cnn", "auto"), ("mlp", "inline")])
def test_one_party_is_centralised_sgd_for_any_schedule(tmp_path: Path, solver: str, model: str, engine: str) -> None:
    for found in run(tmp_path, engine, parties=1, solver=solver, model=model, rounds=2):
        assert found["all"] == found["distance"] == 0.0
        assert set(found["layers"].values()) == {0.0}


def test_it_is_what_its_formula_says_against_sgd_by_hand(tmp_path: Path) -> None:
    """Two rounds of SGD on all rows in one place, in batches of 5 x 20, step by step."""
    (made,) = plan({**CELL, "partition": "shards(1)", "rounds": 2})
    ready = prepare(made)
    list(execute(ready, tmp_path))
    setting = ready.setting
    problem, network = setting.task, setting.task.network
    network.params.copy_(problem.initial)
    everything = torch.cat([party.rows for party in setting.federation.parties])
    for now in range(2):
        for rows in torch.from_numpy(stream(0, "order", now, 0).permutation(everything.numpy())).split(100):
            network.grad.zero_()
            problem.loss(*setting.federation.batch(rows)).backward()
            network.params.add_(network.grad, alpha=-0.05)
    shadow, model = network.params.clone(), load_state(tmp_path / made.id).server.params
    found = read_run(tmp_path / made.id).rounds[-1].measures["weight-divergence"]
    distance, length, rounding = float((model - shadow).norm()), float(shadow.norm()), bound_of_steps(30, 100 + 64)
    assert distance > 100 * rounding * length
    assert found["distance"] == pytest.approx(distance, abs=rounding * length)
    assert found["all"] == pytest.approx(distance / length, abs=rounding)
    assert found["layers"] == {"layers.0": found["all"]}
    with torch.no_grad():
        network.params.copy_(shadow)
        hits = [network.module(x).argmax(1) == y for x, y in setting.federation.test_batches()]
    assert found["sgd_accuracy"] == pytest.approx(float(torch.cat(hits).float().mean()), abs=0.003)


def test_layers_are_told_from_first_to_last_and_grow_with_the_skew(tmp_path: Path) -> None:
    cells = [{"model": "cnn", "partition": f"target-emd({emd})", "rounds": 1} for emd in (0, 1, 1.6)]
    found = [[run(tmp_path, **cell, seed=seed)[0]["layers"] for seed in (0, 1)] for cell in cells]
    assert list(found[0][0]) == ["conv1", "conv2", "fc1", "fc2", "out"]
    by_emd = np.array([[list(layers.values()) for layers in trials] for trials in found]).mean(1)
    assert (np.diff(by_emd, axis=0) > 0).all()


@pytest.mark.parametrize("algorithm", ["fedprox(mu=1)", "scaffold", "fednova", "feddyn", "moon", "fedrs", "fedbn"])
def test_any_algorithm_with_a_shared_model_can_be_measured(tmp_path: Path, algorithm: str) -> None:
    model = "lenet(norm=batch)" if algorithm == "fedbn" else "mlp"
    rounds = 1 if algorithm == "fedbn" else 2
    solver = "sgd(lr=0.05, steps=2, batch=20)"
    found = run(tmp_path, partition="shards(1)", algorithm=algorithm, model=model, rounds=rounds, solver=solver)
    assert all(0 < row["all"] < 10 for row in found)
    if algorithm == "fedbn":
        assert not any("norm" in name or ".1" in name[-2:] for name in found[0]["layers"])  # those are nobody else's


OWN_MODELS = ("solo", "gaia", "apfl", "ditto", "pfedme")  # algorithms that give every party a model of its own


def test_every_algorithm_is_measured_or_refused() -> None:
    for name in ALGORITHMS.factories:
        spec = "finetune(fedavg)" if name == "finetune" else name
        solver = {"solver": "sgd(lr=0.05, batch=20)"} if ALGORITHMS.build(spec).lockstep else {}
        made = bind({**CELL, "algorithm": spec, "model": "mlp", **solver})
        if name in OWN_MODELS:
            with pytest.raises(ConfigError, match="needs one shared model"):
                prepare(made)
        else:
            prepare(made)


def test_combined_is_its_own_shadow(tmp_path: Path) -> None:
    assert [row["all"] for row in run(tmp_path, algorithm="combined", partition="shards(1)")] == [0.0] * 3


def test_of_a_part_of_the_parties_the_shadow_takes_as_many_steps_and_no_more(tmp_path: Path) -> None:
    """Two of five: 15 steps of a party a round, and the shadow's of 2 x 20 rows as many."""
    (made,) = plan({**CELL, "participation": 2, "partition": "iid"})
    ready = prepare(made)
    course = Course(ready.setting, rounds=3, participation=2)
    solver = _centralised(course)
    assert (solver.batch, solver.steps) == (40, 15)
    assert all(row["all"] > 0 for row in run(tmp_path, participation=2, partition="iid"))


# --- records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["weight-divergence", "weight-divergence(bound=sampled, rows=20)"])
def test_a_measured_run_resumes_to_the_same_bits(tmp_path: Path, measure: str) -> None:
    solver = PLAIN if "bound" in measure else "sgd(lr=0.05, epochs=1, batch=20, keep_momentum=true)"
    cell = {**CELL, "partition": "shards(1)", "solver": solver, "measure": measure, "rounds": 4}
    (made,) = plan(cell)
    list(execute(prepare(made), tmp_path / "whole"))
    for _ in range(3):
        begun = execute(prepare(made), tmp_path / "cut")
        next(begun)
        begun.close()
    list(execute(prepare(made), tmp_path / "cut"))
    whole, cut = (read_run(tmp_path / name / made.id) for name in ("whole", "cut"))
    assert whole.facts.state_sha256 == cut.facts.state_sha256
    assert [row.measures for row in whole.rounds] == [row.measures for row in cut.rounds]


def test_a_shadow_run_that_spends_more_than_the_budget_lasts_as_long_as_the_run(tmp_path: Path) -> None:
    """With whole batches the shadow run spends in every round what a party spends when it takes part."""
    solver = "dp_sgd(lr=0.1, noise=4, epsilon=3, steps=1, batch=full, reproducible=true)"
    found = run(tmp_path, solver=solver, parties=8, participation=0.25, rounds=12)
    assert len(found) == 12
    assert all(each["distance"] > 0 for each in found)


def test_measuring_changes_no_bit_of_the_run(tmp_path: Path) -> None:
    models = []
    for measure in ([], ["weight-divergence"], ["weight-divergence(bound=sampled)"]):
        (made,) = plan({**CELL, "partition": "shards(1)", "measure": measure})
        list(execute(prepare(made), tmp_path))
        models.append((made.id, read_run(tmp_path / made.id)))
    assert len({name for name, _ in models}) == 3
    assert len({run.facts.model_sha256 for _, run in models}) == 1
    assert not models[0][1].rounds[0].measures
    assert [row.accuracy for row in models[0][1].rounds] == [row.accuracy for row in models[1][1].rounds]


def test_a_list_of_measures_is_no_axis_and_what_is_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(expand({**CELL, "measure": ["weight-divergence", "weight-divergence"]})) == 1
    assert bind({**CELL, "measure": []}).id == bind({k: v for k, v in CELL.items() if k != "measure"}).id
    assert bind({**CELL, "measure": "weight-divergence"}).id == bind(CELL).id
    for measure, reason in [
        ('["weight-divergence", "weight-divergence"]', "twice"),
        ('"weight-divergense"', "did you mean weight-divergence?"),
        ('"weight-divergence(bound=logistic)"', "needs the model linear, dense rows"),
        ("3", "measure must be text or a list of texts"),
    ]:
        file = write(tmp_path / "x.toml", f'dataset = "digits"\nmeasure = {measure}\nsolver = "{PLAIN}"\nmodel = "mlp"')
        found = call(capsys, "run", file, "--out", tmp_path / "runs")
        assert (found.code, reason in found.err, found.err.count("\n")) == (2, True, 1), found.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"pace": "buffered(size=2)", "clock": "device"}, "leave pace at synchronous"),
        ({"exchange": "gossip", "measure": ["weight-divergence(bound=sampled)"]}, "leave exchange at star"),
        ({"aggregate": "median", "measure": ["weight-divergence(bound=sampled)"]}, "aggregate at mean"),
        ({"availability": "dropout", "measure": ["weight-divergence(bound=sampled)"]}, "availability at always"),
    ],
)
def test_rounds_that_are_not_a_mean_over_all_parties_are_refused(choices: dict[str, Any], reason: str) -> None:
    (planned,) = plan({**CELL, **choices})
    with pytest.raises(ConfigError, match=reason):
        prepare(planned)


# --- the bound of Proposition 3.1 ---------------------------------------------------------------------


def copies(points: np.ndarray, counts: np.ndarray) -> Federation:
    """Every party has the points of class i exactly `counts[party, i]` times: given the class, all see the same.

    The proposition takes that for granted; with different points it is only nearly so.
    """
    classes, each, _ = points.shape
    rows, parties, labels, x = 0, [], [], []
    for party, held in enumerate(counts):
        begin = rows
        for label, times in enumerate(held):
            x += [points[label]] * times
            labels += [label] * each * times
            rows += each * times
        parties.append(Party(party, torch.arange(begin, rows), torch.arange(0), str(party)))
    split = Split(np.concatenate(x), np.array(labels, dtype=np.int64))
    data = Dataset("copies", split, split, tuple(map(str, range(classes))), "none")
    return Federation(in_default_precision(data), Partition(tuple(p.rows.numpy() for p in parties)), 0, tuple(parties))


def measure_of(federation: Federation, solver: Solver, count: int, bound: Any) -> list[dict[str, Any]]:
    setting = Setting(Method(ALGORITHMS.build("fedavg"), solver), federation, task("linear", federation.dataset, 0), 0)
    course = Course(setting, count)
    records: Sequence[RoundRecord] = list(
        measured(
            rounds(setting.method, federation, setting.task, seed=0, rounds=count),
            {"it": weight_divergence(bound=bound)},
            course,
        )
    )
    return [record.measures["it"] for record in records]


@pytest.mark.usefixtures("in_double")
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    classes=st.integers(2, 4),
    parties=st.integers(1, 4),
    steps=st.integers(1, 6),
    lr=st.floats(0.01, 1.0),
    decay=st.sampled_from([0.0, 0.01]),
)
def test_the_divergence_never_exceeds_the_bound_where_its_constants_are_proven(
    seed: int, classes: int, parties: int, steps: int, lr: float, decay: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, (parties, classes))
    counts[:, 0] += 1  # nobody without rows
    federation = copies(rng.normal(0, 1.5, (classes, 3, 2)), counts)
    solver = sgd(lr=lr, momentum=0.0, weight_decay=decay, epochs=steps, batch="full")
    rounding = 1000 * bound_of_steps(18, 36, torch.float64)  # of weights below 1000
    for found in measure_of(federation, solver, 3, "logistic"):
        assert not found["estimated"]
        assert found["distance"] <= found["bound"] + rounding


@pytest.mark.usefixtures("in_double")
def test_the_bound_by_pencil() -> None:
    """One party of each class, one point each: x = 1 and x = -1, two steps, from the weights that are drawn."""
    federation = copies(np.array([[[1.0]], [[-1.0]]]), np.eye(2, dtype=np.int64))
    lr = 0.5
    (found,) = measure_of(federation, sgd(lr=lr, momentum=0.0, weight_decay=0.0, epochs=2, batch="full"), 1, "logistic")
    weights = task("linear", federation.dataset, 0).initial.double().numpy()

    def gradient(w: np.ndarray, label: int) -> np.ndarray:
        x = 1.0 if label == 0 else -1.0
        logits = w[:2] * x + w[2:]
        error = np.exp(logits) / np.exp(logits).sum() - np.eye(2)[label]
        return np.concatenate([error * x, error])

    longest = max(float(np.linalg.norm(gradient(weights, label))) for label in (0, 1))
    growth = 1 + lr * 1.0  # half of the largest eigenvalue of E[(x, 1)(x, 1)ᵀ], which is 2
    assert found["bound"] == pytest.approx(lr * 1.0 * growth * longest, rel=1e-12)  # EMD 1; T = 2: j = 1 alone
    ends = []
    for label in (0, 1):
        w = weights.copy()
        for _ in range(2):
            w -= lr * gradient(w, label)
        ends.append(w)
    shadow = weights.copy()
    for _ in range(2):
        shadow -= lr * (gradient(shadow, 0) + gradient(shadow, 1)) / 2
    assert found["distance"] == pytest.approx(np.linalg.norm((ends[0] + ends[1]) / 2 - shadow), rel=1e-12)
    assert 0 < found["distance"] < found["bound"]


def test_an_estimated_bound_says_so_and_grows_with_the_skew(tmp_path: Path) -> None:
    choices = {"measure": "weight-divergence(bound=sampled)", "model": "cnn", "rounds": 1}
    first = [run(tmp_path, partition=f"target-emd({emd})", **choices)[0] for emd in (0, 1, 1.6)]
    assert all(found["estimated"] for found in first)
    assert first[0]["bound"] < first[1]["bound"] < first[2]["bound"]
    assert all(found["distance"] <= found["bound"] for found in first[1:])


def test_the_bound_holds_where_rows_are_shared(tmp_path: Path) -> None:
    solver = "sgd(lr=0.1, momentum=0, weight_decay=0, epochs=1, batch=full)"
    choices = {"partition": "shards(1) + share(beta=0.1)", "solver": solver, "rounds": 1}
    (found,) = run(tmp_path, measure="weight-divergence(bound=logistic)", **choices)
    assert found["distance"] <= found["bound"] or found["all"] < ONE_STEP  # the bound of one step is 0


def test_a_bound_of_a_network_that_draws_is_the_same_every_time(tmp_path: Path) -> None:
    choices = {"model": "mcmahan-cifar(crop=6)", "measure": "weight-divergence(bound=sampled, rows=5)", "parties": 2}
    solver = "sgd(lr=0.01, momentum=0, weight_decay=0, steps=1, batch=8)"
    found = []
    for name in ("a", "b"):
        torch.rand(len(found) + 1)
        found.append(run(tmp_path / name, partition="shards(1)", solver=solver, rounds=1, **choices))
    assert found[0] == found[1]


def test_parties_with_statistics_of_their_own_can_be_measured(tmp_path: Path) -> None:
    solver = "sgd(lr=0.01, steps=1, batch=8, keep_momentum=true)"
    choices = {"model": "lenet(norm=batch)", "buffers": "local", "parties": 2, "solver": solver}
    assert all(row["all"] > 0 for row in run(tmp_path, rounds=2, partition="shards(1)", **choices))


def test_a_run_that_diverged_beyond_all_numbers_can_be_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for partition in ("iid", "shards(1)"):
        run(tmp_path, partition=partition, solver=PLAIN.replace("0.05", "1e30"), rounds=2)
    for command in ("show", "claims", "report"):
        assert call(capsys, command, tmp_path).code == 0


def test_a_bound_beyond_all_numbers_is_null(tmp_path: Path) -> None:
    solver = "sgd(lr=5e4, momentum=0, weight_decay=0, steps=80, batch=full)"
    found = run(tmp_path, measure="weight-divergence(bound=logistic)", partition="shards(1)", solver=solver, rounds=1)
    assert found[0]["bound"] is None
    assert math.isfinite(found[0]["distance"])


@pytest.mark.parametrize(
    "changed",
    [
        {"algorithm": "scaffold"},
        {"participation": 2},
        {"solver": "sgd"},
        {"transforms": "clip(norm=1)"},
        {"server": "adam"},
        {"server": "step(lr=2)"},
        {"server": "momentum"},
    ],
)
def test_the_proposition_is_about_plain_fedavg_alone(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Proposition 3\.1 bounds fedavg"):
        prepare(bind({**CELL, "measure": "weight-divergence(bound=sampled)", **changed}))
