"""Archives that are hostile, torn or misnamed: the right bytes, or one `DataError`, and never anything else."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from silobench.data.store import archives
from silobench.data.store.archives import blocks, decompress, kind, members
from silobench.errors import DataError

NOISE = random.Random(0).randbytes(1500)  # does not pack, so that every cut hits something
CONTENT = {"data/a.txt": b"alpha\n" * 40, "data/deep/b.bin": NOISE, "c": b""}
EVIL = [
    "../x", "a/../../x", "a/..", "/etc/x", "//x", "C:/x", "C:\\x", "..\\x", "a\\..\\..\\x", "\\x", "\\\\host\\x",
]  # fmt: skip


# --- archives made by hand ---------------------------------------------------------------------------


def zipped(content: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(content: dict[str, bytes], mode: str = "w", prefix: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in content.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def tar_of(*infos: tarfile.TarInfo, mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for info in infos:
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    return made.getvalue()


def ar(parts: dict[str, bytes]) -> bytes:
    made = b"!<arch>\n"
    for name, data in parts.items():
        made += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return made


def deb(content: dict[str, bytes], packing: str = "xz") -> bytes:
    files = tarred(content, f"w:{packing}", prefix="./")
    return ar(
        {
            "debian-binary": b"2.0\n",
            "odd": b"123",
            "control.tar.xz": tarred({"control": b"odd"}, "w:xz"),
            f"data.tar.{packing}": files,
        }
    )


ARCHIVES: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "zip": zipped,
    "stored.zip": lambda content: zipped(content, zipfile.ZIP_STORED),
    "bzip2.zip": lambda content: zipped(content, zipfile.ZIP_BZIP2),
    "lzma.zip": lambda content: zipped(content, zipfile.ZIP_LZMA),
    "tar": tarred,
    "tar.gz": lambda content: tarred(content, "w:gz"),
    "tar.bz2": lambda content: tarred(content, "w:bz2"),
    "tar.xz": lambda content: tarred(content, "w:xz"),
    "deb": deb,
    "gz.deb": lambda content: deb(content, "gz"),
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
TORN = {
    **{name: make({"data/b.bin": NOISE[:300], "a": b"text " * 30}) for name, make in ARCHIVES.items()},
    **{name: pack(NOISE[:600]) for name, pack in PACKINGS.items()},
}


def put(folder: Path, content: bytes, name: str = "given.dat") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read(path: Path, limit: int = 10**6) -> dict[str, bytes]:
    return {m.name: b"".join(blocks(m.stream, limit, m.name)) for m in members(path)}


def refused(path: Path, *told: str, limit: int = 10**6) -> None:
    with pytest.raises(DataError) as caught:
        read(path, limit)
    assert [part for part in told if part not in str(caught.value)] == [], caught.value
    assert "\n" not in str(caught.value)


# --- what is inside is read, whatever the file is called ---------------------------------------------


@pytest.mark.parametrize("extension", ["right", ".zip", ".tar", ".gz", ".jpg", ""])
@pytest.mark.parametrize("make", ARCHIVES)
def test_names_and_bytes_are_right_under_any_extension(make: str, extension: str, tmp_path: Path) -> None:
    path = put(tmp_path, ARCHIVES[make](CONTENT), "given" + (f".{make}" if extension == "right" else extension))
    assert read(path) == CONTENT
    assert kind(path) == ("tar" if "tar" in make else make.rsplit(".")[-1])


def test_a_wheel_is_a_zip(tmp_path: Path) -> None:
    path = put(tmp_path, zipped({"pkg/d/x.csv": b"1,2\n", "pkg-1.dist-info/METADATA": b""}), "pkg-1-py3-none-any.whl")
    assert read(path)["pkg/d/x.csv"] == b"1,2\n"


@pytest.mark.parametrize("name", ["x.gz", "x.bz2", "x.xz", "x.zip", "x"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_file_packed_alone_is_one_member_without_a_name(packing: str, name: str, tmp_path: Path) -> None:
    path = put(tmp_path, PACKINGS[packing](NOISE), name)
    assert read(path) == {"": NOISE}
    assert kind(path) == {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}[packing]


def test_folders_are_passed_over(tmp_path: Path) -> None:
    folder = tarfile.TarInfo("d")
    folder.type = tarfile.DIRTYPE
    assert read(put(tmp_path, tar_of(folder, tarfile.TarInfo("d/x")))) == {"d/x": b""}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.mkdir("d")
        archive.writestr("d/x", b"1")
    assert read(put(tmp_path, made.getvalue())) == {"d/x": b"1"}


@pytest.mark.parametrize("make", ["zip", "tar", "tar.gz", "tar.xz", "deb"])
def test_an_empty_archive_has_no_members(make: str, tmp_path: Path) -> None:
    """A tar without members is zeros alone: nothing tells it from any packed file, which has no name either."""
    assert [name for name in outcome(put(tmp_path, ARCHIVES[make]({}))) or {} if name] == []


@pytest.mark.parametrize("content", [b"", b"x", b"PK", b"\x1f", b"<html>not found</html>" * 50, b"!<arch>", bytes(600)])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    refused(put(tmp_path, content), "is not an archive of a known format", "given.dat")


def test_a_debian_package_without_files_is_refused(tmp_path: Path) -> None:
    refused(put(tmp_path, ar({"debian-binary": b"2.0\n"})), "without a member data.tar")
    refused(put(tmp_path, b"!<arch>\n"), "without a member data.tar")
    unknown = ar({"data.tar.zst": b"\x28\xb5\x2f\xfd" + NOISE})
    refused(put(tmp_path, unknown), "given.dat")


def test_members_are_read_one_at_a_time(tmp_path: Path) -> None:
    """A member that is not asked for need not be read, and the next one is right all the same."""
    for make in ARCHIVES.values():
        path = put(tmp_path, make(CONTENT))
        found = {m.name: m.stream.read() if m.name == "data/deep/b.bin" else None for m in members(path)}
        assert found["data/deep/b.bin"] == NOISE
        assert set(found) == set(CONTENT)


# --- names that lead out, links and devices ----------------------------------------------------------


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("make", ["zip", "tar", "tar.gz", "deb"])
def test_a_name_that_leads_out_is_refused(make: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    made = ar({"data.tar": tarred({name: b"evil"})}) if make == "deb" else ARCHIVES[make]({name: b"evil"})
    refused(put(folder, made), "is refused", "leads out of it")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "given.dat"]


@pytest.mark.parametrize("name", ["./../x", "./a/../../x"])
def test_a_dot_before_it_hides_nothing(name: str, tmp_path: Path) -> None:
    refused(put(tmp_path, tarred({name: b"evil"})), "leads out of it")
    refused(put(tmp_path, zipped({name: b"evil"})), "leads out of it")


def test_names_with_dots_in_them_are_fine(tmp_path: Path) -> None:
    names = {"a..b/c": b"1", "...": b"2", "x../y": b"3", "a:b/c": b"4"}
    assert read(put(tmp_path, zipped(names))) == names
    assert read(put(tmp_path, tarred(names))) == names


def test_a_name_with_a_null_byte_never_comes_through(tmp_path: Path) -> None:
    info = tarfile.TarInfo("plain")
    info.pax_headers = {"path": "a.txt\0b"}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info)
    refused(put(tmp_path, made.getvalue()), "leads out of it")
    hidden = zipped({"a.txt?evil": b"1"}).replace(b"a.txt?evil", b"a.txt\0evil")
    assert outcome(put(tmp_path, hidden)) in (None, {"a.txt": b"1"})  # zipfile ends the name there


@pytest.mark.parametrize("kind_", ["SYMTYPE", "LNKTYPE", "CHRTYPE", "BLKTYPE", "FIFOTYPE"])
@pytest.mark.parametrize("make", ["tar", "tar.gz", "deb"])
def test_links_and_devices_of_a_tar_are_refused(make: str, kind_: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo("innocent.csv")
    info.type, info.linkname = getattr(tarfile, kind_), "/etc/passwd"
    made = tar_of(info, mode="w:gz" if make != "tar" else "w")
    path = put(tmp_path, ar({"data.tar.gz": made}) if make == "deb" else made)
    refused(path, "innocent.csv", "is a link or a device")


@pytest.mark.parametrize("mode", [0o120777, 0o010644, 0o020644, 0o060644, 0o140755])
def test_links_and_devices_of_a_zip_are_refused(mode: int, tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("good.csv", b"1")
        info = zipfile.ZipInfo("link.csv")
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    path = put(tmp_path, made.getvalue())
    refused(path, "link.csv", "is a link or a device")
    with pytest.raises(DataError):
        next(members(path))  # not even the good member before it


# --- bombs -------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_SMALL", 10**6)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("make", ["zip", "bzip2.zip", "lzma.zip", "tar.gz", "tar.bz2", "tar.xz", "deb"])
@pytest.mark.parametrize("count", [1, 30])
def test_a_bomb_is_refused(make: str, count: int, tmp_path: Path) -> None:
    path = put(tmp_path, ARCHIVES[make]({f"m{i}": bytes(3 * 10**6 // count) for i in range(count)}))
    assert path.stat().st_size < 20_000
    refused(path, "like a decompression bomb", limit=10**9)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("make", ["zip", "tar.gz", "tar.bz2", "tar.xz", "deb"])
def test_a_large_archive_that_its_size_explains_is_none(make: str, tmp_path: Path) -> None:
    content = {f"m{i}": random.Random(i % 8).randbytes(12_500) for i in range(96)}  # 1.2 MB
    path = put(tmp_path, ARCHIVES[make](content))
    assert sum(map(len, content.values())) > 10**6
    assert read(path, limit=2 * 10**6) == content


def _with_sizes(made: bytes, size: int) -> bytes:
    """The zip with another uncompressed size in its local and central headers."""
    changed = bytearray(made)
    local, central = made.index(b"PK\x03\x04"), made.index(b"PK\x01\x02")
    struct.pack_into("<I", changed, local + 22, size)
    struct.pack_into("<I", changed, central + 24, size)
    return bytes(changed)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("claimed", [0, 10, 500_000])
def test_a_zip_that_lies_about_its_size_gives_no_more_than_it_said(claimed: int, tmp_path: Path) -> None:
    path = put(tmp_path, _with_sizes(zipped({"a": bytes(5 * 10**6)}), claimed))
    got = 0
    try:
        for member in members(path):
            for block in blocks(member.stream, 10**9, "a"):
                got += len(block)
    except DataError:
        pass
    assert got <= claimed


@pytest.mark.usefixtures("small")
def test_a_tar_header_that_claims_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.size = 10**15
    refused(put(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)), "bomb")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("header", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_bomb_in_the_headers_of_a_tar_is_refused(header: bytes, tmp_path: Path) -> None:
    """Long names and pax headers are read into memory by tarfile, before any member is seen."""
    info = tarfile.TarInfo("name")
    info.type, info.size = header, 40 * 10**6
    record = b"" if header == tarfile.GNUTYPE_LONGNAME else b"39999999 comment="
    content = record + b"x" * (info.size - len(record) - 1) + b"\n"
    content += bytes(-len(content) % 512)
    made = gzip.compress(info.tobuf() + content + tarred({"a": b"1"}), 9)
    assert len(made) < 60_000
    refused(put(tmp_path, made), "given.dat")


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_bomb_stops_at_the_limit(packing: str, tmp_path: Path) -> None:
    path = put(tmp_path, PACKINGS[packing](bytes(20 * 10**6)))
    kept: list[bytes] = []
    with pytest.raises(DataError, match=r"has more than 1,500,000 bytes"):
        kept.extend(block for member in members(path) for block in blocks(member.stream, 1_500_000, "it"))
    assert sum(map(len, kept)) <= 1_500_000


def test_the_limit_itself_is_allowed() -> None:
    assert b"".join(blocks(io.BytesIO(NOISE), len(NOISE), "it")) == NOISE
    with pytest.raises(DataError):
        list(blocks(io.BytesIO(NOISE), len(NOISE) - 1, "it"))


# --- torn, flipped, locked ---------------------------------------------------------------------------


def outcome(path: Path) -> dict[str, bytes] | None:
    """What is read, or None for a DataError; whatever else is raised fails the test."""
    try:
        return read(path)
    except DataError:
        return None


def cuts(whole: bytes) -> Iterator[int]:
    yield from range(0, min(len(whole), 700), 7)
    yield from range(700, len(whole), 61)
    yield from range(max(len(whole) - 60, 0), len(whole))


@pytest.mark.parametrize("name", TORN)
def test_a_cut_archive_is_a_data_error_or_clean_wherever_it_is_cut(name: str, tmp_path: Path) -> None:
    whole = TORN[name]
    right = read(put(tmp_path, whole))
    for cut in cuts(whole):
        got = outcome(put(tmp_path, whole[:cut]))
        for member, content in (got or {}).items():
            assert content == right[member], cut  # a member that is given is whole


@pytest.mark.parametrize("name", TORN)
def test_an_archive_with_a_flipped_byte_is_a_data_error_or_read(name: str, tmp_path: Path) -> None:
    whole = TORN[name]
    right = read(put(tmp_path, whole))
    rng = random.Random(name)
    places = {*range(min(len(whole), 90)), *rng.sample(range(len(whole)), 150), *range(len(whole) - 40, len(whole))}
    for place in sorted(places):
        flipped = bytearray(whole)
        flipped[place] ^= rng.choice((1, 0x80, 0xFF))
        got = outcome(put(tmp_path, bytes(flipped)))
        if got is not None and name in PACKINGS:
            assert got == right, place  # they carry a sum of their own


@pytest.mark.parametrize("name", TORN)
def test_noise_behind_a_right_beginning_is_survived(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    for start in (8, 30, 64, 257 + 8, 512, 530):
        for _ in range(10):
            outcome(put(tmp_path, TORN[name][:start] + rng.randbytes(rng.choice([1, 50, 2000]))))


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_stream_that_is_cut_is_a_data_error(packing: str) -> None:
    whole = PACKINGS[packing](NOISE)
    for cut in range(1, len(whole) - 13, 9):
        with pytest.raises(DataError), decompress(io.BytesIO(whole[:cut]), f"x.{packing}", "x") as stream:
            list(blocks(stream, 10**6, "x"))


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_stream_with_a_flipped_byte_is_a_data_error(packing: str) -> None:
    whole = PACKINGS[packing](NOISE)
    for place in range(20, len(whole) - 20, 11):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        with pytest.raises(DataError), decompress(io.BytesIO(bytes(flipped)), f"x.{packing}", "x") as stream:
            list(blocks(stream, 10**6, "x"))


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    made = bytearray(zipped({"a": b"secret " * 10}))
    made[made.index(b"PK\x03\x04") + 6] |= 1
    made[made.index(b"PK\x01\x02") + 8] |= 1
    refused(put(tmp_path, bytes(made)), "password")


def test_unpacked_unpacks_only_what_is_packed_and_should_not_be() -> None:
    cases: list[tuple[str, str, Any]] = [("x.gz", "x", NOISE), ("x.gz", "y.gz", None), ("x", "x", None)]
    for given, name, expected in cases:
        packed = gzip.compress(NOISE)
        assert decompress(io.BytesIO(packed), given, name).read() == (expected or packed)
