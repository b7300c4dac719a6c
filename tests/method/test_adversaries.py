"""Adversaries: who is malicious, messages and labels by hand, engines, robust aggregates, and what runs record."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from commands import call
from laws import SOLVER, bits, close, models
from natives import needs_native
from precision import bound_of_steps
from silobench.data import load
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.exchanges import gossip
from silobench.loop.rounds import rounds
from silobench.method.adversaries import ADVERSARIES, Adversary, label_flip, noise, none, sign_flip
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.transforms import clip
from silobench.method.types import Transform
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting
from wire import noted

SIZES = (20, 12, 30, 52, 16)
ATTACKS = ["sign-flip(share=0.4, scale=2)", "label-flip(share=0.4)", "noise(share=0.4, deviation=0.5)"]


def run(spec: str, federated: Any, adversary: Adversary | None, *transforms: Transform, **options: Any) -> list[Any]:
    aggregate = AGGREGATES.build(options.pop("aggregate", "mean"))
    method = Method(ALGORITHMS.build(spec), options.pop("solver", SOLVER), transforms, aggregate=aggregate)
    return list(rounds(method, *federated, adversary=adversary, **{"rounds": 3} | options))


def sent(spec: str, federated: Any, adversary: Adversary | None, **options: Any) -> dict[int, Any]:
    """Return the messages of the first round by party, as their transforms get them."""
    log: list[Any] = []
    run(spec, federated, adversary, noted(log, lambda update, context: (context.party, update)), rounds=1, **options)
    return dict(log)


# --- who is malicious -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "size"), [(0.0, 0), (0.001, 1), (0.2, 2), (0.25, 3), (0.5, 5), (1.0, 10)])
def test_the_share_of_parties_is_rounded_and_at_least_one(share: float, size: int) -> None:
    assert len(Adversary(share).parties(10, seed=3)) == size


def test_malicious_parties_follow_from_the_seed_and_a_larger_share_adds_to_them() -> None:
    by_seed = {Adversary(0.3).parties(20, seed) for seed in range(20)}
    assert len(by_seed) > 15
    assert set(Adversary(0.2).parties(20, 4)) < set(Adversary(0.5).parties(20, 4))


def test_nobody_malicious_is_the_plain_run_bit_for_bit(toy) -> None:
    for engine in ("inline", "stacked"):
        honest, zero = (
            run("fedavg", toy(SIZES), adversary, engine=ENGINES.build(engine))
            for adversary in (None, sign_flip(share=0))
        )
        assert [bits(record) for record in honest] == [bits(record) for record in zero]


@pytest.mark.parametrize("spec", ["solo", "combined"])
def test_a_baseline_has_no_malicious_party(toy, spec: str) -> None:
    honest, attacked = (run(spec, toy(SIZES), adversary) for adversary in (None, label_flip(share=0.6)))
    assert [bits(record) for record in honest] == [bits(record) for record in attacked]


# --- messages and labels by hand ------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova"])
def test_sign_flip_sends_the_opposite_of_an_honest_message(toy, spec: str) -> None:
    federated, adversary = toy(SIZES), sign_flip(share=0.4, scale=3.0)
    malicious = adversary.parties(5, 0)
    honest, attacked = (sent(spec, federated, each) for each in (None, adversary))
    for party, update in honest.items():
        other = attacked[party]
        for name, part in {**update.total, **update.sums}.items():
            is_flipped = party in malicious and part.dim() > 0
            assert torch.equal({**other.total, **other.sums}[name], part * -3.0 if is_flipped else part)
        assert other.weight == update.weight


def test_noise_replaces_a_message_and_differs_by_party_and_round(toy) -> None:
    federated, adversary, log = toy((20,) * 5, features=400), noise(share=0.4, deviation=2.0), list[Any]()
    watch = noted(log, lambda update, context: (context.party, context.round, update.mean()["delta"]))
    run("fedavg", federated, adversary, watch, rounds=2)
    noisy = [delta for party, _, delta in log if party in adversary.parties(5, 0)]
    assert len(noisy) == 4
    for delta in noisy:  # 1203 numbers: the deviation is off by 2% or so; 12% is 6 standard errors, once in 1e9 runs
        assert delta.std() == pytest.approx(2.0, rel=0.12)
    assert len({delta[0].item() for delta in noisy}) == 4
    assert all(delta.std() < 1 for party, _, delta in log if party not in adversary.parties(5, 0))


def test_label_flip_is_training_on_a_dataset_with_other_labels(toy) -> None:
    (federation, part), adversary = toy(SIZES), label_flip(share=0.4)
    labels = federation.dataset.train.y.copy()
    for party in adversary.parties(5, 0):
        rows = federation.parties[party].rows.numpy()
        labels[rows] = 2 - labels[rows]
    dataset = replace(federation.dataset, train=replace(federation.dataset.train, y=labels))
    by_hand = run("fedavg", (replace(federation, dataset=dataset), part), None)
    assert torch.equal(models(run("fedavg", (federation, part), adversary)), models(by_hand))
    assert not close(models(by_hand), models(run("fedavg", (federation, part), None)), rel=1e-3)


def test_validation_rows_and_shared_rows_keep_their_labels() -> None:
    data = load("digits")
    federation = federate(data, "label-count(k=2) + share(beta=0.1)", parties=5, seed=0, validation=0.2)
    setting = Setting(Method(ALGORITHMS.build("fedavg")), federation, task("linear", data), 0)
    attacked = setting.attacked(label_flip(share=0.4)).federation
    changed = set(np.flatnonzero(attacked.labels != data.train.y).tolist())
    shared = set(federation.partition.shared.tolist())
    expected = {row for party in (attacked.parties[p] for p in setting.attacked(label_flip(share=0.4)).malicious)
                for row in party.rows.tolist()} - shared  # fmt: skip
    assert changed == expected  # ten classes: no label stays when it is flipped
    assert setting.attacked(label_flip(share=0.4)).attacked(none()).federation.labels is None


def test_labels_without_classes_cannot_be_flipped(toy) -> None:
    faces = federate(load("synthetic-faces"), "iid", parties=4)
    setting = Setting(Method(ALGORITHMS.build("fedavg")), faces, toy()[1], 0)
    with pytest.raises(ConfigError, match=r"label-flip changes labels, but synthetic-faces .* as sign-flip does"):
        setting.attacked(label_flip())


# --- engines, workers, other parts of a run -------------------------------------------------------------


@pytest.mark.parametrize("engine", ["stacked", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("spec", ATTACKS)
def test_engines_agree(toy, spec: str, engine: str) -> None:
    federated, adversary = toy(SIZES, "mlp(6)"), ADVERSARIES.build(spec)
    ours = [run("fedavg", federated, adversary, engine=ENGINES.build(name), rounds=1) for name in ("inline", engine)]
    assert close(*map(models, ours), rel=bound_of_steps(14, 20))
    assert not close(models(ours[0]), models(run("fedavg", federated, None, rounds=1)), rel=1e-3)


@pytest.mark.parametrize("spec", ATTACKS)
def test_results_depend_neither_on_workers_nor_on_a_restart(toy, spec: str) -> None:
    adversary, options = ADVERSARIES.build(spec), {"participation": 4, "seed": 1}
    whole = run("scaffold", toy(SIZES), adversary, **options)
    pooled = run("scaffold", toy(SIZES), adversary, **options, engine=ENGINES.build("pool(workers=2)"))
    assert [bits(record.state) for record in whole] == [bits(record.state) for record in pooled]
    rest = run("scaffold", toy(SIZES), adversary, **options, state=whole[0].state)
    assert [bits(record) for record in rest] == [bits(record) for record in whole[1:]]


def test_transforms_of_a_malicious_party_still_run(toy) -> None:
    log: list[Any] = []
    watch = noted(log, lambda update, context: update.mean()["delta"].norm().item())
    run("fedavg", toy(SIZES), noise(share=0.4, deviation=100.0), clip(norm=0.5), watch, rounds=1)
    assert max(log) == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("spec", ["gaia", "bsp", "dgc"])
def test_parties_in_lockstep_may_be_malicious(toy, spec: str) -> None:
    solver = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)
    for adversary in ("sign-flip(share=0.4, scale=3)", "noise(share=0.4)"):
        attacked = run(spec, toy(SIZES), ADVERSARIES.build(adversary), solver=solver)
        assert not close(models(attacked), models(run(spec, toy(SIZES), None, solver=solver)), rel=1e-3)


def test_statistics_of_normalisation_layers_stay_honest(normed) -> None:
    honest, attacked = (run("fedavg", normed(), each, rounds=1)[0] for each in (None, sign_flip(share=0.4, scale=9)))
    assert torch.equal(honest.state.server.buffers, attacked.state.server.buffers)
    assert not torch.equal(honest.state.server.params, attacked.state.server.params)


def test_neighbours_of_a_malicious_party_get_its_message(toy) -> None:
    honest, attacked = (run("fedavg", toy(SIZES), each, exchange=gossip()) for each in (None, sign_flip(0.2, 5.0)))

    def mixed(records: list[Any]) -> list[Tensor]:
        return [memory["exchange"]["model"] for _, memory in sorted(records[-1].state.memory.items())]

    assert not any(torch.equal(a, b) for a, b in zip(mixed(honest), mixed(attacked), strict=True))


# --- aggregates -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> tuple[Federation, Task]:
    data = load("digits")
    return federate(data, "iid", parties=10, seed=0), task("linear", data)


def accuracy(digits: tuple[Federation, Task], aggregate: str, adversary: str) -> float:
    options: dict[str, Any] = {"aggregate": aggregate, "rounds": 4, "eval_every": 4, "engine": ENGINES.build("stacked")}
    solver = sgd(lr=0.1, epochs=2, batch=32)
    return float(run("fedavg", digits, ADVERSARIES.build(adversary), solver=solver, **options)[-1].accuracy)


@pytest.mark.parametrize(
    ("adversary", "robust"),
    [
        ("sign-flip(share=0.2, scale=4)", ["median", "trimmed_mean(share=0.2)", "krum(byzantine=2)"]),
        ("noise(share=0.2, deviation=5)", ["median", "trimmed_mean(share=0.2)", "krum(byzantine=2)"]),
        ("label-flip(share=0.4)", ["median", "krum(byzantine=3)"]),  # four of ten: more than trimming a fifth removes
    ],
)
def test_robust_aggregates_keep_the_accuracy_that_the_mean_loses(digits, adversary: str, robust: list[str]) -> None:
    honest, fallen = (accuracy(digits, "mean", each) for each in ("none", adversary))
    assert honest > 0.88
    assert fallen < honest - 0.08
    for aggregate in robust:
        kept = accuracy(digits, aggregate, adversary)
        assert honest - kept < (honest - fallen) / 3, f"{aggregate}: {kept} of {honest}, mean {fallen}"


# --- runs -----------------------------------------------------------------------------------------------

CELL = 'dataset = "digits"\nmodel = "linear"\nparties = 5\nrounds = 1\nadversary = ["none", "sign-flip(share=0.4)"]'


def test_a_run_records_its_malicious_parties_and_show_names_them(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mine.toml").write_text(CELL)
    assert call(capsys, "run", tmp_path / "mine.toml", "--out", tmp_path / "runs", "--engine", "inline").code == 0
    facts = [json.loads(file.read_text()) for file in sorted((tmp_path / "runs").glob("*/run.json"))]
    malicious = {each["label"].get("adversary", "none"): each.get("malicious") for each in facts}
    expected = Adversary(0.4).parties(5, 0)
    assert malicious == {"none": None, "sign-flip(share=0.4)": list(expected)}
    assert all("adversary" in each["config"] for each in facts if "malicious" in each)
    shown = call(capsys, "show", tmp_path / "runs").out
    assert "Malicious parties" in shown
    assert ", ".join(map(str, expected)) in shown
