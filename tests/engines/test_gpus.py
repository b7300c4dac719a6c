"""GPUs: settings by which bits repeat, and one worker process for each. There is no GPU in these tests.

The settings are those of this process, which PyTorch has without a GPU too. Workers only see another name of a GPU.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_cases import same
from second_device import NAME, Remote, SecondDevice
from torch import Tensor, nn

from laws import run
from silobench.data import digits
from silobench.engines import EXECUTORS, Engine, Job, Workers, auto, inline, pool
from silobench.engines.cluster.executor import Cluster
from silobench.engines.executor import InState, News, executor_of, workers_on
from silobench.engines.shipping import packed, unpacked
from silobench.errors import ConfigError, RecordError
from silobench.federation import federate
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models.devices import deterministic, facts_of, prepare_process, visible_gpus
from silobench.runs.experiment import plan
from silobench.runs.sweep import sweep
from silobench.runs.writer import _check_versions
from silobench.tasks.task import task
from silobench.training.setting import Setting

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
DIGITS = digits()


@pytest.fixture
def no_workspace(monkeypatch) -> None:
    """Let a test set the variable, and remove it afterwards."""
    monkeypatch.setenv(WORKSPACE, "")
    monkeypatch.delenv(WORKSPACE)


def settings() -> list[Any]:
    """Return all settings of PyTorch that affect the bits of a GPU."""
    backends = torch.backends
    precisions = [each.fp32_precision for each in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)]
    flags = [backends.cudnn.benchmark, backends.cudnn.deterministic]
    return [torch.are_deterministic_algorithms_enabled(), *flags, *precisions]


EXACT = [True, False, True, "ieee", "ieee", "ieee"]


# --- settings ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_workspace")
def test_settings_are_set_on_cuda_and_restored() -> None:
    torch.backends.cudnn.benchmark = True
    try:
        before = settings()
        with deterministic("cuda"):
            assert settings() == EXACT
            assert os.environ[WORKSPACE] == ":4096:8"
            with deterministic("cuda", is_on=False):
                assert settings() == [False, False, False, "ieee", "ieee", "ieee"]
            assert settings() == EXACT
        assert settings() == before
        assert before != EXACT
        with pytest.raises(KeyError), deterministic("cuda"):
            raise KeyError
        assert settings() == before
    finally:
        torch.backends.cudnn.benchmark = False


@pytest.mark.parametrize("device", ["cpu", "mps"])
@pytest.mark.usefixtures("no_workspace")
def test_other_devices_change_no_setting(device: str) -> None:
    before = settings()
    with deterministic(device):
        assert settings() == before
    assert WORKSPACE not in os.environ


@pytest.mark.usefixtures("no_workspace")
def test_a_setting_of_the_user_stays(monkeypatch) -> None:
    monkeypatch.setenv(WORKSPACE, ":16:8")
    prepare_process()
    assert os.environ[WORKSPACE] == ":16:8"


class Scattering(nn.Module):
    """A network with an operation that has no deterministic form, on any device."""

    seen: list[list[Any]] = []  # noqa: RUF012  # the settings in each step

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        Scattering.seen.append(settings())
        torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        return self.out(x.flatten(1))


@pytest.fixture
def like_cuda(monkeypatch, no_workspace) -> Iterator[None]:
    """Treat the CPU as a device whose bits depend on settings."""
    monkeypatch.setattr("silobench.models.devices._WITH_SETTINGS", ("cpu",))
    Scattering.seen.clear()
    yield
    Scattering.seen.clear()


def scattering(device: str) -> tuple[Any, Any]:
    return federate(DIGITS, "iid", parties=2), task(Scattering, DIGITS).to(device)


@pytest.mark.usefixtures("like_cuda")
def test_an_operation_without_a_deterministic_form_is_one_sentence() -> None:
    before = settings()
    with pytest.raises(ConfigError, match=r"put_ has no deterministic form in PyTorch .*: choose another model, or d"):
        run("fedavg", scattering("cpu"), sgd(0.1, epochs=1), rounds=1)
    assert settings() == before


def test_cuda_that_was_started_before_is_one_sentence() -> None:
    message = "this operation is not deterministic because it uses CuBLAS: set CUBLAS_WORKSPACE_CONFIG=:4096:8"
    with pytest.raises(ConfigError, match="CUDA was started in this process before CUBLAS_WORKSPACE_CONFIG was set"):  # noqa: SIM117
        with deterministic("cuda"):
            raise RuntimeError(message)
    with pytest.raises(RuntimeError, match="another") as raised, deterministic("cuda"):
        raise RuntimeError("another")
    assert raised.value.__cause__ is None


@pytest.mark.usefixtures("like_cuda")
def test_a_run_may_allow_such_operations() -> None:
    Scattering.seen.clear()
    records = run("fedavg", scattering("cpu-nondeterministic"), sgd(0.1, epochs=1), rounds=1)
    assert len(records) == 1
    assert Scattering.seen[-1] == [False, False, False, "ieee", "ieee", "ieee"]


def test_a_run_records_its_gpu_and_is_not_continued_on_another(monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA T4")
    assert facts_of("cpu") == {}
    assert facts_of("cuda") == facts_of("cuda-nondeterministic") == {"gpu": "NVIDIA T4"}
    _check_versions(Path("runs/a"), {"gpu": "NVIDIA T4"}, facts_of("cuda"))
    _check_versions(Path("runs/a"), {}, facts_of("cuda"))  # runs of earlier versions do not state it
    with pytest.raises(RecordError, match="runs/a was started with gpu NVIDIA L4, and this is NVIDIA T4, which may"):
        _check_versions(Path("runs/a"), {"gpu": "NVIDIA L4"}, facts_of("cuda"))


# --- one process per GPU -------------------------------------------------------------------------------


def gpus(monkeypatch, count: int, chosen: str | None = None) -> None:
    """Pretend that PyTorch finds this many GPUs."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)


