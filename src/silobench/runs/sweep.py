"""Many runs in one command: side by side, one per worker, or one after the other with all workers on each.

Both give the same bits. Side by side is best while there are enough runs for all workers; the last few runs, or one
that is much longer than the others, finish sooner with all workers on each.
"""

import atexit
import functools
import itertools
import math
import os
import shutil
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Literal

from silobench.data import Dataset, load
from silobench.engines import ENGINES, Engine, Job
from silobench.engines.executor import workers_on
from silobench.errors import HookError, RunError, SilobenchError
from silobench.method.solvers import SOLVERS
from silobench.models.devices import type_of
from silobench.runs.execute import execute, hardware_of
from silobench.runs.experiment import load_plugin
from silobench.runs.facts import LOST
from silobench.runs.mirror import Change, RunFiles, Seen, changed_files, write_changes, write_files
from silobench.runs.plan import Plan
from silobench.runs.plans import devices_of, waves
from silobench.runs.prepare import prepare
from silobench.runs.writer import locked
from silobench.tasks.metrics import ACCURACY, Metric
from silobench.training.state import RoundRecord

_MANY = 4  # runs per worker, from which on all runs go side by side
_AT_ONCE = 500  # runs that wait for workers


@dataclass(frozen=True)
class Event:
    """Progress of a run: it began, finished a round, or ended."""

    kind: Literal["begin", "round", "end"]
    id: str
    name: str
    rounds: int
    round: int = 0
    accuracy: float | None = None
    score: float | None = None  # the main metric; None in a round that was not tested
    metric: Metric = ACCURACY
    notes: tuple[str, ...] = ()
    is_lost: bool = False  # whether the round was given up, because too few parties answered
    seconds: float = 0.0  # wall-clock time since the last event of this run
    speedup: float = 1.0  # of the round over a single worker
    single_seconds: float = 0.0  # that the round would have taken a single worker


@dataclass(frozen=True)
class WorkerContext:
    """The surroundings of a command, which a worker needs besides a plan."""

    out: Path
    folder: Path
    variables: tuple[tuple[str, str], ...]
    plugins: tuple[Path, ...]


def sweep(
    plans: Sequence[Plan], out: Path, engine: str = "auto", workers: int = 1, plugins: Sequence[Path] = ()
) -> Generator[Event]:
    """Run every plan into ``out`` and yield progress events. Plans that others start from run first.

    Closing the generator stops all runs, and every run commits its rounds. If a run in this process cannot commit,
    closing raises `RecordError`.
    """
    for wave in waves(plans):
        if wave:
            yield from _sweep(wave, out, engine, workers, plugins)


def _sweep(plans: Sequence[Plan], out: Path, engine: str, workers: int, plugins: Sequence[Path]) -> Generator[Event]:
    chosen = ENGINES.build(engine)
    for device in set(map(type_of, devices_of(plans))):
        workers = min(workers, max(1, workers_on(chosen.executor, workers, device)))  # on GPUs, a run on each
    together = replace(chosen, workers=workers if chosen.workers and (workers > 1 or chosen.is_remote) else 0)
    if chosen.place(workers).workers == 1 or workers == 1:
        yield from _one_after_the_other(plans, out, together)
        return
    seen: set[str] = set()
    with closing(_shared_out(plans, _context(out, plugins), together, workers)) as events:
        for event in events:
            if event.kind != "begin" or event.id not in seen:  # a run that continues in a worker begins only once
                yield event
            seen.add(event.id)


def _shared_out(plans: Sequence[Plan], context: WorkerContext, together: Engine, workers: int) -> Generator[Event]:
    """Run first the plans that are better done by all workers together, then the others side by side."""
    first: list[Plan] = []
    if len(plans) < _MANY * workers and together.workers:
        first, plans = yield from _weighed(plans, context.out, together, workers)
    yield from _one_after_the_other(first, context.out, together)
    if len(plans) == 1:
        yield from _one_after_the_other(plans, context.out, together)
    elif together.is_remote:
        yield from _one_after_the_other(filter(_reads_other_runs, plans), context.out, together)
        for some in _batches(plan for plan in plans if not _reads_other_runs(plan)):
            yield from _on_other_machines(some, context, replace(together, workers=0), workers)
    else:
        for some in _batches(plans):
            yield from _side_by_side(some, context, replace(together, workers=0), workers)


