"""Gaia (Hsieh et al., NSDI 2017), as the quagmire study has it."""

from collections.abc import Mapping

import torch

from silobench.method.types import Algorithm, Dial, Local, Memory, NonNegative, Server, Update, Vector


def gaia(threshold: NonNegative = 0.1) -> Algorithm:
    """Every party has its own model and shares of its updates only what has become significant.

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020, Algorithm 1, for party k:

        u ← m u - η ∇f(w),    w ← w + u,    v ← v + u
        where |v / w| > T:  send v, then v ← 0;    w ← w + what the others sent

    T is `threshold` (T0 in the paper) times the present learning rate over the first. Where a weight is 0 every change
    is significant. Accuracy is the mean over the parties' models.

    A party's model is the shared one, w_0 and all that anybody sent, and its own residual v: that is how it is kept.

    Departures from the paper: when the learning rate changes, momentum is scaled with it.
    """

    def initial(params: Vector) -> dict[str, Vector]:
        return {"residual": torch.zeros_like(params)}

    def replica(server: Server, memory: Memory) -> Vector:
        return server.params + memory["residual"]

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        now = server.knobs.get("threshold", threshold) * local.lr / local.first_lr
        residual = memory["residual"] + local.delta
        significant = residual.abs() > now * local.end.abs()
        sent = torch.where(significant, residual, 0.0)
        return Update({"delta": sent}, 1.0, sparse=True), {"residual": torch.where(significant, 0.0, residual)}

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        return update.total["delta"], server.extras  # added, not averaged

    dial = Dial("threshold", (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5))
    return Algorithm(
        memory=initial, start=replica, message=message, absorb=absorb, replica=replica, lockstep=True, dials=(dial,)
    )
