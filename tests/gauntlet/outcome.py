"""What one fault did to one case, and the groups of faults that the gauntlet tries."""

import json
from collections.abc import Callable, Iterator, Sequence
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


def merged(options: Options, files: Sequence[Path]) -> Iterator[Outcome]:
    """Yield outcomes of earlier campaigns; a case that a later file has too was tried again, and only that counts."""
    cases: dict[tuple[str, str], list[Outcome]] = {}
    for file in files:
        outcomes = [Outcome(**fields) for fields in json.loads(file.read_text())]
        cases |= {(outcome.fault, outcome.case): [] for outcome in outcomes}
        for outcome in outcomes:
            cases[outcome.fault, outcome.case].append(outcome)
    for (fault, case), each in cases.items():
        if options.includes(fault, case):
            yield from each
