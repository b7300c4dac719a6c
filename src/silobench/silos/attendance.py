"""`Attendance`: the runs that a silo joined, and how many more it allows."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from silobench.silos.letters import Letter, LetterError
from silobench.silos.store import Drawer

BEGUN, ENDED = "begin", "ended"  # files of a run
_OPEN = 3  # runs at most that a silo joined and that did not begin


@dataclass(frozen=True)
class Attendance:
    """The folders of a silo's runs, by consortium and id. `most` is the number of runs that it takes part in."""

    state: Drawer
    consortium: str
    most: int

    @property
    def _folder(self) -> Path:
        return self.state.path / self.consortium[:16]

    def drawer(self, letter: Letter) -> Drawer:
        """Return where the run of a letter is stored; only a letter that joins starts a new one, up to the limit."""
        path = self._folder / letter.run
        if not path.exists():
            if letter.kind != "join":
                raise LetterError("this silo did not join the run of the letter")
            self.need_another(letter.run)
            self._forget_open()
        drawer = Drawer.open(path)
        if drawer.get(ENDED) is not None:
            raise LetterError("the run of the letter has ended")
        return drawer

    def need_another(self, run: str) -> None:
        """Refuse a run besides those that the silo allows, over all consortia."""
        if len(begun(self.state.path) - {self._folder / run}) >= self.most:
            raise LetterError(
                f"this silo takes part in {self.most} run at most, over all consortia, by max_runs of its silo.toml"
            )

    def _forget_open(self) -> None:
        """Delete the oldest runs that the silo joined and that never began, so that joins do not fill its disk."""
        joined = {path for path in self.state.path.glob("*/*") if path.is_dir()} - begun(self.state.path)
        for path in sorted(joined, key=lambda path: path.stat().st_mtime_ns)[: max(0, len(joined) + 1 - _OPEN)]:
            shutil.rmtree(path)


def begun(state: Path) -> set[Path]:
    """Return the folders of the runs that a silo took part in."""
    return {path.parent for name in (BEGUN, ENDED) for path in state.glob(f"*/*/{name}")}
