"""The recommendation: a value for each choice, why, where that comes from, and how sure it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from silobench.advice import figure7
from silobench.advice.components import Regime
from silobench.advice.evidence import TIE, Setting, Traits, is_evidence, settings
from silobench.advice.standing import SIMPLEST, favoured, of_regime, preferred, standing
from silobench.advice.tree import (
    LEAST_SETTINGS,
    Branch,
    Leaf,
    Node,
    Validation,
    agreement,
    derived_tree,
    methods_of,
    recommended,
    runner_up,
    unit,
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
    agreement: float | None  # the share of resampled datasets that give the same algorithm; None for a paper
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
    method = preferred(evidence, regime, leaf.method)
    share = agreement(evidence, regime, traits, method, is_divided)
    nearest = runner_up(evidence, traits, method, is_divided) if method == leaf.method else leaf.method
    rival = nearest or _commonest_rival(evidence, regime, method)
    same = f"{share:.0%} of resampled collections of {unit(evidence)} give the same algorithm"
    verdict = "" if is_divided else "a tree does not beat one method for all, so the best single method is taken: "
    form = "decision tree" if is_divided else "best method"
    return Recommendation(
        algorithm=Choice(
            method, _reason(evidence, regime, leaf, is_divided), f"{form} of {len(evidence)} settings in {source}"
        ),
        **aspects,
        basis=STORED,
        why_this_basis=verdict + _comparison(validation),
        confidence=f"{_under_skew(evidence, regime, method, rival)}; {same}",
        agreement=share,
        alternative=rival,
        tree=derived_tree(evidence, is_divided),
        validation=validation,
        settings=len(evidence),
    )


def _commonest_rival(evidence: Sequence[Setting], regime: Regime, method: str) -> str:
    """Return what was run beside a method most often: under a skew, or anywhere if the method was not run there."""
    beside = [setting for setting in evidence if method in setting.regrets]
    names = (name for setting in of_regime(beside, regime) or beside for name in setting.regrets if name != method)
    return Counter(names).most_common(1)[0][0]


def _reason(evidence: Sequence[Setting], regime: Regime, leaf: Leaf, is_divided: bool) -> str:
    """Return why stored runs recommend a method: what it loses where it was run, or why FedAvg replaces it."""
    if preferred(evidence, regime, leaf.method) != leaf.method:
        beyond = "in settings like yours" if is_divided else "over all settings"
        return (
            f"{leaf.method} loses least {beyond}, but {_skew(regime)} it is not a point of accuracy better than "
            f"{SIMPLEST}, which is simpler"
        )
    where = "of the stored settings most like yours" if is_divided else "settings"
    reason = f"in the {leaf.settings} {where} that ran it, it is {leaf.regret:.1f} points of accuracy below the best"
    against = standing(evidence, leaf.method)
    if leaf.method == SIMPLEST or against is None:
        return f"{reason} method on average"
    return (
        f"{reason} method on average; in all {against.settings} that ran both, it is {against.regret:.1f} and "
        f"{SIMPLEST} {against.rival_regret:.1f} points below"
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
    if validation is None and len(evidence) >= LEAST_SETTINGS:
        why = f"{source} have no settings that could test what the others recommend"
    elif validation is None:
        few = "setting" if len(evidence) == 1 else "settings"
        why = f"{source} have {len(evidence)} {few} with several methods, and a tree needs {LEAST_SETTINGS}"
    else:
        why = f"neither a tree from {source} nor one method for all beats it: {_comparison(validation)}"
    rival = SIMPLEST if advice.method != SIMPLEST else "fedprox"
    confidence = _under_skew(evidence, regime, advice.method, rival)
    return Recommendation(
        algorithm=Choice(advice.method, advice.reason, advice.source),
        **aspects,
        basis=PAPER,
        why_this_basis=why,
        confidence=f"{confidence}; the paper states no probability",
        agreement=None,
        alternative=rival,
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


def _skew(regime: Regime) -> str:
    return "without a skew" if regime == "none" else f"with {regime} skew"


def _under_skew(evidence: Sequence[Setting], regime: Regime, method: str, rival: str) -> str:
    """Return how a method and FedAvg (or a rival of FedAvg) stand under a skew, and whom the runs favour, in words."""
    rival = rival if method == SIMPLEST else SIMPLEST
    against = standing(of_regime(evidence, regime), method, rival)
    if against is None:
        return f"no stored setting {_skew(regime)} ran both {method} and {rival}"
    total = against.settings
    text = (
        f"{_skew(regime)}, in the stored settings that ran both ({total}), {method} loses {against.regret:.2f} points "
        f"and is best, or within a point of the best, in {against.best} of {total}; {rival} loses "
        f"{against.rival_regret:.2f} and is so in {against.rival_best} of {total}"
    )
    if abs(against.lead) < TIE:
        text += ": a tie, as they are less than a point apart"
    ahead = favoured(evidence, regime, method, methods_of(evidence))
    if ahead is not None:
        text += (
            f"; the runs with this skew favour {ahead.rival}, which loses {ahead.rival_regret:.2f} where {method} "
            f"loses {ahead.regret:.2f} ({ahead.settings} settings)"
        )
    return text


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
