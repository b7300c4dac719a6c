"""Studies that have more cells than a claim needs: settings that only one of two methods has, ladders of several steps,
cells that differ in too much. evidence.txt has the pieces of evidence that they give.

A cell is its choices and its number, as in the cases, and how many trials it has if these are not three.
"""

from typing import Any, TypeAlias

from cases_hsieh2020 import MILD, SCOUT, SPLIT, hsieh
from cases_niid_bench import ALGORITHMS, DIRICHLET, NOISE, TENTH
from cases_zhao2018 import ONE, zhao

from cases import Number

Cell: TypeAlias = tuple[dict[str, Any], Number] | tuple[dict[str, Any], Number, int]

K1, K2, K3 = (f"label-count(k={k})" for k in (1, 2, 3))
QUANTITY = "quantity-dirichlet(beta=0.5)"
REGIONS = "by-group(column=region)"


def table(rows: dict[str, tuple[float, ...]], key: str = "partition", trials: int = 3, **more: Any) -> list[Cell]:
    """Return cells of the four algorithms of NIID-Bench, a row for each value of a choice."""
    return [
        ({key: value, "algorithm": name, **more}, number, trials)
        for value, numbers in rows.items()
        for name, number in zip(ALGORITHMS, numbers, strict=False)
    ]


def by_solver(argument: str, accuracies: dict[str, dict[int, float]], **more: Any) -> list[Cell]:
    """Return cells that differ in a number of the solver, for each partition."""
    rest = {"epochs": "batch=64", "batch": "epochs=10"}[argument]
    return [
        ({"partition": partition, "solver": f"sgd(lr=0.01, {rest}, {argument}={value})", **more}, accuracy)
        for partition, row in accuracies.items()
        for value, accuracy in row.items()
    ]


