"""The spec language: ``fedprox(mu=0.01)`` means the call ``fedprox(mu=0.01)``, but is never passed to ``eval``.

A spec is a name with arguments; ``a + b`` sums partitions and ``a | b`` chains transforms. `parse` reads
text into `Spec` values, and a `Registry` binds them to factories. This module does not know any of the names.
"""

import ast
import keyword
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from silobench.errors import SpecError

Value: TypeAlias = "bool | int | float | str | None | tuple[Value, ...] | Spec"
Operator: TypeAlias = Literal["+", "|"]


@dataclass(frozen=True)
class Spec:
    """A name with arguments, as written; its `str` parses to an equal value.

    >>> print(parse("Label_Dirichlet( beta = .5 )"))
    label-dirichlet(beta=0.5)
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        shown = [value_text(v) for v in self.args] + [f"{k}={value_text(v)}" for k, v in self.kwargs]
        return f"{self.name}({', '.join(shown)})" if shown else self.name


# --- reading -----------------------------------------------------------------------------------------

# Notation from the papers, rewritten at the start of a term.
_NOTATION = [
    (r"#\s*C\s*=\s*(?P<k>\d+)(?![\w.])", r"label-count(k=\g<k>)"),
    (r"q\s*[~∼]\s*Dir\(", "quantity-dirichlet("),
    (r"(?:p(?:_?k)?\s*[~∼]\s*)?Dir\(", "label-dirichlet("),
    (r"(?:x\s*[~∼]\s*)?Gau\(", "noise("),
    (r"(?P<rate>\d+(?:\.\d+)?\s*[kKMG]bps)\b", r"link(bandwidth='\g<rate>')"),
]
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?=[\s()\[\],=+|]|$))
  | (?P<mark>[()\[\],=+|])
  | (?P<word>[^\s()\[\],=+|'"]+)
)""",
    re.VERBOSE,
)
_CONSTANTS = {"true": "True", "false": "False", "none": "None"}


def parse(text: str) -> Spec:
    """Read a single spec; raise `SpecError` for a sum or a chain."""
    terms = parse_terms(text, "+")
    if len(terms) != 1:
        raise SpecError(f"{_quoted(text)} is a sum of {len(terms)} specs, but a single spec is needed: give one.")
    return terms[0]


