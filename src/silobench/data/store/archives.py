"""Safe reading of archives from untrusted sources: members are streamed in one pass, never extracted to disk.

Supported: zip (and wheels), tar (plain, gz, bz2, xz), Debian packages, and single files compressed by gzip, bzip2 or
xz. The format is detected from the content, not from the file name. An archive is refused if it has a link, a device,
a path that leads out of the archive, or far more content than its size allows (a decompression bomb).
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
    MemoryError,
)  # fmt: skip  # MemoryError: a header of xz may ask for 4 GiB
_HEADERS = (b"L", b"K", b"x", b"g", b"X")  # headers of long names, long links, and attributes (of one member or of all)
_LARGEST_HEADER = 2**20
_SMALL = 200 * 2**20  # every archive may hold this many bytes, even a very small one
_RATIO = 100  # text compresses about 10:1, tables of zeros and ones 30:1; bombs 1000:1
_BLOCK = 2**20


@dataclass(frozen=True)
class Member:
    """A regular file inside an archive. Read `stream` before taking the next member."""

    name: str
    stream: IO[bytes]


def kind(path: Path) -> str:
    """Return zip, tar, deb, gzip, bzip2 or xz, detected from the content; an empty string for anything else."""
    with path.open("rb") as file:
        head = file.read(512)
    format_ = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    if head[257:262] == b"ustar":
        return "tar"
    return "tar" if format_ in _SUFFIX and _holds_tar(path, format_) else format_


def members(path: Path) -> Iterator[Member]:
    """Yield the regular files of an archive in its order; a single compressed file is one member without a name."""
    readers = {"zip": _zip, "tar": _tar, "deb": _deb}
    format_ = kind(path)
    if not format_:
        raise DataError(
            f"{path} is not an archive of a known format: zip, tar, deb, gz, bz2 or xz is needed; fetch it again."
        )
    try:
        if format_ in readers:
            yield from readers[format_](path)
        else:
            with PACKED[_SUFFIX[format_]](path, "rb") as stream:
                yield Member("", stream)
    except (
        *_DAMAGED,
        NotImplementedError,
        RuntimeError,
        OSError,
    ) as error:  # an unknown compression method, a password
        _raise_disk_error(error)
        raise DataError(
            f"the archive {path} is damaged, encrypted or of an unsupported kind ({_reason(error)}): fetch it again."
        ) from error


def blocks(stream: IO[bytes], limit: int, name: str) -> Iterator[bytes]:
    """Yield the bytes of a stream in blocks; refuse a stream of more than `limit` bytes. `name` appears in errors."""
    size = 0
    while block := _read(stream, name):
        size += len(block)
        if size > limit:
            raise DataError(f"{name} has more than {limit:,} bytes, so it was refused: fetch it again.")
        yield block


def read_limited(stream: IO[bytes], limit: int, name: str) -> bytes:
    """Return the whole stream; refuse more than `limit` bytes."""
    return b"".join(blocks(stream, limit, name))


def decompress(stream: IO[bytes], source: str, target: str) -> IO[bytes]:
    """Decompress a stream if the name `source` ends in .gz, .bz2 or .xz and the name `target` does not."""
    suffix = PurePosixPath(source).suffix
    if suffix not in PACKED or target.endswith(suffix):
        return stream
    return cast(IO[bytes], PACKED[suffix](stream, "rb"))


def size_limit(path: Path) -> int:
    """Return how many bytes an archive may hold after decompression."""
    return max(_SMALL, _RATIO * path.stat().st_size)


def _read(stream: IO[bytes], name: str) -> bytes:
    try:
        return stream.read(_BLOCK)
    except (*_DAMAGED, OSError) as error:
        _raise_disk_error(error)
        raise DataError(f"{name} is damaged ({_reason(error)}): fetch it again.") from error


def _reason(error: Exception) -> str:
    return "it needs too much memory" if isinstance(error, MemoryError) else str(error) or type(error).__name__


def _raise_disk_error(error: Exception) -> None:
    """Raise an error of the disk again. bz2 and zipfile raise OSError for bad data too: without errno, or EINVAL."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error


def _holds_tar(path: Path, compression: str) -> bool:
    try:
        with PACKED[_SUFFIX[compression]](path, "rb") as stream:
            return bytes(stream.read(512))[257:262] == b"ustar"
    except (OSError, *_DAMAGED):
        return False


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_size(path, sum(info.file_size for info in entries))
        for info in entries:
            unix = info.external_attr >> 16
            _check(path, info.filename, regular=unix & 0o170000 in (0, 0o100000, 0o040000))
        for info in entries:
            if not info.is_dir():
                with archive.open(info) as stream:
                    yield Member(info.filename, stream)


def _tar(path: Path) -> Iterator[Member]:
    with path.open("rb") as file:
        yield from _tar_members(path, file)


def _deb(path: Path) -> Iterator[Member]:
    """Yield the files of a Debian package: an `ar` archive with the files in its member data.tar.*."""
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
    raise DataError(f"{path} is a Debian package without a member data.tar: fetch it again.")


def _tar_members(path: Path, file: IO[bytes]) -> Iterator[Member]:
    total = 0
    with tarfile.open(fileobj=file, mode="r|*", tarinfo=_Header) as archive:  # read as a stream, in one pass
        for info in archive:
            _check(path, info.name, regular=info.isreg() or info.isdir())
            total += info.size
            _check_size(path, total)
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is not None:
                yield Member(info.name.removeprefix("./"), stream)


class _Header(tarfile.TarInfo):
    """A member's header, limited in size: tarfile reads headers of long names and attributes into memory."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0:  # the next header would be before this one, for ever
            raise tarfile.ReadError(f"a member of {self.size:,} bytes")
        if self.type in _HEADERS and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tarfile_)  # type: ignore[misc,no-any-return]  # private, without type hints


def _check(path: Path, name: str, regular: bool) -> None:
    if not name:
        raise DataError(f"the archive {path} is refused: it has a member without a name; fetch it again.")
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name or (parts and parts[0].endswith(":")):
        raise DataError(
            f"the archive {path} is refused: the path of its member '{name}' leads out of it; fetch it again."
        )
    if not regular:
        raise DataError(
            f"the archive {path} is refused: its member '{name}' is a link or a device, not a file; fetch it again."
        )


def _check_size(path: Path, total: int) -> None:
    if total > size_limit(path):
        raise DataError(
            f"the archive {path} is refused: its {path.stat().st_size:,} bytes decompress to {total:,} or more, like a "
            "decompression bomb; fetch it again."
        )
