"""Plans: the choices of one run, checked and with every spec bound."""

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from silobench.data import DATASETS, load
from silobench.data.splits import split_text
from silobench.errors import ConfigError, suggest, value_shown
from silobench.loop.clocks import CLOCKS
from silobench.loop.exchanges import EXCHANGES
from silobench.loop.network import NETWORKS
from silobench.loop.paces import PACES
from silobench.method.adversaries import ADVERSARIES
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES
from silobench.method.controllers import CONTROLLERS
from silobench.method.method import Buffers
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SOLVERS, Solver, keep_argument
from silobench.method.transforms import bind_chain
from silobench.method.types import Count
from silobench.models.devices import Device, resolved
from silobench.partitions import PARTITIONS, bind_sum
from silobench.partitions.label import counts_digest
from silobench.runs.keys import HORIZONTAL_KEYS, VERTICAL_KEYS, Keys, keys_of
from silobench.runs.label import LATER, PLUGIN
from silobench.runs.starts import STARTS, Start, digest_of
from silobench.runs.stored import run_id
from silobench.spec import Bound, parse
from silobench.spec.registry import SYNONYMS
from silobench.tasks.metric_functions import METRICS
from silobench.tasks.objectives import OBJECTIVES

_IN_WORDS = {"int_type": "a whole number", "float_type": "a number", "list_type": "text or a list of texts"}


class Cell(BaseModel):
    """The choices of one run. All but `dataset` have defaults; defaults of the dataset come first."""

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
    exchange: str = "star"
    aggregate: str = "mean"
    availability: str = "always"
    pace: str = "synchronous"
    clock: str = "measured"
    broadcast: str = ""
    adversary: str = "none"
    rounds: Count = 50
    eval_every: Count = 1
    eval_on: Annotated[float, Gt(0), Le(1)] | Count = 1.0
    validation: Annotated[float, Ge(0), Lt(1)] = 0.0
    objective: str = "auto"
    split: str = "given"
    seed: Annotated[int, Ge(0)] = 0
    measure: list[str] = []
    metric: list[str] = []
    device: Device = "cpu"


@dataclass(frozen=True)
class Plan:
    """A cell with every spec bound: `config` states every argument and names the run, `label` only what was chosen."""

    cell: Cell
    config: dict[str, Any]
    label: dict[str, Any]
    shown: tuple[str, ...] = ("dataset", "partition", "algorithm")  # choices in which it differs from other plans
    created: str = ""  # when it was planned; in the order of the experiment, whatever order runs are made in
    origin: "Plan | None" = None  # a run that is made first: this one starts from its model
    until: int | None = None  # the round after which a command stops it, unfinished; None for its last
    private_runs: int = 0  # runs of the experiment with differential privacy on the same dataset, this one included

    @functools.cached_property
    def id(self) -> str:
        return run_id(self.config)

    @functools.cached_property
    def is_private(self) -> bool:
        """Whether the solver or a transform adds noise for somebody's privacy."""
        return adds_noise(self.cell.solver, self.cell.transforms)

    @property
    def name(self) -> str:
        label = LATER | self.label
        return " / ".join((*(str(label[key]) for key in self.shown), f"seed {self.cell.seed}"))


_IN_ORDER = tuple(Cell.model_fields)
_KEYS = frozenset(_IN_ORDER)


class _Part(NamedTuple):
    """A text of a cell, bound: its terms, and how configurations and labels state it."""

    terms: tuple[Bound[Any], ...]
    stated: str
    shown: str

    @classmethod
    def of(cls, terms: Iterable[Bound[Any]], joint: str = "") -> "_Part":
        each = tuple(terms)
        return cls(each, joint.join(str(term.full) for term in each), joint.join(map(_shown, each)))


class DataFacts(NamedTuple):
    """The facts about a dataset that a plan needs."""

    checksum: str
    shape: tuple[int, ...]
    defaults: Mapping[str, Any]
    name: str = ""
    groups: tuple[str, ...] = ()  # levels of groups that may be parties


