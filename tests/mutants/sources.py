"""Mutants of a file, by cosmic-ray's operators, without those that no test could or need notice."""

import ast
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_item import MutationSpec, WorkItem

Position = tuple[int, int]  # a line from 1 and a column from 0
Span = tuple[Position, Position]

_ARITHMETIC = frozenset(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"))
_MARKERS = frozenset(("parameters", "lambdef", "dictorsetmaker"))  # parents of a * that is no product
_TYPE_DECORATORS = frozenset(("overload", "override", "final", "runtime_checkable"))


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: Path
    operator: str
    occurrence: int
    start: Position
    end: Position

    def source(self) -> str | None:
        """Return the text of the changed file, or None if it is no Python."""
        operator = plugins.get_operator(self.operator)()
        code = mutate_code(self.file.read_text("utf-8"), operator, self.occurrence)
        try:
            compile(code or "(", str(self.file), "exec")
        except SyntaxError:
            return None
        return str(code)

    def identity(self) -> str:
        """Return a name that changes with the file."""
        text = f"{self.file.name} {_digest(self.file)} {self.operator} {self.occurrence}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def work_item(self) -> WorkItem:
        """Return it as cosmic-ray stores it."""
        change = MutationSpec(self.file, self.operator, self.occurrence, self.start, self.end)
        return WorkItem.single(self.identity(), change)


def sample(files: list[Path], seed: int) -> list[Mutant]:
    """Return all mutants in a random order, of which every beginning has its share of every file."""
    ranked: list[tuple[float, str, Mutant]] = []
    for file in files:
        mutants = list(mutants_of(file))
        random.Random(f"{seed} {file.parent.name}/{file.name}").shuffle(mutants)
        share = [(rank + 0.5) / len(mutants) for rank in range(len(mutants))]
        ranked += [(key, str(file), mutant) for key, mutant in zip(share, mutants, strict=True)]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda entry: entry[:2])]


def chosen(files: list[Path], seed: int, count: int | None, seen: int, skip: int = 0) -> list[Mutant]:
    """Return the beginning of an order, without the first `seen` mutants of seed 0, and the first `skip` others."""
    known = set(sample(files, 0)[:seen])
    return [mutant for mutant in sample(files, seed) if mutant not in known][skip:][:count]


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Return the mutants of a file in a fixed order."""
    text = file.read_text("utf-8")
    nodes, silent = list(ast_nodes(get_ast(text))), silent_spans(text)
    for name, operator in _operators():
        positions = [(node, *span) for node in nodes for span in operator.mutation_positions(node)]
        for occurrence, (node, start, end) in enumerate(positions):
            is_silent = any(first <= start < last for first, last in silent)
            if not (is_silent or _is_marker(node) or _is_alphabet(node, name)):
                yield Mutant(file, name, occurrence, start, end)


def _is_marker(node: Any) -> bool:
    return node.type == "operator" and node.parent is not None and node.parent.type in _MARKERS


def _is_alphabet(node: Any, operator: str) -> bool:
    """Return whether two names would be compared by the alphabet, which decides nothing in the product."""
    is_name = node.type == "comparison" and any(child.type == "string" for child in node.children)
    return is_name and bool({"Lt", "LtE", "Gt", "GtE"}.intersection(operator.split("_")))


@cache
def _operators() -> list[tuple[str, Any]]:
    names = [name for name in plugins.operator_names() if is_used(name)]
    classes = [(name, plugins.get_operator(name)) for name in names]
    return [(name, operator()) for name, operator in classes if not operator.arguments()]


def is_used(operator: str) -> bool:
    """Return whether mutants by an operator of cosmic-ray tell something about the tests.

    A shift of real numbers is a TypeError that any test notices, and would only raise the score. Whether equal values
    are one object is an accident of the interpreter.
    """
    kind, *names = operator.removeprefix("core/").split("_")
    if kind == "ReplaceBinaryOperator":
        return len(_ARITHMETIC.intersection(names)) != 1
    if kind == "ReplaceComparisonOperator":
        return len({"Is", "IsNot"}.intersection(names)) != 1
    return not (kind == "ReplaceUnaryOperator" and "Invert" in names)


def silent_spans(text: str) -> list[Span]:
    """Return the places where a change changes no result: types, the words of errors, checks of the code
    itself, and sizes of caches."""
    return [_span(text.splitlines(), node) for node in _silent_nodes(ast.parse(text))]


def _silent_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.AST() as annotation):
                yield annotation
            case ast.AnnAssign(annotation=annotation, value=value):
                yield annotation
                if value is not None and "TypeAlias" in ast.dump(annotation):
                    yield value
            case ast.FunctionDef(returns=returns, decorator_list=decorators):
                yield from [part for part in [returns] if part]
                yield from [part for part in decorators if isinstance(part, ast.Name) and part.id in _TYPE_DECORATORS]
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from arguments
            case ast.keyword(arg="frozen" | "strict" | "slots" | "kw_only" | "maxsize"):
                yield node


def _span(lines: list[str], node: Any) -> Span:
    first, last = lines[node.lineno - 1].encode(), lines[node.end_lineno - 1].encode()
    start, end = len(first[: node.col_offset].decode()), len(last[: node.end_col_offset].decode())
    return (node.lineno, start - 1), (node.end_lineno, end)  # a decorator begins at its @


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
