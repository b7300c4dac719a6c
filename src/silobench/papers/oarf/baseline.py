"""Findings 1 to 6 of OARF: each party by itself, all rows combined, and federated (section 5.1)."""

from collections.abc import Iterator
from itertools import permutations

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import Evidence, gap, larger, nearly_equal
from silobench.analysis.groups import (
    Cells,
    accuracy_text,
    by_algorithm,
    by_seed,
    dataset_name,
    last_accuracy,
    setting_name,
    settings_of,
)
from silobench.analysis.specs import partition_kinds
from silobench.papers.oarf.measures import (
    OVERHEAD,
    POINT,
    cross_scores,
    more_rounds,
    rounds_text,
    score_gap,
    share_of_overhead,
    share_text,
    solo_scores,
    two_shares_text,
    two_text,
)
from silobench.papers.oarf.settings import COMBINED, FEDERATED, NAME, SOLO, is_fast, one_epoch

FINDINGS = Findings(NAME)


def _baselines(cells: Cells, other: str) -> Iterator[tuple[CellResult, CellResult]]:
    """Yield federated cells, each with that of another algorithm in the same setting."""
    for setting in settings_of(one_epoch(cells)):
        named = by_algorithm(setting)
        if FEDERATED in named and other in named:
            yield named[FEDERATED], named[other]


# --- accuracy ---


@FINDINGS.add(
    "oarf-1",
    "Federated training is better than any party by itself.",
    {"better than the best party": "most"},
    "oarf-baseline",
)
def better_than_solo(cells: Cells) -> Iterator[Evidence]:
    """Compare the federated model with the best of the parties' own models, on all test rows."""
    for federated, solo in _baselines(cells, SOLO):
        scores = solo_scores(solo)
        if not scores:
            continue
        best = max(scores, key=lambda party: sum(scores[party].values()) / len(scores[party]))
        lead = score_gap(by_seed(federated, last_accuracy), scores[best], federated, solo)
        names = f"{setting_name(federated)}: federated against party {best}, the best by itself"
        numbers = f"{accuracy_text(federated)}, {lead.text()}"
        test = "correlated t-test: accuracy on all test rows is more than 1 point higher"
        yield Evidence("better than the best party", names, numbers, test, lead.more_than(POINT))


@FINDINGS.add(
    "oarf-2",
    "Federated training is as good as training on all rows in one place.",
    {"as good as combined": "most"},
    "oarf-baseline",
)
def as_good_as_combined(cells: Cells) -> Iterator[Evidence]:
    """Compare federated with combined training by the paper's region of equivalence."""
    for federated, combined in _baselines(cells, COMBINED):
        yield nearly_equal("as good as combined", setting_name(federated), federated, combined)


@FINDINGS.add(
    "oarf-3",
    "A party's model is worse on the rows of other sources than their own model is; the federated model is not.",
    {
        "a party's model is worse on others' rows": "most",
        "the federated model is better there": "most",
        "and not worse on a party's own rows": "most",
    },
    "oarf-baseline",
)
def generalises(cells: Cells) -> Iterator[Evidence]:
    """Compare models on the test rows of one source at a time: its own party's, other parties', the federated one."""
    natural = [cell for cell in cells if "by-group" in partition_kinds(cell.label)]
    for federated, solo in _baselines(natural, SOLO):
        shared = {test: by for (_, test), by in cross_scores(federated).items()}
        scores = cross_scores(solo)
        sources = [test for model, test in scores if model == test and test in shared]
        name = dataset_name(federated)
        for model, test in permutations(sources, 2):
            lost = score_gap(scores[test, test], scores[model, test], solo, federated)
            lead = score_gap(shared[test], scores[model, test], federated, solo)
            for part, names, difference in (
                ("a party's model is worse on others' rows", f"the models of {test} and {model} on {test}", lost),
                ("the federated model is better there", f"federated against the model of {model} on {test}", lead),
            ):
                test_text = "correlated t-test: accuracy is more than 1 point higher"
                holds = difference.more_than(POINT)
                yield Evidence(part, f"{name}: {names}", difference.text(), test_text, holds)
        for test in sources:
            lost = score_gap(scores[test, test], shared[test], solo, federated)
            names = f"{name}: the model of {test} against the federated one on {test}"
            test_text = "correlated t-test: at most 1 point better"
            yield Evidence("and not worse on a party's own rows", names, lost.text(), test_text, lost.at_most(POINT))


# --- rounds and time ---


@FINDINGS.add(
    "oarf-4",
    "Federated training needs more rounds than combined training.",
    {"more rounds": "most"},
    "oarf-baseline",
)
def needs_more_rounds(cells: Cells) -> Iterator[Evidence]:
    """Compare the rounds until the schedule of the learning rate ends a run."""
    for federated, combined in _baselines(cells, COMBINED):
        if costs.can_converge(federated.runs[0]):
            difference, holds = more_rounds(federated, combined)
            numbers = f"{rounds_text(federated)} and {rounds_text(combined)}, {difference.text('rounds', 1)}"
            test = "t-test: more rounds to convergence by more than 10, or a tenth below 100"
            yield Evidence("more rounds", setting_name(federated), numbers, test, holds)


@FINDINGS.add(
    "oarf-5",
    "Federated training has a higher throughput than combined training, because parties work in parallel.",
    {"higher throughput": "most"},
    "oarf-baseline",
)
def higher_throughput(cells: Cells) -> Iterator[Evidence]:
    """Compare rows per second of round time; per core-second is shown aside."""
    for federated, combined in _baselines(cells, COMBINED):
        for part, number, unit, counts in (
            ("higher throughput", costs.throughput, "rows/s", True),
            ("higher throughput per core", costs.core_throughput, "rows/s per core", False),
        ):
            a, b = by_seed(federated, number), by_seed(combined, number)
            if a and b:
                test = "t-test: more than a tenth higher"
                names, numbers = setting_name(federated), two_text(a, b, unit)
                yield Evidence(part, names, numbers, test, larger(a, b), counts)


@FINDINGS.add(
    "oarf-6",
    "Federated training has more overhead than combined training, and communication over a fast link is little of it.",
    {"more overhead": "most", "communication is little of it": "most"},
    "oarf-baseline",
)
def more_overhead(cells: Cells) -> Iterator[Evidence]:
    """Compare overheads, and the share of communication in that of the federated run on a link that limits nothing."""
    for federated, combined in _baselines(cells, COMBINED):
        a, b = by_seed(federated, costs.overhead), by_seed(combined, costs.overhead)
        if not (a and b):
            continue
        difference = gap(a, b)
        numbers = two_shares_text(a, b, difference)
        test = "t-test: overhead is more than 10 points higher"
        yield Evidence("more overhead", setting_name(federated), numbers, test, difference.more_than(OVERHEAD))
        shares = by_seed(federated, lambda run: share_of_overhead(run, "communicate"))
        if is_fast(federated.label) and shares:
            part = "communication is little of it"
            holds = gap(shares, dict.fromkeys(shares, 0.1)).at_most(0)
            test = "t-test: at most a tenth of the time that is neither training nor testing"
            yield Evidence(part, setting_name(federated), share_text(shares), test, holds)
