"""Registries bind specs to factories. An error about an unknown name or argument suggests the nearest known one."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, zip_longest
from typing import Any, Generic, ParamSpec, TypeVar, get_args, get_type_hints, overload

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from silobench.errors import ConfigError, SpecError, suggest, value_shown
from silobench.spec.arguments import as_python
from silobench.spec.contract import Contract, Origin, call, described, with_article
from silobench.spec.language import Spec, Value, canonical_name, parse, value_text

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Bound(Generic[T]):
    """A spec bound to its factory: `full` states every argument, `short` only those that differ from their default."""

    full: Spec
    short: Spec
    build: Callable[[], T]
    replaced_by: str = ""  # the plugin file whose function has taken the name of another one


_loads = count(1)
_load = 0  # the number of the plugin file that is being loaded; 0 while none is
_registered = 0  # how often a function was registered
_OWN = {"algorithm": " An algorithm of your own needs --plugin FILE."}  # after a message about an unknown name


@contextmanager
def loading() -> Iterator[Callable[[], int]]:
    """Load a plugin file: a name that it registers twice is refused, and one from an earlier loading is not.

    The function that this yields returns how many functions the file has registered.
    """
    global _load
    before, _load, start = _load, next(_loads), _registered
    try:
        yield lambda: _registered - start
    finally:
        _load = before


class Registry(Generic[T]):
    """The named factories of one kind, with helpful errors for unknown names and bad arguments.

    `nested` is the registry for specs inside arguments, as in ``sgd(lr=exponential(...))``. `contract` states what
    factories return; it is enforced for those of plugins.

    >>> colours: Registry[str] = Registry("colour")
    >>> @colours.register
    ... def grey(level: float = 0.5) -> str:
    ...     return f"grey at {level}"
    >>> colours.build("grey(0.7)")
    'grey at 0.7'
    >>> colours.build("gray")
    Traceback (most recent call last):
    silobench.errors.SpecError: there is no colour 'gray': did you mean grey?
    """

    def __init__(self, kind: str, contract: Contract | None = None, nested: "Registry[Any] | None" = None):
        self.kind, self.contract, self.nested = kind, contract, nested
        self.factories: dict[str, Callable[..., T]] = {}
        self.added_later: dict[str, tuple[str, ...]] = {}
        self.specs: dict[str, tuple[str, ...]] = {}

    @overload
    def register(self, factory: Callable[P, T]) -> Callable[P, T]: ...
    @overload
    def register(
        self, *, added_later: tuple[str, ...] = (), specs: tuple[str, ...] = (), replace: bool = False
    ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...

    def register(
        self,
        factory: Callable[P, T] | None = None,
        *,
        added_later: tuple[str, ...] = (),
        specs: tuple[str, ...] = (),
        replace: bool = False,
    ) -> Any:
        """Register a factory under its function name; calls from Python are then checked as specs are.

        Use it as ``@registry.register`` or ``@registry.register(added_later=("argument",))``. The full spec omits the
        arguments in `added_later` while they have their defaults, so runs from before they existed keep their ids.
        An argument in `specs` is a nested spec also where it is written as a bare word; these arguments come first. A
        name that is taken is refused, unless `replace` is set. A file that is loaded again may register its names
        again, and so may a notebook.
        """
        if factory is None:
            return functools.partial(self._register, added_later=added_later, specs=specs, replace=replace)
        return self._register(factory, added_later, specs, replace)

    def _register(
        self, factory: Callable[P, T], added_later: tuple[str, ...], specs: tuple[str, ...], replace: bool
    ) -> Callable[P, T]:
        global _registered
        _registered += 1
        name = self._name(factory)
        origin = Origin.of(factory, self.kind, name, _load, replace)
        before = origin_of(self.factories.get(name))
        if before and not origin.is_plugin and before.is_plugin and before.replaces:
            return self.factories[name]  # a plugin came before the module with the function that it replaces
        self._need_free_name(origin, before)
        self.added_later[name], self.specs[name] = added_later, specs

        @functools.wraps(factory)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = self._bind(name, args, dict(kwargs))
            return self._product(factory, bound, origin)

        setattr(checked, _ORIGIN, origin)
        self.factories[name] = checked
        return checked

    def _name(self, factory: Any) -> str:
        """Return the name of a factory in specs."""
        if callable(factory) and getattr(factory, "__name__", "").isidentifier():
            return canonical_name(factory.__name__)
        raise ConfigError(
            f"register needs a function with a name, but {described(factory)} was given: write @... .register above a "
            f"function that returns {self._example}."
        )

    @property
    def _example(self) -> str:
        return self.contract.example if self.contract else with_article(self.kind)

    def _need_free_name(self, origin: Origin, before: Origin | None) -> None:
        if before is None or origin.replaces or origin.is_again(before) or not (before.is_plugin or origin.is_plugin):
            return
        owner = f"{before.file_name}, line {before.line}," if before.is_plugin else "silobench"
        raise ConfigError(
            f"{origin} has a name that is taken: {owner} has {with_article(self.kind)} of this name, so choose "
            "another name, or write .register(replace=True) to replace that one."
        )

    def _product(self, factory: Callable[P, T], bound: inspect.BoundArguments, origin: Origin) -> T:
        """Call a factory; check what it returns if it is a plugin's, and note the name for messages."""
        if not origin.is_plugin:
            product = factory(*bound.args, **bound.kwargs)
        else:
            product = call(factory, bound, origin)
            product = self.contract.checked(product, origin) if self.contract else product
        with suppress(AttributeError, TypeError):  # of a number, or of a value with slots
            object.__setattr__(product, _NAME, f"{self.kind} {origin.name}")
        return product

    def build(self, text: str) -> T:
        """Read a spec and call its factory."""
        return self.bind(text).build()

    def bind(self, text: str | Spec) -> Bound[T]:
        """Read a spec and check its name and arguments without calling the factory."""
        if not isinstance(text, str | Spec):
            raise SpecError(
                f"{with_article(self.kind)} is named by the text of a spec, but {described(text)} was given: write "
                "the name, with arguments in brackets."
            )
        spec = parse(text) if isinstance(text, str) else text
        factory = self._factory(spec.name)
        signature, origin = _signature_of(factory), origin_of(factory)
        places = list(signature.parameters)[: len(spec.args)]
        args = [self._inner(value, spec.name, name) for value, name in zip_longest(spec.args, places)]
        kwargs = {self._parameter(spec, name): self._inner(value, spec.name, name) for name, value in spec.kwargs}
        bound = self._bind(spec.name, [_built(a) for a in args], {k: _built(v) for k, v in kwargs.items()})
        written = signature.bind(*args, **kwargs).arguments
        nested = {name: value for name, value in written.items() if isinstance(value, Bound)}
        defaults = {name: p.default for name, p in signature.parameters.items()}
        added = self.added_later.get(spec.name, ())
        stated = {k: v for k, v in bound.arguments.items() if k not in added or v != defaults[k]}
        full = stated | {name: value.full for name, value in nested.items()}
        short = bound.arguments | {name: value.short for name, value in nested.items()}
        short = {name: value for name, value in short.items() if value != defaults[name]}
        return Bound(
            full=_as_spec(spec.name, full, signature),
            short=_as_spec(spec.name, short, signature, self.specs.get(spec.name, ())),
            build=lambda: factory(*bound.args, **bound.kwargs),
            replaced_by=origin.file_name if origin and origin.replaces else "",
        )

    def describe(self) -> list[dict[str, str]]:
        """Return name, signature and summary (the docstring's first paragraph) of every factory, sorted by name."""
        return [
            description(name, inspect.signature(factory).parameters.values(), inspect.getdoc(factory) or "")
            for name, factory in sorted(self.factories.items())
        ]

    def _factory(self, name: str) -> Callable[..., T]:
        if name not in self.factories:
            own = _OWN.get(self.kind, "")
            raise SpecError(f"there is no {self.kind} '{name}': {suggest(name, self.factories)}{own}")
        return self.factories[name]

    def _parameter(self, spec: Spec, name: str) -> str:
        """Return the Python name of a spec's argument: ``as`` is ``as_``."""
        parameters = _signature_of(self._factory(spec.name)).parameters.values()
        known = {p.name.rstrip("_"): p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if name not in known and any(p.kind == p.VAR_KEYWORD for p in parameters):
            return name
        if name not in known:
            meant = SYNONYMS.get(name, "")
            tail = suggest(name, known) if known else "it takes no arguments."
            tail = f"did you mean {meant}?" if meant in known else tail
            raise SpecError(f"{spec.name} has no argument '{name}': {tail}")
        return known[name]

    def _inner(self, value: Value, owner: str, parameter: str | None) -> Any:
        """Bind a nested spec; return any other value unchanged."""
        is_spec = parameter in self.specs.get(owner, ())
        if isinstance(value, str) and is_spec:
            value = parse(value)
        if not isinstance(value, Spec):
            return value
        if self.nested is None or (any(self.specs.values()) and not is_spec):
            raise SpecError(
                f"arguments of {with_article(self.kind)} cannot be specs, but '{value}' was given: "
                "quote it if it is text."
            )
        return self.nested.bind(value)

    def _bind(self, name: str, args: Any, kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Return the checked arguments of a call, with defaults filled in."""
        factory = self._factory(name)
        signature, hints = _signature_of(factory), self._hints(factory, name)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SpecError(f"{name}: {error}; write {self._usage(name)}.") from error
        for parameter, value in bound.arguments.items():
            kind, hint = signature.parameters[parameter].kind, hints.get(parameter, Any)
            if kind == inspect.Parameter.VAR_KEYWORD:
                bound.arguments[parameter] = {key: _checked(name, key, hint, v) for key, v in value.items()}
                continue
            many = kind == inspect.Parameter.VAR_POSITIONAL
            each = [_checked(name, parameter, hint, v) for v in (value if many else [value])]
            bound.arguments[parameter] = tuple(each) if many else each[0]
        bound.apply_defaults()
        return bound

    def _hints(self, factory: Callable[..., Any], name: str) -> dict[str, Any]:
        try:
            return _type_hints(factory)
        except Exception as error:  # annotations are code, which may be wrong in any way
            origin = Origin.of(inspect.unwrap(factory), self.kind, name)
            raise ConfigError(f"{origin} has annotations that cannot be read ({error}): correct them.") from error

    def _usage(self, name: str) -> str:
        return next(row["signature"] for row in self.describe() if row["name"] == name)


# To read the arguments of a function takes longest in a bind, and a large grid binds a few functions often.
_signature_of = functools.lru_cache(maxsize=1024)(inspect.signature)


@functools.lru_cache(maxsize=1024)
def _type_hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of the function that a registered one calls."""
    return get_type_hints(inspect.unwrap(factory), include_extras=True)


_ORIGIN = "__silobench_origin__"
_NAME = "__silobench_name__"


def origin_of(factory: Callable[..., Any] | None) -> Origin | None:
    """Return where a registered factory comes from; None for another function."""
    return getattr(factory, _ORIGIN, None)


def part_name(part: Any, kind: str) -> str:
    """Return how a message names a part: by its name if a registry made it.

    >>> part_name(object(), "aggregate")
    'this aggregate'
    """
    name = getattr(part, _NAME, None)
    return f"the {name}" if name else f"this {kind}"


def need_part(value: Any, product: type | None, what: str, example: str) -> None:
    """Raise `ConfigError` if an argument of a Python call is not a part; `product` is None for a part without a class.

    `what` names the argument, and `example` is how to write it.

    >>> need_part("fedavg", dict, "algorithm", "sb.fedavg()")
    Traceback (most recent call last):
    silobench.errors.ConfigError: algorithm is the text 'fedavg', but a part is needed: write, for example, sb.fedavg().
    """
    origin = origin_of(value)
    if origin is not None:
        name = origin.name.replace("-", "_")
        raise ConfigError(f"{what} is the function {name}, but what it returns is needed: call it, as in sb.{name}().")
    if callable(value) if product is None else isinstance(value, product):
        return
    kind = with_article(f"sb.{product.__name__}") if product and product.__module__ != "builtins" else "a part"
    raise ConfigError(f"{what} is {described(value)}, but {kind} is needed: write, for example, {example}.")


# Names that other libraries have for an argument, which no similar spelling would find.
SYNONYMS = {
    "learning_rate": "lr", "batch_size": "batch", "momentum": "beta1", "local_epochs": "epochs", "wd": "weight_decay",
    "eps": "epsilon", "sigma": "noise", "noise_multiplier": "noise", "max_grad_norm": "clip",
}  # fmt: skip
IN_WORDS = {
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "a valid tuple": "a list",
}


def _built(value: Any) -> Any:
    return value.build() if isinstance(value, Bound) else value


def _as_spec(name: str, arguments: dict[str, Any], signature: inspect.Signature, unnamed: tuple[str, ...] = ()) -> Spec:
    """Return the spec of a call. Nested specs in `unnamed` are written as people do: finetune(fedavg)."""
    args: list[Value] = []
    kwargs: list[tuple[str, Value]] = []
    for key, value in arguments.items():
        if signature.parameters[key].kind == inspect.Parameter.VAR_POSITIONAL:
            args.extend(value)
        elif key in unnamed and isinstance(value, Spec):
            args.append(value if value.args or value.kwargs else value.name)
        elif signature.parameters[key].kind == inspect.Parameter.VAR_KEYWORD:
            kwargs.extend(sorted(value.items()))  # in one order, because the text names a run
        else:
            kwargs.append((key.rstrip("_"), value))
    return Spec(name, tuple(args), tuple(kwargs))


def _checked(name: str, parameter: str, hint: Any, value: Any) -> Any:
    if value is None and "none" in get_args(hint):
        value = "none"  # the language reads none as None, and one of these words is meant
    try:
        return _adapter(hint).validate_python(as_python(value), strict=True)
    except ValidationError as error:
        first, argument = error.errors()[0], parameter.rstrip("_")
        places = [place for place in first["loc"] if isinstance(place, int)]
        if places:  # one entry of a list
            argument, value = f"entry {places[0] + 1} of {argument}", first["input"]
        shown = f"a {type(value).__name__}" if callable(value) else value_shown(value)
        problem = first["msg"].removeprefix("Input should be ")
        raise SpecError(
            f"{name}: {argument} must be {IN_WORDS.get(problem, problem)}, but {shown} was given."
        ) from error


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)


def description(name: str, parameters: Iterable[inspect.Parameter], doc: str) -> dict[str, str]:
    """Return name, signature and summary of a factory with these parameters and this docstring."""
    signature = f"{name}({', '.join(map(_signature, parameters))})"
    return {"name": name, "signature": signature, "summary": doc.split("\n\n")[0].replace("\n", " ")}


def _signature(parameter: inspect.Parameter) -> str:
    name = parameter.name.rstrip("_")
    if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
        return f"{name}, ..."
    if parameter.kind == inspect.Parameter.VAR_KEYWORD:
        return "..."
    if parameter.default is inspect.Parameter.empty:
        return name
    default = parameter.default
    return f"{name}={value_text(default) if isinstance(default, str | float | int | tuple | None) else default}"
