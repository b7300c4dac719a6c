"""A learning rate that drops where the validation loss stops falling, and ends the run at its last drop."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Lt

from silobench.method.schedules.schedule import SCHEDULES
from silobench.method.types import Knob, Memory, Server
from silobench.spec.ranges import Count, NonNegative, Positive

_KNOB = "plateau"  # the knob of the server with the rate of a round


@dataclass(frozen=True)
class Plateau:
    """A learning rate that follows the validation loss; see `plateau`."""

    start: float
    factor: float
    patience: int
    drops: int
    threshold: float
    cooldown: int

    needs_validation: ClassVar[bool] = True

    def __call__(self, server: Server) -> float:
        return server.knobs.get(_KNOB, self.start)

    def knobs(self, memory: Memory) -> Mapping[str, float]:
        """Return the rate of the next round as a knob."""
        return {_KNOB: self.start * self.factor ** _count(memory, "drops")}

    def follow(self, memory: Memory, loss: float | None) -> tuple[Memory, bool]:
        """Return the memory after a round with this validation loss, and whether the run is finished.

        A round without a test has no loss, and does not count. A loss that is not a number is not an improvement.
        """
        bad, cooldown, drops = (_count(memory, name) for name in ("bad", "cooldown", "drops"))
        best = float(memory["best"]) if memory else math.inf
        if loss is not None:
            is_better = loss < best * (1 - self.threshold)
            best, bad = (loss, 0) if is_better else (best, bad + 1)
            if cooldown > 0:
                cooldown, bad = cooldown - 1, 0
            if bad > self.patience:
                cooldown, bad, drops = self.cooldown, 0, drops + 1
        counts = {"bad": bad, "cooldown": cooldown, "drops": drops}
        tensors = {name: torch.tensor(count, dtype=torch.int64) for name, count in counts.items()}
        return {"best": torch.tensor(best, dtype=torch.float64), **tensors}, drops >= self.drops


def _count(memory: Memory, name: str) -> int:
    return int(memory[name]) if memory else 0


@SCHEDULES.register
def plateau(
    start: Positive,
    factor: Annotated[float, Gt(0), Lt(1)] = 0.1,
    patience: Annotated[int, Ge(0)] = 10,
    drops: Count = 4,
    threshold: NonNegative = 1e-4,
    cooldown: Annotated[int, Ge(0)] = 0,
) -> Knob:
    """`start`, multiplied by `factor` where the validation loss stops falling; the run ends at the last of the `drops`.

    The rule is that of torch.optim.lr_scheduler.ReduceLROnPlateau, with a loss per tested round: the rate drops after
    more than `patience` losses in a row that are not below (1 - `threshold`) times the best one. The first `cooldown`
    losses after a drop do not count against it. The run ends after `rounds` rounds at the latest.
    """
    return Plateau(start, factor, patience, drops, threshold, cooldown)
