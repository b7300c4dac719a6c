"""Cases of the findings of OARF (Hu et al., 2022)."""

from typing import Any

from cases import Case, Number

SGD = "sgd(lr=plateau(start=0.1), momentum=0.9, weight_decay=0.0005, epochs={}, batch=128, keep_momentum=True)"
ALPHAS = (0.2, 0.4, 0.6, 0.8, 1.0)
TOP1, TOP03, RANK3, RAND1 = (
    "top-k(fraction=0.01, feedback=False, index=int64)",
    "top-k(fraction=0.003, feedback=False, index=int64)",
    "low-rank(rank=3, warm_start=False, feedback=True, decay=0.5)",
    "rand-k(fraction=0.01, scale=False, feedback=False)",
)
SPLIT2, SPLIT4 = (f"secure-sum(splits={splits}, range=16.0)" for splits in (2, 4))
SLOW = "link(bandwidth=1000Mbps, server=100Mbps)"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def oarf(epochs: int = 1, **choices: Any) -> dict[str, Any]:
    shared = {"dataset": "cifar-10", "parties": 5, "network": "link(bandwidth=1000Gbps)", "split": "10:1:1"}
    return {**shared, "solver": SGD.format(epochs), **choices}


def algorithms(*names: str, **choices: Any) -> list[dict[str, Any]]:
    return [oarf(algorithm=name, **choices) for name in names]


def skewed(*alphas: float) -> list[dict[str, Any]]:
    """The iid cell, label skew by alpha, quantity skew by alpha."""
    label = [oarf(partition=f"label-dirichlet(beta={alpha}, balance=False)") for alpha in alphas]
    quantity = [oarf(partition=f"quantity-dirichlet(beta={alpha}, stratified=True)") for alpha in alphas]
    return [oarf(partition="iid"), *label, *quantity]


def sampled(*names: str) -> list[dict[str, Any]]:
    """FedAvg of all parties, and algorithms with two of five."""
    return [oarf(), *(oarf(algorithm=name, participation=2) for name in names)]


def chains(*transforms: str, **choices: Any) -> list[dict[str, Any]]:
    return [oarf(transforms=chain, **choices) for chain in ("", *transforms)]


def private(*epsilons: float, **choices: Any) -> list[dict[str, Any]]:
    """Private training by epsilon."""
    solver = "dp-sgd(lr=plateau(start=2.0), clip=0.5, epsilon={}, epochs=1, batch=128)"
    return [oarf(**{"solver": solver.format(epsilon), **choices}) for epsilon in epsilons]


def protected(**choices: Any) -> list[dict[str, Any]]:
    """Plain training on a slow link, and the hybrid."""
    solver = "dp-sgd(lr=1.0, clip=0.5, epsilon=1.0, epochs=4, batch=128)"
    chain = "rand-k(fraction=0.01, scale=False) | secure-sum(splits=2, range=16.0)"
    return [oarf(network=SLOW, **choices), oarf(network=SLOW, **{"solver": solver, "transforms": chain, **choices})]


def vertical(*algorithms: str, **choices: Any) -> list[dict[str, Any]]:
    """Ways to train on columns of two parties."""
    shared = {"dataset": "billboard", "partition": "columns", "parties": 2, "split": "10:1:1", "solver": "adam"}
    return [{**shared, "algorithm": name, **choices} for name in algorithms]


def batches(rows: int = 20_000, **parts: float) -> Number:
    """Seconds of the mean party in a round, and its rows."""
    return {"bars": {"parties": parts}, "rows": rows}


def bars(server: dict[str, float], parties: dict[str, float], **others: Any) -> Number:
    """Seconds of server and mean party in a round."""
    return {"bars": {"server": server, "parties": parties}, **others}


def each(key: str, *values: Any, **others: Any) -> list[Number]:
    return [{key: value, **others} for value in values]


