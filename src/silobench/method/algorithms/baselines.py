"""Baselines of a federation: every party by itself, and all data in one place (as in OARF)."""

from collections.abc import Mapping

import torch

from silobench.method.types import ALGORITHMS, Algorithm, Local, Memory, Server, Update, Vector


@ALGORITHMS.register
def solo() -> Algorithm:
    """Every party trains its own model on its own rows and sends nothing.

    The accuracy is the mean over the parties' models, each tested on the whole test set.
    """

    def memory(params: Vector) -> Memory:
        return {"model": params}

    def model(server: Server, memory: Memory) -> Vector:
        return memory["model"]

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        return Update({}, local.samples), {"model": local.end}

    def absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
        return torch.zeros_like(server.params), server.extras

    return Algorithm(memory=memory, start=model, message=message, absorb=absorb, replica=model, silent=True)


@ALGORITHMS.register
def combined() -> Algorithm:
    """All rows are pooled at one party: plain SGD without silos, the upper bound that federated methods aim at."""
    return Algorithm(silent=True, pooled=True)
