"""Cases of the findings of the quagmire study (Hsieh et al., 2020)."""

from typing import Any

from cases import Case, Number

SPLIT, MILD = "label-percent(percent=100.0)", "label-percent(percent=20.0)"
METHODS = ("gaia", "fedavg(iter_local=20)", "dgc(warmup=8.0)")
SCOUT = "skewscout(period=25, sample=100)"


def hsieh(algorithm: str = "bsp", partition: str = "iid", model: str = "lenet", parties: int = 5) -> dict[str, Any]:
    solver = "sgd(lr=0.002, weight_decay=0.0005, steps=1, batch=20, keep_momentum=True)"
    shared = {"dataset": "cifar-10", "solver": solver, "controller": "fixed", "rounds": 2}
    return {**shared, "algorithm": algorithm, "partition": partition, "model": model, "parties": parties}


def contest(partition: str) -> list[dict[str, Any]]:
    """BSP, two settings of Gaia and SkewScout."""
    fixed = [hsieh(name, partition) for name in ("bsp", "gaia(threshold=0.02)", "gaia(threshold=0.05)")]
    return [*fixed, {**hsieh("gaia", partition), "controller": SCOUT}]


def sent(*bytes_: float, accuracy: float = 0.77) -> list[Number]:
    """Bytes of each cell; all but BSP have this accuracy."""
    first, *rest = bytes_
    return [{"accuracy": 0.77, "sent": first}, *({"accuracy": accuracy, "sent": each} for each in rest)]


NORMED = [hsieh("bsp", partition, f"lenet(norm={norm})") for norm in ("batch", "group") for partition in ("iid", SPLIT)]
RENORMED = [
    hsieh("bsp", partition, f"lenet(norm={norm})") for norm in ("batch", "batch-renorm") for partition in ("iid", SPLIT)
]
TRAVELLED = [
    {**hsieh(f"gaia(threshold={t})", p), "measure": "accuracy-loss"} for p in ("iid", SPLIT) for t in (0.02, 0.2)
]
DELTAS = [{**hsieh(method, p), "measure": "update-delta"} for p in ("iid", SPLIT) for method in ("bsp", *METHODS)]

CASES = {
    "quagmire-1": Case(
        [hsieh(method) for method in ("bsp", *METHODS)],
        supported=[0.77, 0.77, 0.77, 0.77],
        contradicted=[0.77, 0.6, 0.6, 0.6],
        null=None,
        equality="as good as BSP",
    ),
    "quagmire-2": Case(
        [hsieh(), *(hsieh(method, SPLIT) for method in METHODS)],
        supported=[0.77, 0.5, 0.5, 0.5],
        contradicted=[0.77, 0.77, 0.77, 0.77],
    ),
    "quagmire-3": Case(
        [hsieh(), hsieh(partition=SPLIT)],
        supported=[0.77, 0.77],
        contradicted=[0.77, 0.6],
        null=None,
        equality="it keeps its accuracy",
    ),
    "quagmire-4": Case(NORMED[:2], supported=[0.77, 0.5], contradicted=[0.77, 0.77]),
    "quagmire-5": Case(
        NORMED,
        supported=[0.78, 0.65, 0.79, 0.79],
        contradicted=[0.78, 0.65, 0.79, 0.65],
        equality="as good as on iid data",
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
    "quagmire-10": Case(RENORMED, supported=[0.788, 0.654, 0.781, 0.73], contradicted=[0.788, 0.654, 0.781, 0.6]),
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
        equality="it keeps BSP's accuracy",
    ),
    "quagmire-15": Case(
        contest(SPLIT),
        supported=sent(1000, 200, 80, 100),
        contradicted=sent(1000, 200, 80, 200),
        undecided=[*sent(1000, 200, 80), {"accuracy": 0.6, "sent": 100}],  # SkewScout has lost the accuracy
        null=None,
        equality="near Oracle",
    ),
    "quagmire-16": Case(
        [{**hsieh("gaia(threshold=0.4)", p, parties=2), "measure": "replicas"} for p in ("iid", SPLIT)],
        supported=[{"known": (0.7, 0.7)}, {"known": (0.9, 0.0)}],
        contradicted=[{"known": (0.7, 0.7)}, {"known": (0.7, 0.7)}],
        wide=0.6,
        null={"known": (0.7, 0.7)},
        equality="all equal when iid",
    ),
}
