"""Small experiments, and what single parts need besides: arguments without defaults, other data, another algorithm."""

from typing import Any

ROWS: dict[str, Any] = {
    "dataset": "breast-cancer",
    "partition": "label-dirichlet(beta=0.5)",
    "parties": 4,
    "model": "mlp(8)",
    "solver": "sgd(lr=0.05, steps=3, batch=16)",
    "rounds": 3,
}
COLUMNS: dict[str, Any] = {
    "dataset": "breast-cancer",
    "partition": "columns(by=block)",
    "parties": 2,
    "model": "mlp(hidden=[4], top=[4])",
    "solver": "adam(lr=0.01, epochs=1, batch=64)",
    "rounds": 2,
}
VERTICAL = ("defences", "vertical-algorithms", "vertical-measures", "vertical-models")  # whose parties have columns

# By registry: the key of an experiment that takes its parts, and how a part is written there.
KEYS = {
    "adversaries": ("adversary", "{}"),
    "aggregates": ("aggregate", "{}"),
    "algorithms": ("algorithm", "{}"),
    "availabilities": ("availability", "{}"),
    "clocks": ("clock", "{}"),
    "controllers": ("controller", "{}"),
    "defences": ("algorithm", "split(defence={})"),
    "exchanges": ("exchange", "{}"),
    "measures": ("measure", "{}"),
    "metrics": ("metric", "{}"),
    "models": ("model", "{}"),
    "networks": ("network", "{}"),
    "objectives": ("objective", "{}"),
    "paces": ("pace", "{}"),
    "partitions": ("partition", "{}"),
    "schedules": ("solver", "sgd(lr={}, steps=3, batch=16)"),
    "selections": ("selection", "{}"),
    "servers": ("server", "{}"),
    "solvers": ("solver", "{}"),
    "starts": ("start", "{}"),
    "transforms": ("transforms", "{}"),
    "vertical-algorithms": ("algorithm", "{}"),
    "vertical-measures": ("measure", "{}"),
    "vertical-models": ("model", "{}"),
}
# Registries without a row, and why.
ELSEWHERE = {
    "codecs": "transforms and algorithms choose them",
    "datasets": "their bits are checksums, which are part of every run id",
    "engines": "they are columns of the matrix",
    "executors": "they are columns of the matrix",
}

_DIGITS = {"dataset": "digits", "solver": "sgd(lr=0.05, steps=2, batch=16)", "rounds": 2}
_FACES = {**_DIGITS, "dataset": "synthetic-faces(identities=8, pictures=6)", "partition": "iid"}
_REVIEWS = {**_DIGITS, "dataset": "synthetic-reviews(rows=200)", "partition": "iid", "parties": 2}
_PEOPLE = {"dataset": "csv(path=FILES/people.csv, label=age)", "partition": "iid"}
_RATINGS = {"dataset": "csv(path=FILES/ratings.csv, label=rating, task=regression)"}
_STEPWISE = {"solver": "sgd(lr=0.05, batch=16)"}
_SLOW_LINKS = {"clock": "device(speed=100, spread=0.8)", "network": "link(bandwidth=1Mbps, spread=0.5)"}
_NOISY_SOLVER = "dp-sgd(noise=1.0, steps=3, batch=16, reproducible=True)"

