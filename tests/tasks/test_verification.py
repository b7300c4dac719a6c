"""Verification: center loss by hand, the folds of LFW by a slow loop, the same bits anywhere, and it can be learnt."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from commands import call, write
from silobench.data import Dataset, Split, load
from silobench.engines import Engine, inline, pool
from silobench.errors import ConfigError, DataError
from silobench.federation import Federation, federate
from silobench.loop.rounds import rounds
from silobench.measures import MEASURES
from silobench.method.algorithms import ALGORITHMS, fedavg
from silobench.method.method import Method
from silobench.method.solvers import Problem, sgd
from silobench.models import MODELS, CustomLoss, Model, Network, Sizes
from silobench.models.face_cnn import center_loss
from silobench.partitions import measure
from silobench.runs.stored import read_runs
from silobench.tasks.score import Score
from silobench.tasks.task import Task, task
from silobench.tasks.verification import FOLDS, Pairs, judged
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

SMALL = "synthetic-faces(identities=12, pictures=8, size=16, pairs=60)"
NETWORK = "face-cnn(dim=8, width=4)"


def module_of(spec: str, shape: tuple[int, ...] = (1, 16, 16), classes: int = 5) -> CustomLoss:
    module = MODELS.build(spec).build(Sizes(shape, classes), 0)
    assert isinstance(module, CustomLoss)
    return module


# --- center loss, by hand ----------------------------------------------------------------------------


def updates(places: NDArray[np.float64], centres: NDArray[np.float64], y: Sequence[int]) -> NDArray[np.float64]:
    """The paper's Δc_j for every centre, written out."""
    found = np.zeros_like(centres)
    for j in range(len(centres)):
        mine = [centres[j] - place for place, label in zip(places, y, strict=True) if label == j]
        found[j] = np.sum(mine, axis=0) / (1 + len(mine)) if mine else 0
    return found


def test_loss_and_gradients_are_those_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    at, middle, y = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), [0, 4, 4, 2, 4, 0, 2]
    places, centres = (torch.tensor(array, requires_grad=True) for array in (at, middle))
    loss = center_loss(places, centres, torch.tensor(y), strength=0.3, rate=0.7)
    loss.backward()
    gap = at - middle[y]
    assert loss.item() == pytest.approx(0.15 * (gap**2).sum(1).mean(), rel=1e-12)
    assert places.grad is not None
    assert centres.grad is not None
    np.testing.assert_allclose(places.grad, 0.3 * gap / 7, rtol=1e-12)
    np.testing.assert_allclose(centres.grad, 0.7 * updates(at, middle, y), rtol=1e-12)
    assert not centres.grad[[1, 3]].any()  # of whom there was no picture


def test_a_model_is_trained_by_cross_entropy_and_center_loss() -> None:
    module = module_of("face-cnn(dim=3, width=2, strength=0.5)")
    with torch.no_grad():
        module.get_parameter("centres").normal_()
    x, y = torch.rand(6, 1, 16, 16), torch.tensor([0, 1, 1, 4, 4, 4])
    places = module.features(x).detach().double().numpy()
    logits = module(x).detach().double().numpy()
    centres = module.get_parameter("centres").detach().double().numpy()
    by_hand = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, y, strict=True)])
    by_hand += 0.25 * np.mean([((place - centres[label]) ** 2).sum() for place, label in zip(places, y, strict=True)])
    assert module.loss(x, y).item() == pytest.approx(by_hand, rel=1e-5)


def test_a_step_of_the_solver_moves_centres_by_its_rate() -> None:
    data = load(SMALL)
    federation, its_task = federate(data, "iid", 1), task("face-cnn(dim=8, width=4, rate=0.5)", data)
    method = Method(fedavg(), sgd(lr=0.1, momentum=0, weight_decay=0, steps=1, batch=20))
    rows = method.solver.batches(Problem(its_task, federation, federation.parties[0], 0), 0)[0]
    x, y = federation.batch(rows)
    its_task.network.params.copy_(its_task.initial)
    module = its_task.network.module
    assert isinstance(module, CustomLoss)
    places = module.features(x).detach().double().numpy()
    wanted = -0.1 * 0.5 * updates(places, np.zeros((len(data.classes), 8)), y.tolist())
    (record,) = rounds(method, federation, its_task, rounds=1)
    moved = its_task.network.layout.views(record.state.server.params)["centres"]
    assert moved.any()
    np.testing.assert_allclose(moved, wanted, atol=1e-6)


