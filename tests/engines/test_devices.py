"""Training on another device: nothing mixes devices, records stay on the CPU, and bits equal those of the CPU.

There is no GPU in these tests. The second device is a double that computes on the CPU: see `second_device`.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import DIGITS, inputs, near, same
from second_device import NAME, Remote, SecondDevice
from torch import Tensor, nn

from commands import call, write
from laws import EVERY, models, run
from silobench.data import Dataset, Split, load
from silobench.engines import auto, native, stacked, vmap
from silobench.errors import ConfigError
from silobench.federation import Federation, Part, federate
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import Solver, sgd
from silobench.models import Network
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.label import Label
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.runs.sweep import sweep
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting

SOLVER = sgd(0.05, 0.9, 0.1, epochs=1, batch=8)
Federated = tuple[Federation, Task]


@pytest.fixture
def second() -> Iterator[SecondDevice]:
    with SecondDevice() as device:
        yield device


def moved(federated: Federated) -> Federated:
    federation, network = federated
    return federation.to(NAME), network.to(NAME)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield every tensor inside nested mappings, tuples and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors(vars(value))


def check_same(spec: str, federated: Federated, second: SecondDevice, solver: Solver = SOLVER, **options) -> None:
    """Assert that a run on the second device has the bits of one on the CPU, and that all it returns is on the CPU."""
    on_cpu = run(spec, federated, solver, rounds=2, **options)
    second.operations = 0
    elsewhere = run(spec, moved(federated), solver, rounds=2, **options)
    assert same(elsewhere) == same(on_cpu)
    assert second.operations > 100
    states = list(tensors([record.state for record in elsewhere]))
    assert states
    assert not any(isinstance(tensor, Remote) for tensor in states)


def test_the_double_refuses_to_mix_devices(second) -> None:
    there, cpu = torch.ones(3).to(NAME), torch.ones(3)
    assert (there.device.type, there.cpu().device.type, (there + 1).device.type) == (NAME, "cpu", NAME)
    with pytest.raises(RuntimeError, match="expected all tensors on one device"):
        there + cpu
    with pytest.raises(RuntimeError, match="expected all tensors on one device"):
        cpu.add_(there)
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()


@pytest.mark.parametrize("spec", EVERY)
def test_every_algorithm_trains_on_another_device(second, toy, spec: str) -> None:
    check_same(spec, toy(), second)


@pytest.mark.parametrize("spec", ["bsp", "gaia", "dgc", "fedsgd"])
def test_minibatch_methods_train_on_another_device(second, toy, spec: str) -> None:
    check_same(spec, toy(), second, sgd(0.05, steps=1, batch=8, keep_momentum=True))


CONVOLUTIONAL = [
    "cnn", "cnn(norm=batch)", "lenet(norm=group)", "lenet(norm=batch-renorm, renorm_from=1)", "alexnet(width=0.25)",
    "googlenet(norm=batch, width=0.25)", "mcmahan-cifar(crop=24)", "resnet(depth=20)", "vgg9",
]  # fmt: skip


def pictures(channels: int, side: int, model: str, augment: str = "none") -> Federated:
    """Return two parties with a few random images."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (12, channels, side, side), dtype=np.uint8)
    split = Split(x, np.arange(12) % 3)
    dataset = Dataset("pictures", split, split, tuple("abc"), "none", augment=augment)
    return federate(dataset, "iid", parties=2), task(model, dataset)


@pytest.mark.parametrize("model", CONVOLUTIONAL)
def test_every_image_model_trains_on_another_device(second, model: str) -> None:
    federated, solver = pictures(3, 32, model, "crop-flip"), sgd(0.01, epochs=1, batch=4)
    if "group" not in model:
        check_same("fedavg", federated, second, solver)
        return
    on_cpu, elsewhere = (run("fedavg", each, solver, rounds=1) for each in (federated, moved(federated)))
    assert near(models(elsewhere), models(on_cpu))  # torch has another GroupNorm for devices that are not the CPU


@pytest.mark.parametrize(("model", "shape"), [("mcmahan-mnist", (1, 28, 28)), ("face-cnn", (1, 32, 32))])
def test_models_of_grey_images_train_on_another_device(second, model: str, shape: tuple[int, int, int]) -> None:
    check_same("fedavg", pictures(shape[0], shape[1], model), second, sgd(0.01, epochs=2, batch=4))


