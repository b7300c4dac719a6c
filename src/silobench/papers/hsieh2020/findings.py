"""The findings of the quagmire study (Hsieh, Phanishayee, Mutlu and Gibbons, ICML 2020), each as a look through runs.

Where the paper says "as good as" or "significant" without a number, the number here is ours and stands in the test's
text: 2 points of accuracy, by which the paper colours its tables, and 1 point for what is better or worse. Bytes are
exact, but what SkewScout sends depends on the seed, so that they are tested over seeds as well.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from silobench.analysis.bayes import Posterior
from silobench.analysis.cells import CellResult
from silobench.analysis.choices import kinds_of
from silobench.analysis.claims import Evidence, Finding, accuracy_gap, gap, larger, more_than, told, turned, within
from silobench.analysis.families import Cells, by_seed, differences, last, percent, place, rest_of
from silobench.papers.hsieh2020.bsp_loss import BspLoss, bsp_losses
from silobench.papers.hsieh2020.communication import METHODS, NONIID, Exchange, norm_of, percent_of, plain_model
from silobench.papers.hsieh2020.diagnostics import (
    DELTA,
    NORMS,
    REPLICAS,
    TRAVELLING,
    averages,
    channels,
    having,
    specialised,
)
from silobench.papers.hsieh2020.matching import alike, fixed, is_iid, is_split
from silobench.papers.hsieh2020.savings import Saving, savings, times
from silobench.runs.record import StoredRun

PAPER = "quagmire"
_KEPT = 0.02  # within it an accuracy is as good
_POINT = 0.01
_BY_A_POINT = "correlated t: by over 1 point"
_LEAST_SAVING = 9.6
_MOST_TO_ORACLE = 1.5


def _named(cell: CellResult, *but: str) -> str:
    """Dataset, network, parties, partition; without some."""
    told_ = {"model": cell.label["model"], "parties": f"{cell.parties} parties", "partition": cell.label["partition"]}
    return ", ".join([place(cell), *(str(value) for name, value in told_.items() if name not in but)])


def _against(a: CellResult, b: CellResult) -> str:
    return f"{percent(a)} and {percent(b)}, {told(accuracy_gap(a, b))}"


# --- what is lost -------------------------------------------------------------------------------------


def _lost(cells: Cells, *methods: str) -> list[BspLoss]:
    """Of methods whose knobs nobody turns."""
    return [one for one in bsp_losses(cells) if one.how.method in methods and not one.how.controlled]


def _keeping(one: BspLoss, part: str) -> Evidence:
    holds = turned(more_than(accuracy_gap(one.bsp, one.cell), _KEPT))
    test = "correlated t: not over 2 points below BSP on iid data"
    return Evidence(part, f"{_named(one.cell)}: {one.how}", _against(one.bsp, one.cell), test, holds)


def _losing(one: BspLoss, part: str) -> Evidence:
    holds = more_than(accuracy_gap(one.bsp, one.cell), _KEPT)
    test = "correlated t: over 2 points below BSP on iid data"
    return Evidence(part, f"{_named(one.cell)}: {one.how}", _against(one.bsp, one.cell), test, holds)


def match_when_iid(cells: Cells) -> Iterator[Evidence]:
    yield from (_keeping(one, "as good as BSP") for one in _lost(cells, *METHODS) if is_iid(one.cell))


def lose_under_skew(cells: Cells) -> Iterator[Evidence]:
    for one in _lost(cells, *METHODS):
        if is_split(one.cell) or kinds_of(one.cell.label) == ["by-group"]:
            yield _losing(one, "they lose")


def bsp_keeps(cells: Cells) -> Iterator[Evidence]:
    yield from (_keeping(one, "it keeps its accuracy") for one in _split_bsp(cells) if _norm(one) == "none")


def bsp_loses_with_batch_norm(cells: Cells) -> Iterator[Evidence]:
    yield from (_losing(one, "it loses") for one in _split_bsp(cells) if _norm(one) == "batch")


def _split_bsp(cells: Cells) -> list[BspLoss]:
    return [one for one in _lost(cells, "bsp") if is_split(one.cell)]


def _norm(one: BspLoss) -> str:
    return norm_of(one.cell.label)


# --- normalisation ------------------------------------------------------------------------------------


def _normed(cells: Cells, *methods: str) -> Iterator[tuple[Exchange, dict[str, CellResult]]]:
    """Cells with each class at one party that differ in the normalisation alone, by it."""
    found: dict[str, tuple[Exchange, dict[str, CellResult]]] = {}
    for cell, how in fixed(cells, *methods):
        if is_split(cell):
            key = f"{alike(cell, 'model')} {plain_model(cell.label)} {how}"
            found.setdefault(key, (how, {}))[1][norm_of(cell.label)] = cell
    yield from found.values()


def _better(part: str, how: Exchange, better: CellResult, worse: CellResult) -> Evidence:
    names = f"{_named(better)} against {worse.label['model']}: {how}"
    holds = more_than(accuracy_gap(better, worse), _POINT)
    return Evidence(part, names, _against(better, worse), _BY_A_POINT, holds)


def group_norm_with_bsp(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, "bsp"):
        if {"batch", "group"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["group"], norms["batch"])
    yield from (_keeping(one, "as good as on iid data") for one in _split_bsp(cells) if _norm(one) == "group")


def group_norm_with_others(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, *METHODS):
        if {"batch", "group"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["group"], norms["batch"])


def renormalisation(cells: Cells) -> Iterator[Evidence]:
    for how, norms in _normed(cells, "bsp"):
        if {"batch", "batch-renorm"} <= norms.keys():
            yield _better("better than BatchNorm", how, norms["batch-renorm"], norms["batch"])
    for one in _split_bsp(cells):
        if _norm(one) == "batch-renorm":
            holds = more_than(accuracy_gap(one.bsp, one.cell), _POINT)
            test = "correlated t: over 1 point below iid data"
            yield Evidence("it still loses", _named(one.cell), _against(one.bsp, one.cell), test, holds)


def minibatches_diverge(cells: Cells) -> Iterator[Evidence]:
    for iid, split in _iid_and_split(having(cells, NORMS)):
        torn, at_ease = by_seed(split, _middle_channel), by_seed(iid, _middle_channel)
        numbers = f"{_channels(split)} and {_channels(iid)}, {told(gap(torn, at_ease), 'percent')}"
        names, test = f"{_named(split)} against iid", "t: the middle channel, larger by more than a tenth"
        yield Evidence("means diverge", names, numbers, test, larger(torn, at_ease))


def _middle_channel(run: StoredRun) -> float | None:
    found = channels(run)
    return median(found) if found else None


def _channels(cell: CellResult) -> str:
    known = [value for run in cell.runs for value in channels(run)]
    return f"{100 * min(known):.3g} to {100 * max(known):.3g} percent" if known else "nothing"


def _iid_and_split(cells: Cells) -> Iterator[tuple[CellResult, CellResult]]:
    """Cells that are the same but for this."""
    iid = {rest_of(cell, "partition"): cell for cell in cells if is_iid(cell)}
    for cell in cells:
        if is_split(cell) and (other := iid.get(rest_of(cell, "partition"))):
            yield other, cell


# --- how much skew, how little traffic, how many parties ----------------------------------------------


def loss_grows(cells: Cells) -> Iterator[Evidence]:
    for how, ladder in _by_percent(cells):
        low, high = ladder[0], ladder[-1]
        names = f"{_named(low, 'partition')}: {how}, {low.label['partition']} against {high.label['partition']}"
        holds = more_than(accuracy_gap(low, high), _POINT)
        yield Evidence("it grows", names, _against(low, high), _BY_A_POINT, holds)
        rises = [more_than(accuracy_gap(b, a), _POINT) for a, b in pairwise(ladder)]
        numbers = ", ".join(percent(cell) for cell in ladder)
        test = "correlated t: accuracy rises by more than 1 point at no step"
        yield Evidence("at every step", names, numbers, test, turned(_any(rises)))


def _any(each: Iterable[bool | None]) -> bool | None:
    """Whether one of them holds; None if it cannot be told."""
    found = list(each)
    return True if True in found else None if None in found else False


def _by_percent(cells: Cells) -> Iterator[tuple[Exchange, list[CellResult]]]:
    """Cells of a method that differ in how much is dealt by label alone, the least skewed first."""
    found: dict[str, tuple[Exchange, list[CellResult]]] = {}
    for cell, how in fixed(cells, *METHODS):
        if percent_of(cell.label):
            found.setdefault(f"{alike(cell, 'partition')} {how}", (how, []))[1].append(cell)
    for how, ladder in found.values():
        if len(ladder) > 1:
            yield how, sorted(ladder, key=lambda cell: percent_of(cell.label))


def tighter_is_better(cells: Cells) -> Iterator[Evidence]:
    for own in _settings([cell for cell in cells if is_split(cell)]):
        (tight, at), (loose, then) = own[0], own[-1]
        names = f"{_named(tight)}: {at} against {then}"
        holds = more_than(accuracy_gap(tight, loose), _POINT)
        yield Evidence("tighter is better", names, _against(tight, loose), _BY_A_POINT, holds)


def _settings(cells: Cells) -> Iterator[list[tuple[CellResult, Exchange]]]:
    """Cells that differ in the setting of a method's knob alone, that which sends most first."""
    found: dict[str, list[tuple[CellResult, Exchange]]] = {}
    for cell, how in fixed(cells, *METHODS):
        found.setdefault(f"{alike(cell)} {how.method}", []).append((cell, how))
    yield from (sorted(own, key=lambda pair: pair[1].looseness) for own in found.values() if len(own) > 1)


