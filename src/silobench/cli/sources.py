"""Where commands read runs from: a directory, a file of records, or the records that come with silobench."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.leaving import expect
from silobench.errors import ConfigError

if TYPE_CHECKING:
    from silobench.runs.results import Results

Directory = Annotated[
    Path | None,
    typer.Argument(
        help="Directory of runs, or a file of records (.runs.xz); with --published, the name of a study, or a glob."
    ),
]
Published = Annotated[
    bool,
    typer.Option(
        "--published",
        help="Read the runs that come with silobench: all of them, or those of the study DIRECTORY; "
        "`silobench list published` has the names.",
    ),
]


_NEW_OBJECTS = 100_000  # after which the garbage collector looks at them


@dataclass(frozen=True)
class Source:
    """Runs to read, as a command line names them."""

    directory: Path | None  # with `published`, the name of a study or a glob; None for all
    published: bool = False

    @property
    def name(self) -> str:
        """The runs, as sentences and titles name them."""
        if self.published:
            return f"published {self.directory}" if self.directory else "published"
        return str(self.directory)

    @property
    def folder(self) -> Path:
        """The folder for pages about these runs: their directory, or one in the working directory."""
        if self.published:
            return Path("published")
        directory = self._given()
        return directory if directory.is_dir() else Path(directory.name.partition(".")[0])

    def read(self) -> "Results":
        """Read the runs; those that are damaged are in the results by a sentence each."""
        if not self.published:
            directory = self._given()
        with waiting(f"reading the runs of {self.name}" if self.published else f"reading the runs in {self.name}"):
            from silobench.runs.archive import published_runs
            from silobench.runs.results import Results, read_results

            with _without_collections():
                if self.published:
                    return Results(published_runs(str(self.directory or "*")), [])
                results = read_results(directory)
        expect(len(results.runs))
        return results

    def _given(self) -> Path:
        if self.directory is None:
            raise ConfigError(
                "no directory of runs was given: write one, such as runs/demo, or --published for the runs that come "
                "with silobench."
            )
        return self.directory


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collector away from what the body makes, which stays until the command ends.

    Afterwards it looks less often: what commands compute from many runs stays too, and has no cycles.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()


def read_all(directories: Sequence[Path], published: bool) -> "Results":
    """Read the runs of several directories and archives, and the published ones beside them.

    With `published`, a value that is no path is the name of a study, or a glob; without any, all studies are read.
    """
    studies = [path for path in directories if published and not path.exists()]
    places = [path for path in directories if path not in studies]
    if not places and not published:
        return Source(None).read()  # which refuses it
    names: list[Path | None] = [*studies] if studies or not published else [None]
    parts = [*(Source(path).read() for path in places), *(Source(name, True).read() for name in names)]
    return _joined(parts)


def _joined(parts: "Sequence[Results]") -> "Results":
    from silobench.runs.results import Results

    runs = [run for part in parts for run in part.runs]
    problems = [problem for part in parts for problem in part.problems]
    absent = frozenset(run for part in parts for run in part.not_started)
    return Results(runs, problems, absent - {run.facts.id for run in runs})
