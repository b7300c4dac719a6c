"""What the papers recommend: NIID-Bench's Figure 7 for the algorithm, and findings for everything else."""

from dataclasses import dataclass

from silobench.advice.components import Regime

NIID = "NIID-Bench"
HSIEH = "Hsieh et al., ICML 2020"
UNEQUAL = 0.35  # Gini coefficient from which a mixed skew counts as one of sizes


@dataclass(frozen=True)
class Advice:
    """One choice, why, and where that comes from."""

    method: str
    reason: str
    source: str


def published_method(regime: Regime, participation: float = 1.0, gini: float = 0.0) -> Advice:
    """Return the algorithm that NIID-Bench recommends for a skew.

    >>> published_method("feature").method, published_method("feature", participation=0.1).method
    ('scaffold', 'fedprox')
    """
    if regime == "none":
        return Advice("fedavg", "without a skew the algorithms differ by less than a point", f"{NIID}, Table III")
    if regime in ("label", "quantity"):
        reason = f"under {regime} skew FedProx usually has the best accuracy"
        return Advice("fedprox", reason, f"{NIID}, Figure 7")
    if participation < 1:
        reason = "SCAFFOLD is best under feature skew, but does not work if only some parties take part in a round"
        return Advice("fedprox", reason, f"{NIID}, Figure 7 and finding 6")
    if regime == "mixed":
        if gini >= UNEQUAL:
            reason = "SCAFFOLD and FedNova fail where sizes and features both differ, and FedProx does not"
            return Advice("fedprox", reason, f"{NIID}, Table V")
        return Advice("scaffold", "SCAFFOLD is best where labels and features differ", f"{NIID}, Table V")
    return Advice("scaffold", "under feature skew SCAFFOLD usually has the best accuracy", f"{NIID}, Figure 7")


def published_epochs(regime: Regime) -> Advice:
    """Return the number of local epochs that the papers' findings suggest."""
    if regime in ("label", "mixed"):
        reason = (
            "10 is best under Dir(0.5) and 20 with one or two classes per party; 80 loses much, and the best number "
            "depends on the skew, so tune it"
        )
        return Advice("10", reason, f"{NIID}, finding 5 and Figure 9")
    reason = "without a label skew parties drift apart little, so the paper's usual number serves"
    return Advice("10", reason, f"{NIID}, section V")


def published_normalisation(regime: Regime) -> Advice:
    """Return the normalisation that the papers' findings suggest."""
    if regime == "none":
        return Advice("batch", "parties' batches have the same statistics, so BatchNorm is safe", f"{HSIEH}, section 5")
    reason = (
        "BatchNorm averages statistics that differ between parties; GroupNorm needs no batch statistics, and regains "
        "the accuracy that BatchNorm loses under label skew"
    )
    return Advice("group", reason, f"{HSIEH}, section 5, and {NIID}, finding 11")


def published_communication(regime: Regime, emd: float) -> Advice:
    """Return how often to communicate, as the papers' findings suggest."""
    if regime in ("label", "mixed") and emd >= 1.0:
        reason = (
            "the more labels differ, the more accuracy rare or sparse messages cost; SkewScout measures the loss and "
            "adapts, and still saves 9.6 times the traffic under high skew"
        )
        return Advice("full messages every round; skewscout to save traffic", reason, f"{HSIEH}, sections 6 and 7")
    if regime in ("label", "mixed"):
        reason = "a moderate label skew tolerates some saving, and how much depends on the skew"
        return Advice("full messages every round; try top_k(fraction=0.1)", reason, f"{HSIEH}, section 6")
    reason = "without a label skew sparse and rare messages keep the accuracy at 15 to 20 times less traffic"
    return Advice("top_k(fraction=0.01), or fewer rounds", reason, f"{HSIEH}, section 4")
