"""`Target`: something that reads bytes, and where its inputs start from. All targets, by name."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from silobench.errors import RunError, SilobenchError

MEGABYTE = 1 << 20
PREPARED = "prepared"  # the folder in the output directory in which `Target.seeds` may leave files for all inputs


def no_seeds() -> Sequence[bytes]:
    """Return one empty input, for a target that starts from nothing."""
    return (b"",)


@dataclass(frozen=True)
class Target:
    """Something that reads bytes.

    `run` reads an input as silobench does. It is called in an empty output directory (the current one), which is the
    only place where it may write. `seeds` returns whole inputs to start from, and is called once in the same directory,
    without a guard: what `run` needs besides its input may be written to its folder `PREPARED`. `strategy` returns a
    strategy of hypothesis for inputs with structure.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]] = no_seeds
    strategy: Callable[[], Any] | None = None
    words: tuple[bytes, ...] = ()  # what mutations insert
    allowed: tuple[type[Exception], ...] = (SilobenchError,)
    refused: tuple[type[Exception], ...] = (RunError,)  # of the allowed errors, those that are findings
    has_sentences: bool = True  # False: what it raises is a part of a sentence
    share: float = 1.0  # of the inputs of a campaign: less for a target that is slow
    most_bytes: int = 4096  # of an input
    memory: int = 512 * MEGABYTE  # address space that one input may take
    seconds: float = 20.0  # CPU time that one input may take

    def allows(self, error: BaseException) -> bool:
        """Whether an error is one that a user may see."""
        return isinstance(error, self.allowed) and not isinstance(error, self.refused)


def all_targets() -> dict[str, Target]:
    """Return the targets of all modules in `fuzz.targets`, by name."""
    package = importlib.import_module("fuzz.targets")
    modules = [
        importlib.import_module(f"fuzz.targets.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]
    targets = [target for module in modules for target in module.TARGETS]
    return {target.name: target for target in sorted(targets, key=lambda target: target.name)}
