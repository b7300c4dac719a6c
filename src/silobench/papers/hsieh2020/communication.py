"""What a run's label says of how its parties exchange: the methods of the quagmire study (Hsieh et al., 2020).

A round of theirs is one minibatch of every party. A method has one knob that trades traffic for accuracy; a controller
may turn it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silobench.analysis.choices import arguments
from silobench.spec import Spec, parse, parse_terms

METHODS = ("gaia", "fedavg", "dgc")  # that the paper compares with BSP
IID = "iid"
NONIID = "label-percent(percent=100.0)"
_KNOBS: dict[str, tuple[str, float | None]] = {  # and what it is where nothing is said
    "gaia": ("threshold", 0.1),
    "fedavg": ("iter_local", None),
    "dgc": ("warmup", 4.0),
    "top-k": ("fraction", 0.01),
}
_RISING = ("threshold", "iter_local")  # the larger, the less is sent; of other knobs the smaller


@dataclass(frozen=True)
class Exchange:
    """A method, with the setting of its knob; none of BSP, and none to speak of where a controller turns it."""

    method: str
    knob: str = ""
    theta: float | None = None
    controller: str = "fixed"

    @property
    def controlled(self) -> bool:
        return self.controller != "fixed"

    @property
    def looseness(self) -> float:
        """The larger, the less is sent."""
        return (self.theta or 0.0) if self.knob in _RISING else -(self.theta or 0.0)

    def __str__(self) -> str:
        said = "" if self.theta is None or self.controlled else f" {self.theta:g}"
        return f"{self.method}{said}"


def exchange_of(label: Mapping[str, Any]) -> Exchange | None:
    """How a label's parties exchange after minibatches; None of any other kind of training.

    >>> exchange_of({"algorithm": "gaia(threshold=0.2)"})
    Exchange(method='gaia', knob='threshold', theta=0.2, controller='fixed')
    """
    algorithm, chain = parse(str(label["algorithm"])), str(label.get("transforms") or "")
    transforms = parse_terms(chain, "|") if chain else ()
    if algorithm.name == "bsp" and not transforms:
        return Exchange("bsp")
    terms = [term for term in (algorithm, *transforms) if term.name != "bsp"]
    if len(terms) != 1 or terms[0].name not in _KNOBS:
        return None
    knob, theta = _setting(terms[0])
    controller = parse(str(label.get("controller") or "fixed"))
    turned = arguments(controller).get("knob", knob)
    if turned != knob:
        return Exchange(terms[0].name, str(turned), None, controller.name)
    return None if theta is None else Exchange(terms[0].name, knob, theta, controller.name)


def _setting(spec: Spec) -> tuple[str, float | None]:
    knob, usual = _KNOBS[spec.name]
    given: Any = arguments(spec).get(knob, spec.args[0] if spec.args else usual)
    return knob, None if given is None else float(given)


def norm_of(label: Mapping[str, Any]) -> str:
    """The normalisation of a network, or none."""
    model = parse(str(label["model"]))
    usual = "batch" if model.name == "resnet" else None
    return str(arguments(model).get("norm", usual) or "none")


def plain_model(label: Mapping[str, Any]) -> str:
    """A network but for its normalisation."""
    model = parse(str(label["model"]))
    about = ("norm", "group_size", "renorm_from")
    kept = tuple(pair for pair in model.kwargs if pair[0] not in about)
    return str(Spec(model.name, model.args, kept))


def percent_of(label: Mapping[str, Any]) -> float:
    """Of the rows, how many percent are dealt by label; 0 of any other partition."""
    first, *others = parse_terms(str(label["partition"]), "+")
    given: Any = arguments(first).get("percent", 0.0)
    return float(given) if first.name == "label-percent" and not others else 0.0
