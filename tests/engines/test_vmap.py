"""The mode vmap: rounds agree with inline up to rounding, and networks that it would train wrongly are refused."""

from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import AFFINE, Case, agree, go_on, near, run
from torch import Tensor, nn

from laws import models
from precision import bound_of_steps
from silobench.data import Dataset, Split
from silobench.engines import Engine, auto, vmap
from silobench.engines.modes import MODES
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, sgd
from silobench.method.transforms import TRANSFORMS
from silobench.tasks.task import task
from silobench.training.setting import Setting

INLINE, VMAPPED = Engine(("inline",)), Engine(("vmap",))


def pictures(model: Any, rows: int = 12, parties: int = 2, augment: str = "none", side: int = 32) -> Any:
    """Return parties with a few random images of three classes."""
    rng = np.random.default_rng(0)
    split = Split(rng.integers(0, 256, (rows, 3, side, side), dtype=np.uint8), np.arange(rows) % 3)
    dataset = Dataset("pictures", split, split, tuple("abc"), "none", augment=augment)
    return federate(dataset, "iid", parties=parties), task(model, dataset)


def setting_of(federated: Any, algorithm: str = "fedavg", solver: str = "sgd(epochs=1)") -> Setting:
    return Setting(Method(ALGORITHMS.build(algorithm), SOLVERS.build(solver)), *federated, 0)