def more_parties(cells: Cells) -> Iterator[Evidence]:
    bsp = {alike(cell): cell for cell, _ in fixed(cells, "bsp")}
    found: dict[str, dict[int, tuple[CellResult, CellResult]]] = {}
    for cell, how in fixed(cells, *METHODS):
        rival = bsp.get(alike(cell))
        if rival and not is_iid(cell):
            about = ("partition", "parties", "solver", "rounds", "measure", "eval_every", "eval_on")
            key = f"{rest_of(cell, *about)} {_kind(cell)} {how}"
            found.setdefault(key, {})[cell.parties] = rival, cell
    for family in found.values():
        if len(family) > 1:
            yield _of_parties(family[min(family)], family[max(family)])


def _kind(cell: CellResult) -> str:
    """What partitions count as one kind with any number of parties: dealt by class, or by whatever groups there are."""
    kind = " + ".join(kinds_of(cell.label))
    by_class = cell.label["partition"] == NONIID or kind == "label-pair"
    return "by class" if by_class else kind if kind == "by-group" else str(cell.label["partition"])


def _of_parties(few: tuple[CellResult, CellResult], many: tuple[CellResult, CellResult]) -> Evidence:
    lost = [differences(by_seed(bsp, last), by_seed(cell, last)) for bsp, cell in (few, many)]
    found = gap(lost[1], lost[0])
    names = f"{_named(many[1])} against {_named(few[1], 'model')}: {many[1].label['algorithm']}"
    means = [100 * fmean(each.values()) if each else 0.0 for each in lost]
    numbers = f"{means[1]:.1f} and {means[0]:.1f} points below BSP, {told(found)}"
    return Evidence("more is lost", names, numbers, "t: by over 1 point", more_than(found, _POINT))


