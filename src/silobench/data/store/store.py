"""The data directory: where a dataset's files lie, and whether they are what they should be.

    DATA/mnist/1/...                the files of version 1, with manifest.json: sums, source, terms, arrival
    DATA/mnist/1/.cache/...         arrays read from them, mapped into memory by every later load

No file of this folder is read before its sum is known to be right. Hashing again is spared only where its size and
times are those of the last check; a change of any kind is a change of its ctime, which no program can set.
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
from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, field_validator

from silobench.atomic import replace_atomically
from silobench.data.store.catalog import Entry, Sha256, catalog, find
from silobench.errors import AbsentError, DataError


def data_dir() -> Path:
    """``$SILOBENCH_DATA``, else the user's cache folder. ``--data-dir`` sets the former."""
    chosen = os.environ.get("SILOBENCH_DATA")
    try:
        return Path(chosen).expanduser() if chosen else user_cache_path("silobench") / "data"
    except RuntimeError as error:
        raise DataError(f"the data directory {chosen} names no user of this machine: choose another.") from error


def home_of(entry: Entry) -> Path:
    """The folder where an entry's files are put."""
    return data_dir() / entry.name / str(entry.version)


# --- files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A complete form of a dataset: which one, where, and its files by name."""

    entry: Entry
    form: str
    root: Path
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Path:
        return self.root / name

    @property
    def managed(self) -> bool:
        """Whether silobench put them there, and may write beside them."""
        return self.root == home_of(self.entry)


def locate(entry: Entry, form: str = "") -> Files | None:
    """The first complete form of a dataset in the data directory (or just that form); sums are not looked at."""
    roots = [home_of(entry), *(data_dir() / folder for folder in (entry.name, *entry.folders))]
    manifest = read_manifest(roots[0])
    for root in roots:
        for name, wanted in entry.forms.items():
            listed = manifest.files if root == roots[0] else ()
            found = _complete(root, wanted, listed) if form in ("", name) else ()
            if found:
                return Files(entry, name, root, found)
    return None


def available(entry: Entry) -> bool:
    """Whether everything that a dataset is made from is here."""
    return (not entry.forms or locate(entry) is not None) and all(available(find(name)) for name in entry.needs)


def require(name: str, form: str = "") -> Files:
    """The files of a dataset, every one checked; what is missing or damaged is named, with what to do."""
    entry = find(name)
    if not entry.forms:  # made from others, which are asked for by their own names
        return Files(entry, "", home_of(entry), ())
    files = locate(entry, form)
    if files is None:
        raise AbsentError(_absent(entry, form))
    manifest, read_anew = manifest_of(files), []
    for file in files.names:
        if not _is_known(files, file, manifest):
            problem = damage(files, file, manifest)
            if problem:
                raise DataError(f"{problem}: it was not read; run `{remedy(entry)}` to replace it.")
            read_anew.append(file)
    if read_anew and files.managed:
        _remember(files, read_anew)
    return files


def _absent(entry: Entry, form: str) -> str:
    if form and locate(entry) is not None:
        given = f"the form '{form}' of {entry.name} is not in {data_dir()}, though another is"
        return f"{given}: run `{_import(entry)}`, or take the form that is here."
    hint = f" ({entry.by_hand})" if entry.by_hand and not entry.sources else ""
    return f"the dataset {entry.name} is not in {data_dir()}: run `{remedy(entry)}`{hint}."


def remedy(entry: Entry) -> str:
    """What to type to have a dataset, or have it again: what was imported by hand is imported again."""
    by_hand = any(arrival.source.startswith("import ") for arrival in read_manifest(home_of(entry)).files.values())
    if by_hand or not (entry.sources or entry.needs):
        return _import(entry)
    return f"silobench data fetch {entry.name}{_option()}"


def _import(entry: Entry) -> str:
    return f"silobench data import {entry.name} PATH{_option()}"


def _option() -> str:
    given = os.environ.get("SILOBENCH_DATA_DIR_GIVEN") == os.environ.get("SILOBENCH_DATA", "")
    return f" --data-dir {data_dir()}" if given else ""


def _is_known(files: Files, name: str, manifest: "Manifest") -> bool:
    """Whether a file is as it was when its sum was last found right, and that sum is still the right one."""
    recorded, right = manifest.files.get(name), files.entry.file(name).sums
    unchanged = recorded is not None and files[name].is_file() and stamp(files[name]) == recorded.stamp
    return unchanged and (not right or manifest.sums(name)[0] in right)


def _remember(files: Files, names: Iterable[str]) -> None:
    """Files that were read and found right need not be read again; where this cannot be written they are."""
    with suppress(OSError, Timeout, DataError), locked(files.entry, wait=False):
        manifest = read_manifest(files.root)
        known = {name: manifest.files.get(name) or entry_of(files[name], "found in its place") for name in names}
        seen = {name: arrival.model_copy(update={"stamp": stamp(files[name])}) for name, arrival in known.items()}
        write_manifest(files.root, manifest.model_copy(update={"files": {**manifest.files, **seen}}))


