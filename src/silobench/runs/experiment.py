"""Experiments: a TOML file of choices, the grid of cells it spans, and each cell bound to a plan."""

import hashlib
import itertools
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError

from silobench.data import DATASETS, load
from silobench.engines import ENGINES
from silobench.errors import AbsentError, ConfigError, suggest
from silobench.loop.network import NETWORKS
from silobench.measures import MEASURES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.controllers import CONTROLLERS
from silobench.method.controllers.oracle import settings_of
from silobench.method.method import Buffers
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SCHEDULES, SOLVERS
from silobench.method.transforms import TRANSFORMS, bind_chain
from silobench.method.types import Count
from silobench.models import MODELS
from silobench.partitions import PARTITIONS, bind_sum
from silobench.partitions.label import counts_digest
from silobench.runs.label import LATER, distinguishing
from silobench.runs.starts import STARTS, Start, digest_of
from silobench.runs.stored import run_id
from silobench.spec import Bound, Registry, parse

REGISTRIES: dict[str, Registry[Any]] = {
    "algorithms": ALGORITHMS,
    "controllers": CONTROLLERS,
    "datasets": DATASETS,
    "engines": ENGINES,
    "measures": MEASURES,
    "models": MODELS,
    "networks": NETWORKS,
    "partitions": PARTITIONS,
    "schedules": SCHEDULES,
    "selections": SELECTIONS,
    "servers": SERVERS,
    "solvers": SOLVERS,
    "starts": STARTS,
    "transforms": TRANSFORMS,
}

ABOUT = ("title", "paper", "table", "numbers", "scale")  # what a suite says of itself, besides its choices


class Cell(BaseModel):
    """One run's choices. Everything but `dataset` has a default; the dataset's own defaults come first."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    dataset: str
    partition: str = "iid"
    parties: Count | None = None
    participation: Annotated[float, Gt(0), Le(1)] | Count = 1.0
    selection: str = "uniform"
    model: str = "mlp"
    algorithm: str = "fedavg"
    solver: str = "sgd"
    transforms: str = ""
    server: str = "step"
    buffers: Buffers = "average"
    start: str = "random"
    controller: str = "fixed"
    network: str = "100Mbps"
    rounds: Count = 50
    eval_every: Count = 1
    eval_on: Annotated[float, Gt(0), Le(1)] | Count = 1.0
    validation: Annotated[float, Ge(0), Lt(1)] = 0.0
    seed: Annotated[int, Ge(0)] = 0
    measure: list[str] = []


@dataclass(frozen=True)
class Plan:
    """A cell with every spec bound: `config` states every argument and names the run, `label` only what was chosen."""

    cell: Cell
    config: dict[str, Any]
    label: dict[str, Any]
    shown: tuple[str, ...] = ("dataset", "partition", "algorithm")  # the choices that tell it from the other plans
    created: str = ""  # when it was planned; in the order of the experiment, however runs are scheduled
    origin: "Plan | None" = None  # the run that is made first, at whose model this one begins

    @property
    def id(self) -> str:
        return run_id(self.config)

    @property
    def name(self) -> str:
        label = LATER | self.label
        return " / ".join((*(str(label[key]) for key in self.shown), f"seed {self.cell.seed}"))


# --- from a file to plans ----------------------------------------------------------------------------


def read_experiment(path: Path) -> dict[str, Any]:
    """The choices of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no experiment file {path}: check the path.") from error
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from error


