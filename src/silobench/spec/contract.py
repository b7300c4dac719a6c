"""Contracts: what silobench expects of a part that a plugin registers, and sentences for what does not fit.

A part of silobench is used as it is. Only a function from a file of the user becomes a `Hook`, which checks each call:
so built-in parts keep their speed, and functions that engines recognise stay the same objects.
"""

import inspect
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from silobench.errors import ConfigError, HookError, SilobenchError, suggest

PACKAGE = str(Path(__file__).parents[1]) + os.sep  # as functions state their files, also behind a link
Check: TypeAlias = Callable[[Any, Sequence[Any]], "str | None"]
"""(value, arguments of the call) -> what the value is and what is expected instead; None if it fits."""


@dataclass(frozen=True)
class Origin:
    """The registered function that a part comes from."""

    kind: str  # "algorithm"
    name: str  # in specs
    file: str
    line: int
    module: str = ""
    load: int = 0  # which loading of a plugin file registered it; 0 if a program did
    replaces: bool = False  # whether it takes the name of another function on purpose

    @classmethod
    def of(cls, function: Callable[..., Any], kind: str, name: str, load: int = 0, replaces: bool = False) -> "Origin":
        file, line = position(function)
        return cls(kind, name, file, line, str(getattr(function, "__module__", "")), load, replaces)

    @property
    def is_plugin(self) -> bool:
        """Whether the function is not one of silobench's."""
        return not self.file.startswith(PACKAGE)

    @property
    def file_name(self) -> str:
        return Path(self.file).name

    def is_again(self, other: "Origin") -> bool:
        """Whether the other origin is an earlier form of this function: the same file, loaded again, or a notebook."""
        is_same = self.file == other.file or self.module == other.module == "__main__"
        return is_same and (self.load == 0 or self.load != other.load or self.line == other.line)

    def __str__(self) -> str:
        return f"the {self.kind} {self.name} ({self.file_name}, line {self.line})"


def position(function: Any) -> tuple[str, int]:
    """Return the file and the first line of a function; of a class or of a callable object, those of its code."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None and not inspect.isclass(function):
        function = type(function)
    if code is None:
        code = getattr(vars(function).get("__call__") or vars(function).get("__init__"), "__code__", None)
    if code is not None:
        return code.co_filename, code.co_firstlineno
    return getattr(inspect.getmodule(function), "__file__", None) or "unknown file", 1


def is_ours(function: Any) -> bool:
    """Whether a function is one of silobench's."""
    return position(function)[0].startswith(PACKAGE)


