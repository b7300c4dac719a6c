"""NIID-Bench's eleven findings (Li, Diao, Chen and He, ICDE 2022), each as a function that collects evidence.

Where the paper says "little" or "large" without a number, the number is ours and is stated in the text of the test.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.compare import Question, paired
from silobench.analysis.evidence import (
    POINT,
    Evidence,
    Gap,
    accuracy_gap,
    any_more_than,
    gap,
    has_learnt,
    if_learnt,
    larger,
    opposite,
    point_apart,
)
from silobench.analysis.groups import (
    SETTLED,
    Cells,
    Family,
    accuracy_text,
    by_algorithm,
    by_seed,
    dataset_name,
    differences,
    engines_of,
    families,
    last_accuracy,
    late_deviation,
    mean_accuracy,
    of_algorithms,
    setting_name,
    settings_of,
    solver_families,
    training_seconds,
)
from silobench.analysis.specs import arguments
from silobench.analysis.tables import best_of_grids, is_fedprox, skew_of
from silobench.runs.label import Label
from silobench.spec import Spec

NAME = "NIID-Bench"
FINDINGS = Findings(NAME)
_TABULAR = ("adult", "rcv1", "covtype")
FOUR = ("fedavg", "fedprox", "scaffold", "fednova")


def four(cells: Cells) -> list[CellResult]:
    """Return the cells of the paper's four algorithms; FedProx once per setting, at its best mu, and by that name."""
    return [
        replace(cell, label=cell.label.replace(algorithm=name_of(cell)))
        for cell in best_of_grids(cells)
        if name_of(cell) in FOUR
    ]


def name_of(cell: CellResult) -> str:
    """Return the algorithm, without its mu if it is FedProx."""
    return "fedprox" if is_fedprox(cell) else str(cell.label["algorithm"])


# --- skew ---------------------------------------------------------------------------------------------


@FINDINGS.add(
    "niid-1",
    "One class per party is the hardest case; feature and quantity skew hardly hurt FedAvg.",
    {"one class per party is the hardest": "most", "feature and quantity skew hardly hurt FedAvg": "most"},
    "niid-table3",
)
def hardest_skew(cells: Cells) -> Iterator[Evidence]:
    for family in families(of_algorithms(cells, "fedavg"), "partition"):
        one = family.get("label-count(k=1)")
        others = [cell for cell in family.values() if cell is not one and not _one_class(cell)]
        if one and others:
            rival = min(others, key=mean_accuracy)
            difference = accuracy_gap(rival, one)
            hardest = rival.label["partition"]
            names = f"{dataset_name(one)}: one class per party against {hardest}, the hardest of the others"
            numbers = f"{accuracy_text(one)} and {accuracy_text(rival)}, {difference.text()}"
            test = "correlated t-test: accuracy is more than 1 point below it"
            yield Evidence("one class per party is the hardest", names, numbers, test, difference.more_than(POINT))
        if iid := family.get("iid"):
            for cell in family.values():
                if skew_of(cell) in ("feature", "quantity"):
                    lost = accuracy_gap(iid, cell)
                    names = f"{dataset_name(cell)}: iid against {cell.label['partition']}"
                    numbers = f"{accuracy_text(iid)} and {accuracy_text(cell)}, {lost.text()}"
                    holds = if_learnt(lost.at_most(0.02), iid)
                    test = "correlated t-test: FedAvg loses at most 2 points, only if the model has learnt"
                    yield Evidence("feature and quantity skew hardly hurt FedAvg", names, numbers, test, holds)


def _one_class(cell: CellResult) -> bool:
    """Whether no party of a partition has more than one class, whatever else the partition does to its rows."""
    counts = [held for run in cell.runs for held in run.partition.counts]
    return bool(counts) and all(sum(count > 0 for count in held) <= 1 for held in counts)


