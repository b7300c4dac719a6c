"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import torch

from silobench.method.types import (
    ALGORITHMS,
    Algorithm,
    Local,
    Memory,
    Pull,
    Server,
    Update,
    Vector,
    needs_linear_steps,
)

Momentum: TypeAlias = Literal["outside", "inside"]


@ALGORITHMS.register
def scaffold(
    option: Literal[1, 2] = 2,
    init: Literal["zeros", "random"] = "zeros",
    momentum: Momentum = "outside",
) -> Algorithm:
    """FedAvg with control variates that cancel the drift of each party.

    SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, Karimireddy et al., ICML 2020. Party i steps along
    g - c_i + c and then updates its control variate c_i; the server, with N the number of all parties, updates c:

        option 1:  c_i⁺ = ∇f_i(w)          option 2:  c_i⁺ = c_i - c + (w - w_i) / (τ η)
        c ← c + (1 / N) Σ_i (c_i⁺ - c_i)

    The paper's local SGD has no momentum. With momentum ρ, the place of the correction matters. `momentum=outside` (as
    in NIID-Bench's public code) adds it after the momentum step, where a step is about 1/(1 - ρ) gradients long, and so
    is c_i. `momentum=inside` adds it to the gradient, and divides the displacement by the reach instead of τ. The
    reach is the sum of the weights of the gradients in delta, see `Local.reach`. Both equal the paper at ρ = 0.
    Outside, the correction is constant while momentum builds up again in every round, so a bias of the order of the
    learning rate remains at the optimum; inside, or with `keep_momentum`, there is none.

    `init=random` starts c and every c_i at one random network, as NIID-Bench's public code does; the paper and the
    default start at zero. It has little effect, even under party sampling (docs/results/niid-bench.md): the first c_i⁺
    of a party does not depend on its start, and c - c_i is zero on average over the parties.

    Departures from the paper: models are averaged by samples, as in NIID-Bench, but c is the unweighted mean over
    parties, so with unequal sizes the fixed point is that of the unweighted mean of the parties' losses. Option 1 with
    momentum outside scales the gradient by reach / τ, to the length of a momentum step. With `keep_momentum` the right
    factor would be 1/(1 - ρ): use option 2 or momentum inside then.
    """
    initial = _zeros if init == "zeros" else _random
    return Algorithm(
        extras=initial, memory=initial, pull=partial(_pull, momentum), message=partial(_message, option, momentum),
        absorb=_absorb, refuses=partial(_refuses, option, momentum),
    )  # fmt: skip


def _zeros(params: Vector) -> dict[str, Vector]:
    return {"control": torch.zeros_like(params)}


def _random(params: Vector) -> dict[str, Vector]:
    """Return the initial weights with random signs: another draw from the same symmetric initialisation."""
    signs = torch.rand(params.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    return {"control": torch.where(signs, params, -params)}


def _pull(momentum: Momentum, server: Server, memory: Memory) -> Pull:
    correction = server.extras["control"] - memory["control"]
    return Pull(drift=correction) if momentum == "outside" else Pull(linear=correction)


def _message(
    option: Literal[1, 2], momentum: Momentum, local: Local, server: Server, memory: Memory
) -> tuple[Update, Memory]:
    divisor = local.steps if momentum == "outside" else local.reach
    if option == 1:
        control = local.gradient(server.params) * (local.reach / divisor)
    elif local.lr == 0:  # at the end of a schedule: nothing was learnt, so the control variate stays
        control = memory["control"]
    else:
        control = memory["control"] - server.extras["control"] - local.delta / (divisor * local.lr)
    change = control - memory["control"]
    return Update.of(local.samples, delta=local.delta).with_sums(control=change), {"control": control}


def _absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
    control = server.extras["control"] + update.sums["control"] / server.parties
    return update.mean()["delta"], {"control": control}


def _refuses(option: Literal[1, 2], momentum: Momentum, method: Any) -> str | None:
    if option == 1 and method.solver.hides_gradient:
        return (
            f"scaffold(option=1) sends the exact gradient over all rows, which {method.solver.kind} keeps secret: "
            "use scaffold(option=2)."
        )
    return None if (option, momentum) == (1, "inside") else _needs_steps(method)


_needs_steps = needs_linear_steps(
    "scaffold takes a step for a multiple of a gradient, except with option=1 and momentum=inside"
)