def test_batches_of_sparse_rows_are_on_the_device(second, silos) -> None:
    """Training on them needs a real device: the double has no sparse products."""
    federation, _ = silos(inputs("sparse", 30, np.random.default_rng(0)), np.arange(30) % 3, (20, 10))
    rows = torch.tensor([3, 4, 9])
    for x, y in (federation.to(NAME).batch(rows), federation.to(NAME).part(Part(rows, 0))):
        assert (type(x), type(y)) == (Remote, Remote)
        assert torch.equal(x.inside.to_dense(), federation.batch(rows)[0].to_dense())


def test_rows_of_words_train_on_another_device(second, silos) -> None:
    x = np.random.default_rng(0).integers(0, 5, (30, 4))
    check_same("fedavg", silos(x, np.arange(30) % 3, (20, 10), "bag(4)", vocabulary=tuple("?abcd")), second)


def test_pairs_are_verified_on_another_device(second) -> None:
    dataset = load("synthetic-faces(identities=12, pictures=8, size=16, pairs=60)")
    federated = federate(dataset, "iid", parties=2), task("face-cnn(dim=8, width=4)", dataset)
    check_same("fedavg", federated, second, sgd(0.01, epochs=1))


@pytest.mark.parametrize("objective", ["regression(loss=huber)", "binary", "cross-entropy"])
def test_every_objective_is_trained_and_scored_on_another_device(second, objective: str) -> None:
    rng = np.random.default_rng(0)
    is_numeric = objective.startswith("regression")
    y = rng.normal(50, 9, 60) if is_numeric else np.arange(60) % 2
    split = Split(rng.normal(size=(60, 4)).astype(np.float32), y)
    dataset = Dataset(
        "rows",
        split,
        split,
        () if is_numeric else ("no", "yes"),
        "none",
        task="regression" if is_numeric else "classification",
    )
    federation = federate(dataset, "iid", parties=2)
    check_same("fedavg", (federation, task("mlp(6)", dataset, objective=objective)), second)
    if is_numeric:
        with pytest.raises(ConfigError, match="rows has a numeric target, which needs double precision"):
            federation.to("mps")


@pytest.mark.parametrize("partition", ["noise(0.1, test=noisy)", "iid + share(beta=0.1, warmup=1)"])
@pytest.mark.parametrize("free", [math.inf, 0])
def test_rows_move_once_if_they_fit(second, monkeypatch, partition: str, free: float) -> None:
    monkeypatch.setattr("silobench.federation._free_bytes", lambda device: free)
    federated = federate(DIGITS, partition, parties=3, validation=0.1), task("mlp(6)", DIGITS)
    check_same("fedavg", federated, second, sgd(0.01, epochs=1), eval_on=200)
    federation, _ = moved(federated)
    rows = federation.parties[0].rows[:5]
    stored = federation._moved(None)[0]
    assert isinstance(stored, Remote) == (free > 0)
    assert all(isinstance(tensor, Remote) for tensor in federation.batch(rows))
    assert federation._moved(None)[0] is stored


def test_a_network_that_draws_numbers_is_seeded_on_its_device(second) -> None:
    federated = pictures(3, 32, "vgg9")
    first, again = (run("fedavg", moved(federated), sgd(0.01, epochs=1, batch=4), rounds=2) for _ in range(2))
    assert same(first) == same(again)


# --- a whole run, from an experiment ------------------------------------------------------------------

MEASURES = ["norm-divergence(every=1, minibatches=2)", "accuracy-loss(every=1, sample=20)", "update-delta(every=1)"]


def test_a_run_on_a_device_is_measured_stored_and_resumed(second, monkeypatch, tmp_path: Path) -> None:
    choices = {"dataset": "digits", "partition": "iid", "parties": 2, "rounds": 3, "model": "cnn(norm=batch)"}
    choices |= {"algorithm": "bsp", "solver": "sgd(batch=8)", "measure": MEASURES, "eval_on": 50}
    (on_cpu,) = plan(choices)
    monkeypatch.setattr("silobench.runs.plan.resolved", lambda device: NAME if device == "cuda" else device)
    (elsewhere,) = plan({**choices, "device": "cuda"})
    assert (elsewhere.config["device"], elsewhere.id != on_cpu.id) == (NAME, True)
    list(execute(prepare(on_cpu), tmp_path, "inline"))
    next(execute(prepare(elsewhere), tmp_path, "auto"))
    assert len(list(execute(prepare(elsewhere), tmp_path, "pool"))) == 2
    first, second_run = (read_run(tmp_path / each.id) for each in (on_cpu, elsewhere))
    assert second_run.facts.model_sha256 == first.facts.model_sha256
    assert second_run.facts.state_sha256 == first.facts.state_sha256
    assert second_run.facts.environment["engine"] == "inline"
    assert [row.measures for row in second_run.rounds] == [row.measures for row in first.rounds]


