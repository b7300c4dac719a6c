"""The findings of Zhao, Li, Lai, Suda, Civin and Chandra (2018), each as a function that collects evidence.

Where the paper says "about" or "mostly" without a number, the number is ours and is stated in the text of the test.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import (
    Evidence,
    accuracy_gap,
    any_holds,
    gap,
    if_learnt,
    larger,
    never_rises,
    pair_text,
)
from silobench.analysis.groups import (
    Cells,
    accuracy_text,
    by_seed,
    dataset_name,
    differences,
    last_accuracy,
    of_algorithms,
    setting_name,
    solver_families,
)
from silobench.analysis.specs import arguments, starts_at_random
from silobench.papers.zhao2018.divergence import layers_of, of_layer, rounds_of
from silobench.papers.zhao2018.emd import CLOSE, LEARNT, ladders, several
from silobench.papers.zhao2018.loss import centralised, losses, solver_arguments, training_key
from silobench.papers.zhao2018.numbers import ONE_CLASS
from silobench.papers.zhao2018.sharing import sharing_cells, sharing_studies

NAME = "Zhao et al."
FINDINGS = Findings(NAME)
KNEE = 1.44  # the EMD beyond which the paper's accuracy falls fast
_POINT = 0.01


@FINDINGS.add(
    "zhao-1",
    "FedAvg's accuracy falls with the EMD of the parties' labels, and falls faster at the end.",
    {"it falls": "most", "every step falls or stays": "most", "it falls faster at the end": "most"},
    "zhao-emd",
)
def accuracy_falls(cells: Cells) -> Iterator[Evidence]:
    for ladder in ladders([cell for cell in of_algorithms(cells, "fedavg") if cell.label.rounds >= LEARNT]):
        low, high = ladder[0], ladder[-1]
        holds = accuracy_gap(low, high).more_than(_POINT)
        names = f"{dataset_name(low)}: {low.label['partition']} against {high.label['partition']}"
        yield Evidence("it falls", names, pair_text(low, high), "correlated t: by over 1 point", holds)
        yield _every_step(ladder)
        yield from _ever_faster(ladder)


def _every_step(ladder: Cells) -> Evidence:
    names = f"{dataset_name(ladder[0])}: {len(ladder) - 1} steps from {ladder[0].label['partition']} on"
    numbers = ", ".join(accuracy_text(cell) for cell in ladder)
    test = "correlated t: no step rises by more than 1 point"
    return Evidence("every step falls or stays", names, numbers, test, never_rises(ladder, _POINT))


def _ever_faster(ladder: Cells) -> Iterator[Evidence]:
    """Yield evidence if there are EMDs on both sides of the knee."""
    low, high = ladder[0], ladder[-1]
    knee = max((cell for cell in ladder if cell.emd_weighted < KNEE + CLOSE), key=emd_of, default=low)
    if not (several([low, knee]) and several([knee, high])):
        return
    before, after = _slope(low, knee), _slope(knee, high)
    difference = gap(after, before)
    names = f"{dataset_name(knee)}: beyond {knee.label['partition']} against before"
    test, numbers = "t: over 1 point more is lost per unit of EMD", difference.text("points per unit")
    yield Evidence("it falls faster at the end", names, numbers, test, difference.more_than(_POINT))


def emd_of(cell: CellResult) -> float:
    return cell.emd_weighted


def _slope(a: CellResult, b: CellResult) -> dict[int, float]:
    """Return the accuracy lost per unit of EMD, by seed."""
    lost = differences(by_seed(a, last_accuracy), by_seed(b, last_accuracy))
    return {seed: value / (emd_of(b) - emd_of(a)) for seed, value in lost.items()}


# --- weight divergence --------------------------------------------------------------------------------


def _first_rounds(cells: Cells) -> Iterator[tuple[list[CellResult], dict[str, list[dict[int, float]]]]]:
    """Yield the ladders that were measured after the first round, with each layer's divergence by cell and seed."""
    for ladder in ladders([cell for cell in of_algorithms(cells, "fedavg") if 1 in rounds_of(cell)]):
        layers = layers_of(ladder[0])
        yield ladder, {layer: [of_layer(cell, layer, 1) for cell in ladder] for layer in layers}


@FINDINGS.add(
    "zhao-2",
    "After one round the weights of every layer diverge more from SGD's the larger the EMD is.",
    {"in every layer": "all"},
    "zhao-divergence",
)
def divergence_grows(cells: Cells) -> Iterator[Evidence]:
    for ladder, layers in _first_rounds(cells):
        for layer, steps in layers.items():
            if not all(steps):  # a layer of zeros
                continue
            difference = gap(steps[-1], steps[0])
            rises, falls = larger(steps[-1], steps[0]), any_holds([_falls(a, b) for a, b in pairwise(steps)])
            holds = False if rises is False or falls else None if None in (rises, falls) else True
            names = f"{dataset_name(ladder[0])}, layer {layer}: {_ends(ladder)}"
            test = "t: larger by more than a tenth, and no step of EMD falls"
            yield Evidence("in every layer", names, difference.text("percent of ||w_sgd||"), test, holds)


def _falls(a: Mapping[int, float], b: Mapping[int, float]) -> bool | None:
    """Whether it falls from one EMD to the next: no if the mean rises, and otherwise only if a test shows it."""
    return False if fmean(b.values()) >= fmean(a.values()) else gap(a, b).more_than(0) or None


def _ends(ladder: Cells) -> str:
    return f"{ladder[-1].label['partition']} less {ladder[0].label['partition']}"