NIID: dict[str, list[Cell]] = {
    "niid-1": [
        ({}, 0.9),
        *[({"partition": p}, a) for p, a in ((K1, 0.3), (K2, 0.6), (K3, 0.5), (NOISE, 0.885), (QUANTITY, 0.87))],
        ({"partition": f"{K1} + {NOISE}"}, 0.2),  # no party has two classes there either
        ({"partition": f"{DIRICHLET} + {NOISE}"}, 0.55),
        *[({"dataset": "fmnist", "partition": p}, a) for p, a in ((K2, 0.6), (NOISE, 0.5))],  # without iid
        *[({"dataset": "svhn", "partition": p}, a) for p, a in (("iid", 0.9), (K1, 0.89))],
        *[({"dataset": "adult", "partition": p}, a) for p, a in (("iid", 0.12), (NOISE, 0.12))],  # learns nothing
        ({"algorithm": "fednova", "partition": K1}, 0.9),
    ],
    "niid-2": [
        *table({"iid": (0.9, 0.8, 0.7, 0.6), K1: (0.9, 0.8, 0.7, 0.6), K2: (0.9, 0.8, 0.7, 0.6)}),
        *table({K3: (0.8, 0.8, 0.7, 0.75)}),
        *table({NOISE: (0.5, 0.9)}),  # without two of the four
        ({"algorithm": "feddyn"}, 0.99),
    ],
    "niid-2, half of it undecided": [
        *table({"iid": (0.7, 0.6, 0.9, 0.6), K1: (0.7, 0.6, 0.9, 0.9), K2: (0.7, 0.6, 0.6, 0.9)}),
        *table({K3: (0.7, 0.6, 0.9, 0.9), NOISE: (0.7, 0.6, 0.9, 0.9)}, trials=1),
    ],
    "niid-3": [
        *table({DIRICHLET: (0.97, 0.97, 0.97, 0.97), K1: (0.3, 0.6, 0.9, 0.1), K2: (0.97, 0.92, 0.97, 0.97)}),
        ({}, 0.98),
        *[({"partition": p, "rounds": 9}, a) for p, a in (("iid", 0.98), (DIRICHLET, 0.95))],
        *[({"partition": p, "rounds": 9, "model": "mlp"}, a) for p, a in (("iid", 0.98), (DIRICHLET, 0.5))],
        *[({"dataset": "cifar-10", "partition": p}, a) for p, a in (("iid", 0.7), (DIRICHLET, 0.6))],
        *[({"dataset": "adult", "model": "mlp", "partition": p}, a) for p, a in (("iid", 0.7), (DIRICHLET, 0.69))],
        *[({"dataset": "rcv1", "model": "mlp", "partition": p}, a) for p, a in (("iid", 0.12), (DIRICHLET, 0.1))],
        ({"dataset": "covtype", "model": "mlp"}, 0.8),
        *[({"dataset": "svhn", "partition": p}, a) for p, a in (("iid", 0.9), (DIRICHLET, 0.5))],
    ],
    "niid-4": [
        *table({K2: ({"wobble": 0.01}, {"wobble": 0.01}, {"wobble": 0.08}, {"wobble": 0.01})}, rounds=20),
        *table({"iid": ({"wobble": 0.01}, {"wobble": 0.01}, {"wobble": 0.08})}, rounds=20),
        *table({NOISE: (0.7, 0.7, 0.7, 0.7)}, rounds=14),
        *table({QUANTITY: (0.7, 0.7, 0.7, 0.7)}, rounds=15),
        *table({"iid": (0.7, 0.7)}, rounds=5),
        *table({"iid": (0.7, 0.7)}, rounds=4),
        *table({K1: (0.1, 0.7)}, rounds=20),  # one of them has learnt nothing
        *[({"algorithm": name, "partition": K3, "rounds": 20}, 0.7) for name in ALGORITHMS[1:]],  # without FedAvg
        *table({DIRICHLET: (0.7, 0.7)}, rounds=40),
    ],
    "niid-5": [
        *by_solver("epochs", {K1: {10: 0.8, 20: 0.6, 40: 0.7}, K3: {10: 0.6, 20: 0.8, 40: 0.9}}),
        *by_solver("epochs", {K2: {5: 0.8, 10: 0.795}}),
        *by_solver("epochs", {"iid": {10: 0.8, 20: 0.7}, K2: {10: 0.8, 20: 0.7}}, algorithm="fednova"),
        *by_solver("epochs", {K2: {10: 0.8, 20: 0.7}}, algorithm="scaffold"),
        *by_solver("epochs", {K1: {10: 0.8, 20: 0.7}, K3: {10: 0.795, 20: 0.8}}, dataset="fmnist"),
        *by_solver("epochs", {K2: {10: 0.8, 20: 0.7}}, algorithm="feddyn"),
    ],
    "niid-6": [
        (TENTH, {"wobble": 0.005}),
        ({**TENTH, "algorithm": "scaffold"}, {"accuracy": 0.66, "wobble": 0.005}),
        ({**TENTH, "algorithm": "scaffold(init=random)"}, {"accuracy": 0.5, "wobble": 0.005}),
        ({**TENTH, "algorithm": "fednova"}, {"wobble": 0.005}),
        *[({**TENTH, "algorithm": a, "partition": K2}, {"wobble": 0.08}) for a in ("fednova", "scaffold")],
        ({**TENTH, "partition": K3}, {"wobble": 0.005}),
        ({**TENTH, "algorithm": "scaffold", "partition": NOISE}, 0.3),
        *[({"parties": 100, "algorithm": a, "rounds": 20}, 0.1) for a in ("fedavg", "scaffold")],  # all take part
    ],
    "niid-7": [
        *[({"parties": parties}, a) for parties, a in ((10, 0.8), (20, 0.5), (40, 0.795))],
        *[({"parties": parties, "algorithm": "fednova"}, a) for parties, a in ((10, 0.8), (20, 0.9))],
        *[({"parties": parties, "participation": 0.5}, a) for parties, a in ((10, 0.8), (20, 0.5))],
        ({"parties": 10, "algorithm": "scaffold"}, 0.8),
    ],
    "niid-8": [
        *[({"algorithm": a}, n) for a, n in (("fedavg", {"seconds": 2.0, "sent": 100}), ("fedprox", {"seconds": 2.2}))],
        ({"algorithm": "scaffold"}, {"sent": 203}),
        ({"partition": K2}, {"seconds": 2.0, "sent": 100}),
        ({"partition": K2, "algorithm": "fedprox"}, {"seconds": 2.3}),
        ({"partition": K2, "algorithm": "scaffold"}, {"sent": 201}),
        ({"partition": K3}, {"sent": 0}),
        ({"partition": K3, "algorithm": "scaffold"}, {"sent": 0}),
        ({"partition": NOISE, "algorithm": "fedprox"}, {"seconds": 9.0}),
    ],
    "niid-9": [
        *[({"partition": p}, a) for p, a in ((DIRICHLET, 0.8), (NOISE, 0.7), (f"{DIRICHLET} + {NOISE}", 0.6))],
        ({"partition": f"{K2} + {NOISE}"}, 0.1),  # one of its parts was not run
        *[({"partition": p, "algorithm": "fednova"}, 0.7) for p in (NOISE, K2, f"{K2} + {NOISE}")],
    ],
    "niid-10": [
        *by_solver("batch", {"iid": {16: 0.8, 64: 0.9, 256: 0.7}, K2: {16: 0.6, 64: 0.3, 256: 0.51}}),
        *by_solver("batch", {K3: {16: 0.6, 64: 0.5, 256: 0.55}, NOISE: {16: 0.6, 64: 0.5}}),
        *by_solver("batch", {K2: {16: 0.6, 256: 0.5}}, algorithm="fednova"),  # without iid
        *by_solver("batch", {"iid": {16: 0.12, 256: 0.12}, K2: {16: 0.1, 256: 0.1}}, algorithm="scaffold"),
    ],
    "niid-11": [
        *[
            ({"partition": p, "model": f"resnet(depth={depth}{norm})", "rounds": 20}, {"wobble": size})
            for p in ("iid", K2)
            for depth, norm, size in ((20, "", 0.08), (20, ", norm=group", 0.01), (50, "", 0.01))
        ],
        ({"partition": K2, "model": "vgg9", "rounds": 20}, {"wobble": 0.075}),
        ({"partition": K2, "model": "cnn", "rounds": 20}, {"wobble": 0.001}),
    ],
}  # fmt: skip

