"""Names, arguments and summaries of built-in parts, read from the source files: importing the parts takes seconds.

A part is a function below ``@REGISTRY.register``, or one that a module passes to ``REGISTRY.register``, by its name or
in a loop over names. The result is the same as that of the registry's `describe`.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from silobench.spec.language import canonical_name
from silobench.spec.registry import description

ROOT = Path(__file__).parent.parent


def built_in(kind: str) -> list[dict[str, str]]:
    """Return name, signature and summary of every part of a kind, such as "models", sorted by name."""
    registry = _registries()[kind]
    rows: dict[str, dict[str, str]] = {}
    for path in _files_with(f"{registry}.register", ROOT):
        tree = _tree(path)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        decorated = [node for node in functions if any(_registers(d, registry) for d in node.decorator_list)]
        passed = [_function(name, path.parent) for name in _passed_names(tree, registry)]
        rows |= {row["name"]: row for row in map(_row, (*decorated, *passed))}
    return [rows[name] for name in sorted(rows)]


def _registries() -> dict[str, str]:
    """Return the variable of each kind's registry."""
    statements = _tree(ROOT / "runs" / "experiment.py").body
    (table,) = (n.value for n in statements if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "REGISTRIES")
    assert isinstance(table, ast.Dict)
    pairs = zip(table.keys, table.values, strict=True)
    return {ast.literal_eval(key): ast.unparse(value) for key, value in pairs if key}


def _files_with(text: str, folder: Path) -> Iterator[Path]:
    """Yield the source files that contain a text."""
    return (path for path in sorted(folder.rglob("*.py")) if text in _source(path))


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_source(path))


def _registers(node: ast.expr, registry: str) -> bool:
    """Whether an expression is ``REGISTRY.register``, or a call of it with options."""
    function = node.func if isinstance(node, ast.Call) and not node.args else node
    owner = function.value if isinstance(function, ast.Attribute) and function.attr == "register" else None
    return isinstance(owner, ast.Name) and owner.id == registry


def _passed_names(tree: ast.Module, registry: str) -> Iterator[str]:
    """Yield the names of functions that a module passes to ``register``; a loop variable stands for several."""
    loops = {
        ast.unparse(loop.target): [ast.unparse(name) for name in loop.iter.elts]
        for loop in tree.body
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Tuple)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) == 1 and _registers(node.func, registry):
            name = ast.unparse(node.args[0])
            yield from loops.get(name, [name])


def _function(name: str, folder: Path) -> ast.FunctionDef:
    """Return the definition of a function in a folder, by a name such as ``tables.adult``.

    Several modules may have a function of this name. The module may be imported under another name, so it only decides
    between them.
    """
    module, _, last = name.rpartition(".")
    for path in sorted(_files_with(f"\ndef {last}(", folder), key=lambda path: path.stem != module):
        for node in _tree(path).body:
            if isinstance(node, ast.FunctionDef) and node.name == last:
                return node
    raise LookupError(f"{folder} has no function {name}, which is registered.")


def _row(node: ast.FunctionDef) -> dict[str, str]:
    return description(canonical_name(node.name), _parameters(node.args), ast.get_docstring(node) or "")


def _parameters(arguments: ast.arguments) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function. Their defaults are literals."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    for argument, default in zip(plain, defaults, strict=True):
        yield _parameter(argument, default, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if arguments.vararg:
        yield _parameter(arguments.vararg, None, inspect.Parameter.VAR_POSITIONAL)
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, value, inspect.Parameter.KEYWORD_ONLY)
    if arguments.kwarg:
        yield _parameter(arguments.kwarg, None, inspect.Parameter.VAR_KEYWORD)


def _parameter(argument: ast.arg, default: ast.expr | None, kind: "inspect._ParameterKind") -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    return inspect.Parameter(argument.arg, kind, default=value)
