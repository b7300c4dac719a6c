"""The findings of the quagmire study (Hsieh, Phanishayee, Mutlu and Gibbons, ICML 2020), each as a function.

Where the paper says "as good as" or "significant" without a number, the number is ours and is stated in the text of
the test: 2 points of accuracy, by which the paper colours its tables, and 1 point for what is better or worse. Bytes
are exact, but what SkewScout sends depends on the seed, so that they are tested over seeds as well.
"""

from collections.abc import Hashable, Iterator, Sequence
from statistics import fmean, median

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.evidence import (
    POINT,
    Evidence,
    Gap,
    accuracy_gap,
    gap,
    if_learnt,
    larger,
    never_rises,
    pair_text,
)
from silobench.analysis.groups import Cells, accuracy_text, by_seed, dataset_name, differences, grouped, last_accuracy
from silobench.analysis.measured import cells_with
from silobench.analysis.specs import partition_kinds
from silobench.papers.hsieh2020.bsp_loss import BspLoss, bsp_losses
from silobench.papers.hsieh2020.communication import METHODS, NONIID, Exchange, norm_of, percent_of, plain_model
from silobench.papers.hsieh2020.diagnostics import (
    DELTA,
    NORMS,
    REPLICAS,
    TRAVELLING,
    channels,
    number_by_seed,
    specialisation,
)
from silobench.papers.hsieh2020.matching import contest_key, fixed, is_iid, is_split
from silobench.papers.hsieh2020.savings import Saving, savings, times
from silobench.runs.stored import StoredRun

NAME = "quagmire"
FINDINGS = Findings(NAME)
_AS_GOOD = 0.02  # of accuracy: a smaller loss counts as none
_BY_A_POINT = "correlated t-test: the difference is more than 1 point"
_LEAST_SAVING = 9.6
_MOST_OF_ORACLE = 1.5


def _named(cell: CellResult, *but: str) -> str:
    """Return dataset, network, parties and partition; some may be left out."""
    texts = {"model": cell.label["model"], "parties": f"{cell.parties} parties", "partition": cell.label["partition"]}
    return ", ".join([dataset_name(cell), *(text for name, text in texts.items() if name not in but)])


# --- losses -------------------------------------------------------------------------------------------


def _lost(cells: Cells, *methods: str) -> list[BspLoss]:
    """Return the losses of methods whose knobs no controller turns."""
    return [one for one in bsp_losses(cells) if one.how.method in methods and not one.how.controlled]


def _keeping(one: BspLoss, part: str) -> Evidence:
    holds = if_learnt(accuracy_gap(one.reference, one.cell).at_most(_AS_GOOD), one.reference)
    test = "correlated t-test: at most 2 points below BSP on iid data, only if the model has learnt"
    return Evidence(part, f"{_named(one.cell)}: {one.how}", pair_text(one.reference, one.cell), test, holds)


def _losing(one: BspLoss, part: str) -> Evidence:
    holds = accuracy_gap(one.reference, one.cell).more_than(_AS_GOOD)
    test = "correlated t-test: more than 2 points below BSP on iid data"
    return Evidence(part, f"{_named(one.cell)}: {one.how}", pair_text(one.reference, one.cell), test, holds)


@FINDINGS.add(
    "quagmire-1", "On iid data Gaia, FedAvg and DGC are as good as BSP.", {"as good as BSP": "most"}, "quagmire-figure1"
)
def match_when_iid(cells: Cells) -> Iterator[Evidence]:
    yield from (_keeping(one, "as good as BSP") for one in _lost(cells, *METHODS) if is_iid(one.cell))


@FINDINGS.add(
    "quagmire-2",
    "With each class at one party, or by region, all of them lose accuracy.",
    {"they lose": "most"},
    "quagmire-figure1",
)
def lose_under_skew(cells: Cells) -> Iterator[Evidence]:
    for one in _lost(cells, *METHODS):
        if is_split(one.cell) or partition_kinds(one.cell.label) == ["by-group"]:
            yield _losing(one, "they lose")


