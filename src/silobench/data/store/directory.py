"""The data directory: where the files of a dataset are stored, and whether their checksums are right.

    DATA/mnist/1/...                the files of version 1, and manifest.json: checksums, source, terms, arrival time
    DATA/mnist/1/.cache/...         arrays read from these files, memory-mapped by later loads

No file is read before its checksum is verified. The file is not hashed again if its size and times are those of the
last check: every change of a file changes its ctime, which programs cannot set.
"""

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, field_validator

from silobench.atomic import replace_atomically
from silobench.data.store.catalog import Entry, Sha256, catalog, find
from silobench.errors import AbsentError, DataError
from silobench.processes import cache_folder


def data_dir() -> Path:
    """Return ``$SILOBENCH_DATA`` (``--data-dir`` sets it), else a folder of the user's cache."""
    chosen = os.environ.get("SILOBENCH_DATA")
    try:
        return Path(chosen).expanduser() if chosen else cache_folder() / "data"
    except RuntimeError as error:
        raise DataError(
            f"the data directory {chosen} names a user who does not exist on this machine: choose another."
        ) from error


def home_of(entry: Entry) -> Path:
    """Return the folder that silobench stores the files of an entry in."""
    return data_dir() / entry.name / str(entry.version)


# --- files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A complete form of a dataset on disk: its name, its folder, and its file names."""

    entry: Entry
    form: str
    root: Path
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Path:
        return self.root / name

    @property
    def managed(self) -> bool:
        """Whether silobench stored these files, so that it may write to their folder."""
        return self.root == home_of(self.entry)


def locate(entry: Entry, form: str = "") -> Files | None:
    """Find the first complete form of a dataset, or the given form, in the data directory; do not verify checksums."""
    roots = [home_of(entry), *(data_dir() / folder for folder in (entry.name, *entry.folders))]
    manifest = read_manifest(roots[0])
    for root in roots:
        for name, patterns in entry.forms.items():
            listed = manifest.files if root == roots[0] else ()
            names = _complete_form(root, patterns, listed) if form in ("", name) else ()
            if names:
                return Files(entry, name, root, names)
    return None


def available(entry: Entry) -> bool:
    """Return whether all files of a dataset, and of the datasets that it is built from, are on this machine."""
    return (not entry.forms or locate(entry) is not None) and all(available(find(name)) for name in entry.needs)


def require(name: str, form: str = "") -> Files:
    """Return the files of a dataset after verifying each checksum; raise an error if one is missing or damaged."""
    entry = find(name)
    if not entry.forms:  # built from other datasets, which the reader requires by their names
        return Files(entry, "", home_of(entry), ())
    files = locate(entry, form)
    if files is None:
        raise AbsentError(_absent_message(entry, form))
    manifest, verified = manifest_of(files), []
    for file in files.names:
        if not _is_unchanged(files, file, manifest):
            problem = damage(files, file, manifest)
            if problem:
                raise DataError(f"{problem}: it was not read; run `{remedy(entry)}` to replace it.")
            verified.append(file)
    if verified and files.managed:
        _record_verified(files, verified)
    return files


def _absent_message(entry: Entry, form: str) -> str:
    if form and locate(entry) is not None:
        problem = f"the form '{form}' of {entry.name} is not in {data_dir()}, but another form is"
        return f"{problem}: run `{_import_command(entry)}`, or use the other form."
    hint = f" ({entry.by_hand})" if entry.by_hand and not entry.sources else ""
    return f"the dataset {entry.name} is not in {data_dir()}: run `{remedy(entry)}`{hint}."


def remedy(entry: Entry) -> str:
    """Return the command that brings a dataset (again): `data import` if it was imported before, else `data fetch`."""
    by_hand = any(arrival.source.startswith("import ") for arrival in read_manifest(home_of(entry)).files.values())
    if by_hand or not (entry.sources or entry.needs):
        return _import_command(entry)
    return f"silobench data fetch {entry.name}{_data_dir_option()}"


def _import_command(entry: Entry) -> str:
    return f"silobench data import {entry.name} PATH{_data_dir_option()}"


def _data_dir_option() -> str:
    chosen = os.environ.get("SILOBENCH_DATA_DIR_GIVEN") == os.environ.get("SILOBENCH_DATA", "")
    return f" --data-dir {data_dir()}" if chosen else ""


def _is_unchanged(files: Files, name: str, manifest: "Manifest") -> bool:
    """Return whether a file is unchanged since its last check, and the catalogue still accepts its checksum."""
    recorded, valid = manifest.files.get(name), files.entry.file(name).sums
    unchanged = recorded is not None and files[name].is_file() and stamp(files[name]) == recorded.stamp
    return unchanged and (not valid or manifest.sums(name)[0] in valid)


def _record_verified(files: Files, names: Iterable[str]) -> None:
    """Record the stamps of verified files, so that they are not hashed again; skip this if it cannot be written."""
    with suppress(OSError, Timeout, DataError), locked(files.entry, wait=False):
        manifest = read_manifest(files.root)
        known = {name: manifest.files.get(name) or describe(files[name], "found in its place") for name in names}
        stamped = {name: arrival.model_copy(update={"stamp": stamp(files[name])}) for name, arrival in known.items()}
        write_manifest(files.root, manifest.model_copy(update={"files": {**manifest.files, **stamped}}))


