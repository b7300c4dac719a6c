"""The forms of what measures, controllers and ledgers report in a round: what pages read, without torch.

Reports of plugins have any form of plain values. Keys that are not declared here are ignored, and an empty report
stands for a round without one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from silobench.runs.field_types import fits, is_plain

Numbers = Mapping[str, float | None]  # by layer, party or class; None where a number is not finite


class Decision(TypedDict):
    """The decision of a controller that looks for the best setting of a knob."""

    knob: str
    theta: float
    accuracy_loss: float
    cost: float
    objective: float
    travelled: int
    next: float
    reason: str


class Spent(TypedDict):
    """The privacy that was spent until a round, for one kind of unit."""

    epsilon: float | None  # None if it is infinite
    delta: float
    noise: Sequence[float | None]
    accountant: str
    epsilon_pld: NotRequired[float | None]
    reason: NotRequired[str]


class Success(TypedDict):
    """How well an attack tells members from others."""

    auc: float
    low: float
    high: float
    tpr: float


class PartyMembership(Success):
    """Membership inference on the rows of a party."""

    rows: int
    difference: Success


class Membership(PartyMembership):
    """Membership inference on all rows, and by party."""

    parties: NotRequired[Sequence[PartyMembership]]


class Canaries(TypedDict):
    """An audit with canaries."""

    epsilon: float
    confidence: float
    canaries: int
    guesses: int
    correct: int
    claimed: float | None
    verdict: str


class Pictures(TypedDict):
    """Images beside their reconstructions, as base64."""

    original: Sequence[str]
    reconstruction: Sequence[str]
    psnr: Sequence[float]


class Inversion(TypedDict):
    """The quality of reconstructed images."""

    psnr: float | None
    pictures: NotRequired[Pictures]


class Divergence(TypedDict):
    """The distance of a model from one that was trained on all rows."""

    layers: Numbers
    all: NotRequired[float | None]
    distance: NotRequired[float | None]
    bound: NotRequired[float | None]
    sgd_accuracy: NotRequired[float | None]


class Replicas(TypedDict):
    """Test accuracies of the parties' models."""

    accuracy: Numbers
    by_class: Mapping[str, Numbers]


class Travel(TypedDict):
    """Training accuracies of models on rows of their own party and of others."""

    loss: float | None
    home: float | None
    away: float | None


class Delta(TypedDict):
    """Lengths of updates relative to the weights."""

    mean: float | None
    ratio: float | None


class Norms(TypedDict):
    """Differences between the minibatches of parties, by layer and channel."""

    mean: Mapping[str, Sequence[float | None]]
    variance: Mapping[str, Sequence[float | None]]


class Subtraction(TypedDict):
    """How exactly a party computes the update of another one."""

    error: float | None


class Leak(TypedDict):
    """What crosses the cut of a vertical model, by party."""

    parties: Mapping[str, Mapping[str, Any]]


_MEASURES: Mapping[str, Any] = {
    "accuracy-loss": Travel, "canaries": Canaries, "distance-correlation": Leak, "inversion": Inversion,
    "label-leakage": Leak, "membership": Membership, "norm-divergence": Norms, "reconstruction": Leak,
    "replicas": Replicas, "subtraction": Subtraction, "update-delta": Delta, "weight-divergence": Divergence,
}  # fmt: skip
_PRIVACY: Mapping[str, Any] = {"example": Spent, "party": Spent, "ended": str}


def is_decision(report: Mapping[str, Any]) -> bool:
    """Whether the report of a controller is a `Decision`; that of a plugin may have another form."""
    return bool(report) and fits(report, Decision)


def wrong_report(
    measures: Mapping[str, Any],
    control: Mapping[str, Any],
    privacy: Mapping[str, Any],
    replaced: Collection[str] = (),
) -> str | None:
    """Return the name of the first report of a round that has no form that silobench writes; None if all have one.

    Findings of the measures in `replaced`, which a plugin has replaced, have any form.

    >>> wrong_report({"update-delta": {"mean": 0.1, "ratio": None}}, {}, {}), wrong_report({"replicas": {}}, {}, {})
    (None, None)
    >>> wrong_report({"update-delta": {"mean": "long"}}, {}, {})
    'update-delta'
    """
    forms = {name: form for name, form in _MEASURES.items() if name not in replaced} if replaced else _MEASURES
    reports = _reports(measures, forms, control, privacy)
    return next((name for name, value, form in reports if not _has(value, form)), None)


def _reports(
    measures: Mapping[str, Any], forms: Mapping[str, Any], control: Mapping[str, Any], privacy: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    yield from ((name, found, forms.get(name, Mapping)) for name, found in measures.items())
    yield "control", control, Mapping
    yield from ((name, spent, _PRIVACY.get(name, Any)) for name, spent in privacy.items())


def _has(report: Any, form: Any) -> bool:
    return is_plain(report) and (report is None or fits(report, form))