@FINDINGS.add(
    "quagmire-3",
    "Without BatchNorm BSP keeps its accuracy with each class at one party.",
    {"it keeps its accuracy": "most"},
    "quagmire-figure1",
)
def bsp_keeps(cells: Cells) -> Iterator[Evidence]:
    yield from (_keeping(one, "it keeps its accuracy") for one in _split_bsp(cells) if _norm(one) == "none")


@FINDINGS.add(
    "quagmire-4",
    "With BatchNorm even BSP loses accuracy with each class at one party.",
    {"it loses": "most"},
    "quagmire-norm",
)
def bsp_loses_with_batch_norm(cells: Cells) -> Iterator[Evidence]:
    yield from (_losing(one, "it loses") for one in _split_bsp(cells) if _norm(one) == "batch")


def _split_bsp(cells: Cells) -> list[BspLoss]:
    return [one for one in _lost(cells, "bsp") if is_split(one.cell)]


def _norm(one: BspLoss) -> str:
    return norm_of(one.cell.label)


# --- normalisation ------------------------------------------------------------------------------------


def _normed(cells: Cells, *methods: str) -> Iterator[tuple[Exchange, dict[str, CellResult]]]:
    """Yield cells with each class at one party that differ only in the normalisation, by normalisation."""
    split = [(cell, how) for cell, how in fixed(cells, *methods) if is_split(cell)]
    for group in grouped(split, lambda pair: (contest_key(pair[0], "model"), plain_model(pair[0].label), pair[1])):
        yield group[0][1], {norm_of(cell.label): cell for cell, _ in group}


def _better(part: str, how: Exchange, better: CellResult, worse: CellResult) -> Evidence:
    names = f"{_named(better)} against {worse.label['model']}: {how}"
    holds = accuracy_gap(better, worse).more_than(POINT)
    return Evidence(part, names, pair_text(better, worse), _BY_A_POINT, holds)


@FINDINGS.add(
    "quagmire-5",
    "GroupNorm in place of BatchNorm gives BSP its accuracy back.",
    {"better than BatchNorm": "most", "as good as on iid data": "most"},
    "quagmire-norm",
)
def group_norm_with_bsp(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, "bsp"):
        if {"batch", "group"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["group"], norms["batch"])
    yield from (_keeping(one, "as good as on iid data") for one in _split_bsp(cells) if _norm(one) == "group")


@FINDINGS.add(
    "quagmire-6",
    "GroupNorm in place of BatchNorm helps Gaia, FedAvg and DGC, too.",
    {"better than BatchNorm": "most"},
    "quagmire-norm",
)
def group_norm_with_others(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, *METHODS):
        if {"batch", "group"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["group"], norms["batch"])


# --- how much skew, how little traffic ----------------------------------------------------------------


@FINDINGS.add(
    "quagmire-7",
    "The more of the data is dealt by label, the more accuracy is lost.",
    {"it grows": "most", "at every step": "most"},
    "quagmire-skew",
)
def loss_grows(cells: Cells) -> Iterator[Evidence]:
    for how, ladder in _by_percent(cells):
        low, high = ladder[0], ladder[-1]
        names = f"{_named(low, 'partition')}: {how}, {low.label['partition']} against {high.label['partition']}"
        holds = accuracy_gap(low, high).more_than(POINT)
        yield Evidence("it grows", names, pair_text(low, high), _BY_A_POINT, holds)
        numbers = ", ".join(accuracy_text(cell) for cell in ladder)
        test = "correlated t-test: accuracy rises by more than 1 point at no step"
        yield Evidence("at every step", names, numbers, test, never_rises(ladder, POINT))


def _by_percent(cells: Cells) -> Iterator[tuple[Exchange, list[CellResult]]]:
    """Yield cells of a method that differ only in how much is dealt by label, the least skewed first."""
    dealt = [(cell, how) for cell, how in fixed(cells, *METHODS) if percent_of(cell.label)]
    for group in grouped(dealt, lambda pair: (contest_key(pair[0], "partition"), pair[1])):
        if len(group) > 1:
            yield group[0][1], sorted((cell for cell, _ in group), key=lambda cell: percent_of(cell.label))