def _reads_other_runs(plan: Plan) -> bool:
    """Whether a run needs the directory of another one, which only this machine has."""
    return plan.origin is not None or plan.cell.start != "random"


def _batches(plans: Iterable[Plan]) -> Iterator[list[Plan]]:
    """Yield a few hundred plans at a time: their jobs are in memory, and on a cluster each has an open lock file."""
    rest = iter(plans)
    while some := list(itertools.islice(rest, _AT_ONCE)):
        yield some


# --- what to do together, from what a round of each costs ---------------------------------------------


def _weighed(
    plans: Sequence[Plan], out: Path, together: Engine, workers: int
) -> Generator[Event, None, tuple[list[Plan], list[Plan]]]:
    """Run one round of every plan by all workers; return the plans to continue so, and those to run side by side."""
    together.place(workers).start()  # or the first round would seem to be a long one
    left, costs, speedups = [], [], []
    for plan in plans:
        with closing(_events(plan, out, together)) as events:
            for event in events:
                yield event
                if event.kind == "round":
                    left.append(plan)
                    costs.append(event.single_seconds * (event.rounds - event.round))
                    speedups.append(event.speedup)
                    break
    best = split(costs, speedups, workers)
    return [left[place] for place in best], [left[place] for place in range(len(left)) if place not in best]


def split(costs: Sequence[float], speedups: Sequence[float], workers: int) -> list[int]:
    """Return which runs all workers should do together, the longest first, so that all runs end soonest.

    `costs` are seconds of a single worker, `speedups` how much faster all workers together are.

    >>> split([10, 10], [1.8, 1.8], workers=2)  # one run per worker: side by side
    []
    >>> split([10, 10, 10], [1.8, 1.8, 1.8], workers=2)  # one run is left over
    [0]
    >>> split([100, 5, 5], [1.8, 1.8, 1.8], workers=2)
    [0]
    """
    order = sorted(range(len(costs)), key=lambda place: -costs[place])

    def seconds(count: int) -> float:
        others = [costs[place] for place in order[count:]]
        return sum(costs[place] / speedups[place] for place in order[:count]) + _makespan(others, workers)

    return order[: min(range(len(costs) + 1), key=seconds)]


def _makespan(costs: Sequence[float], workers: int) -> float:
    """Return when the last worker ends, if the longest runs start first."""
    ends = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        ends[ends.index(min(ends))] += cost
    return max(ends)


# --- running ------------------------------------------------------------------------------------------


def _one_after_the_other(plans: Iterable[Plan], out: Path, engine: Engine) -> Generator[Event]:
    for plan in plans:
        yield from _events(plan, out, engine)


def _side_by_side(plans: Sequence[Plan], context: WorkerContext, engine: Engine, workers: int) -> Generator[Event]:
    jobs = []
    for plan in plans:
        dataset = load(plan.cell.dataset)
        jobs.append(Job(_in_worker, (dataset,), (plan, context, engine), _cost(plan, dataset)))
    for news in engine.place(workers).news(jobs):
        if not news.final:
            yield news.value


def _on_other_machines(plans: Sequence[Plan], context: WorkerContext, engine: Engine, workers: int) -> Generator[Event]:
    """Make each run on one worker of a cluster; what it writes there is written into `context.out` here.

    All runs record the hardware of this machine, because each may continue here or on any machine of the cluster.
    """
    jobs, plugins = [], tuple((path.name, path.read_bytes()) for path in context.plugins)
    for plan in plans:
        dataset = load(plan.cell.dataset)
        arguments = (plan, engine, RunFiles(context.out / plan.id), plugins, hardware_of(plan.cell.device))
        jobs.append(Job(_elsewhere, (dataset,), arguments, _cost(plan, dataset)))
    with ExitStack() as stack:
        for plan in plans:
            stack.enter_context(locked(context.out / plan.id))
        for news in engine.place(workers).news(jobs):
            if not news.final:
                event, changes = news.value
                write_changes(context.out / plans[news.job].id, changes)
                yield event


