"""Ditto (Li et al., ICML 2021)."""

from silobench.method.types import ALGORITHMS, Algorithm, Count, Local, Memory, NonNegative, Pull, Server, Train, Vector


@ALGORITHMS.register
def ditto(lam: NonNegative = 0.1, epochs: Count | None = None) -> Algorithm:
    """FedAvg, and beside it each party trains a model of its own that is pulled towards the shared one.

    Ditto: Fair and Robust Federated Learning Through Personalization, Li et al., ICML 2021. In a round, party i gets
    the shared model w, trains it as in FedAvg and sends the change. Its own model v_i, which is never sent, takes steps
    from where it was on

        f_i(v) + (λ / 2) ‖v - w‖²,    so its gradient is  ∇f_i(v) + λ (v - w)

    v_i starts at the initial model, and has the solver's epochs in each round, or `epochs`. With λ = 0 it is `solo`;
    the larger λ is, the closer v_i stays to w.

    Departures from the paper: shared models are averaged by samples. Rows come in another order for v_i than for w.
    Normalisation statistics stay with each party and are those of v_i, which is the model that is tested.
    """

    def memory(params: Vector) -> Memory:
        return {"model": params}

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        shared, pull = train(server.params), Pull(strength=lam, anchor=server.params)
        return shared, {"model": train(memory["model"], "personal", pull=pull, epochs=epochs).end}

    def replica(server: Server, memory: Memory) -> Vector:
        return memory["model"]

    def effort(passes: float) -> float:
        return passes + (epochs or passes)

    return Algorithm(memory=memory, trainings=trainings, replica=replica, effort=effort)
