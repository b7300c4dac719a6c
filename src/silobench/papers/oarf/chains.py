"""Compression methods of OARF's Table 8, from the chain of transforms of a run."""

from dataclasses import dataclass
from typing import Any

from silobench.analysis.specs import arguments
from silobench.runs.label import Label

_AMOUNT = {"top-k": "fraction", "rand-k": "fraction", "low-rank": "rank"}
_DEFAULTS: dict[str, dict[str, Any]] = {  # of arguments that a label leaves out
    "top-k": {"fraction": 0.01, "feedback": True, "index": "auto"},
    "rand-k": {"fraction": 0.01, "feedback": False, "scale": True},
    "low-rank": {"rank": 3, "feedback": True, "decay": 0.0, "warm_start": True},
}
_PAPER: dict[str, dict[str, Any]] = {  # the paper's variant of each method, at any amount
    "top-k": {"feedback": False, "index": "int64"},
    "rand-k": {"feedback": False, "scale": False},
    "low-rank": {"feedback": True, "decay": 0.5, "warm_start": False},
}
NONE = "none"


@dataclass(frozen=True)
class Compression:
    """How parties compress their updates: a method and how much it keeps."""

    method: str  # top-k, rand-k, low-rank or none
    amount: float = 0.0  # share of the entries, or rank
    feedback: bool = False  # whether what is not sent joins the next update
    scaled: bool = False  # whether the entries that are sent are enlarged for those that are not
    is_papers: bool = True  # whether it is the paper's variant of the method

    @property
    def name(self) -> str:
        """The method and its amount, as published tables call it.

        >>> Compression("top-k", 0.003).name, Compression("low-rank", 3).name, Compression("none").name
        ('top-k 0.3%', 'low-rank 3', 'none')
        """
        if self.method == NONE:
            return NONE
        return (
            f"{self.method} {self.amount:g}" if self.method == "low-rank" else f"{self.method} {100 * self.amount:g}%"
        )

    def __str__(self) -> str:
        words = [self.name, *(["rescaled"] if self.scaled else []), *(["feedback"] if self.feedback else [])]
        return ", ".join(words)


def compression_of(label: Label) -> Compression | None:
    """Return how a run compresses its updates; None for a chain that is not one of the paper's methods.

    >>> compression_of(Label({"transforms": "top-k(fraction=0.003, feedback=False, index=int64)"}))
    Compression(method='top-k', amount=0.003, feedback=False, scaled=False, is_papers=True)
    >>> str(compression_of(Label({"transforms": "error-feedback | rand-k(scale=False)"})))
    'rand-k 1%, feedback'
    """
    if label.text("broadcast"):
        return None
    *before, last = label.transforms or (None,)
    if last is None:
        return Compression(NONE)
    if last.name not in _AMOUNT or [term.name for term in before] not in ([], ["error-feedback"]):
        return None
    values = {**_DEFAULTS[last.name], **arguments(last)}
    return Compression(
        last.name,
        float(values[_AMOUNT[last.name]]),
        feedback=bool(before or values["feedback"]),
        scaled=bool(values.get("scale", False)),
        is_papers=not before and all(values[name] == value for name, value in _PAPER[last.name].items()),
    )
