"""The recommendation: a value for each choice, why, where that comes from, and how sure it is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from silobench.advice import figure7
from silobench.advice.components import Regime
from silobench.advice.evidence import Setting, Traits, is_evidence, settings
from silobench.advice.tree import (
    LEAST_SETTINGS,
    Branch,
    Leaf,
    Node,
    Validation,
    agreement,
    derived_tree,
    recommended,
    runner_up,
    validated,
)
from silobench.advice.varied import Variation, best_compression, best_epochs, best_normalisation
from silobench.analysis.cells import CellResult, collect
from silobench.runs.stored import StoredRun

STORED, PAPER = "stored runs", "NIID-Bench, Figure 7"


@dataclass(frozen=True)
class Choice:
    """One choice of an experiment: its value, why, and where that comes from."""

    value: str
    reason: str
    source: str


@dataclass(frozen=True)
class Recommendation:
    """What to run, from which basis, and how sure that is."""

    algorithm: Choice
    local_epochs: Choice
    normalisation: Choice
    communication: Choice
    basis: str  # STORED or PAPER
    why_this_basis: str
    confidence: str
    agreement: float | None  # the share of resampled settings that give the same algorithm; None for a paper
    alternative: str  # the algorithm to compare with first
    tree: Node
    validation: Validation | None
    settings: int

    @property
    def choices(self) -> dict[str, Choice]:
        names = ("algorithm", "local_epochs", "normalisation", "communication")
        return {name: getattr(self, name) for name in names}

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: asdict(choice) for name, choice in self.choices.items()},
            "alternative": self.alternative,
            "confidence": self.confidence,
            "agreement": self.agreement,
        }


def recommend(regime: Regime, traits: Traits, runs: Sequence[StoredRun], source: str) -> Recommendation:
    """Return what stored runs recommend for a skew, or what NIID-Bench does where they cannot say it.

    `source` names the runs in sentences.
    """
    evidence, cells = settings(runs), collect(runs)
    validation = validated(evidence) if len(evidence) >= LEAST_SETTINGS else None
    aspects = _aspects(regime, traits, [cell for cell in cells if is_evidence(cell)], source)
    if validation is not None and validation.runs_win:
        return _from_runs(regime, traits, evidence, validation, aspects, source)
    return _from_paper(regime, traits, evidence, validation, aspects, source)


def _from_runs(
    regime: Regime,
    traits: Traits,
    evidence: Sequence[Setting],
    validation: Validation,
    aspects: dict[str, Choice],
    source: str,
) -> Recommendation:
    is_divided = validation.tree_wins
    leaf = recommended(evidence, traits, is_divided)
    share = agreement(evidence, traits, leaf.method, is_divided)
    where = f"the {leaf.settings} stored settings most like yours" if is_divided else f"all {leaf.settings} settings"
    reason = f"in {where} it is {leaf.regret:.1f} points of accuracy below the best method on average"
    same = f"{share:.0%} of resampled collections of settings give the same algorithm"
    confidence = f"{_share_of_wins(evidence, regime, leaf.method)}; {same}"
    verdict = "" if is_divided else "a tree does not beat one method for all, so the best single method is taken: "
    form = "decision tree" if is_divided else "best method"
    return Recommendation(
        algorithm=Choice(leaf.method, reason, f"{form} of {len(evidence)} settings in {source}"),
        **aspects,
        basis=STORED,
        why_this_basis=verdict + _comparison(validation),
        confidence=confidence,
        agreement=share,
        alternative=runner_up(evidence, traits, leaf.method, is_divided),
        tree=derived_tree(evidence, is_divided),
        validation=validation,
        settings=len(evidence),
    )


def _from_paper(
    regime: Regime,
    traits: Traits,
    evidence: Sequence[Setting],
    validation: Validation | None,
    aspects: dict[str, Choice],
    source: str,
) -> Recommendation:
    advice = figure7.published_method(regime, traits.participation, traits.gini)
    if validation is None:
        few = "setting" if len(evidence) == 1 else "settings"
        why = f"{source} have {len(evidence)} {few} with several methods, and a tree needs {LEAST_SETTINGS}"
    else:
        why = f"neither a tree from {source} nor one method for all beats it: {_comparison(validation)}"
    confidence = _share_of_wins(evidence, regime, advice.method)
    return Recommendation(
        algorithm=Choice(advice.method, advice.reason, advice.source),
        **aspects,
        basis=PAPER,
        why_this_basis=why,
        confidence=f"{confidence}; the paper states no probability",
        agreement=None,
        alternative="fedavg" if advice.method != "fedavg" else "fedprox",
        tree=figure7_tree(),
        validation=validation,
        settings=len(evidence),
    )


def _comparison(validation: Validation) -> str:
    return (
        f"with {validation.left_out} left out, the tree loses {validation.tree:.2f} points of accuracy against the "
        f"best method of each setting, the best constant method {validation.constant:.2f}, and Figure 7 "
        f"{validation.figure7:.2f}"
    )


def _share_of_wins(evidence: Sequence[Setting], regime: Regime, method: str) -> str:
    """Return how often a method, with any arguments, is best or ties with the best under a skew, in words."""
    family = method.partition("(")[0]
    own = [
        [regret for name, regret in setting.regrets.items() if name.partition("(")[0] == family]
        for setting in evidence
        if setting.regime == regime
    ]
    tested = [min(regrets) for regrets in own if regrets]
    skew = "without a skew" if regime == "none" else f"with {regime} skew"
    if not tested:
        return f"no stored setting {skew} has it"
    wins = sum(not regret for regret in tested)
    return f"it is best, or within a point of the best, in {wins} of {len(tested)} stored settings {skew}"


# --- the other choices --------------------------------------------------------------------------------


def _aspects(regime: Regime, traits: Traits, cells: Sequence[CellResult], source: str) -> dict[str, Choice]:
    """Return the choices besides the algorithm: from runs that vary them, else from the papers."""
    return {
        "local_epochs": _aspect(best_epochs(cells, regime), figure7.published_epochs(regime), source),
        "normalisation": _aspect(best_normalisation(cells, regime), figure7.published_normalisation(regime), source),
        "communication": _aspect(
            best_compression(cells, regime), figure7.published_communication(regime, traits.emd), source
        ),
    }


def _aspect(variation: Variation | None, advice: figure7.Advice, source: str) -> Choice:
    if variation is None:
        return Choice(advice.method, advice.reason, advice.source)
    reason = (
        f"of {', '.join(variation.values)} it is {variation.regret:.1f} points below the best value on average, in "
        f"{variation.comparisons} comparisons of runs that differ in nothing else"
    )
    return Choice(variation.value, reason, source)


def figure7_tree() -> Node:
    """Return NIID-Bench's Figure 7, with what its Table V adds for mixed skew."""

    def leaf(regime: Regime, gini: float = 0.0) -> Leaf:
        advice = figure7.published_method(regime, gini=gini)
        return Leaf(advice.method, 0.0, 0, advice.source)

    unequal = figure7.UNEQUAL
    mixed = Branch(
        "inequality of sizes (Gini)", ((f"below {unequal}", leaf("mixed")), (f"{unequal} or more", leaf("mixed", 1.0)))
    )
    return Branch(
        "which skew do the parties have?",
        (
            ("none", leaf("none")),
            ("label", leaf("label")),
            ("feature", leaf("feature")),
            ("quantity", leaf("quantity")),
            ("mixed", mixed),
        ),
    )