def described(value: Any) -> str:
    """Return a value as an error message shows it.

    >>> described("mine"), described(None), described((1, 2)), described(len)
    ("the text 'mine'", 'None', 'a tuple of 2', 'the function len')
    """
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) < 40 else f"a text of {len(value)} characters"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        kind = "tensor" if type(value).__name__ == "Tensor" else "array"
        return f"{with_article(kind)} of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """Return a noun after "a" or "an"."""
    return f"{'an' if noun[0] in 'AEIOUaeiou' or noun.startswith('sb.') else 'a'} {noun}"


def anything(value: Any, arguments: Sequence[Any]) -> str | None:
    """Accept any value."""
    return None


def expects(kinds: type | tuple[type, ...], text: str) -> Check:
    """Return a check of the type of a value; `text` names what is expected."""
    return _Type(kinds, text)


@dataclass(frozen=True)
class _Type:
    kinds: type | tuple[type, ...]
    text: str

    def __call__(self, value: Any, arguments: Sequence[Any]) -> str | None:
        return None if isinstance(value, self.kinds) else f"{described(value)}, but {self.text} is expected"


@dataclass(frozen=True)
class Form:
    """How a hook is called: the names of its arguments, a check of what it returns, and the form of a function in it.

    `inner` is the name and form of the function that the hook returns, where it returns one. `trial` gets the value,
    the arguments and the origin, and tries the value once.
    """

    arguments: str
    check: Check = anything
    inner: "tuple[str, Form] | None" = None
    contract: "Contract | None" = None  # of the part that the hook returns, where it returns one
    trial: Callable[[Any, Sequence[Any], Origin], None] | None = None

    @cached_property
    def count(self) -> int:
        return len(self.arguments.split(", "))


@dataclass(frozen=True)
class Hook:
    """A function of a plugin as silobench calls it: an error in it, or a wrong value from it, becomes one sentence."""

    function: Callable[..., Any]
    name: str
    origin: Origin
    form: Form = field(compare=False)

    def __call__(self, *arguments: Any) -> Any:
        try:
            value = self.function(*arguments)
        except SilobenchError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(error, arguments) from error
        problem = self.form.check(value, arguments)
        if problem:
            raise HookError(f"{self} returned {problem}", "")
        if self.form.trial:
            self.form.trial(value, arguments, self.origin)
        if self.form.inner:
            name, form = self.form.inner
            return hooked(value, name, self.origin, form)
        return self.form.contract.checked(value, self.origin) if self.form.contract else value

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the function: a schedule may have more methods."""
        if name.startswith("__") or name == "function":  # pickle asks for some before there is a function
            raise AttributeError(name)
        return getattr(self.function, name)

    def __str__(self) -> str:
        return self._text(position(self.function)[1])

    def _text(self, line: int) -> str:
        part = f"the {self.origin.kind} {self.origin.name}".rstrip()
        file = Path(position(self.function)[0]).name
        return f"the hook `{self.name}` of {part} ({file}, line {line})"

    def _failure(self, error: BaseException, arguments: Sequence[Any]) -> HookError:
        line = last_line(error.__traceback__, position(self.function)[0]) or position(self.function)[1]
        hint = _names(arguments) if isinstance(error, KeyError) else ""
        return HookError(f"{self._text(line)} {raised(error)}{hint}", "".join(traceback.format_exception(error)))


def hooked(function: Any, name: str, origin: Origin, form: Form) -> Any:
    """Return a function of a plugin as a `Hook`, after a check that it can be called; one of silobench as it is."""
    if not callable(function):
        raise ConfigError(
            f"the hook `{name}` of {origin} is {described(function)}, but a function "
            f"{name}({form.arguments}) is needed: give one."
        )
    if isinstance(function, Hook) or is_ours(function):
        return function
    hook = Hook(function, name, origin, form)
    try:
        inspect.signature(function).bind(*range(form.count))
    except TypeError:
        raise ConfigError(
            f"{hook} is called with ({form.arguments}), but it takes {_parameters(function)}: define it as "
            f"{name}({form.arguments})."
        ) from None
    except ValueError:  # a compiled function has no signature to check
        pass
    return hook


_building: ContextVar[Origin | None] = ContextVar("_building", default=None)


def inner_hook(function: Callable[..., Any], name: str, form: Form) -> Any:
    """Return a function that a plugin hands to a helper of silobench as a `Hook` of the part that is being built."""
    origin = _building.get()
    return hooked(function, name, origin, form) if origin else function


def _parameters(function: Callable[..., Any]) -> str:
    names = list(inspect.signature(function).parameters)
    return f"({', '.join(names)})" if names else "no argument"


def raised(error: BaseException) -> str:
    """Return what code did instead of returning a value.

    >>> raised(KeyError("control")), raised(SystemExit(3))
    ("raised KeyError: 'control'", 'ended the program with sys.exit(3): let it return, or raise an error')
    """
    if isinstance(error, SystemExit):
        return f"ended the program with sys.exit({error.code}): let it return, or raise an error"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__}{': ' if text else ''}{text}"


def last_line(trace: TracebackType | None, file: str) -> int | None:
    """Return the line of a file that was reached last before an error; None if the file had no part in it."""
    lines = [number for frame, number in traceback.walk_tb(trace) if frame.f_code.co_filename == file]
    return lines[-1] if lines else None


def _names(arguments: Sequence[Any]) -> str:
    """Return the names in an update, in extras and in a memory, for the author of a hook that looked for another."""
    known = []
    for value in arguments:
        for title in ("total", "sums", "extras"):
            if isinstance(getattr(value, title, None), Mapping):
                known.append((title, getattr(value, title)))
        if isinstance(value, Mapping):
            known.append(("memory", value))
    texts = [f"{title} has {', '.join(map(str, names)) or 'no names'}" for title, names in known]
    return f"; {', '.join(texts)}" if texts else ""


