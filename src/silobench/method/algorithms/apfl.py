"""APFL (Deng, Kamani and Mahdavi, 2020)."""

import torch

from silobench.method.types import ALGORITHMS, Algorithm, Fraction, Local, Memory, Server, Step, Train, Update, Vector


@ALGORITHMS.register
def apfl(alpha: Fraction = 0.5, adaptive: bool = True) -> Algorithm:
    """FedAvg, and each party uses a mixture of the shared model and of its own.

    Adaptive Personalized Federated Learning, Deng, Kamani and Mahdavi, 2020. Party i has a local version w_i of the
    shared model and its own model v_i. Their mixture is its personal model. Each step, on one batch:

        m = α_i v_i + (1 - α_i) w_i
        w_i ← w_i - η ∇f_i(w_i),    v_i ← v_i - η α_i ∇f_i(m)
        α_i ← α_i - η <v_i - w_i, ∇f_i(m)>, within [0, 1], if `adaptive`

    All right-hand sides are those before the step. Only w_i is sent, and FedAvg makes the next w of it. The party is
    tested with α_i v_i + (1 - α_i) w. With a constant α of 0 this is FedAvg.

    Departures from the paper: models are averaged by samples, and momentum, if the solver has it, is that of w_i and
    v_i each. The paper analyses an average of the mixtures over rounds; the last one is tested here. The authors' code
    adapts α in the first step of a round only, shrinks it a little and mixes outputs instead of models. Normalisation
    statistics stay with each party and are those of the mixture.
    """

    def memory(params: Vector) -> Memory:
        return {"model": params, "alpha": torch.tensor(alpha, dtype=params.dtype)}

    def direction(step: Step) -> tuple[Vector, Memory]:
        (own, shared), share = step.params, step.scratch["alpha"]
        slope = step.gradient(share * own + (1 - share) * shared)
        after = (share - step.lr * (own - shared).dot(slope)).clamp(0, 1) if adaptive else share
        return torch.stack([share * slope, step.gradient(shared)]), {"alpha": after}

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        both = torch.stack([memory["model"], server.params])
        local = train(both, direction=direction, scratch={"alpha": memory["alpha"]})
        return local, {"model": local.end[0].clone(), **local.scratch}

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update.of(local.samples, delta=local.delta[1]), memory

    def replica(server: Server, memory: Memory) -> Vector:
        return memory["alpha"] * memory["model"] + (1 - memory["alpha"]) * server.params

    def effort(passes: float) -> float:
        return 2 * passes

    return Algorithm(memory=memory, trainings=trainings, message=message, replica=replica, effort=effort)
