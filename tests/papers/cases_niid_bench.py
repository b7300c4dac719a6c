"""Cases of the findings of NIID-Bench."""

from cases import Case, all_of

DIRICHLET, NOISE = "label-dirichlet(beta=0.5)", "noise(sigma=0.1)"
ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova")
EPOCHS = {epochs: f"sgd(lr=0.01, epochs={epochs}, batch=64)" for epochs in (10, 20)}
BATCHES = {batch: f"sgd(lr=0.01, epochs=10, batch={batch})" for batch in (16, 256)}
TENTH = {"parties": 100, "participation": 0.1, "rounds": 20}

CASES = {
    "niid-1": Case(
        all_of("partition", "iid", "label-count(k=1)", "label-count(k=2)", NOISE, "quantity-dirichlet(beta=0.5)"),
        supported=[0.9, 0.3, 0.6, 0.9, 0.9],
        contradicted=[0.9, 0.7, 0.6, 0.9, 0.9],
        equality="feature and quantity skew hardly hurt FedAvg",
    ),
    "niid-2": Case(
        [{"partition": p, "algorithm": name} for p in ("iid", "label-count(k=2)") for name in ALGORITHMS],
        supported=[0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.7, 0.4],
        contradicted=[0.9, 0.8, 0.7, 0.6, 0.9, 0.5, 0.7, 0.4],
    ),
    "niid-3": Case(
        [
            *({"partition": DIRICHLET, "algorithm": name} for name in ALGORITHMS),
            {"partition": "iid"},
            {"dataset": "cifar-10"},
            {"dataset": "cifar-10", "partition": DIRICHLET},
        ],
        supported=[0.97, 0.97, 0.97, 0.97, 0.98, 0.7, 0.6],
        contradicted=[0.97, 0.97, 0.97, 0.97, 0.98, 0.7, 0.7],
        equality="on MNIST all are nearly equal",
    ),
    "niid-4": Case(
        [{"partition": "label-count(k=2)", "algorithm": name, "rounds": 20} for name in ALGORITHMS],
        supported=[{"wobble": 0.005}, {"wobble": 0.005}, {"wobble": 0.08}, {"wobble": 0.08}],
        contradicted=[{"wobble": 0.08}, {"wobble": 0.08}, {"wobble": 0.005}, {"wobble": 0.005}],
        wide=3.0,
        null={"swing": 1.0},
        equality="FedProx is as fast as FedAvg",
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
        equality="skew does not change the effect of the batch size",
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
}
