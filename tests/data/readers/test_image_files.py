"""Picture files: decoding, the user's own folders, and the published folders."""

import io
import struct
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_rows import files_of, pixels
from PIL import Image

from silobench.data import Dataset, load
from silobench.data.readers import image_files as pictures
from silobench.data.readers.image_arrays import CHARACTERS
from silobench.data.readers.image_files import images, read_picture
from silobench.errors import DataError
from silobench.federation import federate


def packed(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP", "JPEG"])
def test_every_known_format_is_read(kind: str) -> None:
    image = Image.new("RGB", (8, 8), (255, 0, 0))
    found = read_picture(packed(image, kind), "a", 8, "rgb")
    assert found.shape == (3, 8, 8)
    assert np.abs(found.astype(int) - np.array([255, 0, 0])[:, None, None]).max() <= 3


def test_pixels_are_exact_where_nothing_is_scaled() -> None:
    x = pixels(9, 9, 3)
    np.testing.assert_array_equal(read_picture(packed(Image.fromarray(x)), "a", 9, "rgb"), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(read_picture(packed(Image.fromarray(x[..., 0])), "a", 9, "grey")[0], x[..., 0])


def test_the_middle_square_is_taken() -> None:
    x = np.zeros((10, 30), dtype=np.uint8)
    x[:, 8:22] = 200  # a pixel more on each side: that is how far a bilinear filter sees
    assert (read_picture(packed(Image.fromarray(x)), "a", 5, "grey") == 200).all()
    assert (read_picture(packed(Image.fromarray(x.T.copy())), "a", 5, "grey") == 200).all()


def test_exif_orientation_is_applied() -> None:
    x = np.zeros((16, 16), dtype=np.uint8)
    x[:8] = 255  # light above
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    turned = read_picture(packed(Image.fromarray(x), "JPEG", exif=exif, quality=95), "a", 16, "grey")[0]
    assert turned[:, :6].max() < 50  # above has become right
    assert turned[:, 10:].min() > 200


@pytest.mark.parametrize("size", [8, 64])
def test_16_bits_keep_the_upper_8(size: int) -> None:
    x = np.full((8, 8), 0x80FF, dtype=np.uint16)
    assert (read_picture(packed(Image.fromarray(x)), "a", size, "grey") == 0x80).all()
    assert (read_picture(packed(Image.fromarray(x), "TIFF"), "a", size, "rgb") == 0x80).all()


def test_transparent_parts_are_white() -> None:
    clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    assert (read_picture(packed(clear), "a", 8, "rgb") == 255).all()
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert (read_picture(packed(palette, transparency=0), "a", 8, "grey") == 255).all()
    assert read_picture(packed(palette), "a", 8, "rgb")[:, 0, 0].tolist() == [10, 20, 30]


def test_of_an_animation_the_first_frame_is_read() -> None:
    frames = [Image.new("L", (8, 8), shade) for shade in (30, 200)]
    found = read_picture(packed(frames[0], "GIF", save_all=True, append_images=frames[1:]), "a", 8, "grey")
    assert (found == 30).all()


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header announces a huge picture."""
    whole = bytearray(packed(Image.new("L", (8, 8))))
    whole[16:24] = struct.pack(">II", width, height)
    whole[29:33] = struct.pack(">I", zlib.crc32(whole[12:29]))
    return bytes(whole)


@pytest.mark.parametrize("sides", [(9_500, 9_500), (14_000, 14_000), (60_000, 60_000)])
def test_bombs_are_refused(tmp_path: Path, sides: tuple[int, int]) -> None:
    with pytest.raises(DataError, match="a has more than 89,478,485 pixels"):
        read_picture(bomb(*sides), "a", 8, "rgb")
    write_pictures(tmp_path, {"x/1.png": 1, "y/1.png": 2})
    (tmp_path / "y" / "2.png").write_bytes(bomb(*sides))
    with pytest.raises(DataError, match=r"2\.png has more than"):
        images(str(tmp_path))


@pytest.mark.parametrize("sides", [(1, 2_000_000), (2_000_000, 1)])
def test_a_side_of_millions_is_refused(sides: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"^a cannot be read as a picture \(a side has 2,000,000 pixels, but at most"):
        read_picture(bomb(*sides), "a", 8, "rgb")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a picture",
        packed(Image.fromarray(pixels(40, 40)))[:-200],
        packed(Image.fromarray(pixels(40, 40)), "JPEG")[:300],
        packed(Image.new("F", (8, 8)), "TIFF"),
        packed(Image.fromarray(np.full((8, 8), 2**20, dtype=np.int32)), "TIFF"),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n",
    ],
)
def test_what_is_no_picture_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^scan 7 cannot be read as a picture"):
        read_picture(content, "scan 7", 8, "rgb")


# --- any folder of pictures --------------------------------------------------------------------------


def write_pictures(root: Path, shades: dict[str, int]) -> None:
    for name, shade in shades.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6), shade).save(root / name)


def shades(made: Dataset) -> list[int]:
    return sorted(int(x[0, 0, 0]) for split in (made.train, made.test) for x in split.x)


def rows(made: Dataset, level: str) -> set[tuple[int, Any, Any]]:
    """Shade, label and group of every row."""
    return {
        (int(x[0, 0, 0]), y, g)
        for split in (made.train, made.test)
        for x, y, g in zip(split.x, split.y.tolist(), split.groups[level].tolist(), strict=True)
    }


def test_folders_are_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"{c}/{n}.png": 10 * i + n for i, c in enumerate(("cat", "dog")) for n in range(5)})
    write_pictures(tmp_path, {"cat/.hidden.png": 99, ".git/cat/1.png": 99, "cat/deep/1.png": 99})
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    made = images(str(tmp_path), size=4)
    assert (made.classes, made.shape, made.train.x.dtype, made.task) == (
        ("cat", "dog"),
        (3, 4, 4),
        np.uint8,
        "classification",
    )
    assert (len(made.train), len(made.test), made.name) == (8, 2, tmp_path.name)
    assert shades(made) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert "1 pictures left out: they do not match {label}/*" in made.notes


def test_a_folder_that_changes_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "images(path=pictures, size=4)"
    for place, count in (("first", 5), ("second", 10)):
        write_pictures(tmp_path / place / "pictures", {f"{c}/{n}.png": n for c in "ab" for n in range(count)})
        monkeypatch.chdir(tmp_path / place)
        assert len(load(spec).train) == 8 * count // 5
    assert load(spec) is load(spec)
    (tmp_path / "second" / "pictures" / "a").rename(tmp_path / "second" / "pictures" / "c")  # changes no file
    assert load(spec).classes == ("b", "c")
    write_pictures(tmp_path / "second" / "pictures", {"b/0.png": 77})
    assert 77 in shades(load(spec))
    (tmp_path / "second" / "pictures" / "b" / "broken.png").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"there is no file|broken\.png cannot be read"):
        load(spec)


def test_a_decimal_mark_and_a_column_name_no_folder_of_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a decimal point would list the whole working directory, and a picture there would change the dataset."""
    monkeypatch.chdir(tmp_path)
    write_pictures(tmp_path, {"y/a.png": 1})
    Path("t.csv").write_text("n,y\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    spec = "csv(path=t.csv, label=y, decimal='.')"
    first = load(spec)
    write_pictures(tmp_path, {"y/b.png": 2})
    assert load(spec) is first


def test_fields_of_the_pattern(tmp_path: Path) -> None:
    write_pictures(
        tmp_path, {f"h{g}/{c}_{n}_x.PNG": 100 * g + 10 * c + n for g in (0, 1) for c in (3, 4) for n in range(3)}
    )
    made = images(str(tmp_path), label="age", group="source", pattern="{source}/{age}_*", colour="grey")
    assert (made.classes, made.shape) == (("3", "4"), (1, 32, 32))
    assert (131, 0, "h1") in rows(made, "source")
    assert (42, 1, "h0") in rows(made, "source")
    two = images(str(tmp_path), label="age", group=("source", "n"), pattern="{source}/{age}_{n}_x.PNG")
    assert set(two.train.groups) == {"source", "n"}
    assert (142, 1, "2") in rows(two, "n")


def test_regression_on_numbers(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"{n / 4}_.png": n for n in range(20)})
    made = images(str(tmp_path), label="age", pattern="{age}_*", task="regression")
    assert (made.task, made.classes, made.train.y.dtype, len(made.test)) == ("regression", (), np.float32, 4)
    assert all(x[0, 0, 0] == 4 * y for x, y in zip(made.train.x, made.train.y, strict=True))
    write_pictures(tmp_path, {"old_.png": 1})
    with pytest.raises(DataError, match=r"old_\.png has the label 'old'"):
        images(str(tmp_path), label="age", pattern="{age}_*", task="regression")


def table(root: Path, *lines: str) -> str:
    path = root.parent / f"{root.name}.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_table_says_what_the_paths_do_not(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"p{n}/scan.png": n for n in range(8)})
    lines = [f"./p{n}\\scan.png,{'ill' if n % 2 else 'well'},ward{n % 3}" for n in reversed(range(6))]
    file = table(tmp_path, "file,state,ward", *lines)
    made = images(str(tmp_path), label="state", group="ward", table=file)
    assert (made.classes, shades(made)) == (("ill", "well"), [0, 1, 2, 3, 4, 5])
    assert rows(made, "ward") == {(n, 1 - n % 2, f"ward{n % 3}") for n in range(6)}
    assert "2 pictures left out: they are not in the table" in made.notes
    mixed = images(str(tmp_path), label="state", group="patient", table=file, pattern="{patient}/*")
    assert rows(mixed, "patient") == {(n, 1 - n % 2, f"p{n}") for n in range(6)}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["path,label", "a/1.png,x"], "no column 'file'"),
        (["file,label", "a/1.png,x", "a/9.png,y"], r"lists 'a/9\.png' in line 3"),
        (["file,label", "a/1.png,x", "../a/1.png,y"], r"lists '\.\./a/1\.png' in line 3"),
        (["file,label", "a/1.png,x", "/etc/passwd,y"], "line 3"),
        (["file,label", "a/1.png,x", "./a/1.png,y"], "in lines 2 and 3"),
        (["file,label", "a/1.png,x", "b/1.png,"], "no value for 'label' in line 3"),
        (["file,state", "c.png,x", "b/1.png,y"], "'c.png', which does not match"),
        (["file,label"], "1 line:"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, lines: list[str], words: str) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2, "c.png": 3})
    with pytest.raises(DataError, match=words):
        images(str(tmp_path), table=table(tmp_path, *lines))