EMDS = [
    ({**zhao(), "partition": f"target-emd(emd={e})"}, a)
    for e, a in ((0.0, 0.8), (0.48, 0.79), (1.47, 0.7), (1.62, 0.6), (1.8, 0.5))
]


def measured(emd: float, *layers: float | None, **more: Any) -> Cell:
    """Return a cell by its EMD, with the divergence of each layer; None is that of a layer of zeros."""
    choices = {**zhao(), "partition": f"target-emd(emd={emd})", "rounds": 1, "measure": "weight-divergence", **more}
    return choices, {"layers": layers}


def shared(arguments: str, accuracy: float, **more: Any) -> Cell:
    return {**zhao(), "partition": f"{ONE} + share({arguments})", **more}, accuracy


def pooled(batch: int, rounds: int, accuracy: float) -> Cell:
    return {**zhao(batch=batch), "algorithm": "combined", "rounds": rounds}, accuracy


def begun(arguments: str, accuracy: float) -> Cell:
    return {**zhao(), "partition": ONE, "start": f"centralised({arguments})"}, accuracy


ZHAO: dict[str, list[Cell]] = {
    "zhao-1": [
        *EMDS,
        *[({**zhao(), "partition": p}, a) for p, a in (("iid", 0.7), ("shards", 0.71), (ONE, 0.7))],
        *[({**zhao(), "partition": f"target-emd(emd={e})", "rounds": 4}, 0.3) for e in (0.0, 1.8)],
        *[({**zhao(), "partition": f"target-emd(emd={e})", "dataset": "mnist"}, 0.9 - e / 10) for e in (0.0, 1.0)],
        *[({**zhao(), "partition": f"target-emd(emd={e})", "dataset": "svhn"}, 0.9) for e in (1.6, 1.8)],
        *[({**zhao(), "partition": f"target-emd(emd={e})", "algorithm": "fednova"}, 0.9 - e / 3) for e in (0.0, 1.8)],
    ],
    "zhao-2": [
        measured(0.0, 0.02, 0.02, 0.0, 0.02), measured(1.08, 0.1, 0.01, 0.04, 0.1),
        measured(1.8, 0.3, 0.1, 0.1, 0.0218),
        measured(0.0, 0.1, 0.1, 0.1, 0.1, dataset="mnist"), measured(1.8, 0.3, 0.2, 0.3, 0.105, dataset="mnist"),
        measured(0.0, None, 0.1, 0.1, 0.1, dataset="svhn"), measured(1.8, None, 0.3, 0.2, 0.3, dataset="svhn"),
    ],
    "zhao-3": [
        measured(0.0, 0.02, 0.02, 0.02, 0.02), measured(1.08, 0.9, 0.9, 0.9, 0.9), measured(1.8, 0.3, 0.2, 0.25, 0.2),
    ],
    "zhao-4": [
        *[({**zhao(epochs), "partition": ONE}, a) for epochs, a in ((1, 0.44), (3, 0.9), (5, 0.448))],
        *[({**zhao(epochs, 10), "partition": ONE}, a) for epochs, a in ((1, 0.44), (5, 0.47))],
        *[({**zhao(epochs), "partition": "iid"}, a) for epochs, a in ((1, 0.44), (5, 0.9))],
        *[({**zhao(epochs, 20), "partition": ONE}, 0.5) for epochs in (1, 3)],
    ],
    "zhao-5": [
        ({**zhao(), "partition": ONE}, 0.44),
        shared("beta=0.05", 0.63), shared("beta=0.1, alpha=0.5", 0.65), shared("beta=0.1", 0.9),
        ({**zhao(), "partition": "shards + share(beta=0.05)"}, 0.9),
        ({**zhao(), "partition": "shards"}, 0.3),
        shared("beta=0.05", 0.9, dataset="mnist"),
    ],
    "zhao-6": [
        shared("beta=0.1", 0.74), shared("beta=0.1, alpha=0.5", 0.747), shared("beta=0.1, alpha=0.75", 0.72),
        shared("beta=0.1, alpha=0.25", 0.5), shared("beta=0.2, alpha=0.5", 0.5),
        *[shared(f"beta=0.1{alpha}", a, dataset="mnist") for alpha, a in (("", 0.1), (", alpha=0.5", 0.1))],
    ],
    "zhao-7": [
        (zhao(), 0.8), ({**zhao(batch=1000), "algorithm": "combined"}, 0.807),
        (zhao(batch=10), 0.8), ({**zhao(), "algorithm": "combined"}, 0.9),
        (zhao(5), 0.6), ({**zhao(), "partition": ONE}, 0.4),
        ({**zhao(), "start": "centralised(rounds=7)"}, 0.5),
    ],
    "zhao-8": [
        pooled(1000, 7, 0.8), pooled(100, 7, 0.5), pooled(1000, 9, 0.6),
        begun("rounds=7, batch=1000", 0.806), begun("rounds=7", 0.6), begun("rounds=9, batch=1000", 0.55),
        begun("rounds=3", 0.9),
        ({**zhao(), "partition": "shards", "start": "centralised(rounds=7)"}, 0.9),
        ({**zhao(), "partition": ONE}, 0.9),
    ],
}  # fmt: skip