def _elsewhere(
    dataset: Dataset,
    plan: Plan,
    engine: Engine,
    files: Mapping[str, bytes],
    plugins: Sequence[tuple[str, bytes]],
    hardware: Mapping[str, str],
) -> Generator[tuple[Event, list[Change]]]:
    """Make a run on a machine that has none of the command's files; yield its events, and what it wrote before each."""
    for name, content in plugins:
        _load_sent_plugin(name, content)
    with TemporaryDirectory(prefix="silobench-") as folder:
        path = Path(folder) / plan.id
        write_files(path, files)
        with closing(_events(plan, Path(folder), engine, dataset, hardware)) as events:
            seen: Seen = {}
            for event in events:
                changes: list[Change] = []
                if event.kind != "begin":  # only then has the run dropped lines that were never committed
                    changes, seen = changed_files(path, seen)
                yield event, changes


@functools.cache
def _load_sent_plugin(name: str, content: bytes) -> None:
    """Load a plugin from its content, once per process; its file stays as long as the process."""
    path = Path(mkdtemp(prefix="silobench-plugin-")) / name
    path.write_bytes(content)
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    load_plugin(path)


def _cost(plan: Plan, dataset: Dataset) -> float:
    """Estimate the cost of a run before it was ever run: how many numbers enter the network."""
    per_round = SOLVERS.build(plan.cell.solver).rows(len(dataset.train)) * math.prod(dataset.shape)
    return float(plan.cell.rounds * per_round)


def _in_worker(dataset: Dataset, plan: Plan, context: WorkerContext, engine: Engine) -> Generator[Event]:
    """Make a run in a worker process, in the surroundings of the command."""
    os.chdir(context.folder)
    os.environ.update(context.variables)
    for path in context.plugins:
        _load_plugin_once(path)
    yield from _events(plan, context.out, engine, dataset)


_load_plugin_once = functools.cache(load_plugin)


def _context(out: Path, plugins: Sequence[Path]) -> WorkerContext:
    variables = tuple((name, value) for name, value in os.environ.items() if name.startswith("SILOBENCH_"))
    return WorkerContext(out.absolute(), Path.cwd(), variables, tuple(path.absolute() for path in plugins))


def _events(
    plan: Plan,
    out: Path,
    engine: Engine,
    dataset: Dataset | None = None,
    hardware: Mapping[str, str] | None = None,
) -> Generator[Event]:
    try:
        yield from _rounds(plan, out, engine, dataset, hardware)
    except HookError as error:  # before the first round, or after it
        raise _failure(plan, f"because {error}", error.details or traceback.format_exc()) from error
    except RunError as error:  # most start with the round and the party
        word = "in" if str(error).startswith("round ") else "because"
        raise _failure(plan, f"{word} {error}", error.details) from error
    except SilobenchError:
        raise
    except Exception as error:
        raise _failure(plan, f"with {type(error).__name__}: {error}", traceback.format_exc()) from error


def _failure(plan: Plan, how: str, details: str) -> RunError:
    # A sentence of our own, which has no details, says what to change; a run with another choice is another run.
    then = ", and the same command continues from them once the cause is removed" if details else ""
    return RunError(f"{plan.name} failed {how.rstrip('.')}; finished rounds are kept{then}.", details)


def _rounds(
    plan: Plan, out: Path, engine: Engine, dataset: Dataset | None, hardware: Mapping[str, str] | None
) -> Generator[Event]:
    prepared = prepare(plan, dataset)
    main = prepared.metric
    begin = Event("begin", plan.id, plan.name, plan.cell.rounds, notes=prepared.notes, metric=main)
    yield begin
    with closing(execute(prepared, out, engine, hardware=hardware)) as records:
        for record in records:
            single_seconds, speedup = _single_worker(record)
            yield replace(
                begin,
                kind="round",
                round=record.round,
                accuracy=record.accuracy,
                score=record.metrics.get(main.name, record.accuracy),
                is_lost=LOST in record.reports,
                seconds=record.total_seconds,
                single_seconds=single_seconds,
                speedup=speedup,
            )
    yield replace(begin, kind="end")


def _single_worker(record: RoundRecord) -> tuple[float, float]:
    """Return the seconds that a round would have taken a single worker, and the speedup of all over that."""
    phases = record.seconds
    parallel = sum(phases.get(name, 0.0) for name in ("train", "encode", "evaluate"))
    serial, idle = (phases.get(name, 0.0) for name in ("aggregate", "idle"))
    single, together = record.workers * parallel + serial, parallel + serial + idle
    return single, single / together if together else 1.0
