"""The engine ray on two machines: the bits of inline, whatever dies, and a cluster that stays as it was."""

import importlib.util
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import inputs, run, same

if importlib.util.find_spec("ray") is None:  # which must not be imported before its tokens are turned on
    pytest.skip("Ray is not installed", allow_module_level=True)

from ray_nodes import Nodes

from commands import PATIENCE, Program, call, rounds_on_disk, start, write
from silobench.engines import Engine, Job, News, inline
from silobench.engines.cluster import Cluster, connection
from silobench.engines.cluster.batches import _MOST
from silobench.engines.engine import ray as on_ray
from silobench.engines.executor import executor_of
from silobench.errors import ConfigError, RecordError, RunError
from silobench.loop.rounds import rounds
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.types import Algorithm, Server, Vector
from silobench.runs.experiment import plan
from silobench.runs.stored import read_run
from silobench.runs.sweep import sweep

SOLVER = sgd(0.05, momentum=0.9, batch=4, epochs=1)


@pytest.fixture(scope="module")
def cluster_of_this_module() -> Iterator[Nodes]:
    cluster, before = Nodes(), dict(os.environ)
    try:
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
def nodes(cluster_of_this_module: Nodes) -> Nodes:
    """A cluster of two machines with one CPU each, to which this process is connected."""
    if len(cluster_of_this_module.alive) < 2:  # at first, and after a test that killed one
        cluster_of_this_module.start()
        executor_of.cache_clear()  # which may believe in the machine that is gone
    return cluster_of_this_module


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


def test_a_machine_that_does_not_answer_in_time_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The machines would answer after the test has given up, and are free again for the next one."""

    def ready(name: str) -> None:
        import time

        while not (tmp_path / "late").exists() and time.time() < until:
            time.sleep(0.01)
        (tmp_path / name).touch()

    until = time.time() + PATIENCE
    monkeypatch.setattr(connection, "_ANSWER", 0.0)
    monkeypatch.setattr(connection, "ready", ready)
    with pytest.raises(
        ConfigError, match=r"the machine \S+ of the Ray cluster did not answer within 0 s: if it is busy"
    ):
        list(connection._machines(connection.library()))
    (tmp_path / "late").touch()
    while len(list(tmp_path.iterdir())) < 3:  # else the cluster starts more workers beside those that wait
        assert time.time() < until
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_100_parties_have_the_bits_of_inline(silos, engine: Engine, kind: str) -> None:
    federated = hundred(silos, kind=kind)
    expected = run("scaffold", federated, inline(), SOLVER, rounds=3, participation=0.7)
    records = run("scaffold", federated, engine, SOLVER, rounds=3, participation=0.7)
    assert same(records) == same(expected)
    assert {(record.engine, record.workers) for record in records} == {("ray", 2)}


def test_jobs_run_on_both_machines_and_results_keep_their_order(cluster: Cluster, tmp_path: Path) -> None:
    """A job waits until both machines have one, because a busy machine may need long to start a worker."""
    until = time.time() + PATIENCE

    def place(number: int) -> tuple[int, str]:
        import os
        import time

        (tmp_path / os.environ["MACHINE"]).touch()
        while len(list(tmp_path.iterdir())) < 2 and time.time() < until:
            time.sleep(0.05)
        return number, os.environ["MACHINE"]

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


def test_a_generator_reports_what_it_yields(cluster: Cluster) -> None:
    def count(last: int) -> Iterator[int]:
        yield from range(last)

    def fail() -> Iterator[int]:
        yield 1
        raise LookupError("the second value")

    news = list(cluster.news([Job(count, (), (2,)), Job(len, (), ("abc",))]))
    assert [item for item in news if item.job == 0] == [News(0, 0, False), News(0, 1, False), News(0, None, True)]
    assert [item for item in news if item.job == 1] == [News(1, 3, final=True)]
    broken = cluster.news([Job(fail, (), ())])
    assert next(broken).value == 1
    with pytest.raises(LookupError, match="the second value"):
        next(broken)


def test_a_job_that_always_kills_its_worker_is_one_sentence(nodes: Nodes, cluster: Cluster) -> None:
    def poison() -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    impatient = Cluster(nodes.address, 1.0, 0.0, retries=0)
    with pytest.raises(RecordError, match=r"was lost 1 time on the same job .* the same command continues"):
        list(impatient.results([Job(poison, (), ())]))
    assert list(cluster.results([Job(int, (), ())])) == [0]


def test_losses_of_a_job_are_counted_anew_when_it_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    """It goes on once after a loss, and then no more: to begin again is no progress."""

    def attempt() -> Iterator[str]:
        import os
        import signal
        import time

        number = len(list(tmp_path.glob("attempt*")))
        (tmp_path / f"attempt {number}").touch()
        values = ["begin", "round"] if number < 2 else ["begin"]
        for value in values:
            yield f"{value} {number}"
        while not (tmp_path / f"{values[-1]} {number}").exists():
            time.sleep(0.05)  # until the value has arrived
        os.kill(os.getpid(), signal.SIGKILL)

    news = Cluster(nodes.address, 1.0, 0.0, retries=1).news([Job(attempt, (), ())])
    for value in ("begin 0", "round 0", "begin 1", "round 1", "begin 2"):
        assert next(news).value == value
        (tmp_path / value).touch()
    with pytest.raises(RecordError, match="was lost 2 times on the same job"):
        next(news)


def test_hundreds_of_parties_leave_no_memory_behind(silos, engine: Engine) -> None:
    """Neither in this process nor in the object store, which frees replies as soon as they were added up.

    Copies that are kept make memory grow by the size of all replies in each round: six times that at the end. The bound
    is half of it, because memory that is free again is not always given back at once.
    """
    parties, width = 250, 2400
    rng = np.random.default_rng(3)
    federated = silos(inputs("dense", parties, rng), rng.integers(0, 3, parties), (1,) * parties, f"mlp({width})")
    replies = parties * 4 * (9 * width + width + 3 * width + 3)  # bytes of a round
    method = Method(Algorithm(), SOLVER, ())
    private = [_private() for _ in rounds(method, *federated, engine=engine, rounds=8)]
    assert private[-1] - private[1] < 3 * replies, f"{private} with {replies} in a round"
    until = time.monotonic() + PATIENCE
    while _stored() > replies / 10:
        assert time.monotonic() < until
        time.sleep(0.2)


def _private() -> int:
    """Return the bytes of this process alone: the pages of the object store that it has read are shared ones."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _stored() -> float:
    """Return the bytes in use in all object stores."""
    ray = connection.library()
    total, free = (of().get("object_store_memory", 0.0) for of in (ray.cluster_resources, ray.available_resources))
    return float(total - free)