def check_all(entry: Entry) -> dict[str, Any] | None:
    """How many files of an entry are here and what is wrong with any; nothing where none is here."""
    here, manifest = locate(entry), read_manifest(home_of(entry))
    if here is None and not manifest.files:
        return None
    files = here or Files(entry, "", home_of(entry), ())
    present = {name for name in entry.files if files[name].is_file()}
    names = sorted({*present, *files.names, *(manifest.files if files.managed else ())})
    recorded = manifest_of(files)
    problems = (damage(files, name, recorded) for name in names)
    unknown = [name for name in names if not entry.file(name).sums and not recorded.sums(name)]
    found = [problem for problem in problems if problem]
    if here is None and not found:
        found = [f"{entry.name} is not complete in {files.root}"]
    return {"files": len(names), "damaged": found, "unchecked": len(unknown)}


def damage(files: Files, name: str, manifest: "Manifest") -> str:
    """What is wrong with a file, or nothing; the whole file is read."""
    path, expected = files[name], files.entry.file(name).sums or manifest.sums(name)
    if not path.is_file():
        return f"{path} is missing"
    if not expected:
        return f"{path} has no recorded sum" if files.managed else ""
    found = sha256(path)
    return "" if found in expected else f"{path} is damaged (its sha256 is {found[:12]}..., not {expected[0][:12]}...)"


def sha256(path: Path) -> str:
    """The sum of a file; not computed twice in a process while the file stays as it is."""
    return _sha256(path, stamp(path))


@functools.lru_cache(maxsize=10_000)
def _sha256(path: Path, known: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stamps(name: str) -> Iterator[tuple[int, ...]]:
    """The stamps of a catalogued dataset's files, and of those it is made from; none for any other name."""
    entry = catalog().get(name)
    if entry is None:
        return
    files = locate(entry)
    if files is not None:
        yield from (stamp(files[file]) for file in files.names if files[file].is_file())
    for other in entry.needs:
        yield from stamps(other)


def stamp(path: Path) -> tuple[int, ...]:
    """Size and times of a file: they change with its content."""
    seen = path.stat()
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _complete(root: Path, wanted: tuple[str, ...], listed: Iterable[str]) -> tuple[str, ...]:
    """The files of a form under a folder, or none if one is missing. A pattern stands for what the manifest lists."""
    found: list[str] = []
    for name in wanted:
        some = sorted(filter_names(listed, name)) if "*" in name else [name] if (root / name).is_file() else []
        if not some:
            return ()
        found += some
    return tuple(found)


def filter_names(names: Iterable[str], pattern: str) -> Iterator[str]:
    """The names that match a pattern, where ``*`` stands for anything within one folder or file name."""
    depth = pattern.count("/")
    return (name for name in names if name.count("/") == depth and fnmatchcase(name, pattern))


# --- the manifest ------------------------------------------------------------------------------------


class Arrival(BaseModel):
    """One file as it was when its sum was last found right."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    bytes: int
    sha256: Sha256
    source: str
    stamp: tuple[int, ...]
    arrived: str  # when


class Manifest(BaseModel):
    """What is recorded of files when they arrive."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    files: dict[str, Arrival] = {}
    licence: str = ""
    terms: str = ""
    accepted: str = ""  # when the terms were shown and the files fetched all the same

    def sums(self, name: str) -> tuple[str, ...]:
        return (self.files[name].sha256,) if name in self.files else ()

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, Arrival]) -> dict[str, Arrival]:
        for name in files:
            if not name or name.startswith("/") or "\\" in name or {"..", "."} & set(name.split("/")):
                raise ValueError(f"'{name}' leads out of its folder")
        return files


def read_manifest(root: Path) -> Manifest:
    """The manifest of a folder; an empty one where there is none."""
    path = root / "manifest.json"
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return Manifest()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: delete it, and run `silobench data verify` for what remains.") from error


def manifest_of(files: Files) -> Manifest:
    """What is recorded of these files; nothing where others put them."""
    return read_manifest(files.root) if files.managed else Manifest()


def write_manifest(root: Path, manifest: Manifest) -> None:
    replace_atomically(root / "manifest.json", manifest.model_dump_json(indent=1).encode())


def entry_of(path: Path, source: str) -> Arrival:
    """A file as the manifest describes it."""
    size, now = path.stat().st_size, datetime.now(UTC).isoformat(timespec="seconds")
    return Arrival(bytes=size, sha256=sha256(path), source=source, stamp=stamp(path), arrived=now)


@contextmanager
def locked(entry: Entry, wait: bool = True) -> Iterator[None]:
    """Only one process changes a dataset's files at a time; without `wait` a busy one raises `filelock.Timeout`."""
    root = home_of(entry)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the data directory {data_dir()} cannot be written ({error.strerror}): choose another with --data-dir."
        ) from error
    try:
        lock = FileLock(root / ".lock", timeout=-1 if wait else 0).acquire()
    except Timeout:  # an OSError as well, but ours
        raise
    except OSError as error:
        raise DataError(
            f"{root} cannot be written ({error.strerror}): choose another folder with --data-dir."
        ) from error
    with lock:
        yield
