"""Archives: zip, tar, Debian packages and compressed files, read as members and imported into a data directory."""

import bz2
import functools
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path
from random import Random

from silobench.data.store.archives import members, read_limited, size_limit
from silobench.data.store.catalog import Entry, File
from silobench.data.store.fetch import import_files

_NAMES = (
    "a.csv", "b.csv", "d/a.csv", "../escaped", "/tmp/escaped", "d/../../escaped", "..\\escaped", "C:\\escaped", "C:/x",
    "a.csv", "./a.csv", "d//a.csv", "", ".", "..", "a\u0000b", "é.csv", "e\u0301.csv", "\u202ecsv.a", "x" * 300,
    "d/" * 60 + "a.csv", "a.csv.gz", "b.csv.xz", "inner.zip", "inner.tar.gz", "~/a.csv", "a.csv/", "\ud800.csv", "-rf",
)  # fmt: skip
_BOMB = 210_000_000  # bytes, above the limit of every small archive
_TYPES = (tarfile.REGTYPE,) * 8 + (
    tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
    tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"Z",
)  # fmt: skip


def _content(rng: Random, depth: int) -> bytes:
    if depth < 2 and rng.random() < 0.15:
        return archive_file(rng, depth + 1)
    return rng.choice((b"", b"1,2\n", rng.randbytes(2000), bytes(100_000), gzip.compress(b"1,2\n", mtime=0)))


def _zip(rng: Random, depth: int) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", rng.choice((0, 8, 12, 14))) as archive:
        for _ in range(rng.randrange(4)):
            info = zipfile.ZipInfo(rng.choice(_NAMES).replace("\ud800", "u"))
            kinds = (0o100644, 0o100644, 0o100644, 0, 0o120777, 0o20644, 0o10644, 0o40755)
            info.external_attr = rng.choice(kinds) << 16
            info.compress_type = archive.compression
            archive.writestr(info, _content(rng, depth))
    return target.getvalue()


def _tar(rng: Random, depth: int) -> bytes:
    target, plain = io.BytesIO(), rng.choice(("w", "w:gz", "w:bz2", "w:xz"))
    form = rng.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=target, mode=plain, format=form, errors="surrogateescape") as archive:
        for _ in range(rng.randrange(4)):
            content = _content(rng, depth)
            info = tarfile.TarInfo(rng.choice(_NAMES).replace("\ud800", "\udcff"))
            info.type, info.size = rng.choice(_TYPES), len(content)
            info.linkname = rng.choice(("../../escaped", "/etc/passwd", "a.csv", ""))
            if form == tarfile.PAX_FORMAT and rng.random() < 0.2:
                info.pax_headers = {
                    rng.choice(("path", "size", "GNU.sparse.map", "x")): rng.choice((*_NAMES[:6], "-1", "9" * 99))
                }
            if not info.isreg():
                info.size = 0
            try:
                archive.addfile(info, io.BytesIO(content))
            except ValueError:  # a name that is too long for the format
                continue
    return target.getvalue()


def _deb(rng: Random, depth: int) -> bytes:
    name = rng.choice((b"data.tar.xz", b"data.tar", b"control.tar", b"debian-binary"))
    content = _tar(rng, depth)
    size = rng.choice((str(len(content)), str(len(content)), "9999999999", "", "-5", "1e5")).encode()
    return b"!<arch>\n" + name.ljust(48) + size.ljust(10) + b"`\n" + content


@functools.cache
def _bomb(kind: str) -> bytes:
    """Return an archive that has far more content than bytes, or a header that asks for much memory."""
    if kind == "tar":
        header = tarfile.TarInfo("a.csv")
        header.size = 10**12
        return header.tobuf() + bytes(1024)
    if kind == "xz":
        return _xz_of_large_dictionary()
    packed = gzip.compress(bytes(_BOMB), 1, mtime=0)
    if kind == "gz":
        return packed
    return _zip_of({"a.csv": bytes(_BOMB)} if kind == "zip" else {"a.csv.gz": packed, "b.csv": b"1\n"})


def _xz_of_large_dictionary() -> bytes:
    """Return an xz file whose header asks for a dictionary of 4 GiB."""
    content = bytearray(lzma.compress(b"1,2\n"))
    place = content.index(b"\x21\x01", 12)  # LZMA2, one byte of properties: the size of the dictionary
    content[place + 2] = 40
    size = (content[12] + 1) * 4
    content[12 + size - 4 : 12 + size] = zlib.crc32(content[12 : 12 + size - 4]).to_bytes(4, "little")
    return bytes(content)


def _zip_of(content: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return target.getvalue()


def archive_file(rng: Random, depth: int = 0) -> bytes:
    """Return an archive with strange members; members may be archives."""
    if depth == 0 and rng.random() < 0.005:
        return _bomb(rng.choice(("tar", "xz", "gz", "zip", "gz in zip")))
    packers = (gzip.compress, bz2.compress, lzma.compress)
    return rng.choice((
        _zip, _zip, _tar, _tar, _tar, _deb, lambda rng, depth: rng.choice(packers)(_content(rng, depth + 1)),
    ))(rng, depth)  # fmt: skip


def read_members(content: bytes) -> None:
    """Read all members of the archive."""
    path = Path("archive")
    path.write_bytes(content)
    for member in members(path):
        read_limited(member.stream, size_limit(path), member.name or "the file")


def import_archive(content: bytes) -> None:
    """Import the archive as a dataset of two files, one of them in any folder, and without known checksums."""
    path = Path("archive")
    path.write_bytes(content)
    os.environ["SILOBENCH_DATA"] = str(Path("data").absolute())
    toy = Entry(
        name="toy", summary="a toy", licence="none", citation="none", homepage="https://example.org",
        files={"a.csv": File(), "d/*.csv": File()}, forms={"whole": ("a.csv",), "tree": ("d/*.csv",)},
    )  # fmt: skip
    try:
        list(import_files(toy, path))
    finally:
        del os.environ["SILOBENCH_DATA"]