@pytest.mark.parametrize(
    ("count", "chosen", "names"),
    [(0, None, []), (2, None, ["0", "1"]), (2, "3, 1", ["3", "1"]), (1, "GPU-7f,-1,2", ["GPU-7f"])],
)
def test_gpus_have_the_names_of_cuda(monkeypatch, count: int, chosen: str | None, names: list[str]) -> None:
    gpus(monkeypatch, count, chosen)
    assert visible_gpus() == names


@pytest.mark.parametrize(("count", "workers"), [(0, 0), (1, 0), (2, 2), (3, 3), (8, 4)])
def test_a_pool_has_a_worker_for_each_of_several_gpus(monkeypatch, count: int, workers: int) -> None:
    gpus(monkeypatch, count)
    assert workers_on("pool", 4, "cuda") == workers
    assert workers_on("pool", 4, "cpu") == 4
    assert workers_on("pool", 4, "mps") == 0
    assert workers_on("here", 4, "cuda") == 0


def test_a_cluster_must_reserve_gpus_for_runs_on_them() -> None:
    cluster = object.__new__(Cluster)  # without a connection
    cluster.gpus = 0.0
    with pytest.raises(ConfigError, match="the engine reserves no GPU for a party: give --gpus-per-party, for exampl"):
        cluster.device_workers("cuda")


def surroundings(workers: Workers, folder: Path) -> list[tuple[str | None, str | None, int]]:
    """Return the GPU, the setting of cuBLAS and the number of each of two workers, which wait for each other."""

    def of_worker(folder: Path) -> tuple[str | None, str | None, int]:
        import os
        import time

        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.005)
        return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUBLAS_WORKSPACE_CONFIG"), os.getpid()

    folder.mkdir()
    return list(workers.results([Job(of_worker, (), (folder,)) for _ in range(2)]))


@pytest.mark.usefixtures("no_workspace")
def test_each_worker_sees_its_own_gpu_and_so_does_its_successor(monkeypatch, two, tmp_path: Path) -> None:
    gpus(monkeypatch, 2, "5,7")
    seen = surroundings(two, tmp_path / "first")
    assert {gpu: workspace for gpu, workspace, _ in seen} == {"5": ":4096:8", "7": ":4096:8"}
    victim = two._team[0].process
    victim.kill()
    victim.join()
    again = surroundings(two, tmp_path / "second")
    assert {gpu for gpu, _, _ in again} == {"5", "7"}
    assert len({process for *_, process in seen} - {process for *_, process in again}) == 1


