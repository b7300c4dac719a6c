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


def each(key: str, *values: Any, **others: Any) -> list[Number]:
    return [{key: value, **others} for value in values]


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
}
