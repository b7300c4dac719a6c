"""Kills of a consortium: of a silo, of its server, and of everybody at once."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consortia import NAMES, rehearsal
from gauntlet.cases import Case, Experiment
from gauntlet.chain import Gauntlet, Operation
from killable import Command
from silobench.silos.consortium import Waits

METHODS = {
    "scaffold": {"algorithm": "scaffold", "transforms": "top_k(fraction=0.5)"},
    "secure sum": {"algorithm": "scaffold", "transforms": "secure_sum(protocol=pairwise, range=100)"},
}


def consortia() -> Iterator[Experiment]:
    """Yield what is killed, for each method."""
    for name, choices in METHODS.items():
        everybody = Case(f"{name}, server and silos", choices, ("",))
        server = Case(f"{name}, the server", choices, ("",), victim="process", place="/checkpoint/")
        yield Experiment("silos", (everybody, server), choices, (), in_a_row=(3,))
        silo = Case(f"{name}, a silo", choices, ("",), victim="worker", place="/north/")
        yield Experiment("silos", (silo,), choices, (), in_a_row=(3,))


@dataclass(frozen=True)
class SiloGauntlet(Gauntlet):
    """A consortium in a folder of its own, undisturbed and killed."""

    @property
    def out(self) -> Path:
        return self.folder / "consortium" / "killed"

    @property
    def whole(self) -> Path:
        return self.folder / "consortium" / "whole"

    def write_files(self) -> None:
        """Write the agreement, the rows and the keys."""
        waits = Waits(join=300.0, round=300.0, grace=0.0)
        three = rehearsal(self.folder / "consortium", rounds=4, waits=waits, quorum=3, **self.experiment.choices)
        three.close(*NAMES)
        for name in NAMES:
            shutil.copytree(self.folder / "consortium" / name, self.folder / "before" / name)

    def command(self, out: Path, **trap: Any) -> Command:
        """Return the command that runs the consortium; operations of silos count as well."""
        folder = self.folder / "consortium"
        words = [str(folder), "--out", str(out)]
        return Command(words, self.folder, {"out": str(folder), **trap}, module="gauntlet.consortium")

    def undisturbed(self) -> list[Operation]:
        """Run the consortium to its end, and let the silos forget it: they take part in one run only."""
        operations = super().undisturbed()
        for name in NAMES:
            shutil.rmtree(self.folder / "consortium" / name)
            shutil.copytree(self.folder / "before" / name, self.folder / "consortium" / name)
        return operations
