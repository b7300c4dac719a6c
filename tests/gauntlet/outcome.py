"""What one fault did to one case, and the groups of faults that the gauntlet tries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["survived", "refused", "lost"]
VERDICTS: tuple[Verdict, ...] = ("survived", "refused", "lost")


@dataclass(frozen=True)
class Outcome:
    """One fault in one case.

    It is *survived* if the results are those of a run without the fault, *refused* if one clear sentence with exit
    code 2 says what is wrong and nothing recorded is lost, and *lost* otherwise.
    """

    fault: str  # what was done: "kill at a random moment"
    case: str  # what it was done to, its group first: "engines: pool(workers=2)"
    result: Verdict
    detail: str  # the moment of the fault, and what differed where something is lost

    @property
    def group(self) -> str:
        """The group of the case, which is a row of the table."""
        return self.case.partition(":")[0]


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    folder: Path  # an empty folder to work in
    kills: int = 100  # at least so many kills in all
    seed: int = 0
    only: str = "*"  # a glob over "fault / case"
    jobs: int = 2  # commands that run side by side
    forks: bool = False  # commands without workers are forks of a process that has imported silobench

    def includes(self, fault: str, case: str) -> bool:
        """Whether a case is to be tried."""
        return fnmatchcase(f"{fault} / {case}", self.only)


@dataclass(frozen=True)
class Fault:
    """A family of faults: its name, and a function that tries it and yields outcomes as they come."""

    name: str
    outcomes: Callable[[Options], Iterator[Outcome]]