@FINDINGS.add(
    "niid-2",
    "No algorithm is best in all settings; FedAvg is clearly beaten only in some of them.",
    {"everyone is beaten somewhere": "all", "FedAvg is beaten only in some settings": "all"},
    "niid-table3",
)
def nobody_is_best(cells: Cells) -> Iterator[Evidence]:
    settings = [by_algorithm(setting) for setting in settings_of(four(cells))]
    whole = [setting for setting in settings if set(FOUR) <= setting.keys()]
    if not whole:
        return
    looks = len(whole) * (len(FOUR) - 1)
    for name in FOUR:
        beaten, beats = [], []
        for setting in whole:
            cell, others = setting[name], [other for other in FOUR if other != name]
            gaps = {f"{other} on {setting_name(cell)}": accuracy_gap(setting[other], cell) for other in others}
            beaten += [rival for rival, lead in gaps.items() if lead.more_than(POINT, looks)]
            beats.append(all(accuracy_gap(cell, setting[other]).more_than(POINT) for other in others))
        holds = True if beaten else False if fmean(beats) > 0.75 else None
        numbers = f"{len(beaten)} in all, first by {beaten[0]}" if beaten else f"never in {len(whole)} settings"
        test = f"correlated t-test: another is better by more than 1 point somewhere, in one of {looks} looks"
        yield Evidence("everyone is beaten somewhere", name, numbers, test, holds)
    for name in FOUR[1:]:
        better = [accuracy_gap(setting[name], setting["fedavg"]).more_than(POINT) for setting in whole]
        yes, no, half = better.count(True), better.count(False), len(better) / 2
        numbers = f"better in {yes} of {len(whole)} settings, not better in {no}, undecided in {better.count(None)}"
        test = "correlated t-test: better by more than 1 point; not so in half of the settings or more"
        holds = True if no >= half else False if yes > half else None
        yield Evidence("FedAvg is beaten only in some settings", f"{name} against fedavg", numbers, test, holds)


@FINDINGS.add(
    "niid-3",
    "CIFAR-10 and tables suffer from skew; on MNIST all algorithms are nearly equal.",
    {"on MNIST all are nearly equal": "most", "CIFAR-10 and tables suffer more than MNIST": "most"},
    "niid-table3 --scale laptop",
)
def hard_and_easy_tasks(cells: Cells) -> Iterator[Evidence]:
    easy = [by_algorithm(s) for s in settings_of(four(cells)) if s[0].label["dataset"] == "mnist"]
    for setting in easy:
        if set(FOUR) <= setting.keys() and setting["fedavg"].label["partition"] != "label-count(k=1)":
            gaps = [accuracy_gap(a, b) for a, b in permutations(setting.values(), 2)]
            numbers = ", ".join(f"{name_of(cell)} {accuracy_text(cell)}" for cell in setting.values())
            test = "correlated t-test: no two of four differ by more than 3 points, only if the model has learnt"
            holds = if_learnt(opposite(any_more_than(gaps, 0.03, len(gaps))), *setting.values())
            yield Evidence("on MNIST all are nearly equal", setting_name(setting["fedavg"]), numbers, test, holds)
    lost = _lost_to_label_skew(cells)
    for name in [name for name in ("cifar-10", *_TABULAR) if name in lost and "mnist" in lost]:
        difference = gap(lost[name], lost["mnist"])
        test = "t-test: FedAvg loses more to Dir(0.5) than on MNIST, by more than 1 point"
        part = "CIFAR-10 and tables suffer more than MNIST"
        yield Evidence(part, f"{name} against mnist", difference.text(), test, difference.more_than(POINT))


def _lost_to_label_skew(cells: Cells) -> dict[str, dict[int, float]]:
    """Return what FedAvg loses by dataset and seed, in the longest runs with the paper's network and federation.

    Runs that learn nothing on iid data have nothing to lose.
    """
    papers = [cell for cell in of_algorithms(cells, "fedavg") if cell.paper]
    losses = {}
    for family in families(sorted(papers, key=lambda cell: int(cell.label.rounds)), "partition"):
        iid, skewed = family.get("iid"), family.get("label-dirichlet(beta=0.5)")
        if (
            iid
            and skewed
            and has_learnt(iid)
            and (lost := differences(by_seed(iid, last_accuracy), by_seed(skewed, last_accuracy)))
        ):
            losses[str(iid.label["dataset"])] = lost
    return losses


