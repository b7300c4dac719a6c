"""The one spec language: ``fedprox(mu=0.01)`` is the call ``fedprox(mu=0.01)``, and never ``eval``.

A spec is a name with arguments; ``a + b`` sums partitions and ``a | b`` chains transforms. `parse` reads
text into `Spec` values, a `Registry` binds them to factories. Nothing here knows what is being named.
"""

import ast
import functools
import inspect
import keyword
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from silobench.errors import SpecError, suggest

Value: TypeAlias = "bool | int | float | str | None | tuple[Value, ...] | Spec"
Operator: TypeAlias = Literal["+", "|"]
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Spec:
    """A name with arguments, as written; `str` gives back text that parses to the same value.

    >>> print(parse("Label_Dirichlet( beta = .5 )"))
    label-dirichlet(beta=0.5)
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        shown = [_show(v) for v in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs]
        return f"{self.name}({', '.join(shown)})" if shown else self.name


# --- reading -----------------------------------------------------------------------------------------

# The papers' own notation, rewritten where a term begins.
_NOTATION = [
    (r"#\s*C\s*=\s*(?P<k>\d+)", r"label-count(k=\g<k>)"),
    (r"q\s*[~∼]\s*Dir\(", "quantity-dirichlet("),
    (r"(?:p(?:_?k)?\s*[~∼]\s*)?Dir\(", "label-dirichlet("),
    (r"(?:x\s*[~∼]\s*)?Gau\(", "noise("),
    (r"(?P<rate>\d+(?:\.\d+)?\s*[kKMG]bps)\b", r"link(bandwidth='\g<rate>')"),
]
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=[\s()\[\],=+|]|$))
  | (?P<mark>[()\[\],=+|])
  | (?P<word>[^\s()\[\],=+|'"]+)
)""",
    re.VERBOSE,
)
_CONSTANTS = {"true": "True", "false": "False", "none": "None"}


def parse(text: str) -> Spec:
    """One spec; a sum or a chain is refused."""
    terms = parse_terms(text, "+")
    if len(terms) != 1:
        raise SpecError(f"{_quoted(text)} is a sum, and one single spec is needed here.")
    return terms[0]


