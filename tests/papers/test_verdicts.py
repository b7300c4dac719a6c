"""Every claim must come out supported, contradicted and undecided, from runs made for that, and never from noise.

A case has the cells that a claim looks at and a number for each of them: an accuracy, or a dictionary of whatever its
runs recorded. `undecided` are the numbers of `supported` with trials that scatter widely, unless they are given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
import pytest

from silobench.papers import FINDINGS
from silobench.papers.hsieh2020.communication import percent_of
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun
from stored import claim, dealt_by_label, one_class_each, stored

Number: TypeAlias = float | dict[str, Any]
Noise: TypeAlias = Callable[[int, int, int], float]  # (cell, seed, which number of it) -> what a trial is off by

TRIALS = 3
ORDERS = list(permutations((-1.0, 0.0, 1.0)))
CLOSE, WIDE = 0.002, 0.3
CLASSES = 10


@dataclass(frozen=True)
class Case:
    """The cells of a claim by their choices, and what to put into them for each verdict."""

    cells: Sequence[dict[str, Any]]
    supported: Sequence[Number]
    contradicted: Sequence[Number]
    undecided: Sequence[Number] | None = None  # with trials that scatter little
    wide: float = WIDE  # how far trials scatter where nothing can be told
    null: Number | None = 0.7  # of all cells, where nothing makes a difference; None for a claim that nothing does


# --- runs ---------------------------------------------------------------------------------------------


def pattern(size: float) -> Noise:
    """Return a noise without chance: three trials are off by -size, 0 and size, in another order in each cell."""
    return lambda cell, seed, which: size * ORDERS[(cell + cell // 3 + which) % 6][seed]


def gauss(size: float, draw: int) -> Noise:
    return lambda cell, seed, which: size * float(np.random.default_rng([draw, cell, seed, which]).standard_normal())


def made(number: Number, off: Callable[[int], float], seed: int, choices: dict[str, Any]) -> StoredRun:
    """Return a trial: shares and accuracies are off by a noise, other numbers by that share of themselves."""
    numbers = number if isinstance(number, dict) else {"accuracy": number}
    accuracy = numbers.get("accuracy", 0.7) + off(0)
    curve = [accuracy] * choices.get("rounds", 5)
    if "wobble" in numbers:
        size = numbers["wobble"] * (1 + off(1))
        curve = [accuracy + size * (-1) ** place for place in range(20)]
    if "swing" in numbers:  # the same by chance
        curve = [accuracy + numbers["swing"] * off(10 + place) for place in range(20)]
    every = {"seconds": {"train": numbers.get("seconds", 2.0) * (1 + off(2))}}
    every |= {"bytes_up": numbers.get("sent", 100.0) * (1 + off(3)) / len(curve), "bytes_down": 0}
    parties, measured = choices.get("parties", 10), _measured(numbers, off)
    classes = {"classes": [str(place) for place in range(2 * parties)]} if "known" in numbers else {}
    partition = choices.get("partition", "iid")
    counts = [[4] * CLASSES] * parties
    if classes:
        counts = dealt_by_label(parties, percent_of(Label({"partition": partition})))
    elif "label-count(k=1)" in partition or ONE in partition:
        counts = one_class_each(parties, CLASSES)
    records = [{"measures": measured} if measured else {}] * len(curve)
    return stored(curve, seed, records, every=every, counts=counts, dataset_facts=classes, **choices)


def _measured(numbers: dict[str, Any], off: Callable[[int], float]) -> dict[str, Any]:
    """Return what a run measured of itself."""
    names = ("conv1", "conv2", "fc1", "out")
    found: dict[str, Any] = {}
    if "loss" in numbers:
        found["accuracy-loss"] = {"loss": numbers["loss"] + off(4), "home": 0.9, "away": 0.5}
    if "delta" in numbers:
        found["update-delta"] = {"mean": numbers["delta"] * (1 + off(5)), "ratio": 0.1}
    if "channel" in numbers:
        values = [numbers["channel"] * (1 + off(6))]
        found["norm-divergence"] = {"mean": {"conv1": values}, "variance": {"conv1": values}}
    if "layers" in numbers:
        pairs = zip(names, numbers["layers"], strict=True)
        layers = {name: value * (1 + off(20 + place)) for place, (name, value) in enumerate(pairs)}
        found["weight-divergence"] = {"layers": layers, "all": 0.02, "distance": 0.5, "sgd_accuracy": None}
    if "known" in numbers:
        own, others = numbers["known"]
        by_class = {
            str(party): {str(c): own + off(7) if c % 2 == party else others for c in range(4)} for party in range(2)
        }
        found["replicas"] = {"accuracy": {"0": 0.5, "1": 0.5}, "by_class": by_class}
    return found


def runs(case: Case, numbers: Sequence[Number], noise: Noise, place: int = 0) -> list[list[StoredRun]]:
    """Return the trials of all cells; cells of different places have nothing to do with each other."""
    found = []
    for at, (choices, number) in enumerate(zip(case.cells, numbers, strict=True)):
        cell, elsewhere = len(case.cells) * place + at, {"validation": place / 10} if place else {}

        def off(seed: int, cell: int = cell) -> Callable[[int], float]:
            return lambda which: noise(cell, seed, which)

        found.append([made(number, off(seed), seed, {**choices, **elsewhere}) for seed in range(TRIALS)])
    return found


# --- the claims ---------------------------------------------------------------------------------------

ONE = "shards(per_party=1)"
SPLIT, MILD = "label-percent(percent=100.0)", "label-percent(percent=20.0)"
DIRICHLET, NOISE = "label-dirichlet(beta=0.5)", "noise(sigma=0.1)"
ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova")
EPOCHS = {epochs: f"sgd(lr=0.01, epochs={epochs}, batch=64)" for epochs in (10, 20)}
BATCHES = {batch: f"sgd(lr=0.01, epochs=10, batch={batch})" for batch in (16, 256)}
METHODS = ("gaia", "fedavg(iter_local=20)", "dgc(warmup=8.0)")
SCOUT = "skewscout(period=25, sample=100)"


def zhao(epochs: int = 1, batch: int = 100) -> dict[str, Any]:
    return {
        "dataset": "cifar-10",
        "solver": f"sgd(lr=0.1, momentum=0.0, weight_decay=0.0, epochs={epochs}, batch={batch})",
    }


def hsieh(algorithm: str = "bsp", partition: str = "iid", model: str = "lenet", parties: int = 5) -> dict[str, Any]:
    solver = "sgd(lr=0.002, weight_decay=0.0005, steps=1, batch=20, keep_momentum=True)"
    shared = {"dataset": "cifar-10", "solver": solver, "controller": "fixed", "rounds": 2}
    return {**shared, "algorithm": algorithm, "partition": partition, "model": model, "parties": parties}


def all_of(key: str, *values: Any) -> list[Any]:
    return [{key: value} for value in values]


def contest(partition: str) -> list[dict[str, Any]]:
    """BSP, two settings of Gaia and SkewScout."""
    fixed = [hsieh(name, partition) for name in ("bsp", "gaia(threshold=0.02)", "gaia(threshold=0.05)")]
    return [*fixed, {**hsieh("gaia", partition), "controller": SCOUT}]


def sent(*bytes_: float, accuracy: float = 0.77) -> list[Number]:
    """Bytes of each cell; all but BSP have this accuracy."""
    first, *rest = bytes_
    return [{"accuracy": 0.77, "sent": first}, *({"accuracy": accuracy, "sent": each} for each in rest)]


TARGETS = [{**zhao(), "partition": f"target-emd(emd={emd})"} for emd in (0.0, 0.72, 1.44, 1.8)]
DIVERGING = [
    {**zhao(), "partition": f"target-emd(emd={emd})", "rounds": 1, "measure": "weight-divergence"}
    for emd in (0.0, 1.08, 1.8)
]
FLAT, MIDDLE = (0.02, 0.02, 0.02, 0.02), (0.1, 0.05, 0.04, 0.1)
SHARED = [{**zhao(), "partition": f"{ONE} + share(beta=0.1{alpha})"} for alpha in ("", ", alpha=0.5", ", alpha=0.75")]
TENTH = {"parties": 100, "participation": 0.1, "rounds": 20}
NORMED = [hsieh("bsp", partition, f"lenet(norm={norm})") for norm in ("batch", "group") for partition in ("iid", SPLIT)]
RENORMED = [
    hsieh("bsp", partition, f"lenet(norm={norm})") for norm in ("batch", "batch-renorm") for partition in ("iid", SPLIT)
]
TRAVELLED = [
    {**hsieh(f"gaia(threshold={t})", p), "measure": "accuracy-loss"} for p in ("iid", SPLIT) for t in (0.02, 0.2)
]
DELTAS = [{**hsieh(method, p), "measure": "update-delta"} for p in ("iid", SPLIT) for method in ("bsp", *METHODS)]

CASES = {
    "niid-1": Case(
        all_of("partition", "iid", "label-count(k=1)", "label-count(k=2)", NOISE, "quantity-dirichlet(beta=0.5)"),
        supported=[0.9, 0.3, 0.6, 0.9, 0.9],
        contradicted=[0.9, 0.7, 0.6, 0.9, 0.9],
    ),
    "niid-2": Case(
        [{"partition": p, "algorithm": name} for p in ("iid", "label-count(k=2)") for name in ALGORITHMS],
        supported=[0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.7, 0.4],
        contradicted=[0.9, 0.8, 0.7, 0.6, 0.9, 0.5, 0.7, 0.4],
    ),
    "niid-3": Case(
        [
            *({"partition": DIRICHLET, "algorithm": name} for name in ALGORITHMS), {"partition": "iid"},
            {"dataset": "cifar-10"}, {"dataset": "cifar-10", "partition": DIRICHLET},
        ],
        supported=[0.97, 0.97, 0.97, 0.97, 0.98, 0.7, 0.6],
        contradicted=[0.97, 0.97, 0.97, 0.97, 0.98, 0.7, 0.7],
    ),
    "niid-4": Case(
        [{"partition": "label-count(k=2)", "algorithm": name, "rounds": 20} for name in ALGORITHMS],
        supported=[{"wobble": 0.005}, {"wobble": 0.005}, {"wobble": 0.08}, {"wobble": 0.08}],
        contradicted=[{"wobble": 0.08}, {"wobble": 0.08}, {"wobble": 0.005}, {"wobble": 0.005}],
        wide=3.0,
        null={"swing": 1.0},
    ),
    "niid-5": Case(
        [{"partition": p, "solver": s} for p in ("label-count(k=1)", "label-count(k=3)") for s in EPOCHS.values()],
        supported=[0.8, 0.6, 0.6, 0.8],
        contradicted=[0.8, 0.6, 0.8, 0.6],
    ),
    "niid-6": Case(
        [TENTH, {**TENTH, "partition": "label-count(k=2)"}, {**TENTH, "algorithm": "scaffold"}],
        supported=[{"wobble": 0.005}, {"wobble": 0.08}, {"accuracy": 0.1, "wobble": 0.005}],
        contradicted=[{"wobble": 0.005}, {"wobble": 0.08}, {"accuracy": 0.71, "wobble": 0.005}],
        wide=3.0,
        null={"swing": 1.0},
    ),
    "niid-7": Case(all_of("parties", 10, 40), supported=[0.8, 0.7], contradicted=[0.7, 0.8]),
    "niid-8": Case(
        all_of("algorithm", "fedavg", "fedprox", "scaffold"),
        supported=[{"seconds": 2.0}, {"seconds": 3.0}, {"sent": 200}],
        contradicted=[{"seconds": 2.0}, {"seconds": 2.0}, {"sent": 200}],
        undecided=[{"seconds": 0.1}, {"seconds": 0.2}, {"sent": 200}],  # too short to be measured
    ),
    "niid-9": Case(
        all_of("partition", DIRICHLET, NOISE, f"{DIRICHLET} + {NOISE}"),
        supported=[0.8, 0.82, 0.7],
        contradicted=[0.8, 0.9, 0.8],  # the noise does nothing: harder than noise, and as hard as label skew
    ),
    "niid-10": Case(
        [{"partition": p, "solver": s} for p in ("iid", DIRICHLET) for s in BATCHES.values()],
        supported=[0.8, 0.7, 0.6, 0.5],
        contradicted=[0.8, 0.7, 0.6, 0.7],
        null=None,
    ),
    "niid-11": Case(
        [
            {"partition": "label-count(k=2)", "model": model, "rounds": 20}
            for model in ("resnet(depth=20)", "resnet(depth=20, norm=group)", "vgg9")
        ],
        supported=[{"wobble": 0.08}, {"wobble": 0.005}, {"wobble": 0.005}],
        contradicted=[{"wobble": 0.005}, {"wobble": 0.08}, {"wobble": 0.08}],
        wide=3.0,
        null={"swing": 1.0},
    ),
    "zhao-1": Case(TARGETS, supported=[0.8, 0.8, 0.74, 0.44], contradicted=[0.8, 0.8, 0.74, 0.8]),
    "zhao-2": Case(
        DIVERGING,
        supported=[{"layers": FLAT}, {"layers": MIDDLE}, {"layers": (0.3, 0.1, 0.1, 0.3)}],
        contradicted=[{"layers": FLAT}, {"layers": MIDDLE}, {"layers": (0.3, 0.1, 0.01, 0.3)}],
        wide=2.0,
        null={"layers": MIDDLE},
    ),
    "zhao-3": Case(
        DIVERGING,
        supported=[{"layers": FLAT}, {"layers": FLAT}, {"layers": (0.3, 0.1, 0.1, 0.2)}],
        contradicted=[{"layers": FLAT}, {"layers": FLAT}, {"layers": (0.3, 0.1, 0.1, 0.05)}],
        wide=2.0,
        null={"layers": FLAT},
    ),
    "zhao-4": Case(
        [{**zhao(epochs), "partition": ONE} for epochs in (1, 5)],
        supported=[0.44, 0.44],
        contradicted=[0.44, 0.6],
        null=None,
    ),
    "zhao-5": Case(
        [{**zhao(), "partition": f"{ONE}{share}"} for share in ("", " + share(beta=0.1, alpha=0.5, warmup=5)")],
        supported=[0.44, 0.74],
        contradicted=[0.44, 0.5],
    ),
    "zhao-6": Case(SHARED, supported=[0.74, 0.74, 0.74], contradicted=[0.74, 0.6, 0.6], null=None),
    "zhao-7": Case(
        [zhao(), {**zhao(batch=1000), "algorithm": "combined"}],
        supported=[0.8, 0.8],
        contradicted=[0.8, 0.85],
        null=None,
    ),
    "zhao-8": Case(
        [
            {**zhao(batch=1000), "algorithm": "combined", "rounds": 7},
            {**zhao(), "partition": ONE, "start": "centralised(rounds=7, batch=1000)"},
        ],
        supported=[0.8, 0.8],
        contradicted=[0.8, 0.9],
        null=None,
    ),
    "quagmire-1": Case(
        [hsieh(method) for method in ("bsp", *METHODS)],
        supported=[0.77, 0.77, 0.77, 0.77],
        contradicted=[0.77, 0.6, 0.6, 0.6],
        null=None,
    ),
    "quagmire-2": Case(
        [hsieh(), *(hsieh(method, SPLIT) for method in METHODS)],
        supported=[0.77, 0.5, 0.5, 0.5],
        contradicted=[0.77, 0.77, 0.77, 0.77],
    ),
    "quagmire-3": Case(
        [hsieh(), hsieh(partition=SPLIT)], supported=[0.77, 0.77], contradicted=[0.77, 0.6], null=None
    ),
    "quagmire-4": Case(NORMED[:2], supported=[0.77, 0.5], contradicted=[0.77, 0.77]),
    "quagmire-5": Case(
        NORMED, supported=[0.78, 0.65, 0.79, 0.79], contradicted=[0.78, 0.65, 0.79, 0.65]
    ),
    "quagmire-6": Case(
        [hsieh(method, SPLIT, f"lenet(norm={norm})") for method in METHODS for norm in ("batch", "group")],
        supported=[0.54, 0.64, 0.54, 0.64, 0.54, 0.64],
        contradicted=[0.54, 0.5, 0.54, 0.5, 0.54, 0.5],
    ),
    "quagmire-7": Case(
        [hsieh("gaia", f"label-percent(percent={percent})") for percent in (20.0, 40.0, 60.0, 80.0)],
        supported=[0.78, 0.75, 0.72, 0.69],
        contradicted=[0.7, 0.7, 0.7, 0.7],
    ),
    "quagmire-8": Case(
        [hsieh(f"gaia(threshold={t})", SPLIT) for t in (0.02, 0.3)], supported=[0.7, 0.5], contradicted=[0.5, 0.7]
    ),
    "quagmire-9": Case(
        [{**hsieh("bsp", p, "lenet(norm=batch)"), "measure": "norm-divergence"} for p in ("iid", SPLIT)],
        supported=[{"channel": 0.03}, {"channel": 0.3}],
        contradicted=[{"channel": 0.3}, {"channel": 0.3}],
        wide=2.0,
        null={"channel": 0.3},
    ),
    "quagmire-10": Case(
        RENORMED, supported=[0.788, 0.654, 0.781, 0.73], contradicted=[0.788, 0.654, 0.781, 0.6]
    ),
    "quagmire-11": Case(
        [
            *(hsieh(method, SPLIT) for method in ("bsp", "gaia")),
            *(hsieh(method, "label-pair(major=0.8)", parties=10) for method in ("bsp", "gaia")),
        ],
        supported=[0.44, 0.4, 0.6, 0.5],
        contradicted=[0.44, 0.4, 0.6, 0.56],
    ),
    "quagmire-12": Case(
        TRAVELLED,
        supported=[{"loss": 0.01}, {"loss": 0.01}, {"loss": 0.2}, {"loss": 0.7}],
        contradicted=[{"loss": 0.01}, {"loss": 0.01}, {"loss": 0.7}, {"loss": 0.2}],
        wide=0.6,
        null={"loss": 0.3},
    ),
    "quagmire-13": Case(
        DELTAS,
        supported=[{"delta": mean} for mean in (0.0, 0.3, 0.3, 0.3, 0.0, 0.6, 0.6, 2.8)],
        contradicted=[{"delta": mean} for mean in (0.0, 0.3, 0.3, 0.3, 0.0, 0.3, 0.6, 2.8)],
        wide=2.0,
        null={"delta": 0.3},
    ),
    "quagmire-14": Case(
        [*contest(SPLIT), *contest(MILD)],
        supported=[*sent(1000, 200, 80, 90), *sent(1000, 200, 80, 40)],
        contradicted=[*sent(1000, 200, 80, 90), *sent(1000, 200, 80, 90)],
        null={"accuracy": 0.77, "sent": 100},
    ),
    "quagmire-15": Case(
        contest(SPLIT), supported=sent(1000, 200, 80, 100), contradicted=sent(1000, 200, 80, 200),
        undecided=[*sent(1000, 200, 80), {"accuracy": 0.6, "sent": 100}],  # SkewScout has lost the accuracy
        null=None,
    ),
    "quagmire-16": Case(
        [{**hsieh("gaia(threshold=0.4)", p, parties=2), "measure": "replicas"} for p in ("iid", SPLIT)],
        supported=[{"known": (0.7, 0.7)}, {"known": (0.9, 0.0)}],
        contradicted=[{"known": (0.7, 0.7)}, {"known": (0.7, 0.7)}],
        wide=0.6,
        null={"known": (0.7, 0.7)},
    ),
}  # fmt: skip

EQUALITIES = {  # parts that state equality, which models that have learnt nothing show as well
    "niid-1": "feature and quantity skew hardly hurt FedAvg",
    "niid-3": "on MNIST all are nearly equal",
    "niid-4": "FedProx is as fast as FedAvg",
    "niid-10": "skew does not change the effect of the batch size",
    "zhao-4": "five epochs gain nothing",
    "zhao-6": "half of G is enough",
    "zhao-7": "FedAvg on iid data equals SGD",
    "zhao-8": "FedAvg does not improve it",
    "quagmire-1": "as good as BSP",
    "quagmire-3": "it keeps its accuracy",
    "quagmire-5": "as good as on iid data",
    "quagmire-14": "it keeps BSP's accuracy",
    "quagmire-15": "near Oracle",
    "quagmire-16": "all equal when iid",
}
DIFFERENCES = [id for id, case in CASES.items() if case.null is not None]


# --- their verdicts -----------------------------------------------------------------------------------


def test_every_claim_has_a_case() -> None:
    assert list(CASES) == [finding.id for finding in FINDINGS]


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_holds_is_supported(id: str) -> None:
    case = CASES[id]
    assert claim(id, *runs(case, case.supported, pattern(CLOSE))).verdict == "supported"


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_does_not_hold_is_contradicted(id: str) -> None:
    case = CASES[id]
    assert claim(id, *runs(case, case.contradicted, pattern(CLOSE))).verdict == "contradicted"


@pytest.mark.parametrize("id", CASES)
def test_a_claim_that_cannot_be_told_is_undecided(id: str) -> None:
    case = CASES[id]
    numbers, noise = (case.supported, case.wide) if case.undecided is None else (case.undecided, CLOSE)
    found = claim(id, *runs(case, numbers, pattern(noise)))
    assert found.verdict == "undecided"
    assert any(piece.holds is None for piece in found.evidence) or case.undecided


@pytest.mark.parametrize("id", [id for id, case in CASES.items() if case.undecided is None and id != "niid-3"])
def test_one_piece_does_not_speak_for_many_that_cannot_be_told(id: str) -> None:
    """Four of five places have one trial, which decides nothing.

    Not niid-3, which has one piece for a dataset, however many places there are.
    """
    case = CASES[id]
    for numbers in (case.supported, case.contradicted):
        clear = runs(case, numbers, pattern(CLOSE))
        single = [trials[:1] for place in range(1, 5) for trials in runs(case, numbers, pattern(CLOSE), place)]
        assert claim(id, *clear, *single).verdict == "undecided"


@pytest.mark.parametrize("id", DIFFERENCES)
@pytest.mark.parametrize(("places", "noise"), [(1, 0.004), (4, 0.03)], ids=["one-place", "four-places"])
def test_noise_supports_no_claim_of_a_difference(id: str, places: int, noise: float) -> None:
    """All cells have one distribution. One place with the noise of real trials; several with far more."""
    case = CASES[id]
    assert case.null is not None
    same = [case.null] * len(case.cells)
    for draw in range(12):
        found = [trials for place in range(places) for trials in runs(case, same, gauss(noise, draw), place)]
        assert claim(id, *found).verdict != "supported", f"draw {draw}"


@pytest.mark.parametrize("id", EQUALITIES)
def test_models_that_have_learnt_nothing_are_no_evidence_of_equality(id: str) -> None:
    case = CASES[id]
    chance = [{**(number if isinstance(number, dict) else {}), "accuracy": 1 / CLASSES} for number in case.supported]
    found = claim(id, *runs(case, chance, pattern(CLOSE)))
    assert found.verdict != "supported"
    assert {piece.holds for piece in found.evidence if piece.part == EQUALITIES[id]} <= {None}


@pytest.mark.parametrize(("iid", "verdict"), [(0.8, "supported"), (1 / CLASSES, "undecided")])
def test_five_epochs_do_not_help_where_only_iid_data_are_learnt(iid: float, verdict: str) -> None:
    """One class per party may leave a model at chance, which is the largest loss, unless the training never learns."""
    case = CASES["zhao-4"]
    whole = Case([*case.cells, zhao()], supported=[1 / CLASSES, 1 / CLASSES, iid], contradicted=[])
    assert claim("zhao-4", *runs(whole, whole.supported, pattern(CLOSE))).verdict == verdict