@FINDINGS.add(
    "niid-4",
    "FedProx converges as fast as FedAvg; SCAFFOLD and FedNova are less steady.",
    {"FedProx is as fast as FedAvg": "most", "SCAFFOLD and FedNova are less steady": "most"},
    "niid-curves",
)
def speed_and_steadiness(cells: Cells) -> Iterator[Evidence]:
    for setting in settings_of(four(cells)):
        named = by_algorithm(setting)
        average = named.get("fedavg")
        if average is None or average.label.rounds < 5:
            continue
        if "fedprox" in named:
            yield from _as_fast(named["fedprox"], average)
        for name in ("scaffold", "fednova"):
            if name in named and skew_of(average) != "homogeneous" and average.label.rounds >= SETTLED:
                rough, calm = by_seed(named[name], late_deviation), by_seed(average, late_deviation)
                test = "t-test: the deviation over its last 10 tests is larger than FedAvg's by more than a tenth"
                names, numbers = f"{name}, {setting_name(average)}", gap(rough, calm).text()
                yield Evidence("SCAFFOLD and FedNova are less steady", names, numbers, test, larger(rough, calm))


def _as_fast(prox: CellResult, average: CellResult) -> Iterator[Evidence]:
    worse = min(average, prox, key=mean_accuracy)
    if not has_learnt(worse):  # without learning there is no speed
        return
    target, rope = 0.9 * mean_accuracy(worse), max(2.0, 0.1 * average.label.rounds)
    pairs = paired(prox, average, Question(metric="rounds", target=target, rope=rope))
    rounds = Gap(pairs.posterior if pairs and not any(pairs.never) else None)
    test = f"t-test: rounds to {100 * target:.0f}% differ by at most {rope:.0f}"
    numbers = rounds.text("rounds", 1)
    yield Evidence("FedProx is as fast as FedAvg", setting_name(average), numbers, test, rounds.within(rope))


@FINDINGS.add(
    "niid-5",
    "The number of local epochs matters much, and the best one depends on the skew.",
    {"their number matters": "most", "the best number depends on the skew": "most"},
    "niid-local-epochs",
)
def local_epochs(cells: Cells) -> Iterator[Evidence]:
    best: dict[Label, dict[str, tuple[int, Family]]] = {}
    for family in solver_families(four(cells), "epochs"):
        bottom, *_, top = sorted(family, key=lambda epochs: mean_accuracy(family[epochs]))
        difference = accuracy_gap(family[top], family[bottom])
        cell = family[top]
        names = f"{name_of(cell)}, {setting_name(cell)}: {top} against {bottom} epochs"
        numbers = f"{accuracy_text(cell)} and {accuracy_text(family[bottom])}, {difference.text()}"
        looks = _pairs(family)
        test = f"correlated t-test: best and worst differ by more than 2 points, picked from {looks} differences"
        yield Evidence("their number matters", names, numbers, test, difference.more_than(0.02, looks))
        best.setdefault(cell.label.without("partition", "solver"), {})[cell.label["partition"]] = (top, family)
    for partitions in best.values():
        if len(partitions) > 1:
            cell = next(iter(next(iter(partitions.values()))[1].values()))
            numbers = ", ".join(f"{partition}: {top}" for partition, (top, _) in partitions.items())
            moves = [cost for one, other in combinations(partitions.values(), 2) for cost in _moves(*one, *other)]
            looks = sum(_pairs(family) for _, family in partitions.values())
            holds = any_more_than(moves, POINT, looks)
            test = (
                "correlated t-test: another partition's best is more than 1 point worse than one's own, picked from "
                f"{looks} differences"
            )
            names = f"{name_of(cell)}, {dataset_name(cell)}"
            yield Evidence("the best number depends on the skew", names, numbers, test, holds)


def _pairs(family: Family) -> int:
    """Return how many differences there are, either way, between the cells of a family."""
    return len(family) * (len(family) - 1)