def check_all(entry: Entry) -> dict[str, Any] | None:
    """Verify all files of an entry; return their count and problems, or None if no file is on this machine."""
    complete, manifest = locate(entry), read_manifest(home_of(entry))
    if complete is None and not manifest.files:
        return None
    files = complete or Files(entry, "", home_of(entry), ())
    present = {name for name in entry.files if files[name].is_file()}
    names = sorted({*present, *files.names, *(manifest.files if files.managed else ())})
    recorded = manifest_of(files)
    damaged = [problem for name in names if (problem := damage(files, name, recorded))]
    unknown = [name for name in names if not entry.file(name).sums and not recorded.sums(name)]
    if complete is None and not damaged:
        damaged = [f"{entry.name} is not complete in {files.root}"]
    return {"files": len(names), "damaged": damaged, "unchecked": len(unknown)}


def damage(files: Files, name: str, manifest: "Manifest") -> str:
    """Return what is wrong with a file, or an empty string; the whole file is hashed."""
    path, expected = files[name], files.entry.file(name).sums or manifest.sums(name)
    if not path.is_file():
        return f"{path} is missing"
    if not expected:
        return f"{path} has no recorded checksum" if files.managed else ""
    actual = sha256(path)
    return (
        "" if actual in expected else f"{path} is damaged (its sha256 is {actual[:12]}..., not {expected[0][:12]}...)"
    )


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; a process computes it once while the file is unchanged."""
    return _sha256(path, stamp(path))


@functools.lru_cache(maxsize=10_000)
def _sha256(path: Path, stamp: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stamps(name: str) -> Iterator[tuple[int, ...]]:
    """Yield the stamps of all files behind a dataset of the catalogue; nothing for any other name."""
    entry = catalog().get(name)
    if entry is None:
        return
    files = locate(entry)
    if files is not None:
        yield from (stamp(files[file]) for file in files.names if files[file].is_file())
    for other in entry.needs:
        yield from stamps(other)


def stamp(path: Path) -> tuple[int, ...]:
    """Return the size and times of a file, which change whenever its content changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _complete_form(root: Path, patterns: tuple[str, ...], listed: Iterable[str]) -> tuple[str, ...]:
    """Return the files of a form in a folder, or nothing if one is missing; ``*`` matches files of the manifest."""
    names: list[str] = []
    for name in patterns:
        matches = sorted(filter_names(listed, name)) if "*" in name else [name] if (root / name).is_file() else []
        if not matches:
            return ()
        names += matches
    return tuple(names)


def filter_names(names: Iterable[str], pattern: str) -> Iterator[str]:
    """Yield the names that match a pattern, where ``*`` matches any text without a slash."""
    depth = pattern.count("/")
    return (name for name in names if name.count("/") == depth and fnmatchcase(name, pattern))


# --- the manifest ------------------------------------------------------------------------------------


class Arrival(BaseModel):
    """The record of one file, from when its checksum was last verified."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    bytes: int
    sha256: Sha256
    source: str
    stamp: tuple[int, ...]
    arrived: str  # time


class Manifest(BaseModel):
    """The record of all files of a dataset, stored as manifest.json."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    files: dict[str, Arrival] = {}
    licence: str = ""
    terms: str = ""
    accepted: str = ""  # time at which the terms were shown and the user continued

    def sums(self, name: str) -> tuple[str, ...]:
        return (self.files[name].sha256,) if name in self.files else ()

    @field_validator("files")
    @classmethod
    def _check_names(cls, files: dict[str, Arrival]) -> dict[str, Arrival]:
        for name in files:
            if not name or name.startswith("/") or "\\" in name or {"..", "."} & set(name.split("/")):
                raise ValueError(f"'{name}' leads out of its folder")
        return files


def read_manifest(root: Path) -> Manifest:
    """Return the manifest of a folder, or an empty one if there is none."""
    path = root / "manifest.json"
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return Manifest()
    except (IsADirectoryError, ValueError) as error:
        raise DataError(
            f"{path} is damaged: delete it, then run `silobench data verify` to check the files."
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): check the permissions of its folders,"
            " or choose another data directory with --data-dir."
        ) from error


def manifest_of(files: Files) -> Manifest:
    """Return the manifest of these files; an empty one if silobench did not store them."""
    return read_manifest(files.root) if files.managed else Manifest()


def write_manifest(root: Path, manifest: Manifest) -> None:
    replace_atomically(root / "manifest.json", manifest.model_dump_json(indent=1).encode(), is_locked=True)


def describe(path: Path, source: str) -> Arrival:
    """Return the manifest's record of a file."""
    size, now = path.stat().st_size, datetime.now(UTC).isoformat(timespec="seconds")
    return Arrival(bytes=size, sha256=sha256(path), source=source, stamp=stamp(path), arrived=now)


@contextmanager
def locked(entry: Entry, wait: bool = True) -> Iterator[None]:
    """Lock the files of a dataset against other processes; without `wait`, raise `filelock.Timeout` if it is locked."""
    root = home_of(entry)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the data directory {data_dir()} is not writable ({error.strerror}): choose another with --data-dir."
        ) from error
    try:
        lock = FileLock(root / ".lock", timeout=-1 if wait else 0).acquire()
    except Timeout:  # a subclass of OSError, for the caller
        raise
    except OSError as error:
        raise DataError(f"{root} is not writable ({error.strerror}): choose another folder with --data-dir.") from error
    with lock:
        yield