def parse_terms(text: str, operator: Operator) -> tuple[Spec, ...]:
    """Return the terms of ``a + b`` or ``a | b`` in order; a single spec is one term."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape in a string is an error, not a warning
            tree = ast.parse("".join(_python(_rewritten(text), text)).strip() or "()", mode="eval").body
        if operator == "|":
            _need_chain(tree, text)
        return tuple(_spec(node, text) for node in _split(tree, ast.Add if operator == "+" else ast.BitOr))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"{_quoted(text)} is not a spec: {_advice(text)}") from error


def _need_chain(tree: ast.expr, text: str) -> None:
    """Raise `SpecError` for specs that are joined by a plus or a comma."""
    is_list = isinstance(tree, ast.Tuple | ast.List) and bool(tree.elts)
    if is_list or any(isinstance(node, ast.BinOp) for node in _split(tree, ast.BitOr)):
        mark = "a comma" if is_list else "+"
        raise SpecError(f"{_quoted(text)} has {mark} between specs, but a chain needs a bar: write a | b.")


def _advice(text: str) -> str:
    """Return what to do about text of which Python could not make a call."""
    tokens = [token for _, token in _tokens(text)]
    for place, token in enumerate(tokens[:-3], 1):
        if tokens[place] != "=":
            continue
        last = place + 1
        while tokens[last + 1 : last + 2] == [","] and "".join(tokens[last + 2 : last + 3]) not in "()[],=+|":
            last += 2
        is_next = tokens[last + 1 : last + 2] == ["="]  # so that the last value is the name of the next argument
        values = tokens[place + 1 : last if is_next else last + 1 : 2]
        if len(values) > 1:
            return f"'{values[1]}' has no name; write {token}=[{', '.join(values)}] if it is a list."
    if tokens and tokens[-1] in ("+", "|", ","):
        return f"nothing follows its last {tokens[-1]}; leave that out, or write one more spec."
    if tokens and tokens[0] in ("+", "|", ","):
        return f"nothing stands before its first {tokens[0]}; leave that out, or write one more spec."
    for mark, following in pairwise(tokens):
        if mark in ("+", "|") and following in ("+", "|"):
            return f"nothing stands between {mark} and {following}; leave one of them out, or write one more spec."
    return "write name(argument=value, ...), with all brackets closed."


def _rewritten(text: str) -> str:
    """Replace the papers' notation by specs, outside quotation marks."""
    parts = re.split(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", text)
    for pattern, replacement in _NOTATION:
        parts[0] = re.sub(rf"(?P<before>^\s*){pattern}", rf"\g<before>{replacement}", parts[0])
        parts[::2] = [re.sub(rf"(?P<before>[+|]\s*){pattern}", rf"\g<before>{replacement}", p) for p in parts[::2]]
    return "".join(parts)


def _quoted(text: str) -> str:
    """Return the text in quotation marks on one line, shortened if it is long."""
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


def _python(text: str, written: str) -> Iterator[str]:
    """Yield Python source of the same shape: bare words become names, keywords or string literals.

    Messages show the text as it was `written`, with the papers' notation.
    """
    tokens = list(_tokens(text))
    depth = 0
    for position, (kind, token) in enumerate(tokens):
        if position and kind != "mark" and tokens[position - 1][0] != "mark":
            raise SpecError(f"{_quoted(written)} has two words side by side: quote text that contains spaces.")
        following = tokens[position + 1][1] if position + 1 < len(tokens) else ""
        if kind == "mark":
            depth += (token in "([") - (token in ")]")
            yield token
        elif kind != "word":
            yield f" {_plain(token) if kind == 'number' else token} "
        elif depth == 0 or following in ("(", "="):
            yield " " + _identifier(token, written)
        else:
            yield " " + _CONSTANTS.get(token.lower(), repr(token)) + " "


def _plain(number: str) -> str:
    """Drop leading zeros of an integer, which Python refuses: 007 is 7."""
    return str(int(number)) if number.lstrip("-").isdigit() else number


def _identifier(word: str, text: str) -> str:
    name = word.replace("-", "_")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("True", "False", "None"):
        if word.startswith("#"):
            raise SpecError(
                f"{_quoted(text)} is not a spec: #C needs a whole number of labels, as in #C=2, so write one."
            )
        if re.fullmatch(r"-\d+(\.\d+)?[kKMG]bps", word):
            raise SpecError(
                f"{_quoted(word)} is negative, but a bandwidth is above 0: write it without the minus sign."
            )
        if re.match(r"-?\d+(\.\d+)?[a-zA-Z]*(b|bit|B)", word):
            raise SpecError(
                f"{_quoted(word)} is not a bandwidth: write kbps, Mbps or Gbps (bits per second) after a number."
            )
        where = "" if word == text.strip() else f" in {_quoted(text)}"
        raise SpecError(f"{_quoted(word)}{where} is not a name: use letters, digits and hyphens, a letter first.")
    return name + "_" if keyword.iskeyword(name) else name


def _split(node: ast.expr, operator: type[ast.operator]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        yield from _split(node.left, operator)
        yield from _split(node.right, operator)
    else:
        yield node


def _spec(node: ast.expr, text: str) -> Spec:
    if isinstance(node, ast.Name):
        return Spec(canonical_name(node.id))
    if isinstance(node, ast.UnaryOp):  # Python reads a plus before a name as its sign
        raise SpecError(f"{_quoted(text)} is not a spec: {_advice(text)}")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise SpecError(f"{_quoted(text)} is not a spec: write name or name(argument=value, ...).")
    names = [(k.arg or "").rstrip("_") for k in node.keywords]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise SpecError(f"{_quoted(text)} gives {', '.join(sorted(repeated))} twice: give it once.")
    return Spec(
        name=canonical_name(node.func.id),
        args=tuple(_value(a, text) for a in node.args),
        kwargs=tuple((name, _value(k.value, text)) for name, k in zip(names, node.keywords, strict=True)),
    )


def canonical_name(identifier: str) -> str:
    """Return a factory's name as specs write it: ``label_dirichlet`` becomes ``label-dirichlet``."""
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
    raise SpecError(
        f"{_quoted(text)} has an argument that is not a number, word, list or spec: quote it if it is text."
    )


_SAFE_WORD = re.compile(r"[A-Za-z_./~:\\%@-][\w./~:\\%@-]*")


def value_text(value: Value) -> str:
    """Return the text of an argument, which parses to an equal value."""
    if isinstance(value, tuple):
        return f"[{', '.join(value_text(v) for v in value)}]"
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