@FINDINGS.add(
    "quagmire-8",
    "A setting that sends more loses less with each class at one party.",
    {"tighter is better": "most"},
    "quagmire-table6",
)
def tighter_is_better(cells: Cells) -> Iterator[Evidence]:
    for settings in _settings([cell for cell in cells if is_split(cell)]):
        (tight, at), (loose, then) = settings[0], settings[-1]
        names = f"{_named(tight)}: {at} against {then}"
        holds = accuracy_gap(tight, loose).more_than(POINT)
        yield Evidence("tighter is better", names, pair_text(tight, loose), _BY_A_POINT, holds)


def _settings(cells: Cells) -> Iterator[list[tuple[CellResult, Exchange]]]:
    """Yield cells that differ only in the setting of a method's knob, the one that sends most first."""
    groups = grouped(fixed(cells, *METHODS), lambda pair: (contest_key(pair[0]), pair[1].method))
    yield from (sorted(group, key=lambda pair: pair[1].looseness) for group in groups if len(group) > 1)


# --- minibatches --------------------------------------------------------------------------------------


@FINDINGS.add(
    "quagmire-9",
    "The means of minibatches differ more between parties with each class at one of them.",
    {"means diverge": "all"},
    "quagmire-norm",
)
def minibatches_diverge(cells: Cells) -> Iterator[Evidence]:
    for iid, split in _iid_and_split(cells_with(cells, NORMS)):
        skewed, iid_values = by_seed(split, _middle_channel), by_seed(iid, _middle_channel)
        numbers = f"{_channels(split)} and {_channels(iid)}, {gap(skewed, iid_values).text('percent')}"
        names, test = f"{_named(split)} against iid", "t-test: the middle channel, larger by more than a tenth"
        yield Evidence("means diverge", names, numbers, test, larger(skewed, iid_values))


def _middle_channel(run: StoredRun) -> float | None:
    values = channels(run)
    return median(values) if values else None


def _channels(cell: CellResult) -> str:
    known = [value for run in cell.runs for value in channels(run)]
    return f"{100 * min(known):.3g} to {100 * max(known):.3g} percent" if known else "nothing"


def _iid_and_split(cells: Cells) -> Iterator[tuple[CellResult, CellResult]]:
    """Yield pairs of cells that differ only in this: iid, and each class at one party."""
    iid = {cell.label.without("partition"): cell for cell in cells if is_iid(cell)}
    for cell in cells:
        if is_split(cell) and (other := iid.get(cell.label.without("partition"))):
            yield other, cell


@FINDINGS.add(
    "quagmire-10",
    "Batch renormalisation does better than BatchNorm under skew, and still loses.",
    {"better than BatchNorm": "most", "it still loses": "most"},
    "quagmire-norm",
)
def renormalisation(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, "bsp"):
        if {"batch", "batch-renorm"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["batch-renorm"], norms["batch"])
    for one in _split_bsp(cells):
        if _norm(one) == "batch-renorm":
            holds = accuracy_gap(one.reference, one.cell).more_than(POINT)
            test = "correlated t-test: more than 1 point below iid data"
            yield Evidence("it still loses", _named(one.cell), pair_text(one.reference, one.cell), test, holds)


# --- how many parties ---------------------------------------------------------------------------------


@FINDINGS.add(
    "quagmire-11",
    "With more parties, or smaller regions, more accuracy is lost against BSP.",
    {"more is lost": "most"},
    "quagmire-parties",
)
def more_parties(cells: Cells) -> Iterator[Evidence]:
    bsp = {contest_key(cell): cell for cell, _ in fixed(cells, "bsp")}
    by_parties: dict[Hashable, dict[int, tuple[CellResult, CellResult]]] = {}
    for cell, how in fixed(cells, *METHODS):
        rival = bsp.get(contest_key(cell))
        if rival and not is_iid(cell):
            about = ("partition", "parties", "solver", "rounds", "measure", "eval_every", "eval_on")
            key = (cell.label.without(*about), _kind(cell), how)
            by_parties.setdefault(key, {})[cell.parties] = rival, cell
    for family in by_parties.values():
        if len(family) > 1:
            yield _of_parties(family[min(family)], family[max(family)])


