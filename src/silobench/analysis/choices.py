"""What a run's label chose, read as specs: the terms of its partition, its solver, its start, the data it shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silobench.spec import Spec, Value, parse, parse_terms


@dataclass(frozen=True)
class Sharing:
    """A few rows of all classes, G, given to every party (Zhao et al., section 4)."""

    base: str  # the partition without it
    beta: float  # rows of G, as a share of the parties' rows
    alpha: float  # of G that each party is given
    warmup: int  # epochs of a first model, trained on G
    holdout: float | None  # of all rows, set aside to draw G from

    @property
    def received(self) -> float:
        """What each party is given, as a share of all parties' rows."""
        return self.alpha * self.beta


def arguments(spec: Spec) -> dict[str, Value]:
    return dict(spec.kwargs)


def solver_of(label: Mapping[str, Any]) -> dict[str, Value]:
    """The arguments that a solver was given.

    >>> solver_of({"solver": "sgd(momentum=0.0, batch=100)"})
    {'momentum': 0.0, 'batch': 100}
    """
    return arguments(parse(str(label["solver"])))


def begins_at_random(label: Mapping[str, Any]) -> bool:
    return parse(str(label.get("start") or "random")).name == "random"


def start_of(label: Mapping[str, Any]) -> dict[str, Value] | None:
    """How a model was trained by SGD that a run goes on from; None of any other start.

    >>> start_of({"start": "centralised(rounds=100, batch=1000)"})
    {'rounds': 100, 'batch': 1000}
    """
    start = parse(str(label.get("start") or "random"))
    return arguments(start) if start.name == "centralised" else None


def kinds_of(label: Mapping[str, Any]) -> list[str]:
    """The names of a partition's terms that deal rows out; sharing some of them is not one."""
    return [term.name for term in parse_terms(str(label["partition"]), "+") if term.name != "share"]


def sharing_of(label: Mapping[str, Any]) -> Sharing | None:
    """What is shared, None if nothing is.

    >>> sharing_of({"partition": "shards(per_party=1) + share(beta=0.1, alpha=0.5)"})
    Sharing(base='shards(per_party=1)', beta=0.1, alpha=0.5, warmup=0, holdout=None)
    """
    terms = parse_terms(str(label["partition"]), "+")
    given: dict[str, Any] = next((arguments(term) for term in terms if term.name == "share"), {})
    if not given:
        return None
    base = " + ".join(str(term) for term in terms if term.name != "share")
    return Sharing(base, given["beta"], given.get("alpha", 1.0), given.get("warmup", 0), given.get("holdout"))