# --- a part --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contract:
    """What a registered function returns: a value of `product` with hooks, or a single function.

    `example` is how to write the product. `hooks` are the forms of its fields by name; for a single function the only
    one, whose name is used in messages. `settings` checks other fields. `forms` returns forms that depend on the value.
    `others` are types that may be returned instead of a function. `trial` tries a value once.
    """

    product: type | None
    example: str
    hooks: Mapping[str, Form] = field(default_factory=dict)
    settings: Mapping[str, Check] = field(default_factory=dict)
    forms: Callable[[Any], Mapping[str, Form]] = lambda product: {}
    others: tuple[type, ...] = ()
    trial: Callable[[Any, Origin], None] | None = None

    def checked(self, value: Any, origin: Origin) -> Any:
        """Return the value with each function of a plugin as a `Hook`; raise `ConfigError` if it does not fit."""
        if self.product is None:
            ((name, form),) = self.hooks.items()
            if isinstance(value, self.others) and not isinstance(value, bool):
                return value
            if not callable(value) or inspect.isclass(value):
                raise self._refusal(value, origin)
            return hooked(value, name, origin, form)
        if not isinstance(value, self.product):
            raise self._refusal(value, origin)
        for name, check in self.settings.items():
            problem = check(getattr(value, name), ())
            if problem:
                raise ConfigError(f"`{name}` of {origin} is {problem}: change it.")
        if self.trial:
            self.trial(value, origin)
        if not is_dataclass(value) or isinstance(value, type):
            return value
        hooks = {**self.hooks, **self.forms(value)}
        optional = {each.name for each in fields(value) if each.default is None}
        changes = {
            name: hooked(getattr(value, name), name, origin, form)
            for name, form in hooks.items()
            if getattr(value, name) is not None or name not in optional
        }
        changed = {name: hook for name, hook in changes.items() if hook is not getattr(value, name)}
        return replace(value, **changed) if changed else value

    def _refusal(self, value: Any, origin: Origin) -> ConfigError:
        return ConfigError(f"{origin} returned {described(value)}, but it must return {self.example}: change its end.")


def call(function: Callable[..., Any], arguments: inspect.BoundArguments, origin: Origin) -> Any:
    """Call a registered function of a plugin; an error in it becomes one sentence."""
    token = _building.set(origin)
    try:
        return function(*arguments.args, **arguments.kwargs)
    except SilobenchError:
        raise
    except (Exception, SystemExit) as error:
        line = last_line(error.__traceback__, origin.file) or origin.line
        where = f"the {origin.kind} {origin.name} ({origin.file_name}, line {line})"
        raise ConfigError(f"{where} {unknown_field(error) or f'{raised(error)}.'}") from error
    finally:
        _building.reset(token)


def unknown_field(error: BaseException) -> str | None:
    """Return a sentence about a misspelt hook, if that is the error."""
    pattern = r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'"
    match = re.match(pattern, str(error)) if isinstance(error, TypeError) else None
    if match is None:
        return None
    known = next((names for names in _fields_in(error.__traceback__, match[1])), ())
    hint = suggest(match[2], known) if known else "see docs/extending.md."
    return f"gives {match[1]} a hook '{match[2]}', which it does not have: {hint}"


def _fields_in(trace: TracebackType | None, name: str) -> list[list[str]]:
    """Return the fields of a dataclass that the code of a traceback knows by its name, also as ``sb.NAME``."""
    classes = []
    for frame, _ in traceback.walk_tb(trace):
        values = {**frame.f_globals, **frame.f_locals}
        modules = [value for value in values.values() if inspect.ismodule(value) and value.__name__ == "silobench"]
        classes += [values.get(name), *(getattr(module, name, None) for module in modules)]
    return [[each.name for each in fields(cls)] for cls in classes if inspect.isclass(cls) and is_dataclass(cls)]
