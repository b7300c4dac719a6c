"""Adam (Kingma and Ba, ICLR 2015) and AdamW (Loshchilov and Hutter, ICLR 2019)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from silobench.method.solvers.solver import SOLVERS, Solver, check_passes
from silobench.method.types import BelowOne, Count, NonNegative, Positive, Server, Vector


@dataclass(frozen=True, kw_only=True)
class Adam(Solver):
    """Adam or AdamW; see `adam`."""

    beta1: float
    beta2: float
    eps: float
    decoupled_decay: float  # AdamW's weight decay; `weight_decay` is then 0, because the gradient has none

    kind: ClassVar[str] = "adam"

    def initial(self, params: Vector) -> dict[str, Vector]:
        return {"mean": torch.zeros_like(params), "square": torch.zeros_like(params), "steps": torch.tensor(0)}

    def step(self, params: Vector, grad: Vector, state: dict[str, Vector], lr: float) -> None:
        state["steps"] += 1
        steps, mean, square = int(state["steps"]), state["mean"], state["square"]
        mean.lerp_(grad, 1 - self.beta1)
        square.mul_(self.beta2).addcmul_(grad, grad, value=1 - self.beta2)
        if self.decoupled_decay:
            params.mul_(1 - lr * self.decoupled_decay)
        root = (square.sqrt() / (1 - self.beta2**steps) ** 0.5).add_(self.eps)
        params.addcdiv_(mean, root, value=-lr / (1 - self.beta1**steps))


@SOLVERS.register
def adam(
    lr: Positive | Callable[[Server], float] = 0.001,
    beta1: BelowOne = 0.9,
    beta2: BelowOne = 0.999,
    eps: Positive = 1e-8,
    weight_decay: NonNegative = 0.0,
    decoupled: bool = False,
    epochs: Count = 10,
    steps: Count | None = None,
    batch: Count | Literal["full"] = 64,
    keep_moments: bool = False,
) -> Solver:
    """Adam over minibatches; the defaults are PyTorch's.

    Adam: A Method for Stochastic Optimization, Kingma and Ba, ICLR 2015. With gradient g of step t:

        m ← β₁ m + (1 - β₁) g,    v ← β₂ v + (1 - β₂) g²
        w ← w - lr · m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + eps)

    Weight decay is part of g, or with `decoupled` it shrinks w by the factor 1 - lr · weight_decay in every step:
    AdamW (Decoupled Weight Decay Regularization, Loshchilov and Hutter, ICLR 2019). What an algorithm adds to the
    gradient is part of g too. m, v and t start from zero in every round, unless each party keeps its own with
    `keep_moments`. The other arguments are those of sgd.
    """
    check_passes("adam", epochs, steps)
    coupled_decay, decoupled_decay = (0.0, weight_decay) if decoupled else (weight_decay, 0.0)
    return Adam(
        *(lr, 0.0, coupled_decay, epochs, steps, None if batch == "full" else batch, keep_moments),
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        decoupled_decay=decoupled_decay,
    )
