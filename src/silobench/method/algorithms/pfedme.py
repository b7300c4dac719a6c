"""pFedMe (Dinh, Tran and Nguyen, NeurIPS 2020)."""

from collections.abc import Mapping

from silobench.method.types import (
    ALGORITHMS,
    Algorithm,
    Count,
    Local,
    Memory,
    Positive,
    Server,
    Step,
    Train,
    Update,
    Vector,
)


@ALGORITHMS.register
def pfedme(lam: Positive = 15.0, inner_steps: Count = 5, inner_lr: Positive = 0.01, beta: Positive = 1.0) -> Algorithm:
    """Each party trains the shared model on the Moreau envelope of its loss, by way of a personal model.

    Personalized Federated Learning with Moreau Envelopes, Dinh, Tran and Nguyen, NeurIPS 2020. Party i minimises
    F_i(w) = min_θ f_i(θ) + (λ / 2) ‖θ - w‖². Each of its steps, on one batch and with the solver's learning rate η, is

        K times:  θ ← θ - inner_lr · (∇f_i(θ) + λ (θ - w_i))
        w_i ← w_i - η λ (w_i - θ)

    with K = `inner_steps`. The server computes w ← (1 - β) w + β · mean of w_i. The party is tested with θ.

    Departures from the paper: as in the authors' code, θ starts a round at the shared model, continues from step to
    step, and models are averaged by samples. Momentum, if the solver has it, is that of w_i. Before its first round a
    party is tested with the shared model. Normalisation statistics stay with each party and are those of θ.
    """

    def direction(step: Step) -> tuple[Vector, Memory]:
        theta = step.scratch["model"]
        for _ in range(inner_steps):
            theta = theta - inner_lr * (step.gradient(theta) + lam * (theta - step.params))
        return lam * (step.params - theta), {"model": theta}

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        local = train(server.params, direction=direction, scratch={"model": server.params})
        return local, local.scratch

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        return beta * update.mean()["delta"], server.extras

    def replica(server: Server, memory: Memory) -> Vector:
        return memory.get("model", server.params)

    def effort(passes: float) -> float:
        return inner_steps * passes

    return Algorithm(trainings=trainings, absorb=absorb, replica=replica, effort=effort)
