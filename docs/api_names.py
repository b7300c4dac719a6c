"""The page of public names: which there are, in which group, and how autodoc shows each."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import silobench

# Titles of groups by the modules that define their names; the first prefix that matches decides.
GROUPS = {
    "data": "Data",
    "federation": "Partitions and federations",
    "partitions": "Partitions and federations",
    "models": "Models and objectives",
    "tasks": "Models and objectives",
    "method.algorithms": "Algorithms",
    "method.personal": "Algorithms",
    "method.solvers": "Solvers and schedules",
    "method.schedules": "Solvers and schedules",
    "method.transforms": "Transforms and codecs",
    "method.codecs": "Transforms and codecs",
    "method.aggregates": "Aggregates and adversaries",
    "method.adversaries": "Aggregates and adversaries",
    "method.controllers": "Servers, selection and availability",
    "method.servers": "Servers, selection and availability",
    "method.selection": "Servers, selection and availability",
    "method.availability": "Servers, selection and availability",
    "method": "Values of a method",
    "training": "Values of a method",
    "vectors": "Values of a method",
    "loop": "Rounds, exchanges and clocks",
    "engines": "Engines",
    "measures": "Measures",
    "vertical": "Vertical learning",
    "privacy": "Privacy",
    "runs": "Runs and results",
    "analysis": "Runs and results",
    "report": "Runs and results",
    "spec": "Types of arguments, errors and randomness",
    "errors": "Types of arguments, errors and randomness",
    "rng": "Types of arguments, errors and randomness",
}
OTHERS = "Others"

# Public values that have no docstring of their own.
ABOUT = {
    "Availability": "A function that returns the parties of a cohort that answer in a round.",
    "BelowOne": "A number from 0 to below 1, as the type of an argument.",
    "Cohort": "The numbers of the parties of a round: a tuple of whole numbers.",
    "Count": "A whole number of at least 1, as the type of an argument.",
    "CountOrZero": "A whole number of at least 0, as the type of an argument.",
    "DENSE": "The codec that packs every number of a part.",
    "Fit": "A function that returns the objective for a dataset.",
    "Fraction": "A number from 0 to 1, as the type of an argument.",
    "Knob": "A number, or a function of the server's state that returns one.",
    "Memory": "Named tensors that a party or a server keeps between rounds.",
    "NonNegative": "A finite number of at least 0, as the type of an argument.",
    "Positive": "A finite number above 0, as the type of an argument.",
    "SPARSE": "The codec that packs places and values of the entries that are not zero.",
    "Selection": "A function that draws the cohort of a round.",
    "__version__": "The version of silobench, as text.",
}


def public_names() -> dict[str, str]:
    """Return the module of each public name, from the list of them."""
    stub = Path(silobench.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def group_of(module: str) -> str:
    return next((title for prefix, title in GROUPS.items() if f"{module}.".startswith(f"{prefix}.")), OTHERS)


def page() -> str:
    """Return the groups as Markdown: a heading each, and a directive of autodoc for every name."""
    groups: dict[str, list[str]] = {title: [] for title in [*dict.fromkeys(GROUPS.values()), OTHERS]}
    for name, module in public_names().items():
        groups[group_of(module)].append(name)
    return "\n\n".join(_section(title, names) for title, names in groups.items() if names)


def _section(title: str, names: list[str]) -> str:
    ordered = sorted(names, key=str.lower)
    links = " · ".join(f":py:obj:`~silobench.{name}`" for name in ordered)
    entries = "\n".join(_entry(name, getattr(silobench, name)) for name in ordered)
    return f"## {title}\n\n```{{eval-rst}}\n{links}\n\n{entries}\n```"


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return f".. autoclass:: silobench.{name}\n   :members:\n"
    if inspect.isroutine(value) or hasattr(value, "__wrapped__"):
        return f".. autofunction:: silobench.{name}\n"
    return f".. py:data:: silobench.{name}\n\n   {_about(name, value)}\n"


def listing() -> str:
    """Return the list of all names with a line each, as tables in Markdown."""
    groups: dict[str, list[str]] = {title: [] for title in [*dict.fromkeys(GROUPS.values()), OTHERS]}
    for name, module in {**public_names(), "__version__": "rng"}.items():
        groups[group_of(module)].append(name)
    return "\n".join(_table(title, names) for title, names in groups.items() if names)


def _table(title: str, names: list[str]) -> str:
    rows = [f"| `{name}` | {_line(name)} |" for name in sorted(names, key=str.lower)]
    return "\n".join([f"**{title}**", "", "| name | meaning |", "|---|---|", *rows, ""])


def _line(name: str) -> str:
    """Return the first sentence about a name."""
    value = getattr(silobench, name)
    has_docstring = inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__")
    text = (inspect.getdoc(value) or "") if has_docstring else _about(name, value)
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[^.\s]{3}[.!?]) (?=[A-Z`])|: ?$", paragraph.replace("``", "`"))[0]
    return sentence.replace("|", "\\|")


def _about(name: str, value: Any) -> str:
    """Return a sentence about a value that has no docstring of its own: a registry, a type or a constant."""
    if kind := getattr(value, "kind", None):
        return f"The registry of specs of the kind “{kind}”: ``@silobench.{name}.register`` adds a function to it."
    return ABOUT[name]