class Binder:
    """Binds cells. A text is bound once and a dataset looked up once, since the cells of a grid share most of theirs.

    `extra` joins the configuration of every plan, as the digests of plugins do. `data` looks a dataset up; the default
    loads it.
    """

    def __init__(self, extra: Mapping[str, Any] | None = None, data: Callable[[str], DataFacts] | None = None) -> None:
        self.extra = dict(extra or {})
        self.data = functools.cache(data or _data)
        self.one = functools.cache(lambda registry, text: _Part.of([registry.bind(text)]))
        self.each = functools.cache(
            lambda registry, texts: _Part.of((self.one(registry, text).terms[0] for text in texts), " + ")
        )
        self.sum = functools.cache(lambda text: _Part.of(bind_sum(text), " + "))
        self.chain = functools.cache(lambda text: _Part.of(bind_chain(text), " | "))
        self.keys = functools.cache(keys_of)
        self.start: Callable[[str], Start] = functools.cache(lambda text: self.one(STARTS, text).terms[0].build())
        self.start_model = functools.cache(digest_of)
        self.split = functools.cache(split_text)
        self.need_kind = functools.cache(lambda dealt, *others: _need_kind(self.keys(dealt), dealt, *others))
        self.exchanges_each_batch = functools.cache(
            lambda algorithm: bool(self.one(ALGORITHMS, algorithm).terms[0].build().lockstep)
        )
        self.references = functools.cache(
            lambda *texts: _references(
                self.sum(texts[0]).terms, self.one(EXCHANGES, texts[1]).terms[0], self.one(texts[3], texts[2]).terms[0]
            )
        )

    def bind(self, choices: Mapping[str, Any]) -> Plan:
        """Check the choices of a cell and bind its specs, with the defaults of its dataset filled in."""
        _check_keys(choices)
        data = self.data(str(choices["dataset"]))
        name = self.one(DATASETS, str(choices["dataset"]))
        keys = self.keys(choices.get("partition", data.defaults.get("partition", "iid")))
        cell = _cell(choices, data, name.stated, keys.defaults)
        self.need_kind(cell.partition, cell.model, cell.algorithm, tuple(cell.measure))
        cell = self._in_lockstep(cell, keys)
        cell = cell.model_copy(update={"device": resolved(cell.device), "split": self.split(cell.split)})
        parts, start = self._parts(cell), self.start(cell.start)
        is_made_first = start.rounds is not None and not keys.is_vertical  # a vertical run refuses any start
        origin = start.origin(cell.model_dump()) if is_made_first else None
        plain = {key: getattr(cell, key) for key in _IN_ORDER if key not in parts and key != "dataset"}
        references = self.references(cell.partition, cell.exchange, cell.model, keys.model)
        config = {
            "dataset": name.stated,
            "checksum": data.checksum,
            **{key: part.stated for key, part in parts.items()},
            **plain,
            **self.extra,
            **({"references": references} if references else {}),
            **({"start_model": self.start_model(start.path)} if start.path else {}),
        }
        label = {"dataset": name.shown, **{key: part.shown for key, part in parts.items()}, **plain}
        return Plan(cell, _without_later(config), _without_later(label), origin=self.bind(origin) if origin else None)

    def _in_lockstep(self, cell: Cell, keys: Keys) -> Cell:
        """Give the solver one step per round and a lasting state, where parties exchange after every minibatch."""
        if keys.is_vertical or not self.exchanges_each_batch(cell.algorithm):
            return cell
        spec = parse(cell.solver)
        stated = dict(spec.kwargs)
        for key in () if stated.get("steps") == 1 else ("epochs", "steps"):
            if key in stated:
                raise ConfigError(
                    f"{cell.algorithm} exchanges after every minibatch, but the solver has {key}={stated[key]}: leave "
                    f"{key} out."
                )
        keep = keep_argument(spec.name)
        lasting = {keep: True} if keep else {}
        solver = replace(spec, kwargs=tuple({**lasting, **stated, "steps": 1}.items()))
        return cell.model_copy(update={"solver": str(solver)})

    def _parts(self, cell: Cell) -> dict[str, _Part]:
        keys = self.keys(cell.partition)
        return {
            "partition": self.sum(cell.partition),
            "model": self.one(keys.model, cell.model),
            "algorithm": self.one(keys.algorithm, cell.algorithm),
            "solver": self.one(SOLVERS, cell.solver),
            "transforms": self.chain(cell.transforms),
            "server": self.one(SERVERS, cell.server),
            "selection": self.one(SELECTIONS, cell.selection),
            "controller": self.one(CONTROLLERS, cell.controller),
            "network": self.one(NETWORKS, cell.network),
            "exchange": self.one(EXCHANGES, cell.exchange),
            "aggregate": self.one(AGGREGATES, cell.aggregate),
            "availability": self.one(AVAILABILITIES, cell.availability),
            "pace": self.one(PACES, cell.pace),
            "clock": self.one(CLOCKS, cell.clock),
            "broadcast": self.chain(cell.broadcast),
            "adversary": self.one(ADVERSARIES, cell.adversary),
            "start": self.one(STARTS, cell.start),
            "objective": self.one(OBJECTIVES, cell.objective),
            "measure": self.each(keys.measure, tuple(cell.measure)),
            "metric": self.each(METRICS, tuple(cell.metric)),
        }


def _need_kind(keys: Keys, partition: str, model: str, algorithm: str, measures: tuple[str, ...]) -> None:
    """Refuse a part that is for parties that hold rows where parties hold columns, and the other way round."""
    other = HORIZONTAL_KEYS if keys.is_vertical else VERTICAL_KEYS
    has, needs = ("columns", "rows") if keys.is_vertical else ("rows", "columns")
    advice = "" if keys.is_vertical else 'write partition = "columns(...)", or '
    measured = (("measure", measure) for measure in measures)
    for key, text in (("model", model), ("algorithm", algorithm), *measured):
        registry, others = (getattr(each, key) for each in (keys, other))
        name = parse(text).name
        if name not in registry.factories and name in others.factories:
            kinds = registry.kind.replace(" ", "-") + "s"
            raise ConfigError(
                f"{key} = '{text}' is for parties that hold {needs}, but {partition} deals {has}: {advice}choose "
                f"from `silobench list {kinds}`."
            )


