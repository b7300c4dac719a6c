"""Many runs in one command: side by side, one in each worker, or one after the other with all workers on each.

Both give the same bits. Side by side wastes nothing while there are runs enough for everyone; the few that are left
over, or one that is much longer than the rest, are better done by all workers together.
"""

import functools
import math
import os
import traceback
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from silobench.data import Dataset, load
from silobench.engines import ENGINES, Engine
from silobench.engines.workers import Job, workers_of_this_command
from silobench.errors import RunError, SilobenchError
from silobench.method.solvers import SOLVERS
from silobench.runs.execute import execute
from silobench.runs.experiment import load_plugin
from silobench.runs.plan import Plan
from silobench.runs.prepare import prepare
from silobench.training.state import RoundRecord

_MANY = 4  # runs a worker: with so many there is nothing to weigh up


@dataclass(frozen=True)
class Event:
    """Something happened in a run: it began, finished a round, or ended."""

    kind: Literal["begin", "round", "end"]
    id: str
    name: str
    rounds: int
    round: int = 0
    accuracy: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # of the clock, since the event before
    gain: float = 1.0  # by what the round was faster than one worker alone
    alone: float = 0.0  # the seconds that would have taken


@dataclass(frozen=True)
class Site:
    """Where a command was given: what a worker needs besides a plan."""

    out: Path
    folder: Path
    variables: tuple[tuple[str, str], ...]
    plugins: tuple[Path, ...]


def sweep(
    plans: Sequence[Plan], out: Path, engine: str = "auto", workers: int = 1, plugins: Sequence[Path] = ()
) -> Generator[Event]:
    """Run every plan into ``out`` with so many workers, and tell what happens; first those at which others begin.

    Close it to stop: every run then commits its rounds. One of this process that cannot is heard.
    """
    for wave in ([made for made in plans if made.origin is None], [made for made in plans if made.origin]):
        if wave:
            yield from _sweep(wave, out, engine, workers, plugins)


def _sweep(plans: Sequence[Plan], out: Path, engine: str, workers: int, plugins: Sequence[Path]) -> Generator[Event]:
    chosen = ENGINES.build(engine)
    together = replace(chosen, workers=workers if workers > 1 and chosen.workers else 0)
    if workers == 1:
        yield from _one_after_the_other(plans, out, together)
        return
    begun: set[str] = set()
    with closing(_shared_out(plans, _site(out, plugins), together, workers)) as events:
        for event in events:
            if event.kind != "begin" or event.id not in begun:  # one that goes on elsewhere begins but once
                yield event
            begun.add(event.id)


def _shared_out(plans: Sequence[Plan], site: Site, together: Engine, workers: int) -> Generator[Event]:
    """First those that are better done together, if any, then the rest side by side."""
    first: list[Plan] = []
    if len(plans) < _MANY * workers and together.workers:
        first, plans = yield from _weighed(plans, site.out, together, workers)
    yield from _one_after_the_other(first, site.out, together)
    if len(plans) == 1:
        yield from _one_after_the_other(plans, site.out, together)
    else:
        yield from _side_by_side(plans, site, replace(together, workers=0), workers)


# --- what to do together, from what a round of each costs ---------------------------------------------


def _weighed(
    plans: Sequence[Plan], out: Path, together: Engine, workers: int
) -> Generator[Event, None, tuple[list[Plan], list[Plan]]]:
    """Run a round of every plan together; gives those to go on with together, and those to run side by side."""
    workers_of_this_command(workers).start()  # or the first round would seem to be a long one
    left, costs, speedups = [], [], []
    for made in plans:
        with closing(_events(made, out, together)) as events:
            for event in events:
                yield event
                if event.kind == "round":
                    left.append(made)
                    costs.append(event.alone * (event.rounds - event.round))
                    speedups.append(event.gain)
                    break
    best = split(costs, speedups, workers)
    return [left[place] for place in best], [left[place] for place in range(len(left)) if place not in best]


