"""The columns of the matrix: what must not change the bits of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Way = Literal["each", "alone", "resumed", "sweep"]
# A run is compared with one of the same mode, because modes differ by rounding.
BASES = {
    "auto": "eager(of=auto)",
    "inline": "inline",
    "stacked": "eager(of=stacked)",
    "vmap": "eager(of=vmap)",
}
# Everything that this process may have and another may not.
PLAIN = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
ELSEWHERE = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONUTF8": "0", "COLUMNS": "40", "LANGUAGE": "tr"}


@dataclass(frozen=True)
class Variation:
    """A process that makes all runs again, in other surroundings or in another way."""

    name: str
    base: str = "auto"  # one of BASES: what it is compared with
    engine: str = ""  # a spec; empty for that of the base
    way: Way = "each"  # how runs follow each other
    workers: int = 1  # of a sweep
    at_least: int = 0  # workers that some round must have had, so that the column tries what its name says
    shuffle: int | None = None  # a seed for the order of the runs
    environment: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool = False  # whether it runs in another folder with another umask

    @property
    def spec(self) -> str:
        """The engine of this variation."""
        return self.engine or BASES[self.base]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "spec": self.spec}


def _eager(of: str, workers: int, executor: str = "pool") -> str:
    return f"eager(of={of}, workers={workers}, executor={executor})"


VARIATIONS = (
    Variation("again"),
    Variation("2 workers", engine=_eager("auto", 2), at_least=2),
    Variation("4 workers", engine=_eager("auto", 4), at_least=4),
    Variation("pool of 2", "inline", "pool(workers=2)", at_least=2),
    Variation("pool of 4", "inline", "pool(workers=4)", at_least=4),
    Variation("shuffled pool", "inline", "pool(workers=3, executor=shuffled)", at_least=3),
    Variation("Ray", "inline", "ray(workers=2)", at_least=2),
    Variation("stacked, 2 workers", "stacked", _eager("stacked", 2), at_least=2),
    Variation("vmap, 2 workers", "vmap", _eager("vmap", 2), at_least=2),
    Variation("side by side", way="sweep", engine="auto", workers=2),
    Variation("shuffled grid", shuffle=1),
    Variation("each alone", way="alone"),
    Variation("resumed", way="resumed"),
    Variation("hash seed 1", environment={"PYTHONHASHSEED": "1"}),
    Variation("hash seed 2", "inline", environment={"PYTHONHASHSEED": "2"}),
    Variation("4 OpenMP threads", "inline", environment={"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}),
    Variation("4 threads, auto", environment={"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}),
    Variation("elsewhere", environment=ELSEWHERE, elsewhere=True),
)
