"""NIID-Bench's eleven findings (Li, Diao, Chen and He, ICDE 2022), each as a look through stored runs.

Where the paper says "little" or "large" without a number, the number here is ours and stands in the test's text.
"""

from collections.abc import Iterator
from itertools import combinations, permutations
from statistics import fmean

from silobench.analysis.bayes import Posterior
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import (
    Evidence,
    Finding,
    accuracy_gap,
    any_more_than,
    gap,
    larger,
    more_than,
    told,
    turned,
    within,
)
from silobench.analysis.compare import Question, paired
from silobench.analysis.families import (
    FOUR,
    SETTLED,
    Cells,
    Family,
    by_algorithm,
    by_seed,
    chosen,
    differences,
    engines_of,
    families,
    four,
    last,
    mean,
    name_of,
    percent,
    place,
    rest_of,
    training_seconds,
    unrest,
    where,
)
from silobench.analysis.tables import settings_of, skew_of

PAPER = "NIID-Bench"
_TABULAR = ("adult", "rcv1", "covtype")
_POINT = 0.01  # of accuracy: what matters


def hardest_skew(cells: Cells) -> Iterator[Evidence]:
    for family in families(chosen(cells, "fedavg"), "partition"):
        one = family.get("label-count(k=1)")
        others = [cell for cell in family.values() if cell is not one and not _one_class(cell)]
        if one and others:
            rival = min(others, key=mean)
            found = accuracy_gap(rival, one)
            names = f"{place(one)}: one class a party against {rival.label['partition']}, the hardest of the others"
            numbers = f"{percent(one)} and {percent(rival)}, {told(found)}"
            test = "correlated t: over 1 point below it"
            yield Evidence("one class a party is the hardest", names, numbers, test, more_than(found, _POINT))
        if iid := family.get("iid"):
            for cell in family.values():
                if skew_of(cell) in ("feature", "quantity"):
                    lost = accuracy_gap(iid, cell)
                    names = f"{place(cell)}: iid against {cell.label['partition']}"
                    numbers = f"{percent(iid)} and {percent(cell)}, {told(lost)}"
                    holds = turned(more_than(lost, 0.02))
                    test = "correlated t: FedAvg loses at most 2 points"
                    yield Evidence("feature and quantity skew hardly hurt FedAvg", names, numbers, test, holds)


def _one_class(cell: CellResult) -> bool:
    """Whether no party of a partition has more than one class, whatever else the partition does to its rows."""
    counts = [held for run in cell.runs for held in run.facts["partition"]["counts"]]
    return all(sum(count > 0 for count in held) <= 1 for held in counts)


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
            gaps = {f"{other} on {where(cell)}": accuracy_gap(setting[other], cell) for other in others}
            beaten += [rival for rival, lead in gaps.items() if more_than(lead, _POINT, looks)]
            beats.append(all(more_than(accuracy_gap(cell, setting[other]), _POINT) for other in others))
        holds = True if beaten else False if fmean(beats) > 0.75 else None
        numbers = f"{len(beaten)} in all, first by {beaten[0]}" if beaten else f"never in {len(whole)} settings"
        test = f"correlated t: another is better by more than 1 point somewhere, in one of {looks} looks"
        yield Evidence("everyone is beaten somewhere", name, numbers, test, holds)
    for name in FOUR[1:]:
        better = [more_than(accuracy_gap(setting[name], setting["fedavg"]), _POINT) for setting in whole]
        yes, no, half = better.count(True), better.count(False), len(better) / 2
        numbers = (
            f"better in {yes} of {len(whole)} settings, not better in {no}, cannot be told in {better.count(None)}"
        )
        test = "correlated t: better by more than 1 point; not so in half of the settings or more"
        holds = True if no >= half else False if yes > half else None
        yield Evidence("FedAvg is beaten only in some settings", f"{name} against fedavg", numbers, test, holds)


def hard_and_easy_tasks(cells: Cells) -> Iterator[Evidence]:
    easy = [by_algorithm(s) for s in settings_of(four(cells)) if s[0].label["dataset"] == "mnist"]
    for setting in easy:
        if set(FOUR) <= setting.keys() and setting["fedavg"].label["partition"] != "label-count(k=1)":
            gaps = [accuracy_gap(a, b) for a, b in permutations(setting.values(), 2)]
            numbers = ", ".join(f"{name_of(cell)} {percent(cell)}" for cell in setting.values())
            test = "correlated t: no two of four differ by more than 3 points"
            holds = turned(any_more_than(gaps, 0.03, len(gaps)))
            yield Evidence("on MNIST all do alike", where(setting["fedavg"]), numbers, test, holds)
    lost = _lost_to_label_skew(cells)
    for name in [name for name in ("cifar-10", *_TABULAR) if name in lost and "mnist" in lost]:
        found = gap(lost[name], lost["mnist"])
        test = "t: FedAvg loses more to Dir(0.5) than on MNIST, by more than 1 point"
        part = "CIFAR-10 and tables suffer more than MNIST"
        yield Evidence(part, f"{name} against mnist", told(found), test, more_than(found, _POINT))