def split(costs: Sequence[float], speedups: Sequence[float], workers: int) -> list[int]:
    """Which runs to do together: those that make the whole end soonest, the longest first.

    `costs` are seconds of one worker, `speedups` what all workers together gain.

    >>> split([10, 10], [1.8, 1.8], workers=2)  # two for two: side by side
    []
    >>> split([10, 10, 10], [1.8, 1.8, 1.8], workers=2)  # one is left over
    [0]
    >>> split([100, 5, 5], [1.8, 1.8, 1.8], workers=2)
    [0]
    """
    order = sorted(range(len(costs)), key=lambda place: -costs[place])

    def seconds(count: int) -> float:
        apart = [costs[place] for place in order[count:]]
        return sum(costs[place] / speedups[place] for place in order[:count]) + _makespan(apart, workers)

    return order[: min(range(len(costs) + 1), key=seconds)]


def _makespan(costs: Sequence[float], workers: int) -> float:
    """When the last worker ends, if the longest runs are begun first."""
    ends = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        ends[ends.index(min(ends))] += cost
    return max(ends)


# --- running ------------------------------------------------------------------------------------------


def _one_after_the_other(plans: Sequence[Plan], out: Path, engine: Engine) -> Generator[Event]:
    for made in plans:
        yield from _events(made, out, engine)


def _side_by_side(plans: Sequence[Plan], site: Site, engine: Engine, workers: int) -> Generator[Event]:
    jobs = []
    for made in plans:
        dataset = load(made.cell.dataset)
        jobs.append(Job(_cell, (dataset,), (made, site, engine), _guess(made, dataset)))
    for news in workers_of_this_command(workers).news(jobs):
        if not news.final:
            yield news.value


def _guess(made: Plan, dataset: Dataset) -> float:
    """Something like the cost of a run before it was ever run: numbers that go into the network."""
    per_round = SOLVERS.build(made.cell.solver).rows(len(dataset.train)) * math.prod(dataset.shape)
    return float(made.cell.rounds * per_round)


def _cell(dataset: Dataset, made: Plan, site: Site, engine: Engine) -> Generator[Event]:
    """A run in a worker, which is brought to where the command was given."""
    os.chdir(site.folder)
    os.environ.update(site.variables)
    for path in site.plugins:
        _load_plugin_once(path)
    yield from _events(made, site.out, engine, dataset)


_load_plugin_once = functools.cache(load_plugin)


def _site(out: Path, plugins: Sequence[Path]) -> Site:
    variables = tuple((name, value) for name, value in os.environ.items() if name.startswith("SILOBENCH_"))
    return Site(out.absolute(), Path.cwd(), variables, tuple(path.absolute() for path in plugins))


def _events(made: Plan, out: Path, engine: Engine, dataset: Dataset | None = None) -> Generator[Event]:
    try:
        yield from _rounds(made, out, engine, dataset)
    except SilobenchError:
        raise
    except Exception as error:
        raise RunError(
            f"{made.name} failed with {type(error).__name__}: {error}; "
            "finished rounds are kept, and the same command goes on from them once this is mended.",
            traceback.format_exc(),
        ) from error


def _rounds(made: Plan, out: Path, engine: Engine, dataset: Dataset | None) -> Generator[Event]:
    ready = prepare(made, dataset)
    said = Event("begin", made.id, made.name, made.cell.rounds, notes=ready.notes)
    yield said
    with closing(execute(ready, out, engine)) as records:
        for record in records:
            alone, gain = _alone(record)
            yield replace(
                said,
                kind="round",
                round=record.round,
                accuracy=record.accuracy,
                seconds=sum(record.seconds.values()),
                alone=alone,
                gain=gain,
            )
    yield replace(said, kind="end")


def _alone(record: RoundRecord) -> tuple[float, float]:
    """The seconds that a round would have taken one worker, and by what more of them were faster."""
    phases = record.seconds
    at_work, served = sum(phases[name] for name in ("train", "encode", "evaluate")), phases["aggregate"]
    alone = record.workers * at_work + served
    return alone, alone / (at_work + served + phases["idle"])
