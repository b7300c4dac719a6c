"""Damaged data directories and kernel caches: fetched, read or compiled again, or refused with what to do."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from commands import PATIENCE
from gauntlet.damage import copy_of
from gauntlet.harms import HARMS, REPEATED, WRITTEN
from gauntlet.outcome import Options, Outcome, Verdict
from offline import Server, entry, source, use
from silobench.data.dataset import Dataset, Split
from silobench.data.store.cache import stored
from silobench.data.store.catalog import Download, Entry
from silobench.data.store.directory import Files, check_all, home_of
from silobench.data.store.fetch import fetch
from silobench.errors import DataError

_FILES = {"rows.csv": b"1,2,0\n4,5,1\n" * 40, "names.csv": b"width\nheight\n"}
_COMPILE = """
from silobench.engines.kernel import build
build.FLAGS = ("-O0", *(flag for flag in build.FLAGS if flag != "-O2"))  # compiled in a quarter of the time
try:
    print(build.native().path)
except build.NoNativeError as reason:
    print(f"\\n{reason}")
"""


@dataclass(frozen=True)
class Store:
    """A data directory with one dataset, which a web server on this machine has."""

    folder: Path
    entry: Entry

    def dataset(self) -> Dataset:
        """Return the dataset: from its cache, or else from its files."""
        return stored(self.entry.name, _read)


def _read(files: Files) -> Dataset:
    """Read the dataset of the store."""
    rows = np.loadtxt(files["rows.csv"], delimiter=",", dtype=np.float32)
    names = tuple(files["names.csv"].read_text().split())
    splits = [Split(part[:, :2], part[:, 2].astype(np.int64)) for part in (rows[:60], rows[60:])]
    return Dataset("toy", *splits, ("no", "yes"), "odd licence", columns=names)


def damaged_data(options: Options) -> Iterator[Outcome]:
    """Damage every file of a data directory in every way, and load the dataset."""
    place = options.folder / "data"
    with _store(place) as store:
        expected = store.dataset().checksum
        files = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
        random = Random(options.seed)
        for name in files:
            for harm in HARMS:
                for _ in range(3 if harm in REPEATED else 1):
                    case = f"data directory: {_kind(Path(name))}"
                    if options.includes(harm, case) and not (name.endswith(".lock") and harm in WRITTEN):
                        yield _try(store, name, harm, random, expected, case)


@contextmanager
def _store(folder: Path) -> Iterator[Store]:
    """Yield a data directory into which the dataset was fetched, and which has its cache."""
    server = Server()
    downloads = [Download(what=server.put(name, content), files=(name,)) for name, content in _FILES.items()]
    toy = entry(files=_FILES, sources=(source("home", *downloads),))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        patch.setenv("no_proxy", "*")
        patch.setenv("SILOBENCH_DATA", str(folder))
        use(patch, toy)
        try:
            list(fetch(toy))
            store = Store(folder, toy)
            store.dataset()
            yield store
        finally:
            server.close()


def _kind(name: Path) -> str:
    return f"cached {name.name}" if ".cache" in name.parts else name.name


def _try(store: Store, name: str, harm: str, random: Random, expected: str, case: str) -> Outcome:
    """Damage a file, load the dataset, and put the directory back."""
    with copy_of(store.folder) as intact:
        detail = HARMS[harm](store.folder / name, random)
        try:
            result, reason = _loaded(store, expected)
        except Exception as error:
            result, reason = "lost", f"{type(error).__name__}: {error}"
        shutil.rmtree(store.folder)
        shutil.copytree(intact, store.folder, symlinks=True)
    return Outcome(harm, case, result, f"{detail}; {reason}" if reason else detail)


def _loaded(store: Store, expected: str) -> tuple[Verdict, str]:
    """Judge the dataset: the same, or refused and the same after the command that the sentence names."""
    try:
        checksum = store.dataset().checksum
        return ("survived", "") if checksum == expected else ("lost", "other rows were read")
    except DataError as error:
        sentence = str(error)
    if "\n" in sentence or "silobench data " not in sentence:
        return "lost", f"the sentence says not what to do: {sentence}"
    if "manifest.json is damaged: delete it" in sentence:
        _delete(home_of(store.entry) / "manifest.json")
        check_all(store.entry)
    else:
        _fetch(store)
    checksum = store.dataset().checksum
    return ("refused", sentence) if checksum == expected else ("lost", f"the remedy does not help: {sentence}")


def _fetch(store: Store) -> None:
    """Fetch the dataset again; a folder in the place of a file is named first, and moved away."""
    for name in _FILES:
        if (folder := home_of(store.entry) / name).is_dir():
            with pytest.raises(DataError, match=f"{name} is a folder, where a file of toy belongs: move it away"):
                list(fetch(store.entry))
            _delete(folder)
    list(fetch(store.entry))


def _delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


# --- compiled code -----------------------------------------------------------------------------------


def damaged_kernels(options: Options) -> Iterator[Outcome]:
    """Damage the compiled step: it is compiled again, and never loaded, because it might crash or be wrong."""
    case, folder, random = "kernel cache: compiled step", options.folder / "kernels", Random(options.seed)
    harms = [harm for harm in HARMS if options.includes(harm, case) and harm != "last line torn"]
    if not harms:
        return
    library, reason = _compiled(folder)
    if library is None:
        print(f"skipped   {case}: {reason}", file=sys.stderr)
        return
    content = library.read_bytes()
    for harm in harms:
        detail = HARMS[harm](library, random)
        again, reason = _compiled(folder)
        if again is not None:
            result: Verdict = "survived" if again.read_bytes() == content else "lost"
        else:
            result = "refused" if str(library) in reason else "lost"
        yield Outcome(harm, case, result, f"{detail}; {reason}" if reason else detail)
        _delete(library)
        library.write_bytes(content)


def _compiled(folder: Path) -> tuple[Path | None, str]:
    """Return the compiled step in a cache, or why there is none; in another process, which it might crash."""
    environment = {**os.environ, "SILOBENCH_KERNELS": str(folder)}
    command = [sys.executable, "-c", _COMPILE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        return None, f"it ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    path, _, reason = done.stdout.partition("\n")
    return (Path(path), "") if path else (None, reason.strip())
