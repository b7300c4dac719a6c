"""From an experiment to its plans: every run that it asks for, each once, and what its registries know."""

import hashlib
import logging
import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from silobench.data import DATASETS
from silobench.engines import ENGINES, EXECUTORS
from silobench.errors import AbsentError, ConfigError, SilobenchError, StoppedError
from silobench.loop.clocks import CLOCKS
from silobench.loop.exchanges import EXCHANGES
from silobench.loop.network import NETWORKS
from silobench.loop.paces import PACES
from silobench.measures import MEASURES
from silobench.method.adversaries import ADVERSARIES
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES
from silobench.method.codecs import CODECS
from silobench.method.controllers import CONTROLLERS
from silobench.method.controllers.oracle import settings_of
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SCHEDULES, SOLVERS
from silobench.method.transforms import TRANSFORMS, bind_chain
from silobench.models import MODELS
from silobench.partitions import PARTITIONS, bind_sum
from silobench.runs.grid import ABOUT, GridCells, at_scale, expand, override, read_experiment
from silobench.runs.keys import keys_of
from silobench.runs.plan import Binder, Cell, Plan, bind, need_text
from silobench.runs.plans import Plans
from silobench.runs.starts import STARTS
from silobench.spec import Bound, Registry
from silobench.spec.contract import last_line, unknown_field
from silobench.spec.registry import loading, origin_of
from silobench.tasks.metric_functions import METRICS
from silobench.tasks.objectives import OBJECTIVES
from silobench.vertical.defences import DEFENCES
from silobench.vertical.leaks import VERTICAL_MEASURES
from silobench.vertical.methods import VERTICAL_ALGORITHMS
from silobench.vertical.networks import VERTICAL_MODELS

__all__ = [
    "ABOUT", "REGISTRIES", "Cell", "Plan", "at_scale", "bind", "expand", "load_plugin", "override", "plan",
    "plan_present", "read_experiment",
]  # fmt: skip

_log = logging.getLogger(__name__)
REGISTRIES: dict[str, Registry[Any]] = {
    "adversaries": ADVERSARIES,
    "aggregates": AGGREGATES,
    "algorithms": ALGORITHMS,
    "availabilities": AVAILABILITIES,
    "clocks": CLOCKS,
    "codecs": CODECS,
    "controllers": CONTROLLERS,
    "datasets": DATASETS,
    "engines": ENGINES,
    "exchanges": EXCHANGES,
    "executors": EXECUTORS,
    "measures": MEASURES,
    "metrics": METRICS,
    "models": MODELS,
    "networks": NETWORKS,
    "objectives": OBJECTIVES,
    "paces": PACES,
    "partitions": PARTITIONS,
    "schedules": SCHEDULES,
    "selections": SELECTIONS,
    "servers": SERVERS,
    "solvers": SOLVERS,
    "starts": STARTS,
    "transforms": TRANSFORMS,
    "defences": DEFENCES,
    "vertical-algorithms": VERTICAL_ALGORITHMS,
    "vertical-measures": VERTICAL_MEASURES,
    "vertical-models": VERTICAL_MODELS,
}


def plan(choices: Mapping[str, Any], only: str = "*", plugins: Sequence[Path] = ()) -> list[Plan]:
    """Return a plan for every run that an experiment asks for, in the order of the file."""
    plans, absent = plan_present(choices, only, plugins)
    if absent:
        raise AbsentError(next(iter(absent)))
    return list(plans)


def plan_present(
    choices: Mapping[str, Any], only: str = "*", plugins: Sequence[Path] = ()
) -> tuple[Plans, dict[str, int]]:
    """Return plans for the runs whose dataset is on this machine, and the number of other runs by reason."""
    binder = Binder({"plugins": [load_plugin(path) for path in plugins]} if plugins else {})
    cells = _all_cells(expand(choices))
    reasons = {name: _absence(name, binder) for name in dict.fromkeys(map(_dataset_of, cells))}
    is_absent = any(reasons.values())
    absent = [cell for cell in cells if reasons[_dataset_of(cell)]] if is_absent else []
    present = [cell for cell in cells if not reasons[_dataset_of(cell)]] if is_absent else cells
    plans = Plans(present, binder)
    chosen = plans if only == "*" else _matching(plans, only)
    counts = Counter(reasons[_dataset_of(cell)] for cell in absent if fnmatch(_rough_name(cell), only))
    if not chosen and counts:
        raise AbsentError(next(iter(counts)))
    if not chosen:
        example = plans[0].name if plans else _rough_name(absent[0])
        raise ConfigError(
            f"--only '{only}' matches none of {len(plans) + len(absent)} runs, such as '{example}': names use long "
            "specs such as label-dirichlet(beta=0.3)."
        )
    return chosen, counts


_loaded: set[str] = set()  # digests of plugins that this process has loaded