def expand(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of an experiment: every list is an axis, `trials` counts seeds up, [[grid]] tables override the rest.

    >>> [cell["seed"] for cell in expand({"dataset": "digits", "trials": 2, "seed": 5})]
    [5, 6]
    """
    shared = {key: value for key, value in choices.items() if key not in ("grid", *ABOUT)}
    return [cell for grid in _grids(choices) or [{}] for cell in _product({**shared, **grid})]


def _grids(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    grids = choices.get("grid", [])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise ConfigError("grid must be a list of tables: write [[grid]] above each.")
    return grids


def _product(choices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    trials, seed = choices.pop("trials", 1), choices.get("seed", 0)
    if not isinstance(trials, int) or trials < 1:
        raise ConfigError(f"trials must be a whole number of at least 1, but {trials!r} was given.")
    if isinstance(seed, list) and trials > 1:
        raise ConfigError(f"seed is a list and trials is {trials}: give a list of seeds, or one seed and trials.")
    if isinstance(seed, int):
        choices["seed"] = list(range(seed, seed + trials))
    axes = {key: value if _is_axis(key, value) else [value] for key, value in choices.items()}
    for key, values in axes.items():
        if not values:
            raise ConfigError(f"{key} is an empty list: give at least one value.")
    for chosen in itertools.product(*axes.values()):
        yield dict(zip(axes, chosen, strict=True))


def _is_axis(key: str, value: Any) -> bool:
    return isinstance(value, list) and key != "measure"  # a run can measure several things


def override(choices: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """The same experiment with some choices replaced, in every grid."""
    grids = [{key: value for key, value in grid.items() if key not in changed} for grid in _grids(choices)]
    return {**choices, **changed} | ({"grid": grids} if grids else {})


def at_scale(choices: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """A suite at one of its scales: what `[scale.NAME]` says replaces the choices above it, grids included.

    >>> suite = {"dataset": "mnist", "rounds": 50, "scale": {"smoke": {"note": "tiny", "rounds": 2}}}
    >>> at_scale(suite, "smoke")
    {'dataset': 'mnist', 'rounds': 2}
    """
    scales = choices.get("scale", {})
    if not isinstance(scales, dict) or not all(isinstance(told, dict) for told in scales.values()):
        raise ConfigError("scale must be tables of choices: write [scale.smoke] above those of the scale smoke.")
    if scale not in scales:
        known = suggest(scale, scales) if scales else "leave --scale out, this experiment has no scales."
        raise ConfigError(f"there is no scale '{scale}': {known}")
    whole = {key: value for key, value in choices.items() if key != "scale"}
    changed = {key: value for key, value in scales[scale].items() if key != "note"}
    return {**whole, **changed} if "grid" in changed else override(whole, changed)


def _settings(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Of an oracle all the runs that it stands for: BSP, and each setting of the method's knob; else the cell."""
    asked = CONTROLLERS.bind(str(cell.get("controller", "fixed"))).full
    if asked.name != "oracle":
        return [cell]
    given: dict[str, Any] = dict(asked.kwargs)
    algorithm, chain = (
        ALGORITHMS.bind(str(cell.get("algorithm", "fedavg"))),
        bind_chain(str(cell.get("transforms", ""))),
    )
    terms: list[Bound[Any]] = [algorithm, *chain]
    dial = settings_of([dial for term in terms for dial in term.build().dials], given["knob"], given["grid"])

    def at(term: Bound[Any], theta: float) -> str:
        if not any(found.name == dial.name for found in term.build().dials):
            return str(term.short)
        many = isinstance(dict(term.full.kwargs).get(dial.name), tuple)  # a schedule: of one setting then
        others = tuple(pair for pair in term.short.kwargs if pair[0] != dial.name)
        return str(replace(term.short, kwargs=(*others, (dial.name, (theta,) if many else theta))))

    plain = {**cell, "controller": "fixed"}
    tried = [
        {**plain, "algorithm": at(algorithm, theta), "transforms": " | ".join(at(term, theta) for term in chain)}
        for theta in dial.grid
    ]
    return [{**plain, "algorithm": "bsp", "transforms": ""}, *tried]


def _dataset_of(cell: Mapping[str, Any]) -> str:
    return str(cell.get("dataset", ""))


def _rough_name(cell: Mapping[str, Any]) -> str:
    """A run's name as far as it is known without its dataset."""
    partition = " + ".join(str(term.short) for term in bind_sum(str(cell.get("partition", "iid"))))
    algorithm = ALGORITHMS.bind(str(cell.get("algorithm", "fedavg"))).short
    return f"{_dataset_of(cell)} / {partition} / {algorithm} / seed {cell.get('seed', 0)}"


def _absence(dataset: str) -> str:
    """Why a dataset cannot be loaded here; nothing if it can, or if something else is wrong with it."""
    try:
        if dataset:
            load(dataset)
    except AbsentError as error:
        return str(error)
    return ""


def plan(choices: Mapping[str, Any], only: str = "*", plugins: Sequence[Path] = ()) -> list[Plan]:
    """Every run an experiment asks for, checked and bound, each once and in the order of the file."""
    plans, absent = plan_present(choices, only, plugins)
    if absent:
        raise AbsentError(next(iter(absent)))
    return plans


def plan_present(
    choices: Mapping[str, Any], only: str = "*", plugins: Sequence[Path] = ()
) -> tuple[list[Plan], dict[str, int]]:
    """The same of the runs whose dataset is on this machine; of the others, why it is not, and how many there are."""
    extra = {"plugins": [load_plugin(path) for path in plugins]} if plugins else {}
    cells = [made for cell in expand(choices) for made in _settings(cell)]
    why = {name: _absence(name) for name in dict.fromkeys(map(_dataset_of, cells))}
    gone = [cell for cell in cells if why[_dataset_of(cell)]]
    named = _named([bind(cell, extra) for cell in cells if not why[_dataset_of(cell)]])
    chosen = _with_origins([made for made in named if fnmatch(made.name, only)], named)
    absent = Counter(why[_dataset_of(cell)] for cell in gone if fnmatch(_rough_name(cell), only))
    if not chosen and absent:
        raise AbsentError(next(iter(absent)))
    if not chosen:
        such = named[0].name if named else _rough_name(gone[0])
        raise ConfigError(f"--only '{only}' matches none of {len(named) + len(gone)} runs, such as '{such}'.")
    return chosen, absent


def _with_origins(chosen: Sequence[Plan], named: Sequence[Plan]) -> list[Plan]:
    """The plans that were chosen and those whose models they begin at, in their order."""
    wanted = {made.id for made in chosen} | {made.origin.id for made in chosen if made.origin}
    return [made for made in named if made.id in wanted]


def _named(plans: Sequence[Plan]) -> list[Plan]:
    """Each plan once, what it begins at before it, with the choices that tell it from others and a place in order."""
    found = {made.id: made for plan in plans for made in (plan.origin, plan) if made}
    always = ("dataset", "partition", "algorithm")
    shown = (*always, *distinguishing([made.label for made in found.values()], but=(*always, "seed")))
    now = datetime.now(UTC)
    return [
        replace(made, shown=shown, created=(now + timedelta(microseconds=place)).isoformat(timespec="microseconds"))
        for place, made in enumerate(found.values())
    ]


def load_plugin(path: Path) -> str:
    """Run a user's file, which registers what it defines; gives the digest that the record keeps."""
    if not path.is_file():
        raise ConfigError(f"there is no plugin file {path}: check the path.")
    try:
        runpy.run_path(str(path))
    except Exception as error:
        raise ConfigError(f"the plugin {path} fails when it is loaded: {type(error).__name__}: {error}.") from error
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def bind(choices: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Plan:
    """Check one cell's choices and bind its specs, the dataset's own defaults filled in."""
    _check_keys(choices)
    dataset = load(str(choices["dataset"]))
    data = DATASETS.bind(str(choices["dataset"]))
    try:
        suited = {"model": "cnn" if len(dataset.shape) == 3 else "mlp", **dataset.defaults}
        asked = choices.get("measure", [])
        measure = [asked] if isinstance(asked, str) else asked
        cell = Cell.model_validate({**suited, **choices, "dataset": str(data.full), "measure": measure})
    except ValidationError as error:
        problem = error.errors()[0]
        needed = problem["msg"].removeprefix("Input should be ")
        raise ConfigError(f"{problem['loc'][0]} must be {needed}, but {problem['input']!r} was given.") from error
    cell = _in_lockstep(cell)
    specs = _bind_specs(cell)
    start: Start = specs["start"][0].build()
    origin = start.origin(cell.model_dump())
    likes = [dict(term.full.kwargs) for term in specs["partition"] if term.full.name == "like"]
    references = [counts_digest(str(like["reference"]), str(like["level"])) for like in likes]
    more = {**(extra or {}), **({"references": references} if references else {})}
    begins = {"start_model": digest_of(start.path)} if start.path else {}
    plain = cell.model_dump(exclude={"dataset", *specs})
    return Plan(
        cell,
        config=_without_later(
            {
                "dataset": str(data.full),
                "checksum": dataset.checksum,
                **_texts(specs, "full"),
                **plain,
                **more,
                **begins,
            }
        ),
        label=_without_later({"dataset": str(data.short), **_texts(specs, "short"), **plain}),
        origin=bind(origin, extra) if origin else None,
    )


def _in_lockstep(cell: Cell) -> Cell:
    """With a solver of one step a round that keeps its momentum, where parties exchange after every minibatch."""
    if not ALGORITHMS.build(cell.algorithm).lockstep:
        return cell
    given = parse(cell.solver)
    stated = dict(given.kwargs)
    for key in () if stated.get("steps") == 1 else ("epochs", "steps"):
        if key in stated:
            raise ConfigError(
                f"{cell.algorithm} exchanges after every minibatch, but the solver has {key}={stated[key]}: leave "
                f"{key} out."
            )
    return cell.model_copy(
        update={"solver": str(replace(given, kwargs=tuple({"keep_momentum": True, **stated, "steps": 1}.items())))}
    )


def _without_later(choices: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in choices.items() if key not in LATER or value != LATER[key]}


def _check_keys(choices: Mapping[str, Any]) -> None:
    for key in choices:
        if key not in Cell.model_fields:
            known = [*Cell.model_fields, "trials", "grid"]
            raise ConfigError(f"an experiment has no key '{key}': {suggest(key, known)}")
    if "dataset" not in choices:
        raise ConfigError(
            'an experiment needs a dataset: write dataset = "digits", or another of `silobench list datasets`.'
        )


def _bind_specs(cell: Cell) -> dict[str, list[Bound[Any]]]:
    return {
        "partition": list(bind_sum(cell.partition)),
        "model": [MODELS.bind(cell.model)],
        "algorithm": [ALGORITHMS.bind(cell.algorithm)],
        "solver": [SOLVERS.bind(cell.solver)],
        "transforms": list(bind_chain(cell.transforms)),
        "server": [SERVERS.bind(cell.server)],
        "selection": [SELECTIONS.bind(cell.selection)],
        "controller": [CONTROLLERS.bind(cell.controller)],
        "network": [NETWORKS.bind(cell.network)],
        "start": [STARTS.bind(cell.start)],
        "measure": [MEASURES.bind(measure) for measure in cell.measure],
    }


def _texts(specs: dict[str, list[Bound[Any]]], form: str) -> dict[str, str]:
    joints = {"partition": " + ", "transforms": " | ", "measure": " + "}
    return {key: joints.get(key, "").join(str(getattr(term, form)) for term in terms) for key, terms in specs.items()}