def test_names_that_are_neither_field_nor_column_are_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2})
    with pytest.raises(DataError, match="no field 'labels': did you mean label"):
        images(str(tmp_path), label="labels")
    with pytest.raises(DataError, match=r"write \{label\}"):
        images(str(tmp_path), pattern="*/*")
    file = table(tmp_path, "file,state", "a/1.png,x", "b/1.png,y")
    with pytest.raises(DataError, match="has the field 'stat': did you mean state"):
        images(str(tmp_path), label="stat", table=file)


@pytest.mark.parametrize("pattern", ["{label}/{label}/*", "{label/*", "label}/*", "{}/*", "{a/b}{label}"])
def test_malformed_patterns_are_refused(tmp_path: Path, pattern: str) -> None:
    write_pictures(tmp_path, {"a/1.png": 1, "b/1.png": 2})
    with pytest.raises(DataError, match="unmatched brace or a repeated field"):
        images(str(tmp_path), pattern=pattern)


def test_folders_without_what_is_needed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        images(str(tmp_path / "none"))
    with pytest.raises(DataError, match="has no pictures"):
        images(str(tmp_path))
    write_pictures(tmp_path, {"a/1.png": 1, "a/2.png": 1})
    with pytest.raises(DataError, match="none of the 2 pictures"):
        images(str(tmp_path), pattern="{label}.png")
    with pytest.raises(DataError, match="only the label"):
        images(str(tmp_path))
    write_pictures(tmp_path, {"b/1.png": 1, "b/2.png": 1})
    (tmp_path / "b" / "3.jpg").write_bytes(b"\xff\xd8\xff torn")
    with pytest.raises(DataError, match=r"3\.jpg cannot be read as a picture"):
        images(str(tmp_path))


