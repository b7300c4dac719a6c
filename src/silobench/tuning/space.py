"""Search spaces: which keys and arguments of an experiment are searched, and the experiment at one point of a space.

A key of a space is a key of an experiment (`algorithm`, `rounds`), an argument of its spec (`solver.lr`), or an
argument of the spec with a name (`algorithm.fedprox.mu`, `transforms.clip.norm`). An argument that a chosen spec does
not have is left out of that trial.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from silobench.errors import ConfigError, suggest
from silobench.partitions import PARTITIONS
from silobench.runs.experiment import REGISTRIES
from silobench.runs.keys import keys_of
from silobench.runs.plan import Cell
from silobench.spec import Registry, Spec, parse, parse_terms
from silobench.spec.language import Operator
from silobench.tuning.ranges import Interval, Range, Space, Value, range_of

_SINGLE = {
    "solver": "solvers", "server": "servers", "selection": "selections", "controller": "controllers",
    "network": "networks", "exchange": "exchanges", "aggregate": "aggregates", "availability": "availabilities",
    "pace": "paces", "clock": "clocks", "adversary": "adversaries", "start": "starts",
}  # fmt: skip
_CHAINS: dict[str, Operator] = {"partition": "+", "transforms": "|", "broadcast": "|"}
_JUDGING = (
    "dataset",
    "seed",
    "split",
    "validation",
    "objective",
    "metric",
    "measure",
    "eval_on",
    "eval_every",
    "device",
)
# What is searched if nothing else is asked for: arguments that the specs of the experiment have.
_DEFAULTS = {
    "solver.lr": "log(0.001, 1.0)",
    "algorithm.mu": "log(0.001, 1.0)",
    "algorithm.alpha": "log(0.001, 1.0)",
    "server.lr": "log(0.01, 10.0)",
}


@dataclass(frozen=True)
class Argument:
    """An argument of a spec: `solver.lr`, or `algorithm.fedprox.mu` for the spec of one name only."""

    key: str
    name: str  # of the spec; empty for any
    argument: str


def read_space(written: Mapping[str, Any], cell: Cell) -> dict[str, Range]:
    """Check a search space against an experiment; an empty one becomes the default space.

    Whole keys come first, since they decide which arguments there are.
    """
    if not written:
        return _default_space(cell)
    ranges = {key: range_of(key, value) for key, value in written.items()}
    for key in ranges:
        _check_key(key)
    space = dict(sorted(ranges.items(), key=lambda item: "." in item[0]))
    for key in space:
        if "." in key and not any(_accepts(choices, key) for choices in _alternatives(key, space, cell)):
            _refuse_argument(key, next(_alternatives(key, space, cell)))
    return space


def _default_space(cell: Cell) -> dict[str, Range]:
    """Return the default ranges of the arguments that an experiment has, widened to their values in it."""
    choices, space = cell.model_dump(), {}
    for key, text in _DEFAULTS.items():
        value = values_at(choices, [key]).get(key)
        interval = range_of(key, text)
        if isinstance(value, int | float) and value > 0 and isinstance(interval, Interval):
            space[key] = replace(interval, low=min(interval.low, float(value)), high=max(interval.high, float(value)))
    if not space:
        raise ConfigError(
            "this experiment has no learning rate to tune, and no range was given: add a table [tune] with ranges, or "
            '--space "solver.lr=log(0.001, 1.0)".'
        )
    return dict(space)


def _check_key(key: str) -> None:
    owner = key.partition(".")[0]
    if owner in _JUDGING:
        raise ConfigError(
            f"{key} cannot be tuned, because it changes the rows or the numbers that a setting is judged by: tune "
            "another key."
        )
    specs = [*_SINGLE, *_CHAINS, "algorithm", "model"]
    if owner not in Cell.model_fields or ("." in key and owner not in specs):
        raise ConfigError(f"an experiment has no spec '{owner}' to tune: {suggest(owner, Cell.model_fields)}")
    if key.count(".") > 2 or not all(key.split(".")):
        raise ConfigError(
            f"'{key}' is not an argument to tune: write the key and the argument, as in solver.lr or "
            "algorithm.fedprox.mu."
        )


def argument_of(key: str) -> Argument:
    """Return what a key with dots means."""
    owner, *name, argument = key.split(".")
    return Argument(owner, "".join(name), argument)


def _alternatives(key: str, space: Space, cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield the choices of the experiment with every value that the space has for the key of an argument."""
    owner = argument_of(key).key
    choices = cell.model_dump()
    values = space[owner].values if owner in space else [choices[owner]]
    yield from ({**choices, owner: value} for value in values)