GRID = """
dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "scaffold"]
solver = "sgd(epochs=1)"
rounds = 4
trials = 4
"""

FRAGILE = """
import os, signal
from pathlib import Path
import silobench as sb

@sb.ALGORITHMS.register
def fragile(marker: str) -> sb.Algorithm:
    def start(server, memory):
        if server.round == 2 and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return server.params
    return sb.Algorithm(start=start)
"""


def test_cells_of_a_grid_run_on_the_machines_and_are_written_here(nodes: Nodes, engine: Engine, tmp_path: Path) -> None:
    """With a plugin that the machines do not have, and a worker that dies in the third round of one cell."""
    plugin, marker = write(tmp_path / "fragile.py", FRAGILE), tmp_path / "died"
    choices = tomllib.loads(GRID) | {"algorithm": ["fedavg", f"fragile(marker='{marker}')"]}
    plans = plan(choices, plugins=[plugin])
    assert len(plans) == 4 * engine.workers  # enough for one cell per worker from the start
    spec = f"ray(address='{nodes.address}')"
    events = list(sweep(plans, tmp_path / "many", spec, engine.workers, [plugin]))
    assert marker.exists()
    list(sweep(plans, tmp_path / "alone", "inline", 1, [plugin]))
    for each in plans:
        ours, theirs = (read_run(tmp_path / out / each.id) for out in ("many", "alone"))
        assert ours.facts.state_sha256 == theirs.facts.state_sha256
        assert [row.accuracy for row in ours.rounds] == [row.accuracy for row in theirs.rounds]
        assert ours.facts.environment == theirs.facts.environment
    assert {event.id for event in events if event.kind == "end"} == {each.id for each in plans}


LONG = """
dataset = "fcube"
partition = "iid"
parties = 8
solver = "sgd(epochs=1)"
rounds = 40
"""


