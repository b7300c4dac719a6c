"""Compression methods of OARF's Table 8, from the chain of transforms of a run, and what they save."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, by_seed, families
from silobench.analysis.specs import arguments
from silobench.papers.oarf.measures import rounds_of
from silobench.papers.oarf.settings import is_federated
from silobench.runs.label import Label
from silobench.spec.language import value_text

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
_LINK = "link"  # of the chain that feeds back, in place of the method itself
_OF_FEEDBACK = ("decay", "feedback", _LINK)


@dataclass(frozen=True)
class Compression:
    """How parties compress their updates: a method, how much it keeps, and its other options."""

    method: str  # top-k, rand-k, low-rank or none
    amount: float = 0.0  # share of the entries, or rank
    feedback: bool = False  # whether what is not sent joins the next update
    options: tuple[tuple[str, Any], ...] = ()  # arguments that differ from the paper's, but for amount and feedback
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

    @property
    def is_scaled(self) -> bool:
        """Whether the entries that are sent are enlarged for those that are not."""
        return ("scale", True) in self.options

    def without_feedback(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return the name and the options that do not concern feedback: equal ones differ in feedback only."""
        return self.name, tuple((name, value) for name, value in self.options if name not in _OF_FEEDBACK)

    def __str__(self) -> str:
        words = ["rescaled" if name == "scale" else f"{name}={value_text(value)}" for name, value in self.options]
        return ", ".join([self.name, *(["feedback"] if self.feedback else []), *words])


def compression_of(label: Label) -> Compression | None:
    """Return how a run compresses its updates; None for a chain that is not one of the paper's methods.

    >>> compression_of(Label({"transforms": "top-k(fraction=0.003, feedback=False, index=int64)"}))
    Compression(method='top-k', amount=0.003, feedback=False, options=(), is_papers=True)
    >>> str(compression_of(Label({"transforms": "error-feedback | rand-k(scale=False)"})))
    'rand-k 1%, feedback, link=error-feedback'
    >>> str(compression_of(Label({"transforms": "low-rank(decay=0.5)"})))
    'low-rank 3, feedback, warm_start=True'
    """
    if label.text("broadcast"):
        return None
    *before, last = label.transforms or (None,)
    if last is None:
        return Compression(NONE)
    if last.name not in _AMOUNT or [term.name for term in before] not in ([], ["error-feedback"]):
        return None
    values = {**_DEFAULTS[last.name], **arguments(last)}
    amount, feedback = float(values.pop(_AMOUNT[last.name])), bool(values.pop("feedback"))
    if before:
        values |= {_LINK: str(before[0]), "feedback": feedback}
    usual = {**_PAPER[last.name], **({} if feedback else {"decay": 0.0})}  # without feedback it has no effect
    options = tuple((name, value) for name, value in sorted(values.items()) if usual.get(name) != value)
    is_papers = not options and feedback == usual["feedback"]
    return Compression(last.name, amount, bool(before) or feedback, options, is_papers)


# --- cells ---------------------------------------------------------------------------------------------


Chains: TypeAlias = dict[Compression, CellResult]


def compressed(cells: Cells) -> Iterator[tuple[CellResult, Chains]]:
    """Yield federated cells that compress nothing, each with the cells that differ in their compression only."""
    federated = [cell for cell in cells if is_federated(cell)]
    for family in families(federated, "transforms"):
        chains = {how: cell for cell in family.values() if (how := compression_of(cell.label))}
        plain = chains.pop(Compression(NONE), None)
        if plain and chains:
            yield plain, chains


def papers_variants(chains: Chains) -> Chains:
    """Return the cells of the paper's variants of the methods."""
    return {how: cell for how, cell in chains.items() if how.is_papers}


def end_to_end(cell: CellResult, plain: CellResult) -> dict[int, float]:
    """Return the uplink ratio times the rounds without compression over those with it, by seed, for a test.

    `costs.end_to_end_ratio` is the number that is shown.
    """
    rounds, plain_rounds, ratios = rounds_of(cell), rounds_of(plain), by_seed(cell, costs.uplink_ratio)
    return {seed: ratios[seed] * plain_rounds[seed] / rounds[seed] for seed in ratios.keys() & plain_rounds.keys()}
