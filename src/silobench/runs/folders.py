"""Where runs are under a directory: found by the names of their files, without reading one."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from silobench.errors import RecordError


def run_paths(root: Path) -> list[Path]:
    """Return the directories of all runs under a directory, sorted; one without run.json is a run if it has rounds."""
    need_directory(root)
    return need_runs(root, [folder for folder, _ in folders_with(root, "run.json", "rounds.jsonl")])


def need_directory(root: Path) -> None:
    """Refuse a path that is no directory."""
    if root.is_file():
        raise RecordError(
            f"{root} is a file, but runs are in a directory, or in a file of records NAME.runs.xz: give one of these."
        )
    if not root.is_dir():
        raise RecordError(f"there is no directory {root}: run an experiment first, or check the path.")


def need_runs(root: Path, folders: Collection[str]) -> list[Path]:
    """Return the directories of runs as paths, sorted; refuse a directory without any."""
    if not folders:
        raise RecordError(f"{root} holds no run: run an experiment with --out {root} first.")
    return list(map(Path, sorted(folders, key=lambda folder: folder.split(os.sep))))


def need_no_link(place: Path) -> Path:
    """Return a place in a results directory to write to; a link is refused, because it leads out of the directory."""
    if place.is_symlink():
        raise RecordError(
            f"{place} is a link, so what is written there would land elsewhere: delete the link, or choose another "
            "place."
        )
    return place


def files_under(root: Path, *names: str) -> list[Path]:
    """Return the files and folders with these names under a directory. A checkpoint has neither."""
    return [Path(folder, name) for folder, found in folders_with(root, *names) for name in found]


def folders_with(root: Path, *names: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder under a directory that has files or folders with some of these names, and which it has."""
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inside = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        if found := [name for name in names if name in inside]:
            yield folder, found
        if inside.get("run.json") is False:
            inside.pop("checkpoint", None)  # so that it is not walked through
        waiting += [os.path.join(folder, name) for name, is_folder in inside.items() if is_folder]
