"""The findings of Zhao, Li, Lai, Suda, Civin and Chandra (2018), each as a function that collects evidence.

Where the paper says "about" or "mostly" without a number, the number is ours and is stated in the text of the test.
A ladder is a list of cells that differ in the EMD only, from the least to the largest (`emd.ladders`).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import (
    POINT,
    Evidence,
    accuracy_gap,
    all_hold,
    any_holds,
    gap,
    if_learnt,
    larger,
    nearly_equal,
    never_rises,
    opposite,
    pair_text,
    point_apart,
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
from silobench.papers.zhao2018.emd import EMD_TOLERANCE, MIN_ROUNDS, has_several_emds, ladders
from silobench.papers.zhao2018.loss import centralised, losses, solver_arguments, training_key
from silobench.papers.zhao2018.numbers import ONE_CLASS
from silobench.papers.zhao2018.sharing import sharing_cells, sharing_studies

NAME = "Zhao et al."
FINDINGS = Findings(NAME)
KNEE = 1.44  # the EMD beyond which the paper's accuracy falls fast


@FINDINGS.add(
    "zhao-1",
    "FedAvg's accuracy falls as the EMD of the parties' labels grows, and falls faster where the EMD is large.",
    {
        "accuracy falls": "most",
        "no step to a larger EMD raises accuracy": "most",
        "accuracy falls faster at large EMDs": "most",
    },
    "zhao-emd",
)
def accuracy_falls(cells: Cells) -> Iterator[Evidence]:
    """Compare the two ends of each ladder, its steps, and its slope before and after the knee."""
    for ladder in ladders([cell for cell in of_algorithms(cells, "fedavg") if cell.label.rounds >= MIN_ROUNDS]):
        low, high = ladder[0], ladder[-1]
        names = f"{dataset_name(low)}: {low.label['partition']} against {high.label['partition']}"
        yield point_apart("accuracy falls", names, low, high, "falls by more than 1 point")
        yield _no_step_rises(ladder)
        yield from _falls_faster(ladder)


def _no_step_rises(ladder: Cells) -> Evidence:
    names = f"{dataset_name(ladder[0])}: {len(ladder) - 1} steps from {ladder[0].label['partition']} on"
    numbers = ", ".join(accuracy_text(cell) for cell in ladder)
    test = "correlated t-test: accuracy rises by more than 1 point at no step"
    return Evidence("no step to a larger EMD raises accuracy", names, numbers, test, never_rises(ladder, POINT))


def _falls_faster(ladder: Cells) -> Iterator[Evidence]:
    """Yield evidence if there are EMDs on both sides of the knee."""
    low, high = ladder[0], ladder[-1]
    knee = max((cell for cell in ladder if cell.emd_weighted < KNEE + EMD_TOLERANCE), key=emd_of, default=low)
    if not (has_several_emds([low, knee]) and has_several_emds([knee, high])):
        return
    before, after = _slope(low, knee), _slope(knee, high)
    difference = gap(after, before)
    names = f"{dataset_name(knee)}: after {knee.label['partition']} against before it"
    numbers = difference.text("points per unit of EMD")
    test = "t-test: after it, accuracy falls by more than 1 extra point per unit of EMD"
    holds = if_learnt(difference.more_than(POINT), low)
    yield Evidence("accuracy falls faster at large EMDs", names, numbers, test, holds)


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
    "The larger the EMD, the more the weights of every layer differ from SGD's after one round.",
    {"in every layer": "all"},
    "zhao-divergence",
)
def divergence_grows(cells: Cells) -> Iterator[Evidence]:
    """Compare the divergence of each layer at the two ends of a ladder, and look for steps at which it falls."""
    for ladder, layers in _first_rounds(cells):
        for layer, steps in layers.items():
            if not all(steps):  # a layer of zeros
                continue
            difference = gap(steps[-1], steps[0])
            falls = any_holds(_falls(a, b) for a, b in pairwise(steps))
            holds = all_hold([larger(steps[-1], steps[0]), opposite(falls)])
            names = f"{dataset_name(ladder[0])}, layer {layer}: {_end_points(ladder)}"
            test = "t-test: divergence grows by more than a tenth, and falls at no step"
            yield Evidence("in every layer", names, difference.text("percent of ||w_sgd||"), test, holds)


def _falls(a: Mapping[int, float], b: Mapping[int, float]) -> bool | None:
    """Whether divergence falls from one EMD to the next: no if the mean rises, yes if a test shows it, else None."""
    return False if fmean(b.values()) >= fmean(a.values()) else gap(a, b).more_than(0) or None


def _end_points(ladder: Cells) -> str:
    return f"{ladder[-1].label['partition']} less {ladder[0].label['partition']}"


@FINDINGS.add(
    "zhao-3",
    "A larger EMD increases divergence most in the first and the last layer.",
    {"first and last layer": "all"},
    "zhao-divergence",
)
def ends_diverge_most(cells: Cells) -> Iterator[Evidence]:
    """Compare how much divergence grows along a ladder in the first and the last layer with all layers between."""
    for ladder, layers in _first_rounds(cells):
        rises = {layer: differences(steps[-1], steps[0]) for layer, steps in layers.items()}
        measured_layers = [layer for layer in rises if rises[layer]]  # without layers of zeros
        if len(measured_layers) < 3:
            continue
        first, *between, last = measured_layers
        for end in (first, last):
            holds = all_hold(gap(rises[end], rises[layer]).more_than(0) for layer in between)
            names = f"{dataset_name(ladder[0])}, layer {end}: {_end_points(ladder)}"
            numbers = ", ".join(f"{layer} {fmean(rise.values()):+.3g}" for layer, rise in rises.items() if rise)
            test = "t-test: divergence grows more than in each layer between the first and the last"
            yield Evidence("first and last layer", names, numbers, test, holds)


# --- local epochs -------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-4",
    "With one class per party, five local epochs are not more accurate than one.",
    {"five epochs gain nothing": "most"},
    "zhao-table3",
)
def five_epochs(cells: Cells) -> Iterator[Evidence]:
    """Compare five local epochs with one, where all other choices are the same."""
    one_class = [cell for cell in of_algorithms(cells, "fedavg") if cell.label["partition"] == ONE_CLASS]
    for family in solver_families(one_class, "epochs"):
        if {1, 5} <= family.keys():
            one, five = family[1], family[5]
            # One class per party may end at chance: that is a loss if the same training learns another partition.
            same = [cell for cell in cells if cell.label.without("partition") == one.label.without("partition")]
            holds = accuracy_gap(five, one, *same).at_most(POINT)
            test = "correlated t-test: at most 1 point better, only if the model has learnt, on any partition"
            names = f"{setting_name(one)}: 5 epochs against 1"
            yield Evidence("five epochs gain nothing", names, pair_text(five, one), test, holds)


# --- sharing ------------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-5",
    "With one class per party, giving each party 5% of the data raises accuracy by about 30 points.",
    {"shared data raise accuracy": "most"},
    "zhao-sharing",
)
def five_percent(cells: Cells) -> Iterator[Evidence]:
    """Compare cells whose parties each get 5% of the data with the cell that shares nothing."""
    for shared in sharing_cells(of_algorithms(cells, "fedavg")):
        if shared.sharing.base == ONE_CLASS and abs(shared.sharing.received - 0.05) < 1e-9 and shared.without:
            holds = accuracy_gap(shared.cell, shared.without).more_than(0.2)
            numbers = pair_text(shared.cell, shared.without, ", without ")
            test = "correlated t-test: accuracy rises by more than 20 points"
            yield Evidence("shared data raise accuracy", setting_name(shared.cell), numbers, test, holds)


@FINDINGS.add(
    "zhao-6",
    "Half of the shared data G is as good as all of it.",
    {"half of G is enough": "most"},
    "zhao-sharing",
)
def half_is_enough(cells: Cells) -> Iterator[Evidence]:
    """Compare parties that get half of G or more with parties that get all of it."""
    for study in sharing_studies(of_algorithms(cells, "fedavg")):
        all_shared = {(each.sharing.beta, each.sharing.warmup): each.cell for each in study if each.sharing.alpha == 1}
        for each in study:
            with_all_rows, cell = all_shared.get((each.sharing.beta, each.sharing.warmup)), each.cell
            if with_all_rows and 0.5 <= each.sharing.alpha < 1:
                holds = if_learnt(accuracy_gap(with_all_rows, cell).within(POINT), with_all_rows, cell)
                test = "correlated t-test: all of G and this share differ by at most 1 point, if a model has learnt"
                yield Evidence("half of G is enough", setting_name(cell), pair_text(with_all_rows, cell), test, holds)


# --- SGD ----------------------------------------------------------------------------------------------


@FINDINGS.add(
    "zhao-7",
    "On iid data FedAvg is as accurate as SGD with a batch as large as all parties' together.",
    {"FedAvg on iid data equals SGD": "most"},
    "zhao-table3",
)
def like_sgd(cells: Cells) -> Iterator[Evidence]:
    """Compare FedAvg on iid data with SGD whose batch is that of all parties together."""
    for loss in losses(of_algorithms(cells, "fedavg", "combined")):
        cell, batch = loss.cell, solver_arguments(loss.cell)["batch"]
        if cell.label["partition"] == "iid" and solver_arguments(cell)["epochs"] == 1 and starts_at_random(cell.label):
            names = f"{dataset_name(cell)}: fedavg with batches of {batch} against SGD with {cell.cohort * batch}"
            yield nearly_equal("FedAvg on iid data equals SGD", names, cell, loss.reference)


@FINDINGS.add(
    "zhao-8",
    "FedAvg with one class per party does not improve a model that SGD has trained.",
    {"FedAvg does not improve it": "most"},
    "zhao-table3",
)
def pretrained(cells: Cells) -> Iterator[Evidence]:
    """Compare FedAvg that starts from a model of SGD with that model."""
    sgd = centralised(cells)
    for cell in of_algorithms(cells, "fedavg"):
        start = cell.config.start
        if cell.label["partition"] != ONE_CLASS or start.name != "centralised":
            continue
        pretraining = arguments(start)
        batch = pretraining.get("batch") or solver_arguments(cell)["batch"]
        if before := sgd.get(training_key(cell, pretraining.get("rounds"), batch)):
            holds = if_learnt(accuracy_gap(cell, before).at_most(POINT), before)
            test = "correlated t-test: at most 1 point better than at the start, only if that model has learnt"
            names = f"{setting_name(cell)}, from {cell.label['start']}"
            yield Evidence("FedAvg does not improve it", names, pair_text(cell, before, ", before "), test, holds)
