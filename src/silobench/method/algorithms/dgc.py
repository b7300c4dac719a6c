"""Deep Gradient Compression (Lin et al., ICLR 2018), in the form of Hsieh et al. (ICML 2020)."""

from collections.abc import Mapping

import torch

from silobench.method.types import (
    ALGORITHMS,
    SPARSE,
    Algorithm,
    BelowOne,
    Dial,
    Layout,
    Local,
    Memory,
    NonNegative,
    Positive,
    Server,
    Update,
    Vector,
    largest,
    needs_linear_steps,
)


@ALGORITHMS.register
def dgc(
    warmup: NonNegative = 4.0,
    sparsity: tuple[BelowOne, ...] = (0.75, 0.9375, 0.984375, 0.996, 0.999),
    clip: Positive | None = 5.0,
    masking: bool = True,
) -> Algorithm:
    """After every minibatch, each party sends the largest entries of its accumulated updates and keeps the rest.

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020, Algorithm 3. For party k, with
    learning rate η and the solver's momentum m:

        g ← clip(-η ∇f(w)),    u ← m u + g,    v ← v + u
        where |v| is among the largest 1 - s of its layer:  send v, then v ← 0 and u ← 0
        w ← w + Σ_k (what party k sent)

    The sparsity s takes each value of `sparsity` for `warmup` epochs (E_warm in the paper) and stays at the last one;
    an empty `sparsity` sends everything. `masking=False` does not reset u. All parties have the same model.

    A gradient is clipped to the length `clip` / √K for K parties. This is Lin et al.'s rule: the clipped gradients of K
    parties together have about the length `clip`. Neither paper gives a value for convolutional networks.

    Departures from the paper: none.
    """

    stages = sparsity or (0.0,)

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        u = local.momentum * memory["u"] + _clipped(local, server, clip)
        v = memory["v"] + u
        chosen = _largest_by_layer(v, local.layout, 1 - _sparsity(local, server, warmup, stages))
        rest = {"u": torch.where(chosen, 0.0, u) if masking else u, "v": torch.where(chosen, 0.0, v)}
        return Update({"delta": torch.where(chosen, v, 0.0)}, 1.0).coded(SPARSE), rest

    return Algorithm(
        memory=_initial, message=message, absorb=_absorb, local_model=_local_model, lockstep=True, weighs_rows=False,
        applies_momentum=True, mostly_zeros=True,
        refuses=needs_linear_steps("dgc applies the momentum of sgd to the gradients that it accumulates"),
        dials=(Dial("warmup", (8, 4, 3, 2, 1)), Dial("sparsity", (0.75, 0.9375, 0.984375, 0.996, 0.999))),
    )  # fmt: skip


def _initial(params: Vector) -> dict[str, Vector]:
    return {"u": torch.zeros_like(params), "v": torch.zeros_like(params)}


def _absorb(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
    return update.total["delta"], server.extras


def _local_model(server: Server, memory: Memory) -> Vector:
    return server.params + memory["v"]


def _clipped(local: Local, server: Server, clip: float | None) -> Vector:
    """Return -η ∇f(w), scaled down to the length η clip / √K if it is longer."""
    if clip is None:
        return local.delta
    length, most = float(torch.linalg.vector_norm(local.delta)), local.lr * clip / server.parties**0.5
    return local.delta * (most / length) if length > most else local.delta


def _sparsity(local: Local, server: Server, warmup: float, stages: tuple[float, ...]) -> float:
    """Return the sparsity of this round: the controller's, or that of the current stage of the warm-up."""
    if "sparsity" in server.knobs:
        return server.knobs["sparsity"]
    each, epoch = server.knobs.get("warmup", warmup), server.round / local.steps_per_epoch
    return stages[min(int(epoch / each), len(stages) - 1) if each else -1]


def _largest_by_layer(vector: Vector, layout: Layout, share: float) -> Vector:
    """Return a mask of the largest `share` of the entries of each tensor; buffers are not part of the vector."""
    places = [place for place in layout.slices.values() if place.stop <= len(vector)]
    return torch.cat([largest(vector[place], share) for place in places])