def adds_noise(solver: str, transforms: str) -> bool:
    """Whether a solver or a chain of transforms adds noise for somebody's privacy."""
    protects_rows = type(SOLVERS.build(solver)).release is not Solver.release
    return protects_rows or any(term.build().equal_weights for term in bind_chain(transforms))


def bind(choices: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Plan:
    """Check the choices of one cell and bind its specs, with the defaults of its dataset filled in."""
    return Binder(extra).bind(choices)


_INNER_LEVELS = ("octants", "sources")  # of fcube and of linked tables: what a partition looks up, and not parties


def _data(dataset: str) -> DataFacts:
    read = load(dataset)
    levels = tuple(level for level in read.train.groups if level not in _INNER_LEVELS)
    return DataFacts(read.checksum, read.shape, read.defaults, read.name, levels)


def _check_keys(choices: Mapping[str, Any]) -> None:
    for key in choices:
        if key not in _KEYS:
            raise ConfigError(f"an experiment has no key '{key}': {_instead(key, choices)}")
    if "dataset" not in choices:
        raise ConfigError(
            'an experiment needs a dataset: write dataset = "digits", or another of `silobench list datasets`.'
        )
    need_text(choices["dataset"])


def need_text(dataset: Any) -> str:
    """Return the dataset of an experiment, which is text."""
    if (isinstance(dataset, str) and dataset.strip()) or dataset == "":
        return str(dataset)
    shown = value_shown(dataset)
    raise ConfigError(f'dataset must be text in quotation marks, as in dataset = "digits", but {shown} was given.')


def _instead(key: str, choices: Mapping[str, Any]) -> str:
    """Return the end of the message about an unknown key."""
    key, partition = SYNONYMS.get(key, key), choices.get("partition", "iid")
    keys = keys_of(partition)
    parts = {
        "solver": (SOLVERS, choices.get("solver", "sgd")),
        "algorithm": (keys.algorithm, choices.get("algorithm", keys.defaults.get("algorithm", "fedavg"))),
        "partition": (PARTITIONS, partition if keys.is_vertical else ""),  # of rows, it may be a sum
    }
    for owner, (registry, spec) in parts.items():
        name = parse(str(spec)).name if spec else ""
        if name in registry.factories and key in inspect.signature(registry.factories[name]).parameters:
            return f'{key} is an argument of {owner}: write {owner} = "{name}({key}=...)".'
    if key == "grid":
        return "a [[grid]] table cannot contain another one."
    return suggest(key, [*_IN_ORDER, "trials", "grid"])


def _cell(choices: Mapping[str, Any], data: DataFacts, dataset: str, defaults: Mapping[str, str]) -> Cell:
    defaults = {"model": "cnn" if len(data.shape) == 3 else "mlp", **data.defaults, **defaults}
    lists = {key: choices.get(key, []) for key in ("measure", "metric")}
    lists = {key: [value] if isinstance(value, str) else value for key, value in lists.items()}
    try:
        return Cell.model_validate({**defaults, **choices, "dataset": dataset, **lists})
    except ValidationError as error:
        raise ConfigError(_refusal(error.errors()[0])) from error


def _refusal(problem: ErrorDetails) -> str:
    """Return the message about a value that pydantic refuses."""
    key, kind, value = str(problem["loc"][0]), problem["type"], problem["input"]
    default, needed = Cell.model_fields[key].default, problem["msg"].removeprefix("Input should be ")
    if kind == "string_type":
        example = f', such as {key} = "{default}"' if default and isinstance(default, str) else ""
        return f"{key} must be text in quotation marks{example}, but {value_shown(value)} was given."
    needed = _IN_WORDS.get(kind, needed)
    if value != value and kind.startswith(("less", "greater")):  # NaN, the only value that differs from itself
        needed = "a number"
    is_count = kind == "less_than_equal" and math.isfinite(value)
    hint = f": a count is a whole number, such as {int(value)}." if is_count else "."
    return f"{key} must be {needed}, but {value_shown(value)} was given{hint}"


def _references(partition: Iterable[Bound[Any]], *readers: Bound[Any]) -> list[str]:
    """Digests of the files that specs read: other proportions, another graph or another network are another run."""
    likes = [dict(term.full.kwargs) for term in partition if term.full.name == "like"]
    digests = [counts_digest(str(like["reference"]), str(like["level"])) for like in likes]
    contents = [reader.build().content for reader in readers]
    return digests + [text_digest(content) for content in contents if content]


def text_digest(content: str) -> str:
    """Return the digest of a file's text as a configuration states it."""
    return hashlib.sha256(content.encode()).hexdigest()


def _shown(term: Bound[Any]) -> str:
    """Return a spec as tables show it; a part of a plugin with the name of a built-in one also shows the plugin."""
    if not term.replaced_by:
        return str(term.short)
    return str(replace(term.short, kwargs=(*term.short.kwargs, (PLUGIN, term.replaced_by))))


def _without_later(choices: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in choices.items() if key not in LATER or value != LATER[key]}