def test_runs_on_a_device_never_share_it_with_workers(second, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("silobench.runs.plan.resolved", lambda device: NAME)
    choices = {"dataset": "fcube", "partition": "octants", "rounds": 1, "solver": "sgd(epochs=1)"}
    plans = plan({**choices, "algorithm": ["fedavg", "fedprox"]})
    monkeypatch.setattr("silobench.engines.workers._start_worker", lambda: pytest.fail("a worker was started"))
    ends = [event.name for event in sweep(plans, tmp_path, "pool(workers=2)", workers=2) if event.kind == "end"]
    assert ends == [each.name for each in plans]


def test_auto_stacks_parties_elsewhere_unless_the_network_has_convolutions(second, toy) -> None:
    setting = Setting(Method(ALGORITHMS.build("fedavg"), SOLVER), *moved(toy()), 0)
    assert (auto(workers=2).settled(setting).mode, auto(workers=2).settled(setting).workers) == ("vmap", 0)
    convolutional = Setting(Method(ALGORITHMS.build("fedavg"), SOLVER), *moved(pictures(3, 32, "lenet")), 0)
    assert auto().settled(convolutional).mode == "inline"
    assert vmap().settled(convolutional).mode == "vmap"
    for engine in (native(), stacked()):
        with pytest.raises(ConfigError, match=f"computes on the cpu, and the device of this run is {NAME}; use auto"):
            engine.settled(setting)


# --- which device -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cuda", "mps", "device"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_is_the_first_device_of_this_machine(monkeypatch, cuda: bool, mps: bool, device: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: mps)
    choices = {"dataset": "fcube", "rounds": 1}
    (by_choice,), (plain,) = plan({**choices, "device": "auto"}), plan(choices)
    assert by_choice.cell.device == device
    assert (by_choice.id == plain.id) == (device == "cpu")
    assert by_choice.config.get("device", "cpu") == device
    assert Label(by_choice.label).device == device


def test_a_device_that_is_not_there_is_refused(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file = write(tmp_path / "e.toml", 'dataset = "fcube"\nrounds = 1\n')
    refused = call(capsys, "run", file, "--device", "cuda", "--out", tmp_path / "runs")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert refused.err.startswith("error: device cuda was chosen, but PyTorch")
    free = call(capsys, "run", file, "--device", "cuda-nondeterministic", "--out", tmp_path / "runs")
    assert free.code == 2
    assert "device cuda-nondeterministic was chosen" in free.err
    assert free.err.endswith("install a PyTorch that supports cuda.\n")
    unknown = call(capsys, "run", file, "--device", "gpu", "--out", tmp_path / "runs")
    assert unknown.code == 2
    assert "device must be 'auto', 'cpu', 'cuda', 'cuda-nondeterministic' or 'mps', but 'gpu' was given" in unknown.err
    assert not (tmp_path / "runs").exists()


def test_sparse_rows_are_refused_on_mps(silos) -> None:
    federation, _ = silos(inputs("sparse", 9, np.random.default_rng(0)), np.arange(9) % 3, (9,))
    with pytest.raises(ConfigError, match="rows has sparse rows, which PyTorch cannot store on the device mps"):
        federation.to("mps")


def test_a_network_on_a_device_keeps_its_views() -> None:
    with SecondDevice():
        network = Network(nn.Linear(2, 1)).to(NAME)
        network.params.copy_(torch.tensor([1.0, 2.0, 3.0]))
        answer = network.module(torch.tensor([[1.0, 1.0]]).to(NAME))
        answer.backward()
        assert (float(answer.detach()), network.grad.cpu().tolist()) == (6.0, [1.0, 1.0, 1.0])
        assert network.to(NAME) is network