# By registry and part: its text with arguments, or further choices. The name "" has the choices of all parts.
EXAMPLES: dict[str, dict[str, str | dict[str, Any]]] = {
    "adversaries": {"": {"parties": 8}},
    "aggregates": {"": {"parties": 8}, "trimmed-mean": "trimmed-mean(share=0.2)"},
    "algorithms": {
        "": {"solver": "sgd(lr=0.05, steps=3, batch=16, keep_momentum=True)"},
        **dict.fromkeys(("bsp", "dgc", "gaia", "fedsgd"), _STEPWISE),
        "fedbn": {**_DIGITS, "model": "lenet(norm=batch)"},
        "fedrep": {"algorithm": "fedrep(head_epochs=1)", "solver": "sgd(lr=0.05, epochs=1, batch=16)"},
        "finetune": "finetune(fedavg)",
    },
    "availabilities": {"": {"parties": 8}},
    "controllers": {
        "oracle": {"algorithm": "gaia", **_STEPWISE, "controller": "oracle(grid=[0.1, 0.2])"},
        "skewscout": {"algorithm": "gaia", **_STEPWISE, "controller": "skewscout(period=1, sample=20)"},
    },
    "exchanges": {"": {"parties": 8, "participation": 0.75}},
    "measures": {
        "accuracy-loss": "accuracy-loss(every=1, sample=20)",
        "canaries": {"measure": "canaries(count=20)", "solver": _NOISY_SOLVER},
        "inversion": {**_DIGITS, "model": "cnn", "measure": "inversion(steps=5)"},
        "membership": "membership(rows=50)",
        "norm-divergence": {
            **_DIGITS,
            "model": "lenet(norm=batch)",
            "algorithm": "bsp",
            "solver": "sgd(lr=0.05, batch=16)",
            "measure": "norm-divergence(every=1, minibatches=2)",
        },
        "replicas": {"algorithm": "gaia", **_STEPWISE, "measure": "replicas(every=1)"},
        "subtraction": "subtraction(every=1)",
        "update-delta": {"algorithm": "gaia", **_STEPWISE, "measure": "update-delta(every=1)"},
        "weight-divergence": {"solver": "sgd(lr=0.05, epochs=1, batch=16)"},
    },
    "metrics": dict.fromkeys(("median-error", "percentage-error"), _PEOPLE),
    "models": {
        "": {**_DIGITS, "parties": 3},
        "alexnet": "alexnet(width=0.1)",
        "bag": _REVIEWS,
        "face-cnn": _FACES,
        "googlenet": "googlenet(stem=small, width=0.1)",
        "gru": {**ROWS, "model": "gru(hidden=4, layers=1)"},
        "kws": {**_FACES, "dataset": "synthetic-faces(identities=8, pictures=6)"},
        "linear": ROWS | {"model": "linear"},
        "lstm": {**_REVIEWS, "model": "lstm(hidden=4, vectors=random-6d)"},
        "mcmahan-cifar": _FACES,
        "mlp": ROWS | {"model": "mlp"},
        "module": ROWS | {"model": "module(path=FILES/net.py:net)"},
        "resnet": "resnet(depth=20, norm=group)",
    },
    "objectives": {
        "regression": _PEOPLE,
        "verification": {**_FACES, "model": "face-cnn"},
    },
    "paces": {"": {"parties": 8, **_SLOW_LINKS}, "buffered": "buffered(size=2)"},
    "partitions": {
        "by-group": {"dataset": "synthetic(parties=4)"},
        "columns": {**COLUMNS, "partition": "columns(by=block)"},
        "label-count": "label-count(k=1)",
        "label-dirichlet": "label-dirichlet(beta=0.5)",
        "label-pair": {"dataset": "digits", "parties": 10},
        "label-percent": "label-percent(percent=50)",
        "like": {"partition": "like(reference=FILES/counts.csv)", "parties": 2},
        "noise": "noise(sigma=0.1)",
        "octants": {"dataset": "fcube"},
        "quantity-dirichlet": "quantity-dirichlet(beta=0.5)",
        "share": {"partition": "shards + share(beta=0.1)", "parties": 2},
        "shards": {"parties": 2},
        "target-emd": "target-emd(emd=0.4)",
    },
    "schedules": {
        "constant": "constant(0.05)",
        "exponential": "exponential(0.05, decay=0.9)",
        "plateau": {"solver": "sgd(lr=plateau(0.05, patience=1), steps=3, batch=16)", "validation": 0.2},
        "polynomial": "polynomial(0.05, over=4)",
        "step": "step(0.05, at=[2])",
        "warmup": "warmup(0.05, over=2)",
    },
    "selections": {"": {"parties": 8, "participation": 0.5}, "poisson": "poisson(reproducible=True)"},
    "solvers": {
        "adam": "adam(steps=3, batch=16, keep_moments=True)",
        "dp-sgd": _NOISY_SOLVER,
        "sgd": "sgd(steps=3, batch=16, keep_momentum=True)",
    },
    "starts": {"centralised": "centralised(rounds=2)", "run": "run(path=ORIGIN)"},
    "transforms": {
        "error-feedback": "error-feedback | sign",
        "gaussian-noise": "clip(norm=1.0) | gaussian-noise(multiplier=1.0, reproducible=True)",
        "low-rank": "low-rank(rank=1)",
        "rand-k": "rand-k(fraction=0.2)",
        "secure-sum": "clip(norm=1.0) | secure-sum(splits=2)",
        "skellam-noise": "clip(norm=1.0) | skellam-noise(multiplier=1.0, reproducible=True) | secure-sum",
        "top-k": "top-k(fraction=0.2)",
    },
    "vertical-algorithms": {
        "boosted-trees": "boosted-trees(leaves=4)",
        "joined-trees": "joined-trees(leaves=4)",
    },
    "vertical-models": {
        "dlrm": "dlrm(embedding=4, top=[8])",
        "ncf": {**_RATINGS, "model": "ncf(embedding=4, top=[4])", "partition": "columns(by=block)"},
        "oarf-mlp": _PEOPLE | {"partition": "columns(by=block)"},
    },
}

# Runs in which many parts with memories meet.
TOGETHER: list[dict[str, Any]] = [
    {
        **ROWS,
        **_SLOW_LINKS,
        "parties": 8,
        "participation": 0.75,
        "validation": 0.2,
        "solver": "adam(lr=warmup(plateau(0.01, patience=1), over=3), steps=2, batch=8, keep_moments=True)",
        "transforms": "clip(norm=5) | top-k(fraction=0.2)",
        "pace": "buffered(size=3)",
        "availability": "dropout(rate=0.2)",
        "server": "adam(lr=0.05)",
        "rounds": 6,
    },
    {
        **ROWS,
        "parties": 8,
        "participation": 0.5,
        "algorithm": "scaffold",
        "solver": "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)",
        "transforms": "low-rank(rank=1, decay=0.5) | quantize(bits=4)",
        "broadcast": "low-rank(rank=1) | quantize(bits=4)",
        "rounds": 4,
    },
    {
        **ROWS,
        "parties": 8,
        "algorithm": "fedprox(mu=0.1)",
        "exchange": "gossip(graph=ring)",
        "availability": "dropout(rate=0.2)",
        "solver": "adam(lr=0.01, steps=2, batch=8, keep_moments=True)",
        "rounds": 4,
    },
    {
        **ROWS,
        "algorithm": "ditto(lam=0.5, epochs=1)",
        "transforms": "secure-sum(protocol=pairwise, range=10)",
        "rounds": 2,
    },
    {**ROWS, "solver": _NOISY_SOLVER, "selection": "poisson(reproducible=True)", "participation": 0.5, "parties": 8},
    {**ROWS, "partition": "iid", "parties": 40, "algorithm": "scaffold", "rounds": 2},  # several stacks
]