def test_centres_do_not_affect_features_and_strength_0_is_plain_softmax() -> None:
    plain, pulled = (module_of(f"face-cnn(dim=4, width=2, strength={strength})") for strength in (0, 5))
    x, y = torch.rand(4, 1, 16, 16), torch.tensor([0, 1, 2, 3])
    for module in (plain, pulled):
        nn.init.ones_(module.get_parameter("centres"))
    assert torch.equal(plain.features(x), pulled.features(x))
    assert torch.equal(plain.loss(x, y), nn.functional.cross_entropy(plain(x), y))
    assert pulled.loss(x, y) > plain.loss(x, y)


def test_places_are_compared_by_angle_or_by_distance() -> None:
    first, second = torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    assert module_of("face-cnn").similarity(first, second).tolist() == pytest.approx([1, 0])
    assert module_of("face-cnn(distance=euclidean)").similarity(first, second).tolist() == pytest.approx([1 / 2, 1 / 6])


def test_it_has_these_layers() -> None:
    layout = Network(module_of("face-cnn(dim=10, width=4)", (3, 32, 24), 7)).layout
    convolutions = (27 + 1) * 4 + (36 + 1) * 8 + (72 + 1) * 16
    assert layout.trainable == layout.size == convolutions + (16 * 4 * 3 + 1) * 10 + 11 * 7 + 7 * 10
    assert dict(zip(layout.names, layout.shapes, strict=True))["centres"] == (7, 10)


# --- the folds of LFW --------------------------------------------------------------------------------


def by_a_slow_loop(similarity: list[float], same: list[bool]) -> tuple[int, int]:
    """How many pairs of different and of the same people are right; thresholds are tried one by one."""
    right = [0, 0]
    folds = [fold.tolist() for fold in np.array_split(np.arange(len(same)), 10)]
    for fold in folds:
        others = [i for i in range(len(same)) if i not in fold]
        ordered = sorted({similarity[i] for i in others})
        cuts = [-np.inf, *((a + b) / 2 for a, b in pairwise(ordered)), np.inf]
        best, most = cuts[0], -1
        for cut in cuts:
            hits = sum((similarity[i] >= cut) == same[i] for i in others)
            if hits > most:
                best, most = cut, hits
        for i in fold:
            right[same[i]] += (similarity[i] >= best) == same[i]
    return right[0], right[1]


@pytest.mark.parametrize("count", [2, 3, 9, 10, 11, 25, 60, 147])
@pytest.mark.parametrize("gap", [0.0, 0.3, 5.0])
def test_folds_give_what_a_slow_loop_gives(count: int, gap: float) -> None:
    rng = np.random.default_rng(count)
    same = rng.random(count) < 0.5
    similarity = (np.round(rng.normal(size=count), 1) + gap * same).astype(np.float32)  # some are equal
    hits, rows = judged([Pairs(similarity, same)])
    assert tuple(hits) == by_a_slow_loop(similarity.tolist(), same.tolist())
    assert rows.tolist() == [int((~same).sum()), int(same.sum())]
    if gap == 5 and count > 20:
        assert hits.sum() >= count - 1


def test_parts_are_joined_in_their_order_and_then_judged() -> None:
    rng = np.random.default_rng(0)
    alike, same = rng.random(40).astype(np.float32), rng.random(40) < 0.5
    whole = Score(total_loss=3.0, pairs=(Pairs(alike, same),)).judged()
    parts = [Score(total_loss=1.0, pairs=(Pairs(alike[i:j], same[i:j]),)) for i, j in ((0, 7), (7, 8), (8, 40))]
    added = sum(parts, Score()).judged()
    assert (added.accuracy, added.loss, added.by_class) == (whole.accuracy, whole.loss, whole.by_class)
    assert whole.accuracy == whole.hits.sum() / 40
    assert whole.loss == 3 / 40
    assert added.judged() is added
    two_models = sum([whole, whole], Score())  # each judged by thresholds of its own
    assert two_models.by_class == whole.by_class


def test_one_pair_is_guessed_and_a_diverged_model_calls_no_pair_same() -> None:
    for same in (True, False):
        score = Score(pairs=(Pairs(np.ones(1, np.float32), np.array([same])),)).judged()
        assert score.accuracy == float(same)
    nothing = np.full(40, np.nan, np.float32)
    halves = np.tile([True, False], 20)
    assert Score(pairs=(Pairs(nothing, halves),)).judged().accuracy == 0.5
    mixed = np.where(halves, np.float32(1), np.float32(np.nan))
    assert Score(pairs=(Pairs(mixed, halves),)).judged().accuracy == 1


def test_a_model_that_is_right_and_one_that_guesses() -> None:
    rng, same = np.random.default_rng(1), np.tile([True, False], 300)
    right = Score(pairs=(Pairs(same.astype(np.float32), same),)).judged()
    assert right.by_class == (1, 1)
    guess = Score(pairs=(Pairs(rng.random(600).astype(np.float32), same),)).judged()
    assert 0.42 < guess.accuracy < 0.58
    assert FOLDS == 10


# --- runs --------------------------------------------------------------------------------------------