def _lost_to_label_skew(cells: Cells) -> dict[str, dict[int, float]]:
    """What FedAvg loses, by dataset and seed; with the paper's network and federation, of the longest runs."""
    papers = [cell for cell in chosen(cells, "fedavg") if cell.paper]
    found = {}
    for family in families(sorted(papers, key=lambda cell: int(cell.label["rounds"])), "partition"):
        iid, skewed = family.get("iid"), family.get("label-dirichlet(beta=0.5)")
        if iid and skewed and (lost := differences(by_seed(iid, last), by_seed(skewed, last))):
            found[str(iid.label["dataset"])] = lost
    return found


def speed_and_steadiness(cells: Cells) -> Iterator[Evidence]:
    for setting in settings_of(four(cells)):
        own = by_algorithm(setting)
        average = own.get("fedavg")
        if average is None or average.label["rounds"] < 5:
            continue
        if "fedprox" in own:
            yield from _as_fast(own["fedprox"], average)
        for name in ("scaffold", "fednova"):
            if name in own and skew_of(average) != "homogeneous" and average.label["rounds"] >= SETTLED:
                rough, calm = by_seed(own[name], unrest), by_seed(average, unrest)
                test = "t: the deviation over its last 10 tests is larger than FedAvg's by more than a tenth"
                names, numbers = f"{name}, {where(average)}", told(gap(rough, calm))
                yield Evidence("SCAFFOLD and FedNova are less steady", names, numbers, test, larger(rough, calm))


def _as_fast(prox: CellResult, average: CellResult) -> Iterator[Evidence]:
    target, rope = 0.9 * min(mean(average), mean(prox)), max(2.0, 0.1 * average.label["rounds"])
    if target <= 1 / len(average.runs[0].facts["dataset"]["classes"]):  # neither has learnt anything
        return
    found = paired(prox, average, Question(metric="rounds", target=target, rope=rope))
    rounds = found.posterior if found and not any(found.never) else None
    test = f"t: rounds to {100 * target:.0f}% differ by at most {rope:.0f}"
    holds = within(rounds, rope)
    yield Evidence("FedProx is as fast as FedAvg", where(average), told(rounds, "rounds", 1), test, holds)


def local_epochs(cells: Cells) -> Iterator[Evidence]:
    best: dict[str, dict[str, tuple[int, Family]]] = {}
    for family in families(four(cells), "solver", "epochs"):
        bottom, *_, top = sorted(family, key=lambda epochs: mean(family[epochs]))
        found = accuracy_gap(family[top], family[bottom])
        cell = family[top]
        names = f"{name_of(cell)}, {where(cell)}: {top} against {bottom} epochs"
        numbers = f"{percent(cell)} and {percent(family[bottom])}, {told(found)}"
        looks = _pairs(family)
        test = f"correlated t: best and worst differ by more than 2 points, picked from {looks} differences"
        yield Evidence("their number matters", names, numbers, test, more_than(found, 0.02, looks))
        best.setdefault(rest_of(cell, "partition", "solver"), {})[cell.label["partition"]] = (top, family)
    for partitions in best.values():
        if len(partitions) > 1:
            cell = next(iter(next(iter(partitions.values()))[1].values()))
            numbers = ", ".join(f"{partition}: {top}" for partition, (top, _) in partitions.items())
            moves = [cost for one, other in combinations(partitions.values(), 2) for cost in _moves(*one, *other)]
            looks = sum(_pairs(family) for _, family in partitions.values())
            holds = any_more_than(moves, _POINT, looks)
            test = (
                "correlated t: another partition's best is more than 1 point worse than one's own, picked from "
                f"{looks} differences"
            )
            names = f"{name_of(cell)}, {place(cell)}"
            yield Evidence("the best number depends on the skew", names, numbers, test, holds)


def _pairs(family: Family) -> int:
    """Return how many differences there are, either way, between the cells of a family."""
    return len(family) * (len(family) - 1)


