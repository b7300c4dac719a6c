"""All kills: of commands over every registry, of other engines, of grids, of studies and of silos."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context

from gauntlet.cases import Experiment, experiments, write_people
from gauntlet.chain import AT_A_FILE, AT_ANY_MOMENT, Gauntlet
from gauntlet.outcome import Options, Outcome
from gauntlet.silos import SiloGauntlet, consortia


def kills(options: Options) -> Iterator[Outcome]:
    """Kill all experiments of the gauntlet; again with other moments, until there are as many kills as asked for."""
    count, seed = 0, options.seed
    while count < options.kills:
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            tries = [pool.submit(_tried, each) for each in _gauntlets(replace(options, seed=seed))]
            for each in as_completed(tries):
                count += len(each.result())
                yield from each.result()
        seed += 1
        if options.only != "*":
            return


def _gauntlets(options: Options) -> Iterator[Gauntlet]:
    """Yield what is to be tried, the consortia first, because they take longest."""
    folders = (options.folder / f"kills-{options.seed}-{place}" for place in range(1000))
    for experiment in consortia():
        if chosen := _restricted(options, experiment):
            yield SiloGauntlet(chosen, next(folders), options.seed)
    for experiment in experiments(write_people(options.folder)):
        if chosen := _restricted(options, experiment):
            is_forked = options.forks and not chosen.has_workers
            yield Gauntlet(chosen, next(folders), options.seed, is_forked)


def _restricted(options: Options, experiment: Experiment) -> Experiment | None:
    """Return an experiment with the cases that are to be killed, and None if there is none; the others still run."""
    cases = tuple(
        case
        for case in experiment.cases
        if any(options.includes(fault, f"{experiment.group}: {case.name}") for fault in (AT_A_FILE, AT_ANY_MOMENT))
    )
    return replace(experiment, cases=cases) if cases else None


def _tried(gauntlet: Gauntlet) -> list[Outcome]:
    """Return the outcomes; without a loss, nobody needs the files any more. An error counts as a loss."""
    try:
        outcomes = list(gauntlet.outcomes())
    except Exception as error:
        names = ", ".join(case.name for case in gauntlet.experiment.cases)
        return [Outcome(AT_ANY_MOMENT, f"{gauntlet.experiment.group}: {names}", "lost", f"{error!r}")]
    if all(outcome.result != "lost" for outcome in outcomes):
        shutil.rmtree(gauntlet.folder)
    return outcomes