def run(federation: Federation, its_task: Task, engine: Engine, count: int = 3, **options: float) -> list[RoundRecord]:
    method = Method(fedavg(), sgd(lr=0.05, steps=2, batch=16))
    return list(rounds(method, federation, its_task, rounds=count, engine=engine, **options))  # type: ignore[arg-type]


def facts_of(record: RoundRecord) -> dict[str, object]:
    return {
        key: value
        for key, value in record.as_json().items()
        if key not in ("seconds", "time", "engine", "workers", "measures")
    }


def test_any_engine_and_a_resumed_run_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silobench.federation._EVALUATION_ROWS", (7, 7))  # many parts, for workers to share
    data = load(SMALL)
    federation, its_task = federate(data, "label-percent(percent=100)", 2), task(NETWORK, data)
    here, spread = run(federation, its_task, inline()), run(federation, its_task, pool(2))
    assert [facts_of(record) for record in here] == [facts_of(record) for record in spread]
    assert torch.equal(here[-1].state.server.params, spread[-1].state.server.params)
    method = Method(fedavg(), sgd(lr=0.05, steps=2, batch=16))
    (last,) = rounds(method, federation, its_task, rounds=3, state=here[1].state)
    assert facts_of(last) == facts_of(here[2])


def test_a_part_of_the_pairs_may_be_tested() -> None:
    data = load(SMALL)
    federation, its_task = federate(data, "iid", 2), task(NETWORK, data)
    for share, count in ((0.5, 30), (7, 7), (1, 1)):
        first, last = run(federation, its_task, inline(), 2, eval_on=share)
        rows = torch.cat([part.rows for part in federation.test_parts(share)])
        score = its_task.evaluate(
            first.state.server.params, its_task.buffers, [federation.part(p) for p in federation.test_parts(share)]
        )
        assert len(rows) == count == score.rows.sum()
        assert first.accuracy == score.accuracy
        assert last.class_accuracy is not None
        assert len(last.class_accuracy) == 2


def test_rows_that_parties_keep_aside_are_of_people_they_know() -> None:
    data = load(SMALL)
    federation, its_task = federate(data, "iid", 2, validation=0.25), task(NETWORK, data)
    record = run(federation, its_task, inline(), 1)[0]
    x, y = federation.batch(federation.parties[0].validation)
    with torch.no_grad():
        its_task.network.params.copy_(record.state.server.params)
        right = (its_task.network.module(x).argmax(1) == y).double().mean().item()
    assert record.party_accuracy is not None
    assert record.party_accuracy[0] == pytest.approx(right)


def test_noise_reaches_pairs_too() -> None:
    data = load(SMALL)
    federation = federate(data, "noise(0.3, test=noisy)", 2)
    record = run(federation, task(NETWORK, data), inline(), 1)[0]
    assert sum(len(part.rows) for part in federation.test_parts()) == 2 * len(data.test)
    assert record.loss is not None


def test_unseen_people_are_distinguished_after_training_but_not_by_pixels() -> None:
    data = load("synthetic-faces(identities=60, pictures=16, size=16, pairs=600)")
    federation, its_task = federate(data, "iid", 2), task("face-cnn(dim=32, width=16)", data)
    pixels = task("linear", data)  # whose last layer reads these
    assert pixels.evaluate(pixels.initial, pixels.buffers, federation.test_batches()).accuracy < 0.62
    method = Method(fedavg(), sgd(lr=0.1, epochs=2, weight_decay=5e-4, batch=32))
    last = list(rounds(method, federation, its_task, rounds=7, eval_every=7))[-1]
    assert last.accuracy is not None
    assert last.accuracy > 0.75


def test_other_networks_are_verified_by_what_their_last_layer_reads() -> None:
    data = load(SMALL)
    federation = federate(data, "iid", 2)
    for model in ("cnn", "mlp(16)", "linear"):
        its_task = task(model, data)
        assert run(federation, its_task, inline(), 1)[0].accuracy is not None
        setting = Setting(Method(fedavg(), sgd()), federation, its_task, 0)
        with pytest.raises(ConfigError, match="classification dataset"):
            Engine(("native",)).settled(setting)
    stacked = run(federation, task("mlp(16)", data), Engine(("stacked",)), 1)[0]
    one_by_one = run(federation, task("mlp(16)", data), inline(), 1)[0]
    assert stacked.accuracy == pytest.approx(one_by_one.accuracy, abs=0.05)


def test_it_also_learns_to_classify() -> None:
    data = load("digits")
    federation, its_task = federate(data, "iid", 2), task("face-cnn(dim=16, width=8)", data)
    method = Method(fedavg(), sgd(lr=0.05, epochs=1, batch=32))
    record = list(rounds(method, federation, its_task, rounds=3, eval_every=3))[-1]
    assert record.accuracy is not None
    assert record.accuracy > 0.7
    assert record.class_accuracy is not None
    assert len(record.class_accuracy) == 10


