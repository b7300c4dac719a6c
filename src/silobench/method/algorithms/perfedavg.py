"""Per-FedAvg (Fallah, Mokhtari and Ozdaglar, NeurIPS 2020)."""

from typing import Literal

from silobench.method.types import (
    ALGORITHMS,
    Adaptation,
    Algorithm,
    Local,
    Memory,
    Positive,
    Server,
    Step,
    Train,
    Vector,
)


@ALGORITHMS.register
def perfedavg(alpha: Positive = 0.01, variant: Literal["FO", "HF"] = "FO", delta: Positive = 0.001) -> Algorithm:
    """FedAvg for a model that is good after one step of gradient descent at each party (MAML).

    Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning Approach, Fallah,
    Mokhtari and Ozdaglar, NeurIPS 2020. Party i minimises F_i(w) = f_i(w - α ∇f_i(w)). Each of its steps, with
    independent batches D, D' and D'' and the solver's learning rate β, is

        g = ∇f_i(w - α ∇f_i(w; D); D')
        FO (first order):   w ← w - β g
        HF (Hessian-free):  w ← w - β (g - α (∇f_i(w + δ g; D'') - ∇f_i(w - δ g; D'')) / (2 δ))

    The last fraction stands for the product of the Hessian with g. Each party is tested after one step of length α from
    the shared model along the gradient over all of its rows.

    Departures from the paper: models are averaged by samples; momentum and weight decay, if the solver has them, are
    part of the steps and of f_i. The batches are those of independent passes over the rows, so each row comes once in
    every epoch of each.
    """

    def direction(step: Step) -> tuple[Vector, Memory]:
        slope = step.gradient(step.params - alpha * step.gradient(step.params), draw=1)
        if variant == "FO":
            return slope, {}
        ahead, behind = (step.gradient(step.params + sign * delta * slope, draw=2) for sign in (1, -1))
        return slope - alpha * (ahead - behind) / (2 * delta), {}

    def trainings(train: Train, server: Server, memory: Memory) -> tuple[Local, Memory]:
        return train(server.params, direction=direction), memory

    passes = 2 if variant == "FO" else 4
    return Algorithm(trainings=trainings, effort=lambda solver: passes * solver, adaptation=Adaptation(lr=alpha))
