"""Changed code in the place of loaded code: functions get other bodies, or a module is imported from another text."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from gc import get_objects
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

Bodies = dict[tuple[str, int, str], list[FunctionType]]  # functions by file, first line and qualified name


def live_bodies(files: list[Path]) -> Bodies:
    """Return all functions of some files that exist now, closures included; after `gc.freeze` there seem to be none."""
    names, bodies = {str(file) for file in files}, defaultdict(list)
    for value in get_objects():
        if type(value) is FunctionType and value.__code__.co_filename in names:
            bodies[_key(value.__code__)].append(value)
    return bodies


def changed_functions(file: Path, source: str) -> list[tuple[CodeType, CodeType]] | None:
    """Return the code of each function that another source changes, old and new, outer functions first.

    None says that the change acts when the module is imported: a constant, a class body, a default, a decorator.
    """
    name = str(file)
    old, new = compile(file.read_text("utf-8"), name, "exec"), compile(source, name, "exec")
    try:
        pairs = list(_differences(old, new))
    except ValueError:
        return None
    is_function = all(before.co_flags & 0x2 for before, _ in pairs)  # CO_NEWLOCALS: no module and no class body
    return pairs if is_function else None


def swap(pairs: list[tuple[CodeType, CodeType]], bodies: Bodies) -> None:
    """Give the functions that exist their new code."""
    for before, after in pairs:
        for function in bodies.get(_key(before), ()):
            function.__code__ = after


def import_instead(file: Path, source: str) -> None:
    """Let a module that is not imported yet be imported from another source."""
    name, load = str(file), SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        return compile(source, name, "exec") if loader.path == name else load(loader, fullname)

    assert not any(getattr(module, "__file__", None) == name for module in list(sys.modules.values()))
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def statement_lines(source: str, line: int) -> range:
    """Return the lines of the innermost statement at a line; of a compound statement, those before its body."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = body[0].lineno if isinstance(body, list) and body else (node.end_lineno or line) + 1
            if line < end or body is None:
                best = range(node.lineno, max(end, node.lineno + 1))
    return best


def _differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Walk two compiled sources together, and return pairs whose instructions differ, or in which such a pair is."""
    inside = list(zip(_parts(old), _parts(new), strict=True))
    nested = [pair for parts in inside for pair in _differences(*parts)]
    if _instructions(old) != _instructions(new) or (nested and old.co_flags & 0x2):
        yield old, new
    yield from nested


def _parts(code: CodeType) -> list[CodeType]:
    return [value for value in code.co_consts if isinstance(value, CodeType)]


def _instructions(code: CodeType) -> tuple[object, ...]:
    """Return what a code does itself, without the codes in it and without line numbers."""
    constants = [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname
