"""The consortium that the gauntlet kills: a server, and three silos in processes of their own.

`python -m gauntlet.consortium FOLDER --out OUT` runs it to its end, or goes on with it. A silo whose process died is
started again and gets its letter again, as the supervisor of a real silo does.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from consortia import NAMES
from silobench.processes import context, start_server, without_main
from silobench.silos.consortium import Consortium
from silobench.silos.post import Enough
from silobench.silos.server import run_consortium
from silobench.silos.silo import Silo

_STARTS = 5  # of a silo's process for one letter
APP = "app"  # the folder of the agreement


def serve_silo(file: Path, connection: Connection) -> None:
    """Answer the letters that come, until nobody is at the other end."""
    silo = Silo.open(file)
    try:
        while True:
            connection.send_bytes(silo.answer(connection.recv_bytes()))
    except (EOFError, ConnectionError):
        pass


class ProcessPost:
    """A post between this process and silos in others; it asks one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        start_server()
        self._silos: dict[str, tuple[Any, Connection]] = {name: self._started(name) for name in NAMES}

    def silos(self) -> Sequence[str]:
        return NAMES

    def ask(self, letters: Mapping[str, bytes], seconds: float, enough: Enough) -> Iterator[tuple[str, bytes]]:
        for name, letter in letters.items():
            yield name, self._answer(name, letter)

    def _answer(self, name: str, letter: bytes) -> bytes:
        for _ in range(_STARTS):
            process, connection = self._silos[name]
            try:
                connection.send_bytes(letter)
                return connection.recv_bytes()
            except (EOFError, ConnectionError):
                process.join()
                self._silos[name] = self._started(name)
        raise RuntimeError(f"the silo {name} has ended {_STARTS} times at one letter")

    def _started(self, name: str) -> tuple[Any, Connection]:
        ours, theirs = context().Pipe()
        with without_main():
            file = self._folder / name / "silo.toml"
            process = context().Process(target=serve_silo, args=(file, theirs), daemon=True)
            process.start()
        theirs.close()
        return process, ours


def main() -> None:
    folder, _, out = sys.argv[1:]
    post = ProcessPost(Path(folder))
    for record in run_consortium(Consortium.read_signed(Path(folder) / APP), post, Path(out)):
        print(f"round {record.round}", flush=True)


if __name__ == "__main__":
    from gauntlet.consortium import main as run  # processes of silos find functions of this module by its name

    run()
