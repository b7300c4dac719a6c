"""The public interface as lines of text, which a file stores: a change of it is then a change that somebody sees.

Lines have names, defaults and choices, and no annotations, whose texts differ between versions of Python.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

import silobench as sb
from silobench.cli.app import app
from silobench.data.agreed.form import AgreedFile
from silobench.runs import stored
from silobench.runs.experiment import ABOUT, REGISTRIES, Cell
from silobench.silos.consortium import _Content
from silobench.silos.silo_file import SiloFile

STORED = Path(__file__).with_name("public.txt")
_FILES = {"an experiment": Cell, "silo.toml": SiloFile, "consortium.toml": _Content, "columns.toml": AgreedFile}
_PLAIN = (bool, int, float, str, type(None))


def interface() -> list[str]:
    """Return all lines, in the order of the file."""
    sections: dict[str, Callable[[], Iterator[str]]] = {
        "names of `import silobench`": _names,
        "specs": _specs,
        "keys of files": _keys,
        "commands": _commands,
        "run directories": _records,
    }
    return [line for title, lines in sections.items() for line in (f"# {title}", *lines())]


def _names() -> Iterator[str]:
    for name in sorted(set(sb.__all__) - {"__version__"}):
        value = getattr(sb, name)
        if inspect.isclass(value):
            yield from _class(name, value)
        elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            yield f"{name}{_signature(value)}"
        else:
            yield name


def _class(name: str, value: type) -> Iterator[str]:
    """Yield how to make a value of a class, and its methods and properties."""
    has_own = any("__init__" in vars(base) for base in value.__mro__ if _is_ours(base) and not _is_protocol(base))
    is_made = is_dataclass(value) or hasattr(value, "_fields") or has_own
    bases = ", ".join(base.__name__ for base in value.__bases__) if issubclass(value, Exception) else ""
    yield f"{name}{_signature(value) if is_made else f'[{bases}]' if bases else ''}"
    members = {key: member for base in reversed(value.__mro__) if _is_ours(base) for key, member in vars(base).items()}
    stated = {field.name for field in fields(value)} if is_dataclass(value) else set()
    for key, member in sorted(members.items()):
        function = getattr(member, "__func__", member)  # of a class method
        if key.startswith("_") or key in stated:
            continue
        if inspect.isfunction(function):
            yield f"{name}.{key}{_signature(function)}"
        elif isinstance(member, property) or hasattr(member, "func"):
            yield f"{name}.{key}"


def _is_ours(value: type) -> bool:
    return value.__module__.split(".")[0] == "silobench"


def _is_protocol(value: type) -> bool:
    return bool(getattr(value, "_is_protocol", False))


def _signature(value: Any) -> str:
    """Return names, kinds and defaults of parameters, and the texts that an argument chooses from."""
    hints = _hints(value.__init__ if inspect.isclass(value) else inspect.unwrap(value))
    parameters = []
    for parameter in inspect.signature(value).parameters.values():
        default = parameter.empty if parameter.default is parameter.empty else _Shown(_default(parameter.default))
        parameters.append(parameter.replace(annotation=parameter.empty, default=default))
    plain = str(inspect.Signature(parameters))
    options = {name: _choices(hint) for name, hint in hints.items() if name != "return"}
    stated = [f"{name}: {' | '.join(map(str, values))}" for name, values in options.items() if values]
    return f"{plain}  # {'; '.join(stated)}" if stated else plain


class _Shown(str):
    """Text without quotes in a signature."""

    def __repr__(self) -> str:
        return str(self)


def _default(value: Any) -> str:
    """Return a default that is a plain value, and three dots for others, such as functions."""
    if isinstance(value, tuple) and all(isinstance(each, _PLAIN) for each in value):
        return repr(value)
    return repr(value) if isinstance(value, _PLAIN) else "..."


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # names that only type checkers import
        return {}


def _choices(hint: Any) -> list[Any]:
    """Return the values of all `Literal` types in a hint."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) is Callable or isinstance(hint, list):
        return []
    return [value for part in get_args(hint) for value in _choices(part)]


def _specs() -> Iterator[str]:
    for kind, registry in sorted(REGISTRIES.items()):
        for name, factory in sorted(registry.factories.items()):
            yield f"{kind}: {name}{_signature(factory)}"


def _keys() -> Iterator[str]:
    yield f"an experiment, about itself: {', '.join(('grid', *ABOUT))}"
    for file, model in _FILES.items():
        yield from (f"{file}: {line}" for line in _fields(model, ""))


def _fields(model: type[BaseModel], place: str) -> Iterator[str]:
    """Yield the keys of a file with their defaults, and those of the tables in it."""
    for name, field in model.model_fields.items():
        is_plain = isinstance(field.default, _PLAIN)
        default = "" if field.is_required() else f" = {field.default!r}" if is_plain else " = ..."
        yield f"{place}{name}{default}"
        for inner in _models(field.annotation):
            yield from _fields(inner, f"{place}{name}.")


def _models(hint: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        yield hint
    for part in get_args(hint):
        yield from _models(part)


def _commands() -> Iterator[str]:
    yield from _command("silobench", typer.main.get_command(app))


def _command(name: str, command: Any) -> Iterator[str]:
    for parameter in command.params:
        options = " ".join([*parameter.opts, *parameter.secondary_opts])
        default = f" = {parameter.default}" if isinstance(parameter.default, int | float | str | Path) else ""
        stated = options.upper() if parameter.param_type_name == "argument" else f"{options}{default}"
        yield f"{name} {stated}{' (required)' if parameter.required else ''}"
    if not command.params:
        yield name
    for each, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _command(f"{name} {each}", inner)


def _records() -> Iterator[str]:
    yield f"format {stored.FORMAT}: run.json, rounds.jsonl, checkpoint/"
    yield from (f"run.json: {key} ({kind.__name__})" for key, kind in stored._FACTS.items())
    yield from (f"rounds.jsonl: {name}" for name in inspect.signature(sb.RoundRecord).parameters if name != "state")