def _moves(one: int, own: Family, other: int, others: Family) -> list[Posterior | None]:
    """Return how much worse what is best for one partition is for the other, and the reverse; [None] if unknown."""
    if one == other:  # the same, if nothing else is better after all
        pairs = [(family[tried], family[one]) for family in (own, others) for tried in family if tried != one]
    else:
        ways = ((own, one, other), (others, other, one))
        pairs = [(family[best], family[tried]) for family, best, tried in ways if tried in family]
    return [accuracy_gap(*pair) for pair in pairs] or [None]


def party_sampling(cells: Cells) -> Iterator[Evidence]:
    sampled = [cell for cell in cells if cell.cohort < cell.parties]
    for setting in settings_of(sampled):
        own = by_algorithm(setting)
        average = own.get("fedavg")
        for name, part, counts in (
            ("scaffold", "SCAFFOLD fails", True),
            ("scaffold(init=random)", "SCAFFOLD with random first control variates fails", False),
        ):
            if average and name in own:
                found = accuracy_gap(average, own[name])
                numbers = f"fedavg {percent(average)}, {name} {percent(own[name])}, {told(found)}"
                test = "correlated t: FedAvg is better by more than 5 points"
                yield Evidence(part, where(average), numbers, test, more_than(found, 0.05), counts)
    for family in families([cell for cell in four(sampled) if name_of(cell) != "scaffold"], "partition"):
        if iid := family.get("iid"):
            for cell in family.values():
                if cell is not iid:
                    rough, calm = by_seed(cell, unrest), by_seed(iid, unrest)
                    test = "t: the deviation over its last 10 tests is larger than when iid by more than a tenth"
                    names, numbers = f"{name_of(cell)}, {where(cell)}", told(gap(rough, calm))
                    yield Evidence("the others are unsteady", names, numbers, test, larger(rough, calm))


def many_parties(cells: Cells) -> Iterator[Evidence]:
    whole = [cell for cell in four(cells) if cell.cohort == cell.parties]
    for family in families(whole, "parties"):
        few, many = family[min(family)], family[max(family)]
        found = accuracy_gap(few, many)
        names = f"{name_of(few)}, {where(few)}: {few.parties} against {many.parties} parties"
        numbers = f"{percent(few)} and {percent(many)}, {told(found)}"
        test = "correlated t: over 1 point less"
        yield Evidence("more parties, less accuracy", names, numbers, test, more_than(found, _POINT))


def costs(cells: Cells) -> Iterator[Evidence]:
    for setting in settings_of(four(cells)):
        own = by_algorithm(setting)
        average = own.get("fedavg")
        if average and "fedprox" in own and engines_of(own["fedprox"]) == engines_of(average):
            ours, theirs = by_seed(own["fedprox"], training_seconds), by_seed(average, training_seconds)
            share = {seed: ours[seed] / theirs[seed] - 1 for seed in ours.keys() & theirs.keys()}
            found = gap(share, dict.fromkeys(share, 0.0))
            test = "t: parties train more than 10% longer than for FedAvg"
            numbers = told(found, "% of the time")
            if share:
                yield Evidence("FedProx takes much more time", where(average), numbers, test, more_than(found, 0.1))
        if average and "scaffold" in own and average.bytes_up:
            sent = [cell.bytes_up + cell.bytes_down for cell in (own["scaffold"], average)]
            holds = abs(sent[0] / sent[1] - 2) < 0.02
            numbers = f"{sent[0] / sent[1]:.3f} times the bytes"
            yield Evidence("SCAFFOLD sends twice the bytes", where(average), numbers, "2 within 1%", holds)


def mixed_skew(cells: Cells) -> Iterator[Evidence]:
    for family in families(four(cells), "partition"):
        for partition, mixed in family.items():
            terms = partition.split(" + ") if skew_of(mixed) == "mixed" else []
            if terms and all(term in family for term in terms):  # against an easy one alone, the other is enough
                single = min((family[term] for term in terms), key=mean)
                found = accuracy_gap(single, mixed)
                names = (
                    f"{name_of(mixed)}, {where(mixed)}, against {single.label['partition']}, the harder of its parts"
                )
                numbers = f"{percent(mixed)} and {percent(single)}, {told(found)}"
                test = "correlated t: over 1 point harder"
                yield Evidence("two skews are harder than one", names, numbers, test, more_than(found, _POINT))


