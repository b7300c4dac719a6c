"""Gaia (Hsieh et al., NSDI 2017), in the form of Hsieh et al. (ICML 2020)."""

from collections.abc import Mapping

import torch

from silobench.method.types import (
    ALGORITHMS,
    SPARSE,
    Algorithm,
    Dial,
    Local,
    Memory,
    NonNegative,
    Server,
    Update,
    Vector,
)


@ALGORITHMS.register
def gaia(threshold: NonNegative = 0.1) -> Algorithm:
    """After every minibatch, each party sends only those of its accumulated updates that have become significant.

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020, Algorithm 1. For party k, with
    learning rate η and the solver's momentum m:

        u ← m u - η ∇f(w),    w ← w + u,    v ← v + u
        where |v / w| > T:  send v, then v ← 0
        w ← w + what the other parties sent

    T is `threshold` (T0 in the paper) times the learning rate divided by that of the first round. If a weight is 0,
    every change of it is significant. The accuracy is the mean over the parties' models.

    A party's model is the sum of the shared model (the initial one plus everything sent) and its residual v. The server
    keeps the first, the party's memory the second.

    Departures from the paper: momentum is scaled with the learning rate when that changes.
    """

    def initial(params: Vector) -> dict[str, Vector]:
        return {"residual": torch.zeros_like(params)}

    def model(server: Server, memory: Memory) -> Vector:
        return server.params + memory["residual"]

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        limit = server.knobs.get("threshold", threshold) * local.lr / local.first_lr
        residual = memory["residual"] + local.delta
        significant = residual.abs() > limit * local.end.abs()
        sent = torch.where(significant, residual, 0.0)
        return Update({"delta": sent}, 1.0).coded(SPARSE), {"residual": torch.where(significant, 0.0, residual)}

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        return update.total["delta"], server.extras  # the sum, not the mean

    dial = Dial("threshold", (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5))
    return Algorithm(
        memory=initial, start=model, message=message, absorb=absorb, replica=model, lockstep=True, weighs_rows=False,
        mostly_zeros=True, dials=(dial,),
    )  # fmt: skip
