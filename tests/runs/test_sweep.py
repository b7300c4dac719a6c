"""Many runs at once: however they are shared out they have the same bits, and what is finished is kept."""

import hashlib
import heapq
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commands import PATIENCE, write
from silobench.data.dataset import Dataset, Split
from silobench.engines import Engine, inline
from silobench.engines.workers import Job, workers_of_this_command
from silobench.errors import RecordError, RunError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.aggregates import MEAN
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.types import Aggregate, Update
from silobench.partitions import partition
from silobench.processes import context, start_server, without_main
from silobench.runs import sweep as sweeps
from silobench.runs import writer
from silobench.runs.checkpoint import load_state
from silobench.runs.execute import execute
from silobench.runs.experiment import Plan, plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.runs.sweep import Event, split, sweep
from silobench.tasks.task import task

GRID = {
    "dataset": "fcube",
    "partition": "octants",
    "algorithm": ["fedavg", "scaffold", "fedprox"],
    "solver": "sgd(steps=3, keep_momentum=True)",
    "rounds": 3,
}


def hashes(plans: list[Plan], out: Path) -> list[tuple[str, ...]]:
    """What finished runs have come to."""
    runs = [read_run(out / made.id) for made in plans]
    assert all(run.complete for run in runs)
    assert [[row.round for row in run.rounds] for run in runs] == [
        list(range(1, made.cell.rounds + 1)) for made in plans
    ]
    return [(run.facts.model_sha256, run.facts.state_sha256) for run in runs]


def check(events: list[Event], plans: list[Plan]) -> None:
    """Every run begins once, tells its rounds in order, and ends once."""
    for made in plans:
        own = [(event.kind, event.round) for event in events if event.id == made.id]
        assert own == [("begin", 0), *(("round", now) for now in range(1, made.cell.rounds + 1)), ("end", 0)]
    assert {event.id for event in events} == {made.id for made in plans}


# --- how runs are shared out --------------------------------------------------------------------------


def seconds(costs: list[float], speedups: list[float], workers: int, together: list[int]) -> float:
    """How long it all takes if some runs are done together and the rest side by side, the longest first."""
    ends = [0.0] * workers
    for cost in sorted((cost for place, cost in enumerate(costs) if place not in together), reverse=True):
        heapq.heapreplace(ends, ends[0] + cost)
    return sum(costs[place] / speedups[place] for place in together) + max(ends)


lengths = st.lists(st.tuples(st.floats(0, 100), st.floats(0.2, 4)), max_size=9)


@given(runs=lengths, workers=st.integers(2, 5))
@example(runs=[(0.0, 1.0)] * 3, workers=2)
def test_no_other_number_of_the_longest_runs_done_together_ends_sooner(runs: list[tuple], workers: int) -> None:
    costs, speedups = [cost for cost, _ in runs], [speedup for _, speedup in runs]
    chosen = split(costs, speedups, workers)
    longest_first = sorted(range(len(runs)), key=lambda place: -costs[place])
    assert chosen == longest_first[: len(chosen)]
    ends = [seconds(costs, speedups, workers, longest_first[:count]) for count in range(len(runs) + 1)]
    assert ends[len(chosen)] <= min(ends) + 1e-9
    assert all(end > ends[len(chosen)] for end in ends[: len(chosen)])  # and no more than help


@pytest.mark.parametrize(
    ("costs", "speedup", "workers", "together"),
    [
        ([], 2.0, 2, []),
        ([10.0], 1.8, 2, [0]),
        ([10.0], 0.9, 2, []),  # messages cost more than they bring
        ([10.0] * 4, 1.8, 2, []),
        ([10.0] * 5, 1.8, 2, [0]),
        ([10.0] * 3, 3.5, 4, [0, 1, 2]),  # fewer than workers, and they gain a lot
        ([1.0, 50.0, 1.0], 1.8, 2, [1]),
    ],
)
def test_runs_are_done_together_where_that_ends_sooner(costs, speedup, workers, together) -> None:
    assert split(costs, [speedup] * len(costs), workers) == together