def _kind(cell: CellResult) -> str:
    """Return the kind of a partition that is the same for any number of parties: by class, or by groups."""
    kind = " + ".join(partition_kinds(cell.label))
    by_class = cell.label["partition"] == NONIID or kind == "label-pair"
    return "by class" if by_class else kind if kind == "by-group" else str(cell.label["partition"])


def _of_parties(few: tuple[CellResult, CellResult], many: tuple[CellResult, CellResult]) -> Evidence:
    lost = [differences(by_seed(bsp, last_accuracy), by_seed(cell, last_accuracy)) for bsp, cell in (few, many)]
    difference = gap(lost[1], lost[0])
    names = f"{_named(many[1])} against {_named(few[1], 'model')}: {many[1].label['algorithm']}"
    means = [100 * fmean(each.values()) if each else 0.0 for each in lost]
    numbers = f"{means[1]:.1f} and {means[0]:.1f} points below BSP, {difference.text()}"
    holds = if_learnt(difference.more_than(POINT), few[0], many[0])
    return Evidence("more is lost", names, numbers, "t-test: more than 1 point more is lost", holds)


# --- diagnostics --------------------------------------------------------------------------------------


@FINDINGS.add(
    "quagmire-12",
    "Models lose far more accuracy on other parties' data under skew, and less with more traffic.",
    {"far more under skew": "most", "less with more traffic": "most"},
    "quagmire-causes",
)
def models_travel(cells: Cells) -> Iterator[Evidence]:
    steady = fixed(cells_with(cells, TRAVELLING), *METHODS)
    yield from _far_from_home(steady)
    for settings in _settings([cell for cell, _ in steady if is_split(cell)]):
        (tight, at), (loose, then) = settings[0], settings[-1]
        difference = gap(number_by_seed(loose, TRAVELLING, "loss"), number_by_seed(tight, TRAVELLING, "loss"))
        names = f"{_named(tight)}: {then} against {at}"
        holds = difference.more_than(POINT)
        yield Evidence(
            "less with more traffic", names, difference.text(), "t-test: more than 1 point less is lost", holds
        )


def _far_from_home(steady: Sequence[tuple[CellResult, Exchange]]) -> Iterator[Evidence]:
    """Yield evidence that is a mean over the settings of a method's knob, as in the paper."""
    methods = {id(cell): how.method for cell, how in steady}
    every = list(_iid_and_split([cell for cell, _ in steady]))
    for pairs in grouped(every, lambda pair: (contest_key(pair[1]), methods[id(pair[1])])):
        iid_values, skewed = (_mean_loss([pair[side] for pair in pairs]) for side in (0, 1))
        between = gap(skewed, iid_values)
        split = pairs[0][1]
        names = f"{_named(split)} against iid: {methods[id(split)]}, {len(pairs)} settings"
        holds = between.more_than(0.1)
        yield Evidence("far more under skew", names, between.text(), "t-test: more than 10 points more is lost", holds)


def _mean_loss(cells: Cells) -> dict[int, float]:
    each = [number_by_seed(cell, TRAVELLING, "loss") for cell in cells]
    seeds = set.intersection(*(set(of) for of in each))
    return {seed: fmean(of[seed] for of in each) for seed in seeds}


@FINDINGS.add(
    "quagmire-13",
    "Local changes that parties have not shared are larger under skew.",
    {"local changes are larger": "all"},
    "quagmire-causes",
)
def deltas_are_larger(cells: Cells) -> Iterator[Evidence]:
    """Yield evidence of methods that hold something back; BSP shares everything and has no such difference."""
    for iid, split in _iid_and_split([cell for cell, _ in fixed(cells_with(cells, DELTA), *METHODS)]):
        skewed, iid_values = (number_by_seed(cell, DELTA, "mean") for cell in (split, iid))
        names = f"{_named(split)} against iid: {split.label['algorithm']}"
        numbers, test = gap(skewed, iid_values).text("percent"), "t-test: larger by more than a tenth"
        yield Evidence("local changes are larger", names, numbers, test, larger(skewed, iid_values))


# --- SkewScout ----------------------------------------------------------------------------------------


