"""How parties communicate in the quagmire study (Hsieh et al., 2020), from a run's label.

A round is one minibatch of every party. A method has one knob that trades traffic for accuracy; a controller may turn
it.
"""

from dataclasses import dataclass

from silobench.analysis.specs import arguments
from silobench.runs.label import Label
from silobench.spec import Spec

METHODS = ("gaia", "fedavg", "dgc")  # that the paper compares with BSP
IID = "iid"
NONIID = "label-percent(percent=100.0)"
_KNOBS: dict[str, tuple[str, float | None]] = {  # with the default; FedAvg without this argument is another method
    "gaia": ("threshold", 0.1),
    "fedavg": ("iter_local", None),
    "dgc": ("warmup", 4.0),
    "top-k": ("fraction", 0.01),
}
_RISING = ("threshold", "iter_local")  # knobs that send less the larger they are; others send less the smaller they are


@dataclass(frozen=True)
class Exchange:
    """A communication method with the setting of its knob. BSP has no knob; a controller changes the setting."""

    method: str
    knob: str = ""
    theta: float | None = None
    controller: str = "fixed"

    @property
    def controlled(self) -> bool:
        return self.controller != "fixed"

    @property
    def looseness(self) -> float:
        """A number that is larger the less is sent."""
        return (self.theta or 0.0) if self.knob in _RISING else -(self.theta or 0.0)

    def __str__(self) -> str:
        setting = "" if self.theta is None or self.controlled else f" {self.theta:g}"
        return f"{self.method}{setting}"


def exchange_of(label: Label) -> Exchange | None:
    """Return how parties communicate after minibatches; None for any other kind of training.

    >>> exchange_of(Label({"algorithm": "gaia(threshold=0.2)"}))
    Exchange(method='gaia', knob='threshold', theta=0.2, controller='fixed')
    """
    if label.algorithm.name == "bsp" and not label.transforms:
        return Exchange("bsp")
    terms = [term for term in (label.algorithm, *label.transforms) if term.name != "bsp"]
    if len(terms) != 1 or terms[0].name not in _KNOBS:
        return None
    knob, theta = _setting(terms[0])
    turned = arguments(label.controller).get("knob", knob)
    if turned != knob:
        return Exchange(terms[0].name, str(turned), None, label.controller.name)
    return None if theta is None else Exchange(terms[0].name, knob, theta, label.controller.name)


def _setting(spec: Spec) -> tuple[str, float | None]:
    knob, default = _KNOBS[spec.name]
    theta = arguments(spec).get(knob, spec.args[0] if spec.args else default)
    return knob, None if theta is None else float(theta)


def norm_of(label: Label) -> str:
    """Return the normalisation of a network, or "none"."""
    default = "batch" if label.model.name == "resnet" else None
    return str(arguments(label.model).get("norm", default) or "none")


def plain_model(label: Label) -> str:
    """Return a network without the arguments about its normalisation."""
    model, about = label.model, ("norm", "group_size", "renorm_from")
    return str(Spec(model.name, model.args, tuple(pair for pair in model.kwargs if pair[0] not in about)))


def percent_of(label: Label) -> float:
    """Return how many percent of the rows are dealt by label; 0 for any other partition."""
    first, *others = label.partition
    return float(arguments(first).get("percent", 0.0)) if first.name == "label-percent" and not others else 0.0