class Shipped:
    """An executor that packs each job and runs it from its bytes, as two workers with a GPU each would."""

    memories, workers = InState(), 2

    def start(self) -> None:
        pass

    def device_workers(self, device: str) -> int:
        return 2 if device == NAME else 0

    def results(self, jobs: Any) -> Iterator[Any]:
        return (unpacked(packed(unpacked(packed(job))())) for job in jobs)

    def news(self, jobs: Any) -> Iterator[News]:
        return (News(place, result, final=True) for place, result in enumerate(self.results(jobs)))


@pytest.fixture
def shipped() -> Iterator[str]:
    @EXECUTORS.register
    def shipped(workers: int = 2) -> Shipped:
        return Shipped()

    yield "shipped"
    del EXECUTORS.factories["shipped"]
    executor_of.cache_clear()


@pytest.mark.parametrize(("mode", "model"), [("inline", "mlp(6)"), ("inline", "cnn"), ("vmap", "mlp(6)")])
def test_bits_do_not_depend_on_the_number_of_gpus(monkeypatch, shipped: str, mode: str, model: str) -> None:
    monkeypatch.setattr("silobench.engines.modes.vmap._IN_A_STACK", 2)
    federated, solver = (federate(DIGITS, "iid", parties=3), task(model, DIGITS)), sgd(0.05, epochs=1)
    with SecondDevice():
        there = tuple(each.to(NAME) for each in federated)
        engines = Engine((mode,)), Engine((mode,), workers=2, executor=shipped)
        one, several = (run("scaffold", there, solver, rounds=2, engine=engine) for engine in engines)
    assert same(several) == same(one)
    assert (one[0].workers, several[0].workers) == (1, 2)


def test_rows_on_a_device_are_not_sent_to_workers() -> None:
    with SecondDevice():
        federation = federate(DIGITS, "iid", parties=3).to(NAME)
        size = len(packed(federation))
        federation.batch(torch.tensor([0, 1]))
        assert isinstance(federation._moved(None)[0], Remote)
        assert len(packed(federation)) < 2 * size
        assert isinstance(unpacked(packed(federation)).batch(torch.tensor([0]))[0], Remote)


def test_engines_of_one_process_use_one_gpu(monkeypatch, toy) -> None:
    gpus(monkeypatch, 4)
    monkeypatch.setattr("silobench.tasks.task.Task.device", "cuda")
    monkeypatch.setattr("silobench.engines.modes.vmap._pays_off", lambda setting: False)
    setting = Setting(Method(ALGORITHMS.build("fedavg"), sgd(0.1)), *toy(), 0)
    engines = auto(workers=3, native=False), pool(workers=8), inline(), auto(workers=1)
    assert [engine.settled(setting).workers for engine in engines] == [3, 4, 0, 0]
    gpus(monkeypatch, 1)
    assert [engine.settled(setting).workers for engine in engines] == [0, 0, 0, 0]


@pytest.mark.parametrize(("count", "is_beside"), [(1, False), (2, True)])
def test_runs_of_a_grid_are_spread_over_gpus(monkeypatch, tmp_path: Path, count: int, is_beside: bool) -> None:
    gpus(monkeypatch, count)
    plans = plan({"dataset": "fcube", "partition": "octants", "rounds": 1, "algorithm": ["fedavg", "fedprox"] * 4})
    for each in plans:
        object.__setattr__(each, "cell", each.cell.model_copy(update={"device": "cuda"}))
    beside: list[int] = []
    monkeypatch.setattr("silobench.runs.sweep._one_after_the_other", lambda *_: iter(()))
    monkeypatch.setattr(
        "silobench.runs.sweep._shared_out", lambda plans, context, together, workers: _empty(beside, workers)
    )
    assert list(sweep(plans, tmp_path, "auto(workers=4)", workers=4)) == []
    assert beside == ([count] if is_beside else [])


def _empty(beside: list[int], workers: int) -> Iterator[Any]:
    beside.append(workers)
    yield from ()