def test_setting_up_a_run_is_no_part_of_what_its_rounds_gain(plans, tmp_path: Path, monkeypatch) -> None:
    prepared, gains = sweeps.prepare, []
    monkeypatch.setattr(sweeps, "prepare", lambda *given: replace(prepared(*given), seconds=100.0))
    monkeypatch.setattr(sweeps, "split", lambda costs, speedups, workers: gains.extend(speedups) or [])
    list(sweep(plans, tmp_path, "pool(workers=2)", workers=2))
    assert min(gains) > 0.001


# --- the same bits ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return plan(GRID)


@pytest.fixture(scope="module")
def expected(plans: list[Plan], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, ...]]]:
    """The hashes of all runs, one after the other in this process, by arithmetic."""
    found = {}
    for arithmetic in ("inline", "stacked(workers=1)", "auto(workers=1)"):
        out = tmp_path_factory.mktemp("runs")
        check(list(sweep(plans, out, arithmetic)), plans)
        found[arithmetic.partition("(")[0]] = hashes(plans, out)
    assert found["inline"] != found["stacked"]
    return found


@pytest.mark.parametrize("engine", ["auto", "stacked", "inline", "pool"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(plans, expected, tmp_path, engine: str, workers: int) -> None:
    check(list(sweep(plans, tmp_path, f"{engine}(workers=3)" if engine != "inline" else engine, workers)), plans)
    assert hashes(plans, tmp_path) == expected["inline" if engine in ("inline", "pool") else engine]


@pytest.mark.parametrize("together", [[], [1], [2, 0], [0, 1, 2]])
@pytest.mark.parametrize("engine", ["auto", "stacked", "pool"])
def test_however_runs_are_shared_out_they_have_the_same_bits(
    plans, expected, tmp_path: Path, monkeypatch, engine: str, together: list[int]
) -> None:
    monkeypatch.setattr(sweeps, "split", lambda costs, *_: [place for place in together if place < len(costs)])
    monkeypatch.setattr("silobench.engines.engine._WORTH_SENDING", 0.0)
    check(list(sweep(plans, tmp_path, f"{engine}(workers=2)", workers=2)), plans)
    assert hashes(plans, tmp_path) == expected["inline" if engine == "pool" else engine]


@pytest.mark.parametrize("workers", [2, 3])
def test_many_short_runs_go_side_by_side(tmp_path: Path, workers: int) -> None:
    many = plan({**GRID, "algorithm": "fedavg", "rounds": 1, "seed": list(range(4 * workers))})
    check(list(sweep(many, tmp_path / "many", workers=workers)), many)
    check(list(sweep(many, tmp_path / "alone")), many)
    assert hashes(many, tmp_path / "many") == hashes(many, tmp_path / "alone")
    assert len(set(hashes(many, tmp_path / "many"))) == len(many)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_goes_on_where_another_stopped(plans, expected, tmp_path: Path, workers: int) -> None:
    for made in plans[:2]:
        for event in execute(prepare(made), tmp_path, "auto"):
            if event.round == 2:
                break
    list(sweep(plans[:1], tmp_path))  # complete
    events = list(sweep(plans, tmp_path, workers=workers))
    for made, first in zip(plans, (None, 3, 1), strict=True):
        own = [(event.kind, event.round) for event in events if event.id == made.id]
        assert own == [("begin", 0), *(("round", now) for now in range(first or 4, 4)), ("end", 0)]
    assert hashes(plans, tmp_path) == expected["auto"]


# --- at work elsewhere --------------------------------------------------------------------------------

PLUGIN = """
import os
from pathlib import Path

import silobench as sb
from silobench.method.types import Update

FACTOR = float(os.environ["SILOBENCH_TEST_FACTOR"]) * float(Path("factor.txt").read_text())


@sb.ALGORITHMS.register
def NAME() -> sb.Algorithm:
    "FedAvg by a factor, which fails in the second round while a file says so."

    def message(local, server, memory):
        if server.round == 1 and Path("BROKEN").exists():
            raise ValueError("it is broken")
        return Update.of(local.samples, delta=FACTOR * local.delta), {"last": local.delta}

    return sb.Algorithm(message=message)
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[list[Plan], Path]]:
    """A directory to work in, with a table and a plugin by their relative paths, and a variable in the environment."""
    list(workers_of_this_command(2).results([Job(len, (), ("",))] * 2))  # who were started elsewhere
    name = "p" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]  # because a process has only one of a name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SILOBENCH_TEST_FACTOR", "0.5")
    write(tmp_path / "factor.txt", "0.9")
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in rng.normal(size=(60, 2))]
    write(tmp_path / "table.csv", "a,b,y\n" + "\n".join(lines))
    plugin = write(Path("mine.py"), PLUGIN.replace("NAME", name).replace("BROKEN", str(tmp_path / "broken")))
    choices = {"dataset": "csv(path=table.csv, label=y)", "algorithm": [name, "fedavg"], "parties": 3}
    return lambda: (plan({**choices, "solver": "sgd(epochs=1)", "rounds": 3}, plugins=[plugin]), plugin)


@pytest.mark.parametrize("together", [[], [0, 1]])
@pytest.mark.parametrize("engine", ["auto", "pool"])
def test_plugins_relative_paths_and_variables_reach_the_workers(
    elsewhere, monkeypatch, together: list[int], engine: str
) -> None:
    made, plugin = elsewhere()
    monkeypatch.setattr(sweeps, "split", lambda costs, *_: [place for place in together if place < len(costs)])
    check(list(sweep(made, Path("many"), f"{engine}(workers=2)", 2, [plugin])), made)
    check(list(sweep(made, Path("alone"), engine, 1, [plugin])), made)
    assert hashes(made, Path("many")) == hashes(made, Path("alone"))
    assert len(set(hashes(made, Path("many")))) == 2


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("together", [[], [0, 1]])
def test_a_run_that_fails_is_named_and_what_was_finished_is_kept(
    elsewhere, monkeypatch, workers: int, together: list[int]
) -> None:
    made, plugin = elsewhere()
    monkeypatch.setattr(sweeps, "split", lambda costs, *_: [place for place in together if place < len(costs)])
    options = {"engine": "pool(workers=2)", "workers": workers, "plugins": [plugin]}
    Path("broken").touch()
    with pytest.raises(
        RunError,
        match=re.escape(f"{made[0].name} failed in round 2, party ")
        + r"\d: the hook `message` of the algorithm \w+ \(mine.py, line 17\) raised ValueError: it is broken; finished",
    ) as caught:
        list(sweep(made, Path("runs"), **options))
    assert "in message" in caught.value.details
    assert [row.round for row in read_run(Path("runs") / made[0].id).rounds] == [1]
    Path("broken").unlink()
    own = [event.round for event in sweep(made, Path("runs"), **options) if event.id == made[0].id]
    assert own == [0, 2, 3, 0]
    list(sweep(made, Path("whole"), **options))
    assert hashes(made, Path("runs")) == hashes(made, Path("whole"))


def test_a_sweep_that_was_given_up_can_be_begun_again(tmp_path: Path) -> None:
    made = plan({**GRID, "algorithm": "fedavg", "rounds": [5, 300]})
    events = sweep(made, tmp_path, "inline", workers=2)
    while next(events).kind != "round":
        pass
    events.close()
    list(sweep(made, tmp_path, "inline", workers=2))
    hashes(made, tmp_path)


# --- commits in bunches -------------------------------------------------------------------------------


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A clock on which a commit takes 4 ms, and the rounds that were on disk after each."""
    clock, commits, real = Clock(), [], writer.replace_atomically

    def replace(path: Path, content: bytes, **options: bool) -> None:
        clock.now += 0.004
        real(path, content, **options)
        if path.name == "state.safetensors":
            commits.append(load_state(path.parent.parent).server.round)

    monkeypatch.setattr(writer, "time", clock)
    monkeypatch.setattr(writer, "replace_atomically", replace)
    return SimpleNamespace(clock=clock, commits=commits)


def timed(made: Plan, out: Path, clock: SimpleNamespace, each: float) -> Iterator[int]:
    for done in execute(prepare(made), out, "inline"):
        clock.clock.now += each
        yield done.round


@pytest.fixture(scope="module")
def forty() -> Plan:
    (made,) = plan({**GRID, "algorithm": "scaffold", "rounds": 40})
    return made


def test_short_rounds_are_committed_in_bunches(forty: Plan, tmp_path: Path, clock: SimpleNamespace) -> None:
    """A commit takes 4 ms here, so there is none in the next 200: 18 rounds of 11 ms."""
    assert list(timed(forty, tmp_path, clock, each=0.011)) == list(range(1, 41))
    assert clock.commits == [1, 20, 39, 40]
    assert len(read_run(tmp_path / forty.id).rounds) == 40


@pytest.mark.parametrize("each", [0.2001, 3.0])
def test_long_rounds_are_committed_one_by_one(forty: Plan, tmp_path: Path, clock: SimpleNamespace, each: float) -> None:
    list(timed(forty, tmp_path, clock, each))
    assert clock.commits == list(range(1, 41))


class Stop(Exception):  # noqa: N818  # it is no error
    pass


@pytest.mark.parametrize("way", ["closed", "an error", "Ctrl-C"])
def test_what_is_there_is_committed_when_a_run_is_cut_off(forty, tmp_path, clock: SimpleNamespace, way: str) -> None:
    running, out = execute(prepare(forty), tmp_path, "inline"), tmp_path / forty.id
    for _ in range(7):
        next(running)
    assert clock.commits == [1]
    assert len(read_run(out).rounds) == 1
    if way == "closed":
        running.close()
    else:
        kind = {"an error": Stop, "Ctrl-C": KeyboardInterrupt}[way]
        with pytest.raises(kind):
            running.throw(kind())
    assert clock.commits == [1, 7]
    assert len(read_run(out).rounds) == load_state(out).server.round == 7
    assert [done.round for done in execute(prepare(forty), tmp_path, "inline")] == list(range(8, 41))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_that_is_closed_says_if_its_rounds_cannot_be_committed(
    forty: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(writer, "_COMMIT_EVERY", 1e9)  # only the first round, and what is there at the end
    running = sweep([forty], tmp_path, "inline", workers)
    assert [event.kind for event in (next(running), next(running), next(running))] == ["begin", "round", "round"]
    lines = tmp_path / forty.id / "rounds.jsonl"
    lines.rename(tmp_path / "elsewhere")
    lines.mkdir()
    with pytest.raises(RecordError, match="cannot be written"):
        running.close()


def test_a_run_that_was_tried_out_says_if_its_rounds_cannot_be_committed(
    forty: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round of a sweep's runs is for weighing them up: what it leaves is committed before the next begins."""
    monkeypatch.setattr(
        writer.RunWriter,
        "append",
        lambda run, done: (run._pending.append(b"?"), setattr(run, "_ready", (1, done.state))),
    )
    weighed = sweeps._weighed([forty], tmp_path, inline(), 2)
    assert [event.kind for event in (next(weighed), next(weighed))] == ["begin", "round"]
    (tmp_path / forty.id / "rounds.jsonl").mkdir()
    with pytest.raises(RecordError, match="cannot be written"):
        next(weighed)


def test_what_is_there_is_committed_when_a_method_fails(forty, tmp_path: Path, clock: SimpleNamespace) -> None:
    """An error in the middle of a round, after others that were not yet committed."""
    left = iter(range(9))

    def failing(updates: Iterable[Update]) -> Update:
        if next(left, None) is None:
            raise Stop
        return MEAN.combine(updates)

    ready = prepare(forty)
    setting = replace(ready.setting, method=replace(ready.setting.method, aggregate=Aggregate(failing)))
    with pytest.raises(Stop):
        list(execute(replace(ready, schedule=replace(ready.schedule, setting=setting)), tmp_path, "inline"))
    assert clock.commits == [1, 9]


def run_and_die(made: Plan, out: Path, commit: int, when: str) -> None:
    """Run until so many commits, one every few rounds, and die just before or after the checkpoint is replaced."""
    clock, commits, real = Clock(), iter(range(1, 1000)), writer.replace_atomically

    def replace(path: Path, content: bytes, **options: bool) -> None:
        last = path.name == "state.safetensors" and next(commits) == commit
        if not last or when == "after":
            real(path, content, **options)
        clock.now += 0.01
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    writer.time, writer.replace_atomically = clock, replace
    for _ in timed(made, out, SimpleNamespace(clock=clock), each=0.1):
        pass


@pytest.fixture(scope="module")
def whole(forty: Plan, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    out = tmp_path_factory.mktemp("whole")
    list(execute(prepare(forty), out, "inline"))
    return hashes([forty], out)


@pytest.mark.parametrize(
    ("commit", "when", "kept"), [(1, "before", 0), (1, "after", 1), (3, "before", 6), (3, "after", 11)]
)
def test_a_run_killed_at_a_commit_goes_on_to_the_same_bits(
    forty, whole, tmp_path: Path, commit: int, when: str, kept: int
) -> None:
    start_server()
    with without_main():
        process = context().Process(target=run_and_die, args=(forty, tmp_path, commit, when))
        process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    lines = (tmp_path / forty.id / "rounds.jsonl").read_bytes().count(b"\n")
    assert lines == {1: 1, 3: 11}[commit]
    assert len(read_run(tmp_path / forty.id).rounds) == kept
    assert [done.round for done in execute(prepare(forty), tmp_path, "inline")] == list(range(kept + 1, 41))
    assert hashes([forty], tmp_path) == whole


# --- many parties -------------------------------------------------------------------------------------


def many(parties: int) -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6 * parties, 5)).astype(np.float32), rng.integers(0, 3, 6 * parties)
    return Dataset("many", Split(x, y), Split(x[:50], y[:50]), ("a", "b", "c"), "none")


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this processor, and what came of them."""
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


@pytest.mark.parametrize("engine", [inline(), Engine(("stacked",))], ids=str)
def test_ten_of_ten_thousand_parties_cost_what_ten_of_a_hundred_do(engine: Engine) -> None:
    method = Method(ALGORITHMS.build("scaffold"), sgd(0.1, epochs=2, batch=4))
    starts, later = {}, {}
    for parties in (100, 10_000, 100):  # the first warms up
        data = many(parties)
        cutting = min(spent(lambda d=data, n=parties: partition(d, "iid", n))[0] for _ in range(3))
        cuts = [spent(lambda d=data, n=parties: federate(d, "iid", n)) for _ in range(3)]
        cut, federation = min(cuts, key=lambda one: one[0])
        running = rounds(method, federation, task("mlp(8)", data), rounds=6, participation=10, engine=engine)
        first, _ = spent(lambda r=running: next(r))
        others = [spent(lambda r=running: next(r))[0] for _ in range(5)]
        starts[parties], later[parties] = cut - cutting + first, min(others)
    assert later[10_000] < 4 * later[100] + 0.005
    assert starts[10_000] < 30 * starts[100] + 0.1  # for a hundred times as many parties


def test_only_parties_that_took_part_are_remembered() -> None:
    data, method, seen = many(1_000), Method(ALGORITHMS.build("scaffold"), sgd(epochs=1)), set()
    for done in rounds(method, federate(data, "iid", 1_000), task("linear", data), rounds=4, participation=10):
        seen |= set(done.cohort)
        assert set(done.state.memory) == seen
    assert 30 < len(seen) <= 40