# --- what does not go together -----------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["moon", "fedrs"])
def test_two_losses_are_one_too_many(algorithm: str) -> None:
    data = load(SMALL)
    federation, method = federate(data, "iid", 2), Method(ALGORITHMS.build(algorithm), sgd(steps=1))
    with pytest.raises(ConfigError, match="a loss of its own"):
        next(rounds(method, federation, task(NETWORK, data)))
    assert next(rounds(method, federation, task("cnn", data))).accuracy is not None


def test_the_bound_on_divergence_is_not_about_center_loss() -> None:
    data = load(SMALL)
    method = Method(fedavg(), sgd(momentum=0, steps=1))
    setting = Setting(method, federate(data, "iid", 2), task(NETWORK, data), 0)
    with pytest.raises(ConfigError, match="has another loss"):
        MEASURES.build("weight-divergence(bound=sampled)").check(setting, 2)
    MEASURES.build("weight-divergence").check(setting, 2)


class _Opaque(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.layer = nn.Linear(sizes.inputs, sizes.classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))  # type: ignore[no-any-return]


def test_a_network_without_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS.factories, "opaque", lambda: Model(_Opaque))
    with pytest.raises(ConfigError, match="has no separate `features`"):
        task("opaque", load(SMALL))
    assert task("opaque", load("digits")).network.layout.size


def test_small_and_flat_rows_are_refused() -> None:
    for shape in ((1, 7, 9), (30,)):
        with pytest.raises(ConfigError, match="at least 8 x 8 pixels"):
            module_of("face-cnn", shape)


def test_pairs_have_booleans_and_are_two_rows_each() -> None:
    data = load(SMALL)
    with pytest.raises(DataError, match="test labels of type int64 for the task verification: use booleans for pairs"):
        replace(data, test=Split(data.test.x, data.test.y.astype(np.int64)))
    with pytest.raises(DataError, match="a test row must be a pair of training rows"):
        replace(data, test=Split(data.test.x[:, 0], data.test.y))
    digits = load("digits")
    classes = replace(digits, test=Split(digits.test.x, digits.test.y > 4)).test.y
    assert (classes == (digits.test.y > 4)).all()
    assert classes.dtype == np.int64  # without pairs, booleans are classes 0 and 1


# --- the command line --------------------------------------------------------------------------------

EXPERIMENT = f"""
dataset = "{SMALL}"
partition = "label-percent(percent=100)"
parties = 2
model = "{NETWORK}"
solver = "sgd(lr=0.05, steps=2, batch=16)"
rounds = 4
eval_every = 2
eval_on = 0.5
"""


def test_a_run_from_a_file_and_its_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = write(tmp_path / "e.toml", EXPERIMENT), tmp_path / "runs"
    result = call(capsys, "run", file, "--workers", "1", "--out", out)
    assert result.code == 0, result.err
    assert "Verification accuracy in the last round, percent" in result.out
    (stored,) = read_runs(out)
    assert stored.dataset.task == "verification"
    assert (len(stored.dataset.classes), stored.partition.emd) == (10, (1.0, 1.0))
    tested = [row for row in stored.rounds if row.accuracy is not None]
    assert [row.round for row in tested] == [2, 4]
    assert all(len(row.class_accuracy) == 2 and row.loss is not None for row in tested)
    for options in (("--details",), ("--json",)):
        shown = call(capsys, "show", out, *options)
        assert shown.code == 0, shown.err
        assert "diverged" not in shown.out or options == ("--json",)
    assert call(capsys, "report", out).code == 0


def test_without_a_model_it_is_the_one_for_faces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [line for line in EXPERIMENT.splitlines() if not line.startswith(("model", "rounds", "eval"))]
    file = write(tmp_path / "e.toml", "\n".join([*lines, "rounds = 1"]))
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0
    assert read_runs(tmp_path / "runs")[0].config["model"].startswith("face-cnn(dim=64")


def test_a_partition_of_many_people_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = call(capsys, "partition", "synthetic-faces", "label-percent(percent=100)", "--parties", "2")
    assert shown.code == 0
    assert "mean EMD 1.000" in shown.out
    options = ["--json", "--plot", tmp_path / "p.png", "--export", tmp_path / "rows"]
    facts = json.loads(call(capsys, "partition", "synthetic-faces", "label-dirichlet(beta=0.5)", *options).out)
    assert (len(facts["classes"]), facts["parties"]) == (80, 10)
    data: Dataset = load("synthetic-faces")
    federation = federate(data, "label-percent(percent=100)", 2)
    assert measure(federation.partition, data).jensen_shannon == pytest.approx(1)
