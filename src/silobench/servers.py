"""Server optimizers: how the server moves along the direction that an algorithm gives it."""

from collections.abc import Mapping

from silobench.spec import Registry
from silobench.types import Positive, ServerOptimizer, Vector

SERVERS: Registry[ServerOptimizer] = Registry("server optimizer")


@SERVERS.register
def step(lr: Positive = 1.0) -> ServerOptimizer:
    """Plain step: w ← w + lr · direction. With lr = 1 the server takes the parties' mean."""

    def apply(params: Vector, direction: Vector, state: Mapping[str, Vector]) -> tuple[Vector, Mapping[str, Vector]]:
        return params.add(direction, alpha=lr), state

    return ServerOptimizer(init=lambda params: {}, apply=apply)