def norms(partition: str, accuracies: dict[str, float], algorithm: str = "bsp", **more: Any) -> list[Cell]:
    return [({**hsieh(algorithm, partition, f"lenet(norm={norm})"), **more}, a) for norm, a in accuracies.items()]


def contest(partition: str, bytes_: tuple[float, ...], scout: float = 0.77, method: str = "gaia") -> list[Cell]:
    """Return BSP, two settings of a method and SkewScout with the bytes that they send."""
    two = {"gaia": ("gaia(threshold=0.02)", "gaia(threshold=0.05)"), "dgc": ("dgc(warmup=8.0)", "dgc(warmup=4.0)")}
    cells = [hsieh(name, partition) for name in ("bsp", *two[method])]
    numbers: list[Number] = [{"accuracy": 0.77, "sent": each} for each in bytes_[:3]]
    return [
        *zip(cells, numbers, strict=True),
        ({**hsieh(method, partition), "controller": SCOUT}, {"accuracy": scout, "sent": bytes_[3]}),
    ]


def dealt(algorithm: str, accuracies: dict[float, float]) -> list[Cell]:
    """Return cells by the percentage of rows that are dealt by label."""
    return [(hsieh(algorithm, f"label-percent(percent={percent})"), a) for percent, a in accuracies.items()]