# --- causes -------------------------------------------------------------------------------------------


def models_travel(cells: Cells) -> Iterator[Evidence]:
    steady = fixed(having(cells, TRAVELLING), *METHODS)
    yield from _far_from_home(steady)
    for own in _settings([cell for cell, _ in steady if is_split(cell)]):
        (tight, at), (loose, then) = own[0], own[-1]
        found = gap(averages(loose, TRAVELLING, "loss"), averages(tight, TRAVELLING, "loss"))
        names = f"{_named(tight)}: {then} against {at}"
        holds = more_than(found, _POINT)
        yield Evidence("less with more traffic", names, told(found), "t: by over 1 point", holds)


def _far_from_home(steady: Sequence[tuple[CellResult, Exchange]]) -> Iterator[Evidence]:
    """On average over the settings of a method's knob, as the paper has it."""
    methods = {id(cell): how.method for cell, how in steady}
    found: dict[str, list[tuple[CellResult, CellResult]]] = {}
    for iid, split in _iid_and_split([cell for cell, _ in steady]):
        found.setdefault(f"{alike(split)} {methods[id(split)]}", []).append((iid, split))
    for pairs in found.values():
        at_ease, torn = (_mean_loss([pair[side] for pair in pairs]) for side in (0, 1))
        between = gap(torn, at_ease)
        split = pairs[0][1]
        names = f"{_named(split)} against iid: {methods[id(split)]}, {len(pairs)} settings"
        holds = more_than(between, 0.1)
        yield Evidence("far more under skew", names, told(between), "t: over 10 points more", holds)