# --- Chars74K, faces, mammals ------------------------------------------------------------------------


def archive(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def shade(value: int) -> bytes:
    return packed(Image.new("L", (12, 16), value))


def test_chars74k_from_its_archives(tmp_path: Path) -> None:
    fnt = [(f"English/Fnt/Sample{c:03}/img{c:03}-{n:05}.png", shade(c)) for c in (62, 1, 11) for n in range(5)]
    hnd = [(f"English/Hnd/Img/Sample{c:03}/img{c:03}-{n:03}.png", shade(100 + c)) for c in (1, 62) for n in range(5)]
    archive(tmp_path / "EnglishFnt.tgz", [("English/Fnt/readme.txt", b"x"), *fnt])
    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Trj/Sample001/a.m", b"x"), *hnd])
    made = pictures._read_chars74k(files_of(tmp_path, "EnglishFnt.tgz", "EnglishHnd.tgz"), size=8)
    assert (made.classes, made.shape, len(made.train), len(made.test)) == (CHARACTERS, (1, 8, 8), 20, 5)
    assert rows(made, "source") == {(1, 0, "fnt"), (11, 10, "fnt"), (62, 61, "fnt"), (101, 0, "hnd"), (162, 61, "hnd")}
    archive(tmp_path / "EnglishFnt.tgz", reversed(fnt))
    again = pictures._read_chars74k(files_of(tmp_path, "EnglishFnt.tgz", "EnglishHnd.tgz"), size=8)
    assert again.checksum == made.checksum

    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Img/Sample063/a.png", shade(1))])
    with pytest.raises(DataError, match=r"Sample063/a\.png in .* has an unknown class"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)
    archive(tmp_path / "EnglishHnd.tgz", [("English/Hnd/Img/Sample001/a.png", b"torn")])
    with pytest.raises(DataError, match=r"Sample001/a\.png in .*EnglishHnd\.tgz cannot be read"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)
    archive(tmp_path / "EnglishHnd.tgz", [("readme", b"x")])
    with pytest.raises(DataError, match="has no pictures like"):
        pictures._characters(tmp_path / "EnglishHnd.tgz", 8)


def test_age_faces_by_source(tmp_path: Path) -> None:
    names = [f"{source}/{age}_0_{n}.jpg" for source in ("UTKFace", "APPA") for age in (7, 25, 101) for n in range(3)]
    write_pictures(tmp_path, dict.fromkeys(names, 50))
    made = pictures._read_age_faces(files_of(tmp_path, *names, pattern=True), size=8)
    assert (made.task, made.classes, made.shape, len(made.train), len(made.test)) == (
        "regression",
        (),
        (3, 8, 8),
        14,
        4,
    )
    assert set(made.train.y.tolist()) == {7.0, 25.0, 101.0}
    assert set(made.train.groups["source"].tolist()) == {"APPA", "UTKFace"}
    for name in ("UTKFace/old_1.jpg", "UTKFace/999_1.jpg", "UTKFace/25.jpg"):
        write_pictures(tmp_path, {name: 1})
        with pytest.raises(DataError, match="does not start with an age"):
            pictures._read_age_faces(files_of(tmp_path, *names, name, pattern=True), size=8)


def test_mammals_as_the_authors_scripts_leave_them(tmp_path: Path) -> None:
    write_pictures(tmp_path, {f"images/{animal}/{n}.jpg": 10 * n for animal in ("bear", "lion") for n in range(5)})
    (tmp_path / "metadata").mkdir()
    for animal, regions in (("bear", ("3", "155")), ("lion", ("202", "34"))):
        header = "img_id,lat,lon,lic,acc,url,country,region1,region2"
        lines = [f"{n},1,2,4,16,https://x/{n}.jpg,XX,{regions[n % 2] if n else ''},9" for n in range(8)]
        (tmp_path / "metadata" / f"{animal}.csv").write_text("\n".join([header, *lines]))
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/**/*.*")]
    made = pictures._read_flickr_mammal(files_of(tmp_path, *names, pattern=True), size=8)
    assert (made.classes, made.shape, len(made.train) + len(made.test)) == (("bear", "lion"), (3, 8, 8), 8)
    places = {(0, "Americas"), (0, "Europe"), (1, "Africa"), (1, "Asia")}
    assert {(label, place) for _, label, place in rows(made, "continent")} == places
    assert {place for _, label, place in rows(made, "subcontinent") if label} == {"Sub-Saharan Africa", "Southern Asia"}
    for level in ("continent", "subcontinent"):
        known = sorted(set(made.train.groups[level].tolist()))
        assert [party.name for party in federate(made, f"by-group(level={level})").parties] == known
    assert "8 of 16 photographs" in made.notes[1]  # three of each are gone from Flickr, one has no region
    with pytest.raises(DataError, match="none of the 8 photographs"):
        pictures._read_flickr_mammal(files_of(tmp_path, "metadata/bear.csv", pattern=True), size=8)
    (tmp_path / "metadata" / "bear.csv").write_text("id,region\n1,3\n")
    with pytest.raises(DataError, match="no column 'img_id'"):
        pictures._read_flickr_mammal(files_of(tmp_path, *names, pattern=True), size=8)