def batch_size(cells: Cells) -> Iterator[Evidence]:
    gains: dict[str, dict[str, tuple[str, dict[int, float]]]] = {}
    for family in families(four(cells), "solver", "batch"):
        small, large = family[min(family)], family[max(family)]
        gain = differences(by_seed(small, last), by_seed(large, last))
        name = f"{name_of(small)}, {place(small)}, batches of {min(family)} against {max(family)}"
        key = rest_of(small, "partition", "solver") + name
        if gain:
            gains.setdefault(key, {})[small.label["partition"]] = (name, gain)
    for partitions in gains.values():
        for partition, (name, gain) in partitions.items():
            if partition != "iid" and "iid" in partitions:
                at_iid = partitions["iid"][1]
                found = gap(gain, at_iid)
                numbers = f"{100 * fmean(gain.values()):+.1f} points, iid {100 * fmean(at_iid.values()):+.1f}"
                test = "t: what a small batch gains differs from iid by at most 2 points"
                part = "skew does not change what the batch size does"
                yield Evidence(part, f"{name}, {partition}", f"{numbers}, {told(found)}", test, within(found, 0.02))


def batch_norm(cells: Cells) -> Iterator[Evidence]:
    for family in families(four(cells), "model"):
        for model, averaged in family.items():
            if not model.startswith("resnet") or "norm=" in model or skew_of(averaged) == "homogeneous":
                continue
            plain = model[:-1] if model.endswith(")") else f"{model}("
            joint = "" if plain.endswith("(") else ", "
            for other in (f"{plain}{joint}norm=group)", "vgg9"):
                if other in family:
                    rough, calm = by_seed(averaged, unrest), by_seed(family[other], unrest)
                    names = f"{name_of(averaged)}, {where(averaged)}: {model} against {other}"
                    accuracies = f"{percent(averaged)} and {percent(family[other])}"
                    numbers = f"accuracy {accuracies}; deviation {told(gap(rough, calm))}"
                    test = "t: the deviation over its last 10 tests is larger by more than a tenth"
                    part = "averaged BatchNorm is less steady under skew"
                    yield Evidence(part, names, numbers, test, larger(rough, calm))


FINDINGS = (
    Finding(
        "niid-1", PAPER, "One class a party is the hardest case; feature and quantity skew hardly hurt FedAvg.",
        {"one class a party is the hardest": "most", "feature and quantity skew hardly hurt FedAvg": "most"},
        hardest_skew, "niid-table3",
    ),
    Finding(
        "niid-2", PAPER, "No algorithm is best in all settings; FedAvg is clearly beaten only in some of them.",
        {"everyone is beaten somewhere": "all", "FedAvg is beaten only in some settings": "all"},
        nobody_is_best, "niid-table3",
    ),
    Finding(
        "niid-3", PAPER, "CIFAR-10 and tables suffer from skew; on MNIST all algorithms do nearly alike.",
        {"on MNIST all do alike": "most", "CIFAR-10 and tables suffer more than MNIST": "most"},
        hard_and_easy_tasks, "niid-table3 --scale laptop",
    ),
    Finding(
        "niid-4", PAPER, "FedProx converges as fast as FedAvg; SCAFFOLD and FedNova are less steady.",
        {"FedProx is as fast as FedAvg": "most", "SCAFFOLD and FedNova are less steady": "most"},
        speed_and_steadiness, "niid-curves",
    ),
    Finding(
        "niid-5", PAPER, "The number of local epochs matters much, and the best one depends on the skew.",
        {"their number matters": "most", "the best number depends on the skew": "most"},
        local_epochs, "niid-local-epochs",
    ),
    Finding(
        "niid-6", PAPER, "Under party sampling SCAFFOLD fails, and the others are unsteady.",
        {"SCAFFOLD fails": "most", "the others are unsteady": "most"},
        party_sampling, "niid-party-sampling",
    ),
    Finding(
        "niid-7", PAPER, "Accuracy falls as the number of parties grows.",
        {"more parties, less accuracy": "most"}, many_parties, "niid-parties",
    ),
    Finding(
        "niid-8", PAPER, "FedProx takes much more computing time than FedAvg, and SCAFFOLD sends twice the bytes.",
        {"FedProx takes much more time": "most", "SCAFFOLD sends twice the bytes": "all"},
        costs, "niid-efficiency",
    ),
    Finding(
        "niid-9", PAPER, "Two kinds of skew at once are harder than one.",
        {"two skews are harder than one": "most"}, mixed_skew, "niid-mixed-skew",
    ),
    Finding(
        "niid-10", PAPER, "The batch size does under skew what it does without.",
        {"skew does not change what the batch size does": "most"}, batch_size, "niid-batch-size",
    ),
    Finding(
        "niid-11", PAPER, "Averaging BatchNorm layers makes training less steady under skew.",
        {"averaged BatchNorm is less steady under skew": "most"}, batch_norm, "niid-architectures",
    ),
)  # fmt: skip
