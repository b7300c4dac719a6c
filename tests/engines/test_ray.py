"""The engine ray on two machines: the bits of inline, whatever dies, and a cluster that stays as it was."""

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import inputs, run, same

if importlib.util.find_spec("ray") is None:  # which must not be imported before its tokens are turned on
    pytest.skip("Ray is not installed", allow_module_level=True)

from ray_nodes import Node, Nodes

from commands import PATIENCE, rounds_on_disk, start, write
from silobench.engines import Engine, Job, News, inline
from silobench.engines.cluster import Cluster, connection
from silobench.engines.engine import ray as on_ray
from silobench.engines.executor import executor_of
from silobench.errors import ConfigError, RecordError, RunError
from silobench.method.solvers import sgd
from silobench.method.types import Algorithm, Server, Vector
from silobench.runs.experiment import load_plugin, plan
from silobench.runs.stored import read_run
from silobench.runs.sweep import sweep

SOLVER = sgd(0.05, momentum=0.9, batch=4, epochs=1)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A cluster of two machines with one CPU each, to which this process is connected."""
    cluster, before = Nodes(), dict(os.environ)
    try:
        cluster.start()
        cluster.start()
        os.environ.update(cluster.environment)
        yield cluster
    finally:
        connection.library().shutdown()
        connection.connect.cache_clear()
        executor_of.cache_clear()
        cluster.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def engine(nodes: Nodes) -> Engine:
    return on_ray(address=nodes.address)


@pytest.fixture
def cluster(engine: Engine) -> Cluster:
    place = engine.place(engine.workers)
    assert isinstance(place, Cluster)
    return place


def hundred(silos, parties: int = 100, kind: str = "dense") -> Any:
    """Parties of one to nine rows."""
    rng = np.random.default_rng(3)
    sizes = tuple(rng.integers(1, 10, parties).tolist())
    return silos(inputs(kind, sum(sizes), rng), rng.integers(0, 3, sum(sizes)), sizes, "mlp(6)")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_100_parties_have_the_bits_of_inline(silos, engine: Engine, kind: str) -> None:
    federated = hundred(silos, kind=kind)
    expected = run("scaffold", federated, inline(), SOLVER, rounds=3, participation=0.7)
    records = run("scaffold", federated, engine, SOLVER, rounds=3, participation=0.7)
    assert same(records) == same(expected)
    assert {(record.engine, record.workers) for record in records} == {("ray", 2)}


def test_jobs_run_on_both_machines_and_results_keep_their_order(cluster: Cluster) -> None:
    def place(number: int) -> tuple[int, str]:
        import time

        import ray

        time.sleep(0.2)
        return number, ray.get_runtime_context().get_node_id()

    jobs = [Job(place, (), (number,), cost=number % 3) for number in range(12)]
    results = list(cluster.results(jobs))
    assert [number for number, _ in results] == list(range(12))
    assert len({node for _, node in results}) == 2


def test_rows_are_in_the_store_once_and_cannot_be_changed(cluster: Cluster) -> None:
    """A worker gets views of the object store, the same for every job, and unpacks them once."""

    def look(rows: np.ndarray[Any, Any], _: int) -> tuple[int, int, bool, bool]:
        import os

        return os.getpid(), rows.__array_interface__["data"][0], rows.flags.writeable, rows.flags.owndata

    rows = np.arange(1 << 16, dtype=np.float64)
    results = [result for number in range(4) for result in cluster.results([Job(look, (rows,), (number,))] * 3)]
    assert {(writeable, owned) for *_, writeable, owned in results} == {(False, False)}
    assert len({address for _, address, *_ in results}) == len({pid for pid, *_ in results})
    with pytest.raises(ValueError, match="read-only") as caught:
        list(cluster.results([Job(lambda rows: rows.fill(0), (rows,), ())]))
    assert "in a worker process:" in "".join(caught.value.__notes__)


def test_an_error_of_a_party_is_located_as_in_this_process(silos, engine: Engine) -> None:
    def failing(server: Server, memory: Any) -> Vector:
        raise KeyError("no such key")

    messages = []
    for each in (inline(), engine):
        with pytest.raises(RunError, match="round 1, party 0: KeyError") as caught:
            run(Algorithm(start=failing), hundred(silos, 3), each, SOLVER, rounds=1)
        assert isinstance(caught.value.__cause__, KeyError)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_generator_reports_at_once_and_continues_after_its_worker_died(cluster: Cluster, tmp_path: Path) -> None:
    def count(last: int, marker: Path) -> Iterator[int]:
        import os
        import signal

        for number in range(last):
            yield number
            if number == 1 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    jobs = [Job(count, (), (3, tmp_path / "died")), Job(count, (), (1, tmp_path / "never"))]
    news = list(cluster.news(jobs))
    assert [item.value for item in news if item.job == 0] in ([0, 1, 0, 1, 2, None], [0, 0, 1, 2, None])
    assert [item for item in news if item.job == 1] == [News(1, 0, final=False), News(1, None, final=True)]


def test_a_job_that_always_kills_its_worker_is_one_sentence(cluster: Cluster) -> None:
    def poison() -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RecordError, match=r"was lost 4 times on the same job .* the same command continues"):
        list(cluster.results([Job(poison, (), ())]))
    assert list(cluster.results([Job(int, (), ())])) == [0]


def test_a_thousand_parties_leave_no_memory_behind(silos, engine: Engine) -> None:
    """Neither in this process nor in the object store: a round's replies would be seen at once."""
    parties, width = 1000, 1500
    rng = np.random.default_rng(3)
    federated = silos(inputs("dense", parties, rng), rng.integers(0, 3, parties), (1,) * parties, f"mlp({width})")
    replies = parties * 4 * (9 * width + width + 3 * width + 3)  # bytes of a round
    used = []

    def note(record: Any) -> Any:
        used.append((_resident(), _stored()))
        return record

    from silobench.loop.rounds import rounds
    from silobench.method.method import Method

    for record in rounds(Method(Algorithm(), SOLVER, ()), *federated, engine=engine, rounds=5):
        note(record)
    assert max(resident for resident, _ in used[2:]) - used[1][0] < replies
    assert max(stored for _, stored in used) < replies


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _stored() -> float:
    """Return the bytes in use in all object stores."""
    ray = connection.library()
    total, free = (of().get("object_store_memory", 0.0) for of in (ray.cluster_resources, ray.available_resources))
    return float(total - free)
