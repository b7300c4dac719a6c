"""Archives that may be hostile: members are read as streams, in one pass, and never unpacked under their own names.

zip (and so wheels), tar (plain, gz, bz2, xz), Debian packages, and single files packed by gzip, bzip2 or xz; told by
their content, not by their names. An archive with a link, a device, a name that leads out of it or far more content
than its size explains is refused as soon as that is met.
"""

import bz2
import errno
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from silobench.errors import DataError

_MAGIC = {
    b"PK\x03\x04": "zip", b"PK\x05\x06": "zip", b"!<arch>\n": "deb",
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz",
}  # fmt: skip
_SUFFIX = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz"}
PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, ValueError,
)  # fmt: skip
_HEADERS = (b"L", b"K", b"x", b"g", b"X")  # long names and links, attributes of a member or of all
_LARGEST_HEADER = 2**20
_SMALL = 200 * 2**20  # what any archive may hold, however small it is itself
_RATIO = 100  # text packs to a tenth, tables of zeros and ones to a thirtieth; bombs to a thousandth
_BLOCK = 2**20


@dataclass(frozen=True)
class Member:
    """A regular file inside an archive; `stream` must be read before the next member is asked for."""

    name: str
    stream: IO[bytes]


def kind(path: Path) -> str:
    """zip, tar, deb, gzip, bzip2 or xz by content; empty for anything else."""
    with path.open("rb") as file:
        head = file.read(512)
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    if head[257:262] == b"ustar":
        return "tar"
    return "tar" if found in _SUFFIX and _packs_a_tar(path, found) else found


def members(path: Path) -> Iterator[Member]:
    """The regular files of an archive in its own order; a file packed alone is one member without a name."""
    readers = {"zip": _zip, "tar": _tar, "deb": _deb}
    found = kind(path)
    if not found:
        raise DataError(
            f"{path} is no archive that can be read: zip, tar, deb, gz, bz2 or xz are needed; fetch it again."
        )
    try:
        if found in readers:
            yield from readers[found](path)
        else:
            with PACKED[_SUFFIX[found]](path, "rb") as stream:
                yield Member("", stream)
    except (*_DAMAGED, NotImplementedError, RuntimeError, OSError) as error:  # an unknown packing, a password
        _raise_if_of_the_disk(error)
        raise DataError(f"the archive {path} is damaged or of an unknown make ({error}): fetch it again.") from error


def blocks(stream: IO[bytes], limit: int, given: str) -> Iterator[bytes]:
    """The bytes of a stream in blocks, at most `limit` of them; more is refused before it is kept."""
    read = 0
    while block := _read(stream, given):
        read += len(block)
        if read > limit:
            raise DataError(f"{given} has more than {limit:,} bytes: it is not what it should be, and was refused.")
        yield block


def unpacked(stream: IO[bytes], given: str, name: str) -> IO[bytes]:
    """The stream of ``given``, unpacked if that ends in .gz, .bz2 or .xz while the file it becomes does not."""
    suffix = PurePosixPath(given).suffix
    if suffix not in PACKED or name.endswith(suffix):
        return stream
    return cast(IO[bytes], PACKED[suffix](stream, "rb"))


def allowance(path: Path) -> int:
    """How much an archive may hold."""
    return max(_SMALL, _RATIO * path.stat().st_size)


def _read(stream: IO[bytes], given: str) -> bytes:
    try:
        return stream.read(_BLOCK)
    except (*_DAMAGED, OSError) as error:
        _raise_if_of_the_disk(error)
        raise DataError(f"{given} is damaged ({error}): fetch it again.") from error


def _raise_if_of_the_disk(error: Exception) -> None:
    """bz2 says by an OSError without a number that data are bad, and zipfile seeks where bad data send it."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error


def _packs_a_tar(path: Path, packing: str) -> bool:
    try:
        with PACKED[_SUFFIX[packing]](path, "rb") as stream:
            return bytes(stream.read(512))[257:262] == b"ustar"
    except (OSError, *_DAMAGED):
        return False


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        whole = archive.infolist()
        _check_size(path, sum(info.file_size for info in whole))
        for info in whole:
            unix = info.external_attr >> 16
            _check(path, info.filename, regular=unix & 0o170000 in (0, 0o100000, 0o040000))
        for info in whole:
            if not info.is_dir():
                with archive.open(info) as stream:
                    yield Member(info.filename, stream)


def _tar(path: Path) -> Iterator[Member]:
    with path.open("rb") as file:
        yield from _tar_members(path, file)


def _deb(path: Path) -> Iterator[Member]:
    """A Debian package is an `ar` archive of small headers; its files are in the member data.tar.*."""
    with path.open("rb") as file:
        file.seek(8)
        while header := file.read(60):
            if len(header) < 60 or not header[48:58].strip().isdigit():
                break
            if header.startswith(b"data.tar"):
                yield from _tar_members(path, file)
                return
            size = int(header[48:58])
            file.seek(size + size % 2, 1)
    raise DataError(f"{path} is a Debian package without files: fetch it again.")


def _tar_members(path: Path, file: IO[bytes]) -> Iterator[Member]:
    total = 0
    with tarfile.open(fileobj=file, mode="r|*", tarinfo=_Header) as archive:  # a stream: nothing is read twice
        for info in archive:
            _check(path, info.name, regular=info.isreg() or info.isdir())
            total += info.size
            _check_size(path, total)
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is not None:
                yield Member(info.name.removeprefix("./"), stream)


class _Header(tarfile.TarInfo):
    """A member's header. Long names and attributes have headers of their own, which tarfile reads whole."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tarfile_)  # type: ignore[misc,no-any-return]  # private, and typed nowhere


def _check(path: Path, name: str, regular: bool) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name or (parts and parts[0].endswith(":")):
        raise DataError(f"the archive {path} is refused: its member '{name}' leads out of it.")
    if not regular:
        raise DataError(f"the archive {path} is refused: its member '{name}' is a link or a device, not a file.")


def _check_size(path: Path, total: int) -> None:
    if total > allowance(path):
        raise DataError(
            f"the archive {path} is refused: {path.stat().st_size:,} bytes that unpack to {total:,} or more "
            "are a bomb, not data."
        )
