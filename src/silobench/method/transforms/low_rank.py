"""Low rank: send each matrix of the model as two thin factors."""

from dataclasses import replace

import torch

from silobench.method.types import (
    TRANSFORMS,
    ConfigError,
    Context,
    Count,
    Dial,
    Factoring,
    Fraction,
    Layout,
    Memory,
    Transform,
    Update,
    Vector,
)

_SKETCH = "sketch of "  # with the name of a part: its right factors in the party's last message


@TRANSFORMS.register
def low_rank(rank: Count = 3, warm_start: bool = True, feedback: bool = True, decay: Fraction = 0.0) -> Transform:
    """Send each matrix as two factors of this rank, found by one power iteration; other tensors are sent whole.

    A tensor of two or more dimensions is a matrix of shape[0] rows; it is sent whole where its factors are not shorter.
    The iteration starts from the factors of the party's last message (`warm_start`), or from random numbers. With
    `feedback` the error, less a share `decay` of it, is added to the next update. PowerSGD, Vogels et al., NeurIPS
    2019.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        plan = _plan(context.layout, int(context.knobs.get("rank", rank)))
        update, after = update.plus(memory, 1 - decay), {}
        for name, part in update.changes.items():
            if not plan.matrices or part.shape != (plan.size,):
                continue
            if name in update.codecs:
                raise ConfigError(
                    f"low_rank needs the whole of {name}, but something before it sends only some entries: put "
                    "low_rank first, or leave it out."
                )
            seed = int(context.stream(f"sketch {name}").integers(1 << 62))
            bases = plan.bases(part, _sketches(plan, memory.get(_SKETCH + name), seed))
            update = update.coded(plan.codec(bases=bases), [name])
            if warm_start:
                after[_SKETCH + name] = torch.cat([each.reshape(-1) for each in plan.projections(part, bases)])
        return update, after

    def settle(produced: Update, arrived: Update, memory: Memory, context: Context) -> Memory:
        return {**memory, **produced.lost(arrived)}

    plain = Transform(encode, dials=(Dial("rank", (32, 16, 8, 4, 2, 1)),), packs="matrices")
    if not feedback:
        return plain
    return replace(plain, settle=settle, unsent=lambda memory: memory.get("delta"), bound=lambda context: None)


def _plan(layout: Layout, rank: int) -> Factoring:
    """Return the matrices of a message; buffers of the network are not part of it."""
    places = zip(layout.shapes, layout.slices.values(), strict=True)
    return Factoring.of([shape for shape, place in places if place.stop <= layout.trainable], rank)


def _sketches(plan: Factoring, before: Vector | None, seed: int) -> list[Vector]:
    """Return where the power iteration starts: at the last right factors, or at random numbers if these do not fit."""
    sizes = [each.columns * each.rank for each in plan.matrices]
    if before is None or before.numel() != sum(sizes) or not before.isfinite().all():
        return plan.sketches(seed)
    pieces = zip(before.split(sizes), plan.matrices, strict=True)
    return [_unit(piece).view(each.columns, each.rank) for piece, each in pieces]


def _unit(vector: Vector) -> Vector:
    """Return a vector whose largest magnitude is 1, so that no product overflows; zeros stay."""
    largest = vector.abs().max()
    return vector / largest if largest > 0 else vector