def _mean_loss(cells: Cells) -> dict[int, float]:
    each = [averages(cell, TRAVELLING, "loss") for cell in cells]
    seeds = set.intersection(*(set(of) for of in each))
    return {seed: fmean(of[seed] for of in each) for seed in seeds}


def deltas_are_larger(cells: Cells) -> Iterator[Evidence]:
    """Of methods that keep something back: BSP shares everything, and would have 0 and 0 to compare."""
    for iid, split in _iid_and_split([cell for cell, _ in fixed(having(cells, DELTA), *METHODS)]):
        torn, at_ease = (averages(cell, DELTA, "mean") for cell in (split, iid))
        names = f"{_named(split)} against iid: {split.label['algorithm']}"
        numbers, test = told(gap(torn, at_ease), "percent"), "t: larger by more than a tenth"
        yield Evidence("parties move further alone", names, numbers, test, larger(torn, at_ease))


def replicas_specialise(cells: Cells) -> Iterator[Evidence]:
    for cell, _ in fixed(having(cells, REPLICAS), "gaia"):
        found = _from_zero(by_seed(cell, specialised))
        names = f"{_named(cell)}: {cell.label['algorithm']}"
        if is_split(cell):
            holds = more_than(found, 0.5)
            yield Evidence("its own classes alone", names, told(found), "t: its own over 50 points better", holds)
        elif is_iid(cell):
            yield Evidence("all alike when iid", names, told(found), "t: within 10 points", within(found, 0.1))


def _from_zero(values: dict[int, float]) -> Posterior | None:
    return gap(values, dict.fromkeys(values, 0.0))


# --- SkewScout ----------------------------------------------------------------------------------------


def scout_saves(cells: Cells) -> Iterator[Evidence]:
    for one in savings(cells):
        if one.scout is None:
            continue
        papers, names = one.method == "gaia", f"{_named(one.scout)}: {one.method}"
        kept = turned(more_than(accuracy_gap(one.bsp, one.scout), _POINT))
        numbers = _against(one.bsp, one.scout)
        test = "correlated t: not over 1 point below BSP on the same partition"
        yield Evidence("it keeps BSP's accuracy", names, numbers, test, kept, papers)
        saved = one.saved_by_seed(one.scout)
        enough = turned(more_than(gap(dict.fromkeys(saved, _LEAST_SAVING), saved), 0))
        test = f"t: at least {_LEAST_SAVING:g} times fewer bytes"
        yield Evidence("it saves traffic", names, times(one.saved_by(one.scout)), test, enough, papers)
    yield from _by_skew([one for one in savings(cells) if one.scout])


def _by_skew(found: list[Saving]) -> Iterator[Evidence]:
    ladders: dict[str, list[Saving]] = {}
    for one in found:
        if percent_of(one.cell.label):
            key = f"{alike(one.cell, 'partition')} {one.method} {one.cell.label['controller']}"
            ladders.setdefault(key, []).append(one)
    for ladder in ladders.values():
        mild, hard = (end(ladder, key=lambda one: percent_of(one.cell.label)) for end in (min, max))
        if mild is not hard:
            names = f"{_named(mild.cell)} against {hard.cell.label['partition']}: {mild.method}"
            numbers = " and ".join(times(one.saved_by(one.scout)) for one in (mild, hard))
            holds = larger(*(one.saved_by_seed(one.scout) for one in (mild, hard)))
            test, papers = "t: more bytes by more than a tenth", mild.method == "gaia"
            yield Evidence("more with less skew", names, numbers, test, holds, papers)