def _moves(one: int, family: Family, other: int, other_family: Family) -> list[Gap]:
    """Return how much worse the best epochs of one partition are for the other, both ways; unknown if none was run."""
    if one == other:  # the same number is best, unless another one is better after all
        both = (family, other_family)
        pairs = [(cells[tried], cells[one]) for cells in both for tried in cells if tried != one]
    else:
        ways = ((family, one, other), (other_family, other, one))
        pairs = [(cells[best], cells[tried]) for cells, best, tried in ways if tried in cells]
    return [accuracy_gap(*pair) for pair in pairs] or [Gap(None)]


@FINDINGS.add(
    "niid-6",
    "Under party sampling SCAFFOLD fails, and the others are unsteady.",
    {"SCAFFOLD fails": "most", "the others are unsteady": "most"},
    "niid-party-sampling",
)
def party_sampling(cells: Cells) -> Iterator[Evidence]:
    sampled = [cell for cell in cells if cell.cohort < cell.parties]
    for setting in settings_of(sampled):
        named = by_algorithm(setting)
        average = named.get("fedavg")
        for name, part, counts in (
            ("scaffold", "SCAFFOLD fails", True),
            ("scaffold(init=random)", "SCAFFOLD with random first control variates fails", False),
        ):
            if average and name in named:
                difference = accuracy_gap(average, named[name])
                numbers = f"fedavg {accuracy_text(average)}, {name} {accuracy_text(named[name])}, {difference.text()}"
                test = "correlated t-test: FedAvg is better by more than 5 points"
                yield Evidence(part, setting_name(average), numbers, test, difference.more_than(0.05), counts)
    for family in families([cell for cell in four(sampled) if name_of(cell) != "scaffold"], "partition"):
        if iid := family.get("iid"):
            for cell in family.values():
                if cell is not iid:
                    rough, calm = by_seed(cell, late_deviation), by_seed(iid, late_deviation)
                    test = "t-test: the deviation over its last 10 tests is larger than when iid by more than a tenth"
                    names, numbers = f"{name_of(cell)}, {setting_name(cell)}", gap(rough, calm).text()
                    yield Evidence("the others are unsteady", names, numbers, test, larger(rough, calm))


@FINDINGS.add(
    "niid-7", "Accuracy falls as the number of parties grows.", {"more parties, less accuracy": "most"}, "niid-parties"
)
def many_parties(cells: Cells) -> Iterator[Evidence]:
    whole = [cell for cell in four(cells) if cell.cohort == cell.parties]
    for family in families(whole, "parties"):
        few, many = family[min(family)], family[max(family)]
        names = f"{name_of(few)}, {setting_name(few)}: {few.parties} against {many.parties} parties"
        yield point_apart("more parties, less accuracy", names, few, many, "falls by more than 1 point")


@FINDINGS.add(
    "niid-8",
    "FedProx takes much more computing time than FedAvg, and SCAFFOLD sends twice the bytes.",
    {"FedProx takes much more time": "most", "SCAFFOLD sends twice the bytes": "all"},
    "niid-efficiency",
)
def costs(cells: Cells) -> Iterator[Evidence]:
    for setting in settings_of(four(cells)):
        named = by_algorithm(setting)
        average = named.get("fedavg")
        if average and "fedprox" in named and engines_of(named["fedprox"]) == engines_of(average):
            ours, theirs = by_seed(named["fedprox"], training_seconds), by_seed(average, training_seconds)
            share = {seed: ours[seed] / theirs[seed] - 1 for seed in ours.keys() & theirs.keys()}
            difference = gap(share, dict.fromkeys(share, 0.0))
            test = "t-test: parties train more than 10% longer than for FedAvg"
            numbers = difference.text("% of the time")
            if share:
                yield Evidence(
                    "FedProx takes much more time", setting_name(average), numbers, test, difference.more_than(0.1)
                )
        if average and "scaffold" in named and average.bytes_up:
            sent = [cell.bytes_up + cell.bytes_down for cell in (named["scaffold"], average)]
            holds = abs(sent[0] / sent[1] - 2) < 0.02
            numbers = f"{sent[0] / sent[1]:.3f} times the bytes"
            yield Evidence("SCAFFOLD sends twice the bytes", setting_name(average), numbers, "2 within 1%", holds)


