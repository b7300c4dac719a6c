"""The choice of the dial that a controller sets."""

from collections.abc import Sequence
from dataclasses import replace

from silobench.errors import ConfigError, suggest
from silobench.method.types import Dial

# Parts of silobench that have a knob, for a method without it.
OWNERS = {
    "threshold": "the algorithm gaia",
    "iter_local": "the algorithm fedavg(iter_local=...)",
    "warmup": "the algorithm dgc",
    "sparsity": "the algorithm dgc",
    "fraction": "the transform top_k or rand_k",
    "rank": "the transform low_rank",
    "bits": "the transform quantize",
}


def chosen_dial(controller: str, dials: Sequence[Dial], knob: str | None, grid: tuple[float, ...]) -> Dial:
    """Return the dial named `knob`, by default the first of the method; a `grid` replaces its grid, in its order."""
    if not dials and knob not in OWNERS:
        raise ConfigError(
            f"{controller} sets a knob that trades traffic for accuracy, but neither the algorithm nor the transforms "
            "have one: use gaia, fedavg(iter_local=...), dgc or top_k."
        )
    known = {dial.name: dial for dial in dials}
    if knob is not None and knob not in known:
        remedy = f"use {OWNERS[knob]}, which has it." if knob in OWNERS else suggest(knob, known)
        raise ConfigError(f"{controller}: this method has no knob '{knob}': {remedy}")
    dial = dials[0] if knob is None else known[knob]
    if dial.is_valid and (wrong := [setting for setting in grid if not dial.is_valid(setting)]):
        settings = ", ".join(f"{setting:g}" for setting in dial.grid)
        raise ConfigError(f"{controller}: {wrong[0]:g} is not a setting of {dial.name}: choose from {settings}.")
    return replace(dial, grid=tuple(sorted(grid, reverse=dial.grid[0] > dial.grid[-1]))) if grid else dial
