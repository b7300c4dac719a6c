"""What a Ray cluster is sent, and how: parcels, batches, versions, tokens and addresses. No Ray is needed."""

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from engine_cases import Case, inputs
from scipy import sparse

from silobench.cli.running import with_cluster
from silobench.engines import Job
from silobench.engines.cluster import connection
from silobench.engines.cluster.batches import _MOST, batches, in_order_of_start
from silobench.engines.cluster.executor import Cluster
from silobench.engines.cluster.parcels import parcelled, unparcelled
from silobench.engines.cluster.tasks import Machine, Order, as_bytes, run_calls, this_machine
from silobench.engines.shipping import packed, unpacked
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.training.setting import Setting


def read_only(parcel: list[Any]) -> list[Any]:
    """A parcel as it comes out of an object store."""
    parcel = [array.copy() for array in parcel]
    for array in parcel:
        array.flags.writeable = False
    return parcel


def shares(first: Any, second: Any) -> bool:
    return bool(np.shares_memory(np.asarray(first), np.asarray(second)))


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_a_setting_shares_rows_with_the_store_and_has_a_network_of_its_own(silos) -> None:
    """Rows are in the parcel once, although the dataset and the federation both have them."""
    case = Case(sizes=(3000, 4000), widths=(200, 100))
    federation, task = case.federated(silos)
    federation.x, federation.y  # noqa: B018  # as a command has them after its checks
    setting = Setting(Method(fedavg(), case.solver), federation, task, seed=0)
    parcel = read_only(parcelled(setting))
    assert sum(array.nbytes == federation.x.nbytes for array in parcel) == 1
    copy = unparcelled(parcel)
    assert any(shares(copy.federation.x, array) for array in parcel)
    assert shares(copy.federation.x, copy.federation.dataset.train.x)
    assert torch.equal(copy.federation.x, federation.x)
    assert not any(shares(copy.task.network.params, array) for array in parcel)
    copy.task.network.params.fill_(1.0)
    assert torch.equal(copy.task.initial, task.initial)


def test_sparse_rows_and_rows_in_columns_first_order_survive() -> None:
    rows = inputs("sparse", 9000, np.random.default_rng(0))
    turned = np.asfortranarray(np.arange(20_000.0).reshape(100, 200))
    parcel = read_only(parcelled((rows, turned, torch.from_numpy(turned))))
    matrix, array, tensor = unparcelled(parcel)
    assert sparse.issparse(matrix)
    assert (matrix != rows).nnz == 0
    assert array.flags.f_contiguous
    assert tensor.stride() == torch.from_numpy(turned).stride()
    assert np.array_equal(array, turned)
    tensor += 1  # it is a copy, which a party may write to


def test_two_arrays_at_one_address_with_different_types_stay_different() -> None:
    numbers = np.arange(1 << 16, dtype=np.int64)
    parcel = parcelled([numbers, numbers.view(np.float64), numbers.reshape(256, 256)])
    assert len(parcel) == 2
    first, second, third = unparcelled(parcel)
    assert (first.dtype, second.dtype, third.shape) == (np.int64, np.float64, (256, 256))


def jobs(costs: list[float], shared: tuple[Any, ...] = ()) -> list[Job]:
    return [Job(int, shared, (), cost) for cost in costs]


def test_every_job_is_in_one_batch_in_order_and_no_batch_is_large() -> None:
    rng = np.random.default_rng(1)
    for workers in (1, 2, 7):
        many = jobs((10 ** rng.uniform(0, 9, 300)).tolist())
        groups = batches(many, workers)
        assert [number for group in groups for number in group.jobs] == list(range(300))
        assert max(len(group.jobs) for group in groups) <= _MOST
        assert all(len(group.jobs) == 1 for group in groups if group.cost > 2e7)


def test_a_few_small_jobs_are_spread_over_all_workers() -> None:
    assert len(batches(jobs([1.0] * 8), workers=4)) == 4
    assert len(batches(jobs([1.0] * 3), workers=8)) == 3
    assert batches([], workers=2) == []


def test_jobs_with_other_shared_values_are_in_other_batches() -> None:
    model, other = np.zeros(2), np.zeros(2)
    assert [group.jobs for group in batches([*jobs([1, 1], (model,)), *jobs([1, 1], (other,))], 1)] == [(0, 1), (2, 3)]


