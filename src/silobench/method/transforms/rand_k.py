"""Random sparsification: send the values of random entries."""

from dataclasses import replace

from silobench.method.types import (
    TRANSFORMS,
    ConfigError,
    Context,
    Dial,
    Memory,
    Share,
    Transform,
    Update,
    random_subset,
)


@TRANSFORMS.register
def rand_k(fraction: Share = 0.01, scale: bool = True, feedback: bool = False) -> Transform:
    """Send the values of a random `fraction` of the entries of each vector, at the same places for all parties.

    At least one entry is sent. The places follow from the seed and the round, so they are not sent. With `scale` the
    values arrive divided by the share that was sent, so that the expectation of every entry is its value. With
    `feedback` (and `scale=False`) the rest is added to the party's next update. Sparsified SGD with Memory, Stich et
    al., NeurIPS 2018.
    """
    if scale and feedback:
        raise ConfigError(
            "rand_k has scale=true and feedback=true, but scaled values make up for the rest, which feedback sends "
            "later: set one of them to false."
        )

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        share = context.knobs.get("fraction", fraction)
        for name in update.changes:
            seed = int(context.stream(f"places {name}", shared=True).integers(1 << 62))
            update = update.coded(random_subset(share, scale, seed), [name])
        return update.plus(memory), {}

    def settle(produced: Update, arrived: Update, memory: Memory, context: Context) -> Memory:
        return produced.lost(arrived)

    dial = Dial("fraction", (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001))
    plain = Transform(encode, dials=(dial,), packs="entries", scales=scale)
    if not feedback:
        return plain
    return replace(plain, unsent=lambda memory: memory.get("delta"), settle=settle, bound=lambda context: None)