SERVER = {"idle": 9.0, "communicate": 1.0}
LONG = {"rounds": 300}  # planned
CASES = {
    "oarf-1": Case(
        algorithms("fedavg", "solo"),
        supported=each("solo", [0.7] * 5, [0.7, 0.75, 0.72, 0.7, 0.71], accuracy=0.8),
        contradicted=each("solo", [0.7] * 5, [0.7, 0.8, 0.72, 0.7, 0.71], accuracy=0.8),
        null={"accuracy": 0.7, "solo": [0.7] * 5},
    ),
    "oarf-2": Case(
        algorithms("fedavg", "combined"),
        supported=[0.893, 0.889],
        contradicted=[0.85, 0.889],
        null=None,
        equality="as good as combined",
    ),
    "oarf-3": Case(
        algorithms("fedavg", "solo", partition="by-group", parties=2),
        supported=each("sources", (0.88, 0.88), (0.87, 0.8), accuracy=0.86),
        contradicted=each("sources", (0.88, 0.88), (0.87, 0.87), accuracy=0.86),
        null={"accuracy": 0.7, "sources": (0.7, 0.7)},
        equality="and not worse on a party's own rows",
    ),
    "oarf-4": Case(
        algorithms("fedavg", "combined", **LONG),
        supported=each("until", 160, 86),
        contradicted=each("until", 90, 86),
        wide=0.6,
        null={"until": 100},
    ),
    "oarf-5": Case(
        algorithms("fedavg", "combined"),
        supported=each("throughput", 3913.0, 1644.0),
        contradicted=each("throughput", 1650.0, 1644.0),
        wide=1.5,
        null={"throughput": 2000.0},
    ),
    "oarf-6": Case(
        algorithms("fedavg", "combined"),
        supported=each("overhead", 0.258, 0.064, idle=0.98),
        contradicted=each("overhead", 0.1, 0.064, idle=0.98),
        null={"overhead": 0.2, "idle": 0.98},
    ),
    "oarf-7": Case(skewed(0.2, 1.0), supported=[0.9, 0.6, 0.75, 0.84, 0.86], contradicted=[0.9, 0.89, 0.9, 0.84, 0.86]),
    "oarf-8": Case(
        skewed(0.2, 1.0),
        supported=each("overhead", 0.26, 0.35, 0.3, 0.7, 0.5),
        contradicted=each("overhead", 0.26, 0.35, 0.5, 0.35, 0.5),
        null={"overhead": 0.3},
    ),
    "oarf-9": Case(
        skewed(*ALPHAS),
        supported=each("throughput", 3900.0, *(2500.0, 2600.0, 2400.0, 2600.0, 2500.0) * 2),
        contradicted=each("throughput", 3900.0, *(2000.0, 2200.0, 2400.0, 2600.0, 2800.0) * 2),
        wide=1.5,
        null={"throughput": 2000.0},
    ),
    "oarf-10": Case(
        sampled("fedavg", "fednova"),
        supported=[0.893, 0.887, 0.888],
        contradicted=[0.85, 0.887, 0.888],
        null=None,
        equality="sampling gains nothing",
    ),
    "oarf-11": Case(
        [*sampled("fedavg", "fednova")[1:], oarf()],
        supported=[0.887, 0.888, 0.893],
        contradicted=[0.887, 0.8, 0.893],
        null=None,
        equality="they are nearly equal",
    ),
    "oarf-12": Case(
        sampled("fedavg", "fednova"),
        supported=each("throughput", 3913.0, overhead=0.26, idle=0.9) + each("overhead", 0.7, 0.7, throughput=1750.0),
        contradicted=each("throughput", 1750.0, overhead=0.7) + each("overhead", 0.7, 0.7, throughput=1750.0),
        wide=1.5,
        null={"throughput": 2000.0, "overhead": 0.3},
    ),
    "oarf-13": Case(
        chains(SPLIT2, SPLIT4, **LONG),
        supported=each("until", 160, 161, 160, accuracy=0.89),
        contradicted=each("accuracy", 0.89, 0.85, 0.85, until=160),
        null=None,
        equality="accuracy is the same",
    ),
    "oarf-14": Case(
        chains(SPLIT2, SPLIT4),
        supported=[
            {"overhead": overhead, "throughput": rate, "sent": sent, "dense": 1000.0}
            for overhead, rate, sent in ((0.25, 3913.0, 1000.0), (0.3, 2021.0, 2000.0), (0.36, 1891.0, 4000.0))
        ],
        contradicted=each("sent", 1000.0, 2000.0, 4000.0, overhead=0.3, throughput=2000.0, dense=1000.0),
        wide=1.5,
        null={"overhead": 0.3, "throughput": 2000.0, "sent": 1000.0, "dense": 1000.0},
    ),
    "oarf-15": Case(
        [oarf(parties=parties, transforms=SPLIT2) for parties in (2, 3)],
        supported=each("subtraction", 0.0, 0.3),
        contradicted=each("subtraction", 0.2, 0.3),
        null={"subtraction": 0.05},
    ),
    "oarf-16": Case(
        private(*EPSILONS),
        supported=[0.58, 0.65, 0.7, 0.75, 0.78, 0.8],
        contradicted=[0.78, 0.79, 0.78, 0.79, 0.78, 0.78],
    ),
    "oarf-17": Case(
        [*private(0.5, 16.0), *private(0.5, 16.0, dataset="imdb", model="bag", parties=2)],
        supported=[0.58, 0.8, 0.84, 0.845],
        contradicted=[0.76, 0.8, 0.84, 0.845],
        equality="texts lose at most 2 points",
    ),
    "oarf-18": Case(
        [*private(0.5, 16.0), oarf()],
        supported=each("throughput", 1040.0, 1042.0, 3913.0, overhead=0.2),
        contradicted=each("throughput", 1040.0, 1042.0, 1041.0, overhead=0.2),
        wide=1.5,
        null={"throughput": 2000.0, "overhead": 0.2},
    ),
    "oarf-19": Case(
        private(*EPSILONS, **LONG),
        supported=each("until", 100, 110, 95, 110, 95, 100, accuracy=0.8),
        contradicted=each("until", 60, 80, 100, 120, 140, 160, accuracy=0.8),
        undecided=each("until", 90, 100, 95, 105, 95, 105, accuracy=0.8),
        null=None,
        equality="the correlation is not strong",
    ),
    "oarf-20": Case(
        [oarf(1, **LONG), oarf(4, **LONG)],
        supported=each("sent", 1000.0, 1050.0, accuracy=0.89, until=20),
        contradicted=each("sent", 1000.0, 400.0, accuracy=0.89, until=20),
        null=None,
        equality="accuracy is nearly the same",
    ),
    "oarf-21": Case(
        chains(TOP1, TOP03, RANK3, RAND1),
        supported=[
            {"accuracy": accuracy, "sent": sent, "dense": 1000.0}
            for accuracy, sent in ((0.893, 1000.0), (0.848, 30.0), (0.8, 9.0), (0.7, 10.0), (0.4, 10.0))
        ],
        contradicted=each("sent", 1000.0, 30.0, 9.0, 10.0, 10.0, accuracy=0.89, dense=1000.0),
        null={"accuracy": 0.7, "sent": 100.0},
    ),
    "oarf-22": Case(
        chains(TOP1, RANK3, **LONG),
        supported=[{"until": 100, "sent": 1000.0}, *each("until", 150, 140, sent=50.0, dense=1500.0)],
        contradicted=[{"until": 100, "sent": 1000.0}, *each("until", 101, 100, sent=50.0, dense=1500.0)],
        wide=0.9,
        null={"until": 100, "sent": 1000.0},
    ),
    "oarf-23": Case(
        [*chains(TOP1, RANK3), *chains(TOP1, RANK3, dataset="mnist")],
        supported=[0.893, 0.848, 0.78, 0.863, 0.75, 0.844],
        contradicted=[0.893, 0.848, 0.78, 0.863, 0.844, 0.75],
    ),
    "oarf-24": Case(
        chains(TOP1, TOP1.replace("False", "True"), RAND1, RAND1.replace("feedback=False", "feedback=True")),
        supported=[0.893, 0.848, 0.88, 0.4, 0.6],
        contradicted=[0.893, 0.848, 0.848, 0.4, 0.4],
    ),
    "oarf-25": Case(
        protected(),
        supported=[bars({"idle": 8.0, "communicate": 2.0}, {"train": 7.0, "communicate": 2.0, "idle": 1.0})] * 2,
        contradicted=[bars({"idle": 3.0, "communicate": 7.0}, {"train": 3.0, "communicate": 7.0})] * 2,
        wide=0.9,
        null=bars({"idle": 5.0, "communicate": 5.0}, {"train": 5.0, "idle": 5.0}),
    ),
    "oarf-26": Case(
        protected(),
        supported=[
            bars(SERVER, {"train": 1.0, "communicate": 1.0, "idle": 0.2}, rows=1000),
            bars(SERVER, {"train": 8.0, "encode": 1.0, "encrypt": 0.5, "communicate": 0.5}, rows=4000),
        ],
        contradicted=[
            bars(SERVER, {"train": 1.0, "communicate": 1.0, "idle": 0.2}, rows=1000),
            bars(SERVER, {"train": 4.0, "encode": 0.0, "encrypt": 0.01, "communicate": 1.0}, rows=4000),
        ],
        wide=0.9,
        null=bars(SERVER, {"train": 1.0, "encode": 0.1, "encrypt": 0.01, "communicate": 1.0}, rows=1000),
    ),
    "oarf-27": Case(
        [*protected(), *protected(dataset="mnist", model="linear")],
        supported=[
            bars({"idle": 8.0, "communicate": seconds}, {"train": 8.0}, sent=sent)
            for seconds, sent in ((2.0, 2e6), (1.0, 2e6), (0.2, 2e5), (0.1, 2e5))
        ],
        contradicted=[
            bars({"idle": 8.0, "communicate": 1.0}, {"train": 8.0}, sent=sent) for sent in (2e6, 2e6, 2e5, 2e5)
        ],
        wide=0.9,
        null=bars({"idle": 8.0, "communicate": 1.0}, {"train": 8.0}, sent=2e6),
    ),
    "oarf-28": Case(
        vertical("split", "combined"),
        supported=each("error", 6.08, 6.1),
        contradicted=each("error", 6.5, 6.1),
        null=None,
        equality="as good as combined",
    ),
    "oarf-29": Case(
        vertical("split", "solo(party=audio)", "solo(party=chart)"),
        supported=each("error", 6.08, 3.16, 7.36),
        contradicted=each("error", 6.08, 6.5, 7.36),
        null={"error": 6.0},
    ),
    "oarf-30": Case(
        vertical("split", "combined", "solo(party=audio)", "solo(party=chart)"),
        supported=each("throughput", 19600.0, 23100.0, 26300.0, 39300.0),
        contradicted=each("throughput", 23200.0, 23100.0, 26300.0, 39300.0),
        wide=1.5,
        null={"throughput": 20000.0},
    ),
    "oarf-31": Case(
        vertical("split", "split(encryption=ckks)", "split(encryption=paillier)"),
        supported=[batches(train=1.0, communicate=0.1), *[batches(train=1.0, encrypt=90.0, communicate=0.5)] * 2],
        contradicted=[batches(train=1.0, communicate=0.1), *[batches(train=1.0, encrypt=0.1, communicate=0.1)] * 2],
        wide=0.9,
        null=batches(train=1.0, encrypt=0.1, communicate=0.1),
    ),
}