def _accepts(choices: Mapping[str, Any], key: str) -> bool:
    argument = argument_of(key)
    return any(_takes(term, argument, registry) for term, registry in _terms(choices, argument.key))


def _refuse_argument(key: str, choices: Mapping[str, Any]) -> None:
    argument = argument_of(key)
    terms = _terms(choices, argument.key)
    known = [f"{argument.key}.{name}" for term, registry in terms for name in _parameters(term, registry)]
    text = choices[argument.key] or "nothing"
    raise ConfigError(
        f"{argument.key} is {text}, which has no argument for '{key}': {suggest(key, known or ['solver.lr'])}"
    )


# --- specs of an experiment ---------------------------------------------------------------------------


def _terms(choices: Mapping[str, Any], key: str) -> list[tuple[Spec, Registry[Any]]]:
    """Return the specs that a key of an experiment has, each with its registry and with all arguments named."""
    text = str(choices[key])
    if key in _CHAINS:
        registry = PARTITIONS if key == "partition" else REGISTRIES["transforms"]
        terms = parse_terms(text, _CHAINS[key]) if text.strip() else ()
    else:
        keys = keys_of(choices["partition"])
        registry = getattr(keys, key) if key in ("algorithm", "model") else REGISTRIES[_SINGLE[key]]
        terms = (parse(text),)
    return [(registry.bind(term).short, registry) for term in terms]


def _parameters(term: Spec, registry: Registry[Any]) -> list[str]:
    parameters = inspect.signature(registry.factories[term.name]).parameters.values()
    return [each.name.rstrip("_") for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _takes(term: Spec, argument: Argument, registry: Registry[Any]) -> bool:
    return argument.name in ("", term.name) and argument.argument in _parameters(term, registry)


def values_at(choices: Mapping[str, Any], keys: Any) -> dict[str, Value]:
    """Return the values of keys and arguments in an experiment; an argument that its specs do not have is left out."""
    values: dict[str, Any] = {}
    for key in keys:
        if "." not in key:
            values[key] = choices[key]
            continue
        argument = argument_of(key)
        for term, registry in _terms(choices, argument.key):
            if _takes(term, argument, registry):
                values[key] = dict(registry.bind(term).full.kwargs).get(argument.argument)
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in values.items()}


def is_active(choices: Mapping[str, Any], key: str) -> bool:
    """Whether a key of a space has a meaning where the whole keys have these values."""
    return "." not in key or _accepts(choices, key)


def applied(choices: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return an experiment with some keys and arguments replaced; whole keys come first.

    >>> from silobench.runs.plan import bind
    >>> cell = bind({"dataset": "digits"}).cell.model_dump()
    >>> applied(cell, {"algorithm": "fedprox", "algorithm.mu": 0.1, "solver.lr": 0.05})["solver"]
    'sgd(lr=0.05)'
    """
    changed = {**choices, **{key: value for key, value in values.items() if "." not in key}}
    for key, value in values.items():
        if "." in key:
            argument = argument_of(key)
            terms = [
                _with_argument(term, argument.argument, value) if _takes(term, argument, registry) else term
                for term, registry in _terms(changed, argument.key)
            ]
            changed[argument.key] = f" {_CHAINS.get(argument.key, '')} ".join(map(str, terms))
    return changed


def _with_argument(term: Spec, name: str, value: Value) -> Spec:
    read = dict(parse(f"x({name}={value})").kwargs)[name] if isinstance(value, str) else value
    return replace(term, kwargs=tuple({**dict(term.kwargs), name: read}.items()))