@FINDINGS.add(
    "quagmire-14",
    "SkewScout keeps BSP's accuracy with at least 9.6 times less traffic, and saves more with less skew.",
    {"it keeps BSP's accuracy": "most", "it saves traffic": "all", "more with less skew": "all"},
    "quagmire-skewscout",
)
def scout_saves(cells: Cells) -> Iterator[Evidence]:
    for one in savings(cells):
        if one.scout is None:
            continue
        papers, names = one.method == "gaia", f"{_named(one.scout)}: {one.method}"
        as_good = if_learnt(accuracy_gap(one.bsp, one.scout).at_most(POINT), one.bsp)
        numbers = pair_text(one.bsp, one.scout)
        test = "correlated t-test: at most 1 point below BSP on the same partition, only if the model has learnt"
        yield Evidence("it keeps BSP's accuracy", names, numbers, test, as_good, papers)
        saved = one.saved_by_seed(one.scout)
        enough = gap(dict.fromkeys(saved, _LEAST_SAVING), saved).at_most(0)
        test = f"t-test: at least {_LEAST_SAVING:g} times fewer bytes"
        yield Evidence("it saves traffic", names, times(one.saved_by(one.scout)), test, enough, papers)
    yield from _by_skew([one for one in savings(cells) if one.scout])


def _by_skew(scouts: list[Saving]) -> Iterator[Evidence]:
    dealt = [one for one in scouts if percent_of(one.cell.label)]
    for ladder in grouped(
        dealt, lambda one: (contest_key(one.cell, "partition"), one.method, one.cell.label["controller"])
    ):
        mild, hard = (end(ladder, key=lambda one: percent_of(one.cell.label)) for end in (min, max))
        if mild is not hard:
            names = f"{_named(mild.cell)} against {hard.cell.label['partition']}: {mild.method}"
            numbers = " and ".join(times(one.saved_by(one.scout)) for one in (mild, hard))
            holds = larger(*(one.saved_by_seed(one.scout) for one in (mild, hard)))
            test, papers = "t-test: more bytes by more than a tenth", mild.method == "gaia"
            yield Evidence("more with less skew", names, numbers, test, holds, papers)


@FINDINGS.add(
    "quagmire-15", "SkewScout sends at most 1.5 times what Oracle does.", {"near Oracle": "most"}, "quagmire-skewscout"
)
def near_oracle(cells: Cells) -> Iterator[Evidence]:
    for one in savings(cells):
        if one.scout is not None and one.ratio is not None:
            ratios = one.ratio_by_seed
            near = gap(ratios, dict.fromkeys(ratios, _MOST_OF_ORACLE)).at_most(0)
            holds = if_learnt(near, one.bsp) if one.keeps(one.scout) else None
            numbers = f"{times(one.ratio)}, {accuracy_text(one.scout)} with BSP's {accuracy_text(one.bsp)}"
            condition = "where the accuracy is kept, only if the model has learnt"
            test = f"t-test: at most {_MOST_OF_ORACLE:g} times Oracle's bytes, {condition}"
            names = f"{_named(one.scout)}: {one.method}, {one.knob} {one.best:g}"
            yield Evidence("near Oracle", names, numbers, test, holds, one.method == "gaia")


# --- models of single parties -------------------------------------------------------------------------


@FINDINGS.add(
    "quagmire-16",
    "Under skew Gaia's models know only their party's classes, and on iid data all classes.",
    {"only its own classes": "all", "all equal when iid": "most"},
    "quagmire-causes",
)
def replicas_specialise(cells: Cells) -> Iterator[Evidence]:
    for cell, _ in fixed(cells_with(cells, REPLICAS), "gaia"):
        difference = _from_zero(by_seed(cell, specialisation))
        names = f"{_named(cell)}: {cell.label['algorithm']}"
        if is_split(cell):
            test, holds = "t-test: more than 50 points better on its own classes", difference.more_than(0.5)
            yield Evidence("only its own classes", names, difference.text(), test, holds)
        elif is_iid(cell):
            test, holds = (
                "t-test: they differ by at most 10 points, only if the model has learnt",
                if_learnt(difference.within(0.1), cell),
            )
            yield Evidence("all equal when iid", names, difference.text(), test, holds)


def _from_zero(values: dict[int, float]) -> Gap:
    return gap(values, dict.fromkeys(values, 0.0))