def test_commands_share_a_cluster_and_the_second_resumes_what_the_first_was_stopped_in(
    capsys, nodes: Nodes, cluster: Cluster, tmp_path: Path
) -> None:
    """Ctrl-C ends a command within seconds and leaves the cluster up. This process is connected meanwhile."""
    file, out, before = write(tmp_path / "long.toml", LONG), tmp_path / "runs", nodes.pids
    options = ["--engine", "ray", "--ray-address", nodes.address, "--out", str(out)]
    first = start("run", file, *options, env=nodes.environment)
    while rounds_on_disk(out) < 2 and first.poll() is None:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    assert "finished rounds are kept: run the same command again to resume" in err
    assert 2 <= rounds_on_disk(out) < 40
    second = call(capsys, "run", file, *options)
    assert second.code == 0, second.err
    assert "fedavg" in second.out
    (each,) = plan(tomllib.loads(LONG))
    list(sweep([each], tmp_path / "alone", "inline"))
    ours, theirs = (read_run(folder / each.id) for folder in (out, tmp_path / "alone"))
    assert ours.facts.state_sha256 == theirs.facts.state_sha256
    assert {row.engine for row in ours.rounds} == {"ray"}
    assert nodes.pids == before


def test_a_wrong_token_is_refused(nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write(tmp_path / "long.toml", LONG)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # of the command only: this process stays connected
    os.environ |= {**nodes.environment, "RAY_AUTH_TOKEN": "0" * 64, "RAY_NUM_REDIS_GET_RETRIES": "1"}
    monkeypatch.chdir(tmp_path)
    command = "from silobench.cli import main; main()"
    code, _, err = Program(command, "run", file, "--engine", "ray", "--ray-address", nodes.address).wait()
    assert code == 2
    sentence = err.decode().splitlines()[-1]  # after a warning of Ray for each attempt
    assert sentence.startswith(f"error: the Ray cluster at {nodes.address} refused this command, most likely its token")
    assert not (tmp_path / "runs").exists()


def test_a_machine_killed_in_a_round_costs_only_work_of_that_round(silos, nodes: Nodes, tmp_path: Path) -> None:
    """The run ends with the bits of inline. A log of all trainings shows which were done twice."""
    engine, victim = on_ray(address=nodes.address), nodes.alive[-1]
    assert engine.workers == 2
    name, log, stuck, until = victim.name, tmp_path / "log", tmp_path / "stuck", time.time() + PATIENCE

    def begin(server: Server, memory: Any) -> Vector:
        import os
        import time

        with log.open("a") as lines:
            lines.write(f"{server.round}\n")
        if server.round == 1 and os.environ["MACHINE"] == name:
            stuck.touch()
            time.sleep(600)
        while server.round == 1 and not stuck.exists() and time.time() < until:
            time.sleep(0.05)  # else a busy machine may start its worker when all parties are trained
        return server.params

    def kill_when_stuck() -> None:
        while not stuck.exists():
            time.sleep(0.05)
        victim.kill()

    killer = threading.Thread(target=kill_when_stuck, daemon=True)
    killer.start()
    federated = hundred(silos)
    records = run(Algorithm(start=begin), federated, engine, SOLVER, rounds=3)
    trained = Counter(map(int, log.read_text().split()))
    assert stuck.exists()
    assert (trained[0], trained[2]) == (100, 100)
    assert 100 < trained[1] <= 100 + 2 * _MOST  # what was under way on the machine, or waited there
    assert same(records) == same(run("fedavg", federated, inline(), SOLVER, rounds=3))


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let commands that are started here have one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def test_without_an_address_a_command_starts_its_own_ray_with_a_private_token(tmp_path: Path) -> None:
    """Nobody else can read the token, and no process is left behind."""
    file, folder = write(tmp_path / "long.toml", LONG), Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(tmp_path), "RAY_TMPDIR": str(folder)}
    with on_one_core():  # so that Ray starts one worker, not one per core
        command = start("run", file, "--set", "rounds=2", "--engine", "ray", cwd=tmp_path, env=environment)
    _, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0, err
    token = tmp_path / ".ray" / "auth_token"
    assert len(token.read_text()) == 64
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert "also with --node-ip-address 127.0.0.1" in err
    assert rounds_on_disk(tmp_path / "runs") == 2
    lines = (Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit())
    left = [line for line in lines if line.exists() and str(folder).encode() in line.read_bytes()]
    shutil.rmtree(folder, ignore_errors=True)
    assert not left