@FINDINGS.add(
    "niid-9",
    "Two kinds of skew at once are harder than one.",
    {"two skews are harder than one": "most"},
    "niid-mixed-skew",
)
def mixed_skew(cells: Cells) -> Iterator[Evidence]:
    for family in families(four(cells), "partition"):
        for mixed in family.values():
            terms = list(map(str, mixed.label.partition)) if skew_of(mixed) == "mixed" else []
            if terms and all(
                term in family for term in terms
            ):  # against the easier part, the harder one would be enough
                single = min((family[term] for term in terms), key=mean_accuracy)
                difference = accuracy_gap(single, mixed)
                harder = single.label["partition"]
                names = f"{name_of(mixed)}, {setting_name(mixed)}, against {harder}, the harder of its parts"
                numbers = f"{accuracy_text(mixed)} and {accuracy_text(single)}, {difference.text()}"
                test = "correlated t-test: accuracy is more than 1 point lower"
                yield Evidence("two skews are harder than one", names, numbers, test, difference.more_than(POINT))


@FINDINGS.add(
    "niid-10",
    "The batch size has the same effect with skew as without.",
    {"skew does not change the effect of the batch size": "most"},
    "niid-batch-size",
)
def batch_size(cells: Cells) -> Iterator[Evidence]:
    studies: dict[tuple[Label, tuple[int, int]], dict[str, tuple[CellResult, CellResult]]] = {}
    for family in solver_families(four(cells), "batch"):
        sizes, ends = (min(family), max(family)), (family[min(family)], family[max(family)])
        label = ends[0].label
        studies.setdefault((label.without("partition", "solver"), sizes), {})[label["partition"]] = ends
    for (_, (small, large)), partitions in studies.items():
        for partition, ends in partitions.items():
            if partition != "iid" and "iid" in partitions:
                yield from _same_gain(f"batches of {small} against {large}, {partition}", ends, partitions["iid"])


def _same_gain(names: str, skewed: Cells, iid: Cells) -> Iterator[Evidence]:
    """Yield evidence if both pairs have shared seeds; a pair is the smallest and the largest batch of a partition."""
    gain, at_iid = (differences(*(by_seed(cell, last_accuracy) for cell in pair)) for pair in (skewed, iid))
    if gain and at_iid:
        difference = gap(gain, at_iid)
        numbers = f"{100 * fmean(gain.values()):+z.1f} points, iid {100 * fmean(at_iid.values()):+z.1f}"
        test = "t-test: what a small batch gains differs from iid by at most 2 points, only if the model has learnt"
        holds = if_learnt(if_learnt(difference.within(0.02), *iid), *skewed)
        part = "skew does not change the effect of the batch size"
        names = f"{name_of(skewed[0])}, {dataset_name(skewed[0])}, {names}"
        yield Evidence(part, names, f"{numbers}, {difference.text()}", test, holds)


@FINDINGS.add(
    "niid-11",
    "Averaging BatchNorm layers makes training less steady under skew.",
    {"averaged BatchNorm is less steady under skew": "most"},
    "niid-architectures",
)
def batch_norm(cells: Cells) -> Iterator[Evidence]:
    for family in families(four(cells), "model"):
        for model, averaged in family.items():
            spec = averaged.label.model
            if spec.name != "resnet" or "norm" in arguments(spec) or skew_of(averaged) == "homogeneous":
                continue
            for other in (str(Spec(spec.name, spec.args, (*spec.kwargs, ("norm", "group")))), "vgg9"):
                if other in family:
                    rough, calm = by_seed(averaged, late_deviation), by_seed(family[other], late_deviation)
                    names = f"{name_of(averaged)}, {setting_name(averaged)}: {model} against {other}"
                    accuracies = f"{accuracy_text(averaged)} and {accuracy_text(family[other])}"
                    numbers = f"accuracy {accuracies}; deviation {gap(rough, calm).text()}"
                    test = "t-test: the deviation over its last 10 tests is larger by more than a tenth"
                    part = "averaged BatchNorm is less steady under skew"
                    yield Evidence(part, names, numbers, test, larger(rough, calm))