def parse_terms(text: str, operator: Operator) -> tuple[Spec, ...]:
    """The terms of ``a + b`` or ``a | b``, in order; a lone spec is one term."""
    text = _rewritten(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape in a string is refused, not warned about
            tree = ast.parse("".join(_python(text)).strip() or "()", mode="eval").body
        return tuple(_spec(node, text) for node in _split(tree, ast.Add if operator == "+" else ast.BitOr))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(
            f"{_quoted(text)} is not a spec: write name(argument=value, ...), with brackets closed."
        ) from error


def _rewritten(text: str) -> str:
    """The papers' notation as specs, outside quotation marks."""
    parts = re.split(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", text)
    for pattern, replacement in _NOTATION:
        parts[0] = re.sub(rf"(?P<before>^\s*){pattern}", rf"\g<before>{replacement}", parts[0])
        parts[::2] = [re.sub(rf"(?P<before>[+|]\s*){pattern}", rf"\g<before>{replacement}", p) for p in parts[::2]]
    return "".join(parts)


def _quoted(text: str) -> str:
    """The text on one line, cut where it is long."""
    shown = text if text.isprintable() else text.encode("unicode_escape").decode()
    return f"'{shown if len(shown) <= 100 else shown[:97] + '...'}'"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SpecError(f"{_quoted(text)} has an open quotation mark: close it.")
        position = match.end()
        yield str(match.lastgroup), match.group(str(match.lastgroup))


def _python(text: str) -> Iterator[str]:
    """Python source of the same shape: bare words become names, keywords or string literals."""
    tokens = list(_tokens(text))
    depth = 0
    for here, (kind, token) in enumerate(tokens):
        if here and kind != "mark" and tokens[here - 1][0] != "mark":
            raise SpecError(f"{_quoted(text)} has two words side by side: quote text that has spaces.")
        following = tokens[here + 1][1] if here + 1 < len(tokens) else ""
        if kind == "mark":
            depth += (token in "([") - (token in ")]")
            yield token
        elif kind != "word":
            yield f" {_plain(token) if kind == 'number' else token} "
        elif depth == 0 or following in ("(", "="):
            yield " " + _identifier(token, text)
        else:
            yield " " + _CONSTANTS.get(token.lower(), repr(token)) + " "


def _plain(number: str) -> str:
    """Python refuses leading zeros of integers: 007 is 7."""
    return str(int(number)) if number.lstrip("-").isdigit() else number


def _identifier(word: str, text: str) -> str:
    name = word.replace("-", "_")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("True", "False", "None"):
        raise SpecError(f"'{word}' in {_quoted(text)} is not a name: write letters, digits and hyphens.")
    return name + "_" if keyword.iskeyword(name) else name


def _split(node: ast.expr, operator: type[ast.operator]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        yield from _split(node.left, operator)
        yield from _split(node.right, operator)
    else:
        yield node


def _spec(node: ast.expr, text: str) -> Spec:
    if isinstance(node, ast.Name):
        return Spec(_name(node.id))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise SpecError(f"{_quoted(text)} is not a spec: write name or name(argument=value, ...).")
    given = [(k.arg or "").rstrip("_") for k in node.keywords]
    repeated = {name for name in given if given.count(name) > 1}
    if repeated:
        raise SpecError(f"{_quoted(text)} gives {', '.join(sorted(repeated))} twice: give it once.")
    return Spec(
        name=_name(node.func.id),
        args=tuple(_value(a, text) for a in node.args),
        kwargs=tuple((name, _value(k.value, text)) for name, k in zip(given, node.keywords, strict=True)),
    )


def _name(identifier: str) -> str:
    """A factory's name as specs write it: ``label_dirichlet`` is ``label-dirichlet``."""
    return identifier.rstrip("_").replace("_", "-").lower()


def _value(node: ast.expr, text: str) -> Value:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if isinstance(node.op, ast.USub) and isinstance(number, int | float):
            return -number
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_value(item, text) for item in node.elts)
    if isinstance(node, ast.Call):
        return _spec(node, text)
    raise SpecError(f"{_quoted(text)} has an argument that is no number, word, list or spec: quote it if it is text.")


_SAFE_WORD = re.compile(r"[A-Za-z_./~:\\%@-][\w./~:\\%@-]*")


def _show(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_show(v) for v in value)}]"
    if isinstance(value, str):
        bare = _SAFE_WORD.fullmatch(value) and value.lower() not in _CONSTANTS and not _numeric(value)
        return value if bare else repr(value)
    if isinstance(value, float):
        return repr(value).replace("inf", "1e999")
    if isinstance(value, Spec) and not (value.args or value.kwargs):
        return f"{value.name}()"
    return str(value)


def _numeric(word: str) -> bool:
    match = _TOKEN.fullmatch(word)
    return match is not None and match.lastgroup == "number"


# --- binding -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound(Generic[T]):
    """A spec bound to its factory: `full` states every argument, `short` only those off their default."""

    full: Spec
    short: Spec
    build: Callable[[], T]