def by_parties(partition: str, **accuracies: dict[int, float]) -> list[Cell]:
    """Return cells of some algorithms by the number of parties."""
    return [
        (hsieh(algorithm, partition, parties=parties), accuracy)
        for algorithm, row in accuracies.items()
        for parties, accuracy in row.items()
    ]


def diagnosed(measure: str, number: str, *cells: tuple[str, str, Any], **more: Any) -> list[Cell]:
    """Return cells by algorithm and partition, with a number that they have measured of themselves."""
    return [({**hsieh(m, p, **more), "measure": measure}, {number: value}) for m, p, value in cells]


HSIEH: dict[str, list[Cell]] = {
    "quagmire-1": [
        (hsieh(), 0.77), (hsieh("gaia"), 0.76), (hsieh("gaia(threshold=0.3)"), 0.74), (hsieh("dgc"), 0.79),
        (hsieh("gaia", SPLIT), 0.2), ({**hsieh("gaia"), "controller": SCOUT}, 0.2), (hsieh("fednova"), 0.2),
        ({**hsieh(), "dataset": "mnist"}, 0.1), ({**hsieh("gaia"), "dataset": "mnist"}, 0.1),
    ],
    "quagmire-2": [
        (hsieh(), 0.77), (hsieh("gaia", SPLIT), 0.74), (hsieh("dgc", SPLIT), 0.76), (hsieh("gaia", REGIONS), 0.6),
        (hsieh("gaia", MILD), 0.1), (hsieh("gaia"), 0.1), (hsieh("bsp", SPLIT), 0.1),
    ],
    "quagmire-5": [
        *norms("iid", {"batch": 0.78, "group": 0.79, "batch-renorm": 0.78}),
        *norms(SPLIT, {"batch": 0.65, "group": 0.78, "batch-renorm": 0.7}),
        *norms(SPLIT, {"group": 0.5, "batch-renorm": 0.9}, dataset="mnist"),
        *norms(MILD, {"batch": 0.5, "group": 0.6}),
    ],
    "quagmire-6": [
        *norms(SPLIT, {"batch": 0.5, "group": 0.6, "batch-renorm": 0.7}, "gaia"),
        *norms(SPLIT, {"batch": 0.5, "group": 0.505}, "gaia(threshold=0.3)"),
        *norms(SPLIT, {"group": 0.5}, "dgc"), *norms(SPLIT, {"batch": 0.5}, "bsp"),
        *norms("iid", {"batch": 0.5, "group": 0.9}, "dgc"),
    ],
    "quagmire-7": [
        *dealt("gaia", {80.0: 0.7, 20.0: 0.78, 40.0: 0.6, 60.0: 0.65}), *dealt("dgc", {60.0: 0.78, 20.0: 0.785}),
        (hsieh("gaia(threshold=0.3)", MILD), 0.9), (hsieh("gaia", "iid"), 0.9),
    ],
    "quagmire-8": [
        *[(hsieh(f"gaia(threshold={t})", SPLIT), a) for t, a in ((0.3, 0.5), (0.1, 0.9), (0.02, 0.7))],
        *[(hsieh(f"dgc(warmup={w})", SPLIT), a) for w, a in ((1.0, 0.6), (8.0, 0.605), (4.0, 0.2))],
        *[(hsieh(f"gaia(threshold={t})", MILD), 0.5) for t in (0.3, 0.02)], (hsieh("fedavg(iter_local=5)", SPLIT), 0.9),
    ],
    "quagmire-9": [
        *[({**hsieh("bsp", p, m), "measure": "norm-divergence"}, {"channel": c}) for m, p, c in (
            ("lenet(norm=batch)", "iid", 0.1), ("lenet(norm=batch)", SPLIT, 0.12), ("lenet(norm=batch)", MILD, 0.9),
            ("resnet(depth=20)", "iid", 0.1), ("resnet(depth=20)", SPLIT, 0.105), ("lenet(norm=group)", SPLIT, 0.5),
        )],
        (hsieh("bsp", SPLIT, "lenet(norm=batch)"), 0.7),
    ],
    "quagmire-10": [
        *norms("iid", {"batch": 0.78, "group": 0.79, "batch-renorm": 0.78}),
        *norms(SPLIT, {"batch": 0.65, "group": 0.78, "batch-renorm": 0.772}),
        *norms(SPLIT, {"group": 0.5, "batch-renorm": 0.9}, dataset="mnist"),
    ],
    "quagmire-11": [
        *by_parties(SPLIT, bsp={5: 0.7, 10: 0.7, 20: 0.7}, gaia={5: 0.68, 10: 0.3, 20: 0.6}, dgc={20: 0.2}),
        *by_parties(REGIONS, bsp={5: 0.7, 10: 0.7}, gaia={5: 0.6, 10: 0.595}),
        *by_parties(MILD, bsp={5: 0.7}, gaia={5: 0.7, 10: 0.3}),
        *by_parties("iid", bsp={5: 0.7, 10: 0.7}, gaia={5: 0.7, 10: 0.3}),
    ],
    "quagmire-12": [
        *diagnosed(
            "accuracy-loss", "loss",
            ("gaia(threshold=0.02)", "iid", 0.01), ("gaia(threshold=0.2)", "iid", 0.03), ("gaia", "iid", 0.02),
            ("gaia(threshold=0.2)", SPLIT, 0.4), ("gaia", SPLIT, 0.9), ("gaia(threshold=0.02)", SPLIT, 0.2),
            ("gaia(threshold=0.02)", MILD, 0.9), ("dgc(warmup=8.0)", "iid", 0.1), ("dgc(warmup=8.0)", SPLIT, 0.19),
            ("bsp", SPLIT, 0.9),
        ),
    ],
    "quagmire-13": diagnosed(
        "update-delta", "delta",
        ("gaia", "iid", 0.3), ("gaia", SPLIT, 0.32), ("gaia", MILD, 0.9), ("dgc", "iid", 0.3), ("dgc", SPLIT, 0.34),
        ("gaia(threshold=0.3)", SPLIT, 0.9), ("bsp", "iid", 0.1), ("bsp", SPLIT, 0.9),
    ),
    "quagmire-14": [
        *contest(SPLIT, (1000, 200, 80, 110)), *contest(MILD, (1000, 200, 80, 100)),
        *contest("label-percent(percent=60.0)", (1000, 200, 80, 10), scout=0.74),
        *contest(SPLIT, (1000, 200, 80, 50), method="dgc")[1:], *contest("iid", (1000, 200, 80, 50))[:3],
    ],
    "quagmire-15": [
        *contest(SPLIT, (1000, 200, 80, 110)), *contest(MILD, (1000, 200, 80, 130)),
        *contest("iid", (1000, 200, 80, 90), scout=0.5),
        *contest(SPLIT, (1000, 200, 80, 200), method="dgc")[1:],
        *contest(REGIONS, (1000, 200, 80, 90))[::3],
    ],
    "quagmire-16": diagnosed(
        "replicas", "known",
        ("gaia", "iid", (0.7, 0.62)), ("gaia(threshold=0.3)", "iid", (0.9, 0.5)), ("gaia", SPLIT, (0.7, 0.3)),
        ("gaia(threshold=0.3)", SPLIT, (0.9, 0.3)), ("gaia", MILD, (0.9, 0.0)), ("dgc", SPLIT, (0.9, 0.0)), parties=2,
    ),
}  # fmt: skip

STUDIES = {**NIID, **ZHAO, **HSIEH}
