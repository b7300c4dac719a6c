"""Arguments of the specs in a label, and the kinds of a partition."""

from collections.abc import Iterable
from typing import Any

from silobench.runs.label import Label
from silobench.spec import Spec, Value
from silobench.spec.language import value_text


def arguments(spec: Spec) -> dict[str, Any]:
    """Return the named arguments of a spec.

    >>> from silobench.spec import parse
    >>> arguments(parse("sgd(momentum=0.0, batch=100)"))
    {'momentum': 0.0, 'batch': 100}
    """
    return dict(spec.kwargs)


def arguments_text(pairs: Iterable[tuple[str, Value]]) -> str:
    """Return arguments as a spec states them.

    >>> arguments_text([("lr", 0.1), ("batch", 64)])
    'lr=0.1, batch=64'
    """
    return ", ".join(f"{name}={value_text(value)}" for name, value in pairs)


def partition_kinds(label: Label) -> list[str]:
    """Return the names of the terms that assign rows to parties; rows shared with all parties are not one of them.

    >>> partition_kinds(Label({"partition": "shards(per_party=1) + share(beta=0.1)"}))
    ['shards']
    """
    return [term.name for term in label.partition if term.name != "share"]


def starts_at_random(label: Label) -> bool:
    """Whether training starts from random weights."""
    return label.start.name == "random"