class Registry(Generic[T]):
    """The named factories of one kind, and the errors for names and arguments they do not have.

    `nested` is the registry that reads specs inside arguments, as in ``sgd(lr=exponential(...))``.

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

    def __init__(self, kind: str, nested: "Registry[Any] | None" = None):
        self.kind, self.nested = kind, nested
        self.factories: dict[str, Callable[..., T]] = {}
        self.later: dict[str, tuple[str, ...]] = {}

    def register(self, factory: Callable[P, T], later: tuple[str, ...] = ()) -> Callable[P, T]:
        """Enter a factory under its own name; calls from Python are checked as specs are.

        `later` are arguments that it did not always have: a full spec does not state them at their defaults, so that
        what was run before they came is still the same run.
        """
        name = _name(factory.__name__)
        self.later[name] = later

        @functools.wraps(factory)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = self._bind(name, args, dict(kwargs))
            return factory(*bound.args, **bound.kwargs)

        self.factories[name] = checked
        return checked

    def build(self, text: str) -> T:
        return self.bind(text).build()

    def bind(self, text: str | Spec) -> Bound[T]:
        """Read a spec and check its name and arguments, without calling the factory yet."""
        spec = parse(text) if isinstance(text, str) else text
        factory = self._factory(spec.name)
        args = [self._inner(value) for value in spec.args]
        kwargs = {self._parameter(spec, name): self._inner(value) for name, value in spec.kwargs}
        bound = self._bind(spec.name, [_built(a) for a in args], {k: _built(v) for k, v in kwargs.items()})
        signature = inspect.signature(factory)
        written = signature.bind(*args, **kwargs).arguments
        nested = {name: value for name, value in written.items() if isinstance(value, Bound)}
        defaults = {name: p.default for name, p in signature.parameters.items()}
        stated = {k: v for k, v in bound.arguments.items() if k not in self.later[spec.name] or v != defaults[k]}
        full = stated | {name: value.full for name, value in nested.items()}
        short = bound.arguments | {name: value.short for name, value in nested.items()}
        return Bound(
            full=_as_spec(spec.name, full, signature),
            short=_as_spec(spec.name, {k: v for k, v in short.items() if v != defaults[k]}, signature),
            build=lambda: factory(*bound.args, **bound.kwargs),
        )

    def describe(self) -> list[dict[str, str]]:
        """Name, signature and first docstring line of every factory, sorted."""
        rows = []
        for name, factory in sorted(self.factories.items()):
            parameters = [_signature(p) for p in inspect.signature(factory).parameters.values()]
            summary = (inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " ")
            rows.append({"name": name, "signature": f"{name}({', '.join(parameters)})", "summary": summary})
        return rows

    def _factory(self, name: str) -> Callable[..., T]:
        if name not in self.factories:
            raise SpecError(f"there is no {self.kind} '{name}': {suggest(name, self.factories)}")
        return self.factories[name]

    def _parameter(self, spec: Spec, name: str) -> str:
        """The Python name of a spec's argument: ``as`` is ``as_``."""
        parameters = inspect.signature(self._factory(spec.name)).parameters.values()
        known = {p.name.rstrip("_"): p.name for p in parameters if p.kind != p.VAR_POSITIONAL}
        if name not in known:
            tail = suggest(name, known) if known else "it takes none."
            raise SpecError(f"{spec.name} has no argument '{name}': {tail}")
        return known[name]

    def _inner(self, value: Value) -> Any:
        """Nested specs bound; everything else as it stands."""
        if not isinstance(value, Spec):
            return value
        if self.nested is None:
            raise SpecError(
                f"a {self.kind} takes no spec as an argument, but '{value}' was given: quote it if it is text."
            )
        return self.nested.bind(value)

    def _bind(self, name: str, args: Any, kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The checked arguments of a call, defaults filled in."""
        factory = inspect.unwrap(self._factory(name))
        signature, hints = inspect.signature(factory), get_type_hints(factory, include_extras=True)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SpecError(f"{name}: {error}; write {self._usage(name)}.") from error
        for parameter, value in bound.arguments.items():
            many = signature.parameters[parameter].kind == inspect.Parameter.VAR_POSITIONAL
            each = [_checked(name, parameter, hints.get(parameter, Any), v) for v in (value if many else [value])]
            bound.arguments[parameter] = tuple(each) if many else each[0]
        bound.apply_defaults()
        return bound

    def _usage(self, name: str) -> str:
        return next(row["signature"] for row in self.describe() if row["name"] == name)


def _built(value: Any) -> Any:
    return value.build() if isinstance(value, Bound) else value


def _as_spec(name: str, arguments: dict[str, Any], signature: inspect.Signature) -> Spec:
    args: list[Value] = []
    kwargs: list[tuple[str, Value]] = []
    for key, value in arguments.items():
        if signature.parameters[key].kind == inspect.Parameter.VAR_POSITIONAL:
            args.extend(value)
        else:
            kwargs.append((key.rstrip("_"), value))
    return Spec(name, tuple(args), tuple(kwargs))


def _checked(name: str, parameter: str, hint: Any, value: Any) -> Any:
    try:
        return _adapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        given = f"a {type(value).__name__}" if callable(value) else repr(value)
        problem = error.errors()[0]["msg"].removeprefix("Input should be ")
        raise SpecError(f"{name}: {parameter.rstrip('_')} must be {problem}, but {given} was given.") from error


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)


def _signature(parameter: inspect.Parameter) -> str:
    name = parameter.name.rstrip("_")
    if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
        return f"{name}, ..."
    if parameter.default is inspect.Parameter.empty:
        return name
    default = parameter.default
    return f"{name}={_show(default) if isinstance(default, str | float | int | tuple | None) else default}"
