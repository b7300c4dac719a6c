"""What commands that make runs share: settings from the command line, progress, and how Ctrl-C ends them."""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silobench.errors import ConfigError, StoppedError

if TYPE_CHECKING:
    from silobench.runs.plan import Plan


def settings_of(pairs: Sequence[str], option: str = "--set", example: str = "rounds=20") -> dict[str, Any]:
    """Parse ``key=value`` pairs of an option. A value is read as TOML if possible, else as text."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(
                f"{option} takes key=value, but '{pair}' was given: write, for example, {option} {example}."
            )
        try:
            values[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = value.strip()
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{option} {key.strip()} has a value that is too long or nested too deeply: shorten it."
            ) from error
    return values


@contextmanager
def resumable() -> Iterator[None]:
    """Say how to resume, if Ctrl-C stops the runs or what comes before them."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError("stopped; finished rounds are kept: run the same command again to resume.") from error


def sweep_with_progress(
    missing: "Sequence[Plan]",
    out: Path,
    engine: str,
    workers: int,
    plugins: Sequence[Path],
    *,
    total: int,
    live: bool,
    notes: set[str] | None = None,
) -> None:
    """Do the missing runs of a total, and show the progress; with moving bars, if `live`.

    `notes` were printed before, and are not printed again; new ones are added to them.
    """
    from silobench.cli.progress import Progress
    from silobench.runs.sweep import sweep

    with (
        Progress(total=total, done=total - len(missing), live=live) as progress,
        closing(sweep(missing, out, engine, workers, plugins)) as events,
    ):
        progress.notes = notes if notes is not None else progress.notes
        for event in events:
            progress.show(event)