def test_the_next_result_is_always_among_those_that_may_start() -> None:
    """Else the executor would wait forever for a batch that it does not send."""
    costs = np.random.default_rng(2).permutation(100).astype(float) + 3e7
    groups = batches(jobs(costs.tolist()), workers=2)
    order, ahead = in_order_of_start(groups, workers=2)
    assert sorted(order) == list(range(len(groups)))
    assert all(order.index(place) < place + ahead for place in range(len(groups)))
    assert order[0] == int(np.argmax(costs[:16]))


def test_without_ray_the_error_names_the_command(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(ConfigError, match=r"pip install 'silobench\[ray\]'"):
        connection.library()


def test_a_token_is_made_for_a_ray_of_this_command_only(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "new" / "token"))
    with pytest.raises(ConfigError, match=r"there is no token for the Ray cluster at 10.0.0.1:6379: copy the file"):
        connection._need_token("10.0.0.1:6379")
    connection._need_token("local")
    token = tmp_path / "new" / "token"
    before = token.read_text()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    connection._need_token("local")
    assert token.read_text() == before
    os.environ["RAY_AUTH_MODE"] = "disabled"
    token.unlink()
    connection._need_token("10.0.0.1:6379")
    assert not token.exists()


def test_options_of_a_cluster_become_arguments_of_the_engine() -> None:
    assert with_cluster("auto", 3, None, None, None) == "auto"
    assert with_cluster("ray", None, "127.0.0.1:6379", 2.0, None) == "ray(address='127.0.0.1:6379', cpus=2.0)"
    assert with_cluster("ray(address=auto)", None, "10.0.0.1:1", None, None) == "ray(address='10.0.0.1:1')"
    with pytest.raises(ConfigError, match="--gpus-per-party is for the engine ray, but the engine is native"):
        with_cluster("native", None, None, None, 1.0)


def test_a_federation_with_noise_sends_its_noisy_rows(silos) -> None:
    """They cost time to compute, and each worker would need its own."""
    from silobench.data import digits

    federation = federate(digits(), "noise(0.1)", parties=3)
    noisy = federation.x
    copy = unparcelled(parcelled(federation))
    assert torch.equal(copy.x, noisy)
    assert "x" in vars(copy)


def test_a_worker_refuses_jobs_of_another_version(two) -> None:
    """A machine that joins a cluster later was not asked for its versions before the first round."""
    others = tuple((name, "0.0" if name == "torch" else version) for name, version in this_machine().versions)
    calls = as_bytes(packed([(int, ())]))
    orders = [Order((), calls, versions, ()) for versions in (others, this_machine().versions)]
    refused, accepted = two.results([Job(run_calls, (), (order,)) for order in orders])
    kind, (error, _) = unpacked(refused.data)
    assert kind == "error"
    assert isinstance(error, ConfigError)
    assert f"has torch {torch.__version__}, but this command has torch 0.0" in str(error)
    assert unpacked(accepted.data) == ("result", [0])


def test_machines_with_other_versions_are_refused_by_name_and_other_processors_are_named(monkeypatch, caplog) -> None:
    ours = this_machine()
    older = Machine((*ours.versions[:-1], ("scikit-learn", "1.0")), ours.cpu)
    monkeypatch.setattr(connection, "_machines", lambda _: [("10.0.0.1", ours), ("10.0.0.2", older)])
    with pytest.raises(ConfigError, match=r"the machine 10.0.0.2 of the Ray cluster has scikit-learn 1.0, but"):
        connection._check_nodes(None)
    slower = Machine(ours.versions, "sse2")
    monkeypatch.setattr(connection, "_machines", lambda _: [("10.0.0.1", ours), ("10.0.0.3", slower)])
    with caplog.at_level("WARNING", logger="silobench"):
        connection._check_nodes(None)
    assert "the processors of 10.0.0.3 differ" in caplog.text


def test_a_cluster_of_this_command_has_room_for_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five workers of half a CPU need three CPUs."""
    asked: list[int] = []
    library = SimpleNamespace(remote=lambda **needs: lambda function: function)
    monkeypatch.setattr(connection, "connect", lambda address, least: asked.append(least))
    monkeypatch.setattr(connection, "library", lambda: library)
    Cluster("local", 0.5, 0.0, 5)
    assert asked == [3]
