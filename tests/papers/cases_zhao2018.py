"""Cases of the findings of Zhao et al. (2018)."""

from typing import Any

from cases import Case

ONE = "shards(per_party=1)"


def zhao(epochs: int = 1, batch: int = 100) -> dict[str, Any]:
    return {
        "dataset": "cifar-10",
        "solver": f"sgd(lr=0.1, momentum=0.0, weight_decay=0.0, epochs={epochs}, batch={batch})",
    }


TARGETS = [{**zhao(), "partition": f"target-emd(emd={emd})"} for emd in (0.0, 0.72, 1.44, 1.8)]
DIVERGING = [
    {**zhao(), "partition": f"target-emd(emd={emd})", "rounds": 1, "measure": "weight-divergence"}
    for emd in (0.0, 1.08, 1.8)
]
FLAT, MIDDLE = (0.02, 0.02, 0.02, 0.02), (0.1, 0.05, 0.04, 0.1)
SHARED = [{**zhao(), "partition": f"{ONE} + share(beta=0.1{alpha})"} for alpha in ("", ", alpha=0.5", ", alpha=0.75")]

CASES = {
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
        equality="five epochs gain nothing",
    ),
    "zhao-5": Case(
        [{**zhao(), "partition": f"{ONE}{share}"} for share in ("", " + share(beta=0.1, alpha=0.5, warmup=5)")],
        supported=[0.44, 0.74],
        contradicted=[0.44, 0.5],
    ),
    "zhao-6": Case(
        SHARED,
        supported=[0.74, 0.74, 0.74],
        contradicted=[0.74, 0.6, 0.6],
        null=None,
        equality="half of G is enough",
    ),
    "zhao-7": Case(
        [zhao(), {**zhao(batch=1000), "algorithm": "combined"}],
        supported=[0.8, 0.8],
        contradicted=[0.8, 0.85],
        null=None,
        equality="FedAvg on iid data equals SGD",
    ),
    "zhao-8": Case(
        [
            {**zhao(batch=1000), "algorithm": "combined", "rounds": 7},
            {**zhao(), "partition": ONE, "start": "centralised(rounds=7, batch=1000)"},
        ],
        supported=[0.8, 0.8],
        contradicted=[0.8, 0.9],
        null=None,
        equality="FedAvg does not improve it",
    ),
}