@FINDINGS.add(
    "zhao-3",
    "EMD makes the first convolution and the last layer diverge most.",
    {"first and last layer": "all"},
    "zhao-divergence",
)
def ends_diverge_most(cells: Cells) -> Iterator[Evidence]:
    for ladder, layers in _first_rounds(cells):
        rises = {layer: differences(steps[-1], steps[0]) for layer, steps in layers.items()}
        known = [layer for layer in rises if rises[layer]]  # without layers of zeros
        for end in (known[0], known[-1]) if len(known) > 2 else ():
            more = [gap(rises[end], rises[layer]).more_than(0) for layer in known[1:-1]]
            holds = False if False in more else None if None in more else True
            names = f"{dataset_name(ladder[0])}, layer {end}: {_ends(ladder)}"
            numbers = ", ".join(f"{layer} {fmean(rise.values()):+.3g}" for layer, rise in rises.items() if rise)
            test = "t: it rises more than in each layer between the first and the last"
            yield Evidence("first and last layer", names, numbers, test, holds)


# --- local epochs -------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-4",
    "With one class per party five local epochs do not reduce the loss of accuracy.",
    {"no gain": "most"},
    "zhao-table3",
)
def five_epochs(cells: Cells) -> Iterator[Evidence]:
    one_class = [cell for cell in of_algorithms(cells, "fedavg") if cell.label["partition"] == ONE_CLASS]
    for family in solver_families(one_class, "epochs"):
        if {1, 5} <= family.keys():
            one, five = family[1], family[5]
            # One class per party may end at chance: that is a loss if the same training learns another partition.
            same = [cell for cell in cells if cell.label.without("partition") == one.label.without("partition")]
            holds = if_learnt(accuracy_gap(five, one).at_most(_POINT), *same)
            test = "correlated t: not over 1 point better, only if the model has learnt, on any partition"
            names = f"{setting_name(one)}: 5 epochs against 1"
            yield Evidence("no gain", names, pair_text(five, one), test, holds)


# --- sharing ------------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-5",
    "Giving each party 5% of the data lifts one-class accuracy by about 30 points.",
    {"it lifts accuracy": "most"},
    "zhao-sharing",
)
def five_percent(cells: Cells) -> Iterator[Evidence]:
    for one in sharing_cells(of_algorithms(cells, "fedavg")):
        if one.sharing.base == ONE_CLASS and abs(one.sharing.received - 0.05) < 1e-9 and one.without:
            holds = accuracy_gap(one.cell, one.without).more_than(0.2)
            numbers = pair_text(one.cell, one.without, ", without ")
            test = "correlated t: about 30 points, at least 20"
            yield Evidence("it lifts accuracy", setting_name(one.cell), numbers, test, holds)


@FINDINGS.add(
    "zhao-6", "Half of the shared data is as good as all of it.", {"flat from half of G on": "most"}, "zhao-sharing"
)
def half_is_enough(cells: Cells) -> Iterator[Evidence]:
    for study in sharing_studies(of_algorithms(cells, "fedavg")):
        whole = {(one.sharing.beta, one.sharing.warmup): one.cell for one in study if one.sharing.alpha == 1}
        for one in study:
            rival = whole.get((one.sharing.beta, one.sharing.warmup))
            if rival and 0.5 <= one.sharing.alpha < 1:
                holds = if_learnt(accuracy_gap(rival, one.cell).within(_POINT), rival, one.cell)
                numbers = pair_text(rival, one.cell)
                test = "correlated t: all of G and this share differ by at most 1 point, only if the model has learnt"
                yield Evidence("flat from half of G on", setting_name(one.cell), numbers, test, holds)


# --- SGD ----------------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-7",
    "On iid data FedAvg is as accurate as SGD with a batch as large as all parties' together.",
    {"FedAvg on iid data is SGD": "most"},
    "zhao-table3",
)
def like_sgd(cells: Cells) -> Iterator[Evidence]:
    for one in losses(of_algorithms(cells, "fedavg", "combined")):
        cell, batch = one.cell, solver_arguments(one.cell)["batch"]
        if cell.label["partition"] == "iid" and solver_arguments(cell)["epochs"] == 1 and starts_at_random(cell.label):
            holds = if_learnt(accuracy_gap(cell, one.reference).within(_POINT), cell, one.reference)
            names = f"{dataset_name(cell)}: fedavg with batches of {batch} against SGD with {cell.cohort * batch}"
            test = "correlated t: they differ by at most 1 point, only if the model has learnt"
            yield Evidence("FedAvg on iid data is SGD", names, pair_text(cell, one.reference), test, holds)


@FINDINGS.add(
    "zhao-8",
    "A model that SGD has trained learns nothing from FedAvg with one class per party.",
    {"it does not learn": "most"},
    "zhao-table3",
)
def pretrained(cells: Cells) -> Iterator[Evidence]:
    sgd = centralised(cells)
    for cell in of_algorithms(cells, "fedavg"):
        start = cell.config.start
        if cell.label["partition"] != ONE_CLASS or start.name != "centralised":
            continue
        pretraining = arguments(start)
        batch = pretraining.get("batch") or solver_arguments(cell)["batch"]
        if before := sgd.get(training_key(cell, pretraining.get("rounds"), batch)):
            holds = if_learnt(accuracy_gap(cell, before).at_most(_POINT), before)
            test = "correlated t: not over 1 point better than its start, only if the model has learnt before"
            names = f"{setting_name(cell)}, from {cell.label['start']}"
            yield Evidence("it does not learn", names, pair_text(cell, before, ", before "), test, holds)
