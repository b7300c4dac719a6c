"""The data directory: where a dataset's files lie, whether they are what they should be, and their arrays, cached.

    DATA/mnist/1/...                the files of version 1, with manifest.json: sums, source, terms, arrival
    DATA/mnist/1/.cache/...         arrays read from them, mapped into memory by every later load

Nothing is read before its sum is known to be right. Hashing again is spared only where size and times of a file are
those of the last check; a change of any kind is a change of its ctime, which no program can set.
"""

import functools
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from platformdirs import user_cache_path
from scipy import sparse

from silobench.data.catalog import Entry, catalog, find
from silobench.data.dataset import Dataset, Split
from silobench.errors import DataError

_LOG = logging.getLogger("silobench")
_AN_HOUR = 3600.0


def data_dir() -> Path:
    """``$SILOBENCH_DATA``, else the user's cache folder. ``--data-dir`` sets the former."""
    chosen = os.environ.get("SILOBENCH_DATA")
    return Path(chosen).expanduser() if chosen else user_cache_path("silobench") / "data"


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
        which = f" in the form '{form}'" if form else ""
        hint = f" ({entry.by_hand})" if entry.by_hand and not entry.sources else ""
        raise DataError(f"the dataset {name} is not in {data_dir()}{which}: run `{entry.remedy}`{hint}.")
    manifest = manifest_of(files)
    for file in files.names:
        problem = "" if _is_unchanged(files[file], manifest.stamp(file)) else damage(files, file, manifest)
        if problem:
            raise DataError(f"{problem}: it was not read; run `{entry.remedy}` to replace it.")
    return files


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
    return {"files": len(names), "damaged": [problem for problem in problems if problem]}


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


def _is_unchanged(path: Path, known: tuple[int, ...] | None) -> bool:
    return known is not None and path.is_file() and stamp(path) == known


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


@dataclass(frozen=True)
class Manifest:
    """What is recorded of files when they arrive."""

    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name: {bytes, sha256, source, stamp}
    licence: str = ""
    terms: str = ""
    accepted: str = ""  # when the terms were shown and the files fetched all the same

    def sums(self, name: str) -> tuple[str, ...]:
        return (self.files[name]["sha256"],) if name in self.files else ()

    def stamp(self, name: str) -> tuple[int, ...] | None:
        return tuple(self.files[name]["stamp"]) if name in self.files else None


def read_manifest(root: Path) -> Manifest:
    """The manifest of a folder; an empty one where there is none."""
    path = root / "manifest.json"
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        made = Manifest(**read)
        for name in made.files:
            made.sums(name), made.stamp(name)
    except (FileNotFoundError, NotADirectoryError):
        return Manifest()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is damaged: delete it, and run `silobench data verify` for what remains.") from error
    return made


def manifest_of(files: Files) -> Manifest:
    """What is recorded of these files; nothing where others put them."""
    return read_manifest(files.root) if files.managed else Manifest()


def write_manifest(root: Path, manifest: Manifest) -> None:
    facts = {key: getattr(manifest, key) for key in ("files", "licence", "terms", "accepted")}
    replace_atomically(root / "manifest.json", json.dumps(facts, indent=1).encode())


def entry_of(path: Path, source: str) -> dict[str, Any]:
    """A file as the manifest describes it."""
    return {"bytes": path.stat().st_size, "sha256": sha256(path), "source": source, "stamp": stamp(path)}


def replace_atomically(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
    with FileLock(root / ".lock", timeout=-1 if wait else 0):
        yield


# --- arrays ------------------------------------------------------------------------------------------


def stored(name: str, read: Callable[..., Dataset], form: str = "", **arguments: Any) -> Dataset:
    """A dataset of the catalogue: read from its checked files, or from the arrays that an earlier reading left.

    `read` gets the files and the arguments. Its arrays are cached by them, by the files' sums and by the code that
    reads, and are used again only if their own sum is still right.
    """
    files = require(name, form)
    if not files.managed:
        return read(files, **arguments)
    folder = files.root / ".cache" / _cache_key(files, arguments)
    kept = _read_cache(folder)
    if kept is not None:
        return kept
    _LOG.info("reading %s from its files; the next time its arrays are here", name)
    made = read(files, **arguments)
    with suppress(OSError):  # no room for a cache is no reason to stop
        _write_cache(folder, made)
    return made


def _cache_key(files: Files, arguments: Mapping[str, Any]) -> str:
    manifest = manifest_of(files)
    sums = [(name, manifest.sums(name) or sha256(files[name])) for name in files.names]
    needs = [_cache_key(require(other), {}) for other in files.entry.needs]
    facts = [files.entry.name, files.form, sorted(arguments.items()), sums, needs]
    return f"{_code()}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"


@functools.cache
def _code() -> str:
    """A digest of the code that reads data: arrays made by other code are not trusted to be the same."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _write_cache(folder: Path, dataset: Dataset) -> None:
    part = folder.with_name(f".part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        splits = {}
        for side, split in (("train", dataset.train), ("test", dataset.test)):
            splits[side] = {"shape": list(split.x.shape), "sparse": sparse.issparse(split.x), "groups": [*split.groups]}
            for what, array in _named_arrays(split):
                np.save(part / f"{side}-{what}.npy", array, allow_pickle=False)
        kept = ("name", "classes", "licence", "notes", "defaults", "task", "columns", "vocabulary", "augment")
        facts = {key: getattr(dataset, key) for key in kept}
        meta = {"facts": facts, "splits": splits, "checksum": dataset.checksum}
        (part / "meta.json").write_text(json.dumps({**meta, "digest": _digest(meta)}), encoding="utf-8")
        part.replace(folder)
    except OSError:
        if not folder.exists():  # another process was quicker
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    for other in folder.parent.iterdir():  # made by other code, or left by a process that was killed
        old = time.time() - other.stat().st_mtime > _AN_HOUR
        if not other.name.startswith(folder.name[:9]) and (old or not other.name.startswith(".part-")):
            shutil.rmtree(other, ignore_errors=True)


def _digest(meta: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(meta).encode()).hexdigest()


def _named_arrays(split: Split) -> Iterator[tuple[str, NDArray[Any]]]:
    if sparse.issparse(split.x):
        yield from (("data", split.x.data), ("indices", split.x.indices), ("indptr", split.x.indptr))
    else:
        yield "x", split.x
    yield "y", split.y
    for place, ids in enumerate(split.groups.values()):
        yield f"group{place}", ids


def _read_cache(folder: Path) -> Dataset | None:
    if not folder.is_dir():
        return None
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        if meta.pop("digest") != _digest(meta):
            raise ValueError("meta.json is damaged")
        splits = [_read_split(folder, side, meta["splits"][side]) for side in ("train", "test")]
        facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["facts"].items()}
        made = Dataset(train=splits[0], test=splits[1], **facts)
        if made.checksum == meta["checksum"]:  # computed once, and every run needs it
            return made
    except Exception:  # numpy raises many kinds for a torn or foreign file
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _read_split(folder: Path, side: str, facts: Mapping[str, Any]) -> Split:
    def array(what: str) -> NDArray[Any]:
        # Mapped, so that all processes share it; copy-on-write, because torch wants arrays it could write to.
        mapped: NDArray[Any] = np.load(folder / f"{side}-{what}.npy", mmap_mode="c", allow_pickle=False)
        return mapped

    if facts["sparse"]:
        x = sparse.csr_matrix((array("data"), array("indices"), array("indptr")), shape=facts["shape"], copy=False)
    else:
        x = array("x")
    return Split(x, array("y"), {level: array(f"group{place}") for place, level in enumerate(facts["groups"])})
