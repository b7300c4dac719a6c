"""The short form for `make test`: kept cases and a few fresh inputs, in this process."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from fuzz.guard import Finding, check, empty
from fuzz.mutate import mutations
from fuzz.target import Target

_SEEDS = 20
CASES = Path(__file__).with_name("cases")


def cases_of(target: Target) -> list[Path]:
    """Return the inputs that once broke a promise of a target."""
    return sorted((CASES / target.name).glob("*"))


def first_finding(target: Target, inputs: Sequence[bytes]) -> Finding | None:
    """Return what the first input breaks that breaks a promise; None if none does."""
    for data in inputs:
        outcome = check(target, data)
        empty(Path.cwd())
        if outcome.finding:
            return outcome.finding
    return None


def fresh_inputs(target: Target, count: int, seed: int) -> list[bytes]:
    """Return some seeds of a target and mutations of them."""
    seeds = target.seeds()
    some = seeds[:: max(1, len(seeds) // _SEEDS)]
    return list(islice(mutations(some, target.words, seed, target.most_bytes), len(some) + count))