def load_plugin(path: Path) -> str:
    """Run a user's file, which registers what it defines; return the digest that runs record."""
    if path.is_dir():
        raise ConfigError(f"the plugin {path} is a folder, but a Python file is needed: give the path of the file.")
    if not path.is_file():
        raise ConfigError(f"there is no plugin file {path}: check the path.")
    try:
        with loading() as count:
            runpy.run_path(str(path.resolve()))
    except SilobenchError as error:
        raise ConfigError(f"the plugin {path} cannot be used: {error}") from error
    except KeyboardInterrupt as error:
        raise StoppedError(f"stopped while the plugin {path} was loaded; nothing was run.") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"the plugin {path} fails when it is loaded: {_load_failure(path, error)}.") from error
    digest = _digest(path)
    if not count() and digest not in _loaded:  # what a module registers that it imports is registered once
        _log.info(
            "the plugin %s registers nothing: write @sb.ALGORITHMS.register, or that of another kind, above a function",
            path,
        )
    _loaded.add(digest)
    return digest


def registered_plugins() -> frozenset[str]:
    """Return the digests of the files whose functions are registered: plugins that were loaded or imported."""
    factories = [factory for registry in REGISTRIES.values() for factory in registry.factories.values()]
    origins = [origin for origin in map(origin_of, factories) if origin is not None and origin.is_plugin]
    return frozenset(_digest(path) for path in {Path(origin.file) for origin in origins} if path.is_file())


def _digest(path: Path) -> str:
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _load_failure(path: Path, error: BaseException) -> str:
    """Return what went wrong in a plugin file, and in which line."""
    line = last_line(error.__traceback__, str(path.resolve()))
    where = f" in line {line}" if line else ""
    if isinstance(error, ImportError) and "relative import" in str(error):
        return f"it has a relative import{where}, but a plugin is a single file: put everything into it"
    if isinstance(error, SystemExit):
        return f"it ends the program with sys.exit({error.code}){where}: remove that"
    if misspelt := unknown_field(error):
        return f"{where.removeprefix(' ')} it {misspelt}".strip().rstrip("?.")
    return f"{type(error).__name__}{where}: {' '.join(str(error).split())}"


def _all_cells(cells: GridCells) -> Sequence[dict[str, Any]]:
    """Return the cells of an experiment, with those that oracles stand for."""
    controllers = {str(cell.get("controller", "fixed")) for cell in cells}
    if all(CONTROLLERS.bind(text).full.name != "oracle" for text in controllers):
        return cells
    return [each for cell in cells for each in _oracle_cells(cell)]


def _matching(plans: Plans, only: str) -> Plans:
    """Return the plans whose names match a glob, and those whose models they start from."""
    return plans.of_ids(plan.id for plan in plans if fnmatch(plan.name, only)).with_origins()


def _oracle_cells(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs that an oracle stands for, BSP and each setting of the method's knob; else the cell itself."""
    controller = CONTROLLERS.bind(str(cell.get("controller", "fixed"))).full
    if controller.name != "oracle":
        return [cell]
    arguments: dict[str, Any] = dict(controller.kwargs)
    algorithm = ALGORITHMS.bind(str(cell.get("algorithm", "fedavg")))
    chain = bind_chain(str(cell.get("transforms", "")))
    terms: list[Bound[Any]] = [algorithm, *chain]
    dial = settings_of([dial for term in terms for dial in term.build().dials], arguments["knob"], arguments["grid"])

    def at(term: Bound[Any], theta: float) -> str:
        if not any(other.name == dial.name for other in term.build().dials):
            return str(term.short)
        is_schedule = isinstance(dict(term.full.kwargs).get(dial.name), tuple)
        others = tuple(pair for pair in term.short.kwargs if pair[0] != dial.name)
        return str(replace(term.short, kwargs=(*others, (dial.name, (theta,) if is_schedule else theta))))

    plain = {**cell, "controller": "fixed"}
    settings = [
        {**plain, "algorithm": at(algorithm, theta), "transforms": " | ".join(at(term, theta) for term in chain)}
        for theta in dial.grid
    ]
    return [{**plain, "algorithm": "bsp", "transforms": ""}, *settings]


def _dataset_of(cell: Mapping[str, Any]) -> str:
    return need_text(cell.get("dataset", ""))


def _rough_name(cell: Mapping[str, Any]) -> str:
    """A run's name as far as it is known without its dataset."""
    text = str(cell.get("partition", "iid"))
    partition, keys = " + ".join(str(term.short) for term in bind_sum(text)), keys_of(text)
    algorithm = keys.algorithm.bind(str(cell.get("algorithm", keys.defaults.get("algorithm", "fedavg")))).short
    return f"{_dataset_of(cell)} / {partition} / {algorithm} / seed {cell.get('seed', 0)}"


def _absence(dataset: str, binder: Binder) -> str:
    """Return why a dataset is not on this machine; empty if it is, or if something else is wrong with it."""
    try:
        if dataset:
            binder.data(dataset)
    except AbsentError as error:
        return str(error)
    return ""