def near_oracle(cells: Cells) -> Iterator[Evidence]:
    for one in savings(cells):
        if one.scout is not None and one.ratio is not None:
            ratios = one.ratio_by_seed
            near = turned(more_than(gap(ratios, dict.fromkeys(ratios, _MOST_TO_ORACLE)), 0))
            holds = near if one.keeps(one.scout) else None
            numbers = f"{times(one.ratio)}, {percent(one.scout)} with BSP's {percent(one.bsp)}"
            test = f"t: at most {_MOST_TO_ORACLE:g} times Oracle's bytes, where the accuracy is kept"
            names = f"{_named(one.scout)}: {one.method}, {one.knob} {one.best:g}"
            yield Evidence("near Oracle", names, numbers, test, holds, one.method == "gaia")


FINDINGS = (
    Finding(
        "quagmire-1", PAPER, "On iid data Gaia, FedAvg and DGC are as good as BSP.",
        {"as good as BSP": "most"}, match_when_iid, "quagmire-figure1",
    ),
    Finding(
        "quagmire-2", PAPER, "With each class at one party, or by region, they lose accuracy, all of them.",
        {"they lose": "most"}, lose_under_skew, "quagmire-figure1",
    ),
    Finding(
        "quagmire-3", PAPER, "Without BatchNorm BSP keeps its accuracy with each class at one party.",
        {"it keeps its accuracy": "most"}, bsp_keeps, "quagmire-figure1",
    ),
    Finding(
        "quagmire-4", PAPER, "With BatchNorm even BSP loses accuracy with each class at one party.",
        {"it loses": "most"}, bsp_loses_with_batch_norm, "quagmire-norm",
    ),
    Finding(
        "quagmire-5", PAPER, "GroupNorm in place of BatchNorm gives BSP its accuracy back.",
        {"better than BatchNorm": "most", "as good as on iid data": "most"}, group_norm_with_bsp, "quagmire-norm",
    ),
    Finding(
        "quagmire-6", PAPER, "GroupNorm in place of BatchNorm helps Gaia, FedAvg and DGC, too.",
        {"better than BatchNorm": "most"}, group_norm_with_others, "quagmire-norm",
    ),
    Finding(
        "quagmire-7", PAPER, "The more of the data is dealt by label, the more is lost.",
        {"it grows": "most", "at every step": "most"}, loss_grows, "quagmire-skew",
    ),
    Finding(
        "quagmire-8", PAPER, "A setting that sends more loses less with each class at one party.",
        {"tighter is better": "most"}, tighter_is_better, "quagmire-table6",
    ),
    Finding(
        "quagmire-9", PAPER, "The means of minibatches differ more between parties with each class at one of them.",
        {"means diverge": "all"}, minibatches_diverge, "quagmire-norm",
    ),
    Finding(
        "quagmire-10", PAPER, "Batch renormalisation does better than BatchNorm under skew, and still loses.",
        {"better than BatchNorm": "most", "it still loses": "most"}, renormalisation, "quagmire-norm",
    ),
    Finding(
        "quagmire-11", PAPER, "With more parties, or smaller regions, more is lost against BSP.",
        {"more is lost": "most"}, more_parties, "quagmire-parties",
    ),
    Finding(
        "quagmire-12", PAPER, "Models lose far more accuracy away from home under skew, and less the more is sent.",
        {"far more under skew": "most", "less with more traffic": "most"}, models_travel, "quagmire-causes",
    ),
    Finding(
        "quagmire-13", PAPER, "What parties have not shared, or learnt between two averages, is larger under skew.",
        {"parties move further alone": "all"}, deltas_are_larger, "quagmire-causes",
    ),
    Finding(
        "quagmire-14", PAPER,
        "SkewScout keeps BSP's accuracy with at least 9.6 times less traffic, and saves more with less skew.",
        {"it keeps BSP's accuracy": "most", "it saves traffic": "all", "more with less skew": "all"},
        scout_saves, "quagmire-skewscout",
    ),
    Finding(
        "quagmire-15", PAPER, "SkewScout sends at most 1.5 times what Oracle does.",
        {"near Oracle": "most"}, near_oracle, "quagmire-skewscout",
    ),
    Finding(
        "quagmire-16", PAPER, "Gaia's models each know the classes of their own party alone, and all classes when iid.",
        {"its own classes alone": "all", "all alike when iid": "most"}, replicas_specialise, "quagmire-causes",
    ),
)  # fmt: skip
