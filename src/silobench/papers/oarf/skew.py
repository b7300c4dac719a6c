"""Findings 7 to 9 of OARF: label skew and quantity skew (appendix B.1)."""

from collections.abc import Iterator

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import Evidence, accuracy_gap, larger, pair_text, point_apart
from silobench.analysis.groups import (
    Cells,
    Family,
    by_seed,
    dataset_name,
    differences,
    families,
    last_accuracy,
    setting_name,
)
from silobench.analysis.specs import arguments
from silobench.papers.oarf.measures import POINT, correlation, is_weak, score_gap, two_shares_text, two_text
from silobench.papers.oarf.settings import NAME, is_federated, one_epoch

FINDINGS = Findings(NAME)
_STRONG = 0.7  # a correlation


def skews(cells: Cells) -> Iterator[tuple[CellResult, dict[float, CellResult], dict[float, CellResult]]]:
    """Yield federated cells on iid data, with those of label skew and of quantity skew by alpha."""
    for family in families([cell for cell in one_epoch(cells) if is_federated(cell)], "partition"):
        if iid := family.get("iid"):
            yield iid, by_alpha(family, "label-dirichlet"), by_alpha(family, "quantity-dirichlet")


def by_alpha(family: Family, kind: str) -> dict[float, CellResult]:
    """Return the cells of a Dirichlet skew by alpha, which is called beta here, the smallest first."""
    single = [(cell.label.partition[0], cell) for cell in family.values() if len(cell.label.partition) == 1]
    by_beta = {float(arguments(term)["beta"]): cell for term, cell in single if term.name == kind}
    return dict(sorted(by_beta.items()))


@FINDINGS.add(
    "oarf-7",
    "Label skew and quantity skew cost accuracy; label skew costs more, and more the smaller alpha is.",
    {
        "label skew costs accuracy": "most",
        "quantity skew costs accuracy": "most",
        "label skew costs more": "most",
        "it costs more the smaller alpha is": "most",
        "quantity skew depends less on alpha": "most",
    },
    "oarf-skew",
)
def skew_costs_accuracy(cells: Cells) -> Iterator[Evidence]:
    """Compare each skew with iid data, both skews at the same alpha, and the ends of each ladder of alphas."""
    point = "correlated t-test: accuracy is more than 1 point lower"
    for iid, by_label, by_quantity in skews(cells):
        for part, ladder in (("label skew", by_label), ("quantity skew", by_quantity)):
            for cell in ladder.values():
                holds = accuracy_gap(iid, cell).more_than(POINT)
                yield Evidence(f"{part} costs accuracy", setting_name(cell), pair_text(iid, cell), point, holds)
        for alpha in by_label.keys() & by_quantity.keys():
            label, quantity = by_label[alpha], by_quantity[alpha]
            holds = accuracy_gap(quantity, label, iid).more_than(POINT)
            names = f"{dataset_name(iid)}: label against quantity skew, alpha {alpha:g}"
            yield Evidence("label skew costs more", names, pair_text(quantity, label), point, holds)
        yield from _steeper(by_label, by_quantity, iid)


def _steeper(
    by_label: dict[float, CellResult], by_quantity: dict[float, CellResult], iid: CellResult
) -> Iterator[Evidence]:
    """Yield evidence of what accuracy falls by from the largest alpha to the smallest."""
    if len(by_label) < 2:
        return
    (low, small), *_, (high, large) = by_label.items()
    names = f"{dataset_name(iid)}: label skew, alpha {low:g} against {high:g}"
    yield point_apart("it costs more the smaller alpha is", names, large, small, "is more than 1 point lower", iid)
    if low in by_quantity and high in by_quantity:
        label, quantity = (
            differences(by_seed(ladder[high], last_accuracy), by_seed(ladder[low], last_accuracy))
            for ladder in (by_label, by_quantity)
        )
        difference = score_gap(label, quantity, iid, large)
        names = f"{dataset_name(iid)}: fall from alpha {high:g} to {low:g}, label less quantity skew"
        test = "correlated t-test: accuracy falls by more than 1 extra point"
        part = "quantity skew depends less on alpha"
        yield Evidence(part, names, difference.text(), test, difference.more_than(POINT))


@FINDINGS.add(
    "oarf-8",
    "Quantity skew costs more overhead than label skew, because parties wait for the largest one.",
    {"quantity skew has more overhead": "most", "and more the smaller alpha is": "most"},
    "oarf-skew",
)
def quantity_skew_waits(cells: Cells) -> Iterator[Evidence]:
    """Compare overheads at the same alpha, and at the ends of the ladder of quantity skew."""
    for iid, by_label, by_quantity in skews(cells):
        overheads = {alpha: by_seed(cell, costs.overhead) for alpha, cell in by_quantity.items()}
        for alpha in by_label.keys() & by_quantity.keys():
            a, b = overheads[alpha], by_seed(by_label[alpha], costs.overhead)
            if a and b:
                names = f"{dataset_name(iid)}: quantity against label skew, alpha {alpha:g}"
                test = "t-test: overhead is more than a tenth higher"
                yield Evidence("quantity skew has more overhead", names, two_shares_text(a, b), test, larger(a, b))
        if len(overheads) > 1 and all(overheads.values()):
            (low, a), *_, (high, b) = overheads.items()
            names = f"{dataset_name(iid)}: quantity skew, alpha {low:g} against {high:g}"
            test = "t-test: overhead is more than a tenth higher"
            yield Evidence("and more the smaller alpha is", names, two_shares_text(a, b), test, larger(a, b))


@FINDINGS.add(
    "oarf-9",
    "Both skews lower the throughput, without a strong correlation with alpha.",
    {"skew lowers the throughput": "most", "the correlation with alpha is not strong": "all"},
    "oarf-skew",
)
def skew_lowers_throughput(cells: Cells) -> Iterator[Evidence]:
    """Compare the throughput of each skew with that of iid data, and rank it against alpha over all trials."""
    for iid, *ladders in skews(cells):
        fast = by_seed(iid, costs.throughput)
        for ladder in ladders:
            slow = {alpha: by_seed(cell, costs.throughput) for alpha, cell in ladder.items()}
            for alpha, cell in ladder.items():
                if fast and slow[alpha]:
                    test = "t-test: throughput on iid data is more than a tenth higher"
                    numbers = two_text(fast, slow[alpha], "rows/s")
                    holds = larger(fast, slow[alpha])
                    yield Evidence("skew lowers the throughput", setting_name(cell), numbers, test, holds)
            if len(ladder) > 2 and all(slow.values()):
                yield _correlated(f"{dataset_name(iid)}: {next(iter(ladder.values())).label.partition[0].name}", slow)


def _correlated(names: str, throughputs: dict[float, dict[int, float]]) -> Evidence:
    """Return evidence from the rank correlation of alpha and throughput; one trial per alpha decides nothing."""
    points = [(alpha, value) for alpha, values in throughputs.items() for value in values.values()]
    rank = correlation([alpha for alpha, _ in points], [value for _, value in points])
    has_trials = all(len(values) > 1 for values in throughputs.values())
    holds = is_weak(rank, len(points), _STRONG) if has_trials else None
    test = f"Fisher's test: between -{_STRONG:g} and {_STRONG:g}"
    numbers = f"Spearman {rank:+z.2f} over {len(points)} trials"
    return Evidence("the correlation with alpha is not strong", names, numbers, test, holds)