CASES = [
    Case(spec="fedavg", widths=(5,)),
    Case(spec="fedavg", batch="full"),
    Case(spec="fedavg", widths=(4, 3), passes=("steps", 7), keep=True),
    Case(spec="fedavg", kind="bytes", sizes=(20, 20), batch=7, momentum=0.0, decay=0.0),
    Case(spec="fedavg", sizes=(1, 1, 1), widths=(5,)),
    Case(spec="fedavg", widths=(5,), transforms=(TRANSFORMS.build("top-k(0.5)"),)),
    *(Case(spec=spec, widths=(5,)) for spec in AFFINE if spec != "fedavg"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.spec} {case.model} {case.sizes} {case.batch}")
def test_rounds_agree_with_inline(silos, case: Case) -> None:
    """Parties of 20, 1 and 9 rows: the shorter ones finish earlier, and their last batches are padded."""
    federated = case.federated(silos)
    (first,) = run(case.spec, federated, INLINE, case.solver, *case.transforms, rounds=1)
    ours, theirs = (
        go_on(case.spec, federated, engine, case.solver, first.state, *case.transforms) for engine in (VMAPPED, INLINE)
    )
    assert ours.engine == "vmap"
    agree(ours, theirs, first.state)


@pytest.mark.parametrize("model", ["cnn", "lenet(norm=group)", "alexnet(width=0.25, dropout=false)"])
def test_images_are_trained_as_by_inline(model: str) -> None:
    federated, solver = pictures(model, rows=10), sgd(0.01, epochs=2, batch=3)
    ours, theirs = (models(run("fedavg", federated, engine, solver, rounds=1)) for engine in (VMAPPED, INLINE))
    assert near(ours, theirs, bound_of_steps(4, 3 * 32 * 32))  # four steps; the longest sum is over an image
    assert not torch.equal(ours, federated[1].initial)


@pytest.mark.parametrize("objective", ["regression(loss=huber)", "binary", "hinge", "cross-entropy(weights=balanced)"])
def test_every_loss_that_is_a_mean_over_rows_is_trained(objective: str) -> None:
    rng, is_numeric = np.random.default_rng(0), objective.startswith("regression")
    y = rng.normal(50, 9, 40) if is_numeric else np.arange(40) % 5 // 4
    split = Split(rng.normal(size=(40, 4)).astype(np.float32), y)
    names = () if is_numeric else ("no", "yes")
    dataset = Dataset("rows", split, split, names, "none", task="regression" if is_numeric else "classification")
    federated = federate(dataset, "iid", parties=3), task("mlp(6)", dataset, objective=objective)
    solver = sgd(0.05, epochs=2, batch=8)
    ours, theirs = (models(run("fedavg", federated, engine, solver, rounds=1)) for engine in (VMAPPED, INLINE))
    assert near(ours, theirs)


def test_bits_do_not_depend_on_workers_or_on_how_often_a_run_is_made(monkeypatch, toy) -> None:
    monkeypatch.setattr("silobench.engines.modes.vmap._IN_A_STACK", 2)
    federated, solver = toy(), sgd(0.05, epochs=1, batch=8)
    engines = (VMAPPED, Engine(("vmap",), workers=2), VMAPPED)
    runs = [run("scaffold", federated, engine, solver, rounds=2) for engine in engines]
    assert [records[0].workers for records in runs] == [1, 2, 1]
    first, *others = (models(records) for records in runs)
    assert all(torch.equal(first, other) for other in others)


def test_a_stack_fits_its_memory(monkeypatch, toy) -> None:
    federated, solver = toy(), sgd(0.05, epochs=1, batch=8)
    whole = models(run("fedavg", federated, VMAPPED, solver, rounds=1))
    sizes: list[int] = []
    train = MODES["vmap"].train.__globals__["train_vmapped"]
    monkeypatch.setattr(
        "silobench.engines.modes.vmap.train_vmapped",
        lambda local_round, memory: sizes.append(len(memory)) or train(local_round, memory),
    )
    monkeypatch.setattr("silobench.engines.modes.vmap._STACK_BYTES", 1)
    assert near(models(run("fedavg", federated, VMAPPED, solver, rounds=1)), whole)
    assert set(sizes) == {1}


class Branch(nn.Module):
    """A network whose path depends on the values of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3 * 32 * 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        answer = self.out(x.flatten(1))
        return answer if answer.sum() > 0 else 2 * answer


class Centred(Branch):
    """A network that subtracts the mean of the batch, without any layer that says so."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.out(x - x.mean(0))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("cnn(norm=batch)", "keeps running statistics, as BatchNorm does: norm=group"),
        ("lenet(norm=batch-stats)", "its answer to a row depends on the other rows of the batch"),
        (Centred, "its answer to a row depends on the other rows of the batch"),
        (Branch, "torch.func.vmap fails on it with RuntimeError"),
        ("vgg9", "it draws random numbers in each step, as dropout does"),
        ("face-cnn", "the model has its own loss"),
    ],
)
def test_networks_that_would_be_trained_wrongly_are_refused(model: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"engine vmap cannot run this experiment: .*{reason}.*; use auto"):
        vmap().settled(setting_of(pictures(model)))


def test_other_refusals(silos) -> None:
    refusal = MODES["vmap"].refusal
    assert "pictures is augmented" in str(refusal(setting_of(pictures("cnn", augment="crop-flip"))))
    assert "the rows are sparse" in str(refusal(setting_of(Case(kind="sparse").federated(silos))))
    federated = Case(widths=(5,)).federated(silos)
    assert "without its own loss" in str(refusal(setting_of(federated, "moon")))
    assert "the solver is adam" in str(refusal(setting_of(federated, solver="adam")))
    assert refusal(setting_of(federated)) is None


def test_auto_never_takes_it_on_the_cpu(toy) -> None:
    setting = setting_of(toy())
    assert auto(native=False).settled(setting).mode == "stacked"
    assert auto(native=False).settled(setting_of(pictures("lenet(norm=group)"))).mode == "inline"
    assert vmap().settled(setting).mode == "vmap"
    assert auto().settled(setting, previous="vmap").mode == "vmap"  # a run that was started so continues so


def test_an_error_names_the_parties_of_the_stack(monkeypatch, toy) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr("silobench.engines.stacks.vmapped._walk", fails)
    with pytest.raises(Exception, match=r"round 1, parties .* \(trained together\): ValueError: no"):
        run("fedavg", toy(), VMAPPED, sgd(0.05), rounds=1)
