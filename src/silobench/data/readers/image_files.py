"""Datasets of picture files (png, jpeg, ...), decoded with Pillow: the user's own folders, and three published ones.

Datasets that are published as arrays of pixels (MNIST, SVHN, ...) are in `image_arrays`.
"""

import io
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias, cast

import numpy as np
from annotated_types import Ge, Le
from PIL import Image, ImageOps

from silobench.data.dataset import Dataset, Labels, Split, TaskKind, encode_labels, hold_out
from silobench.data.readers.checks import file_path
from silobench.data.readers.delimited import read_table
from silobench.data.readers.geo import CONTINENT_OF, M49
from silobench.data.readers.image_arrays import CHARACTERS, Pixels
from silobench.data.readers.user_tables import TestShare, as_names
from silobench.data.store.archives import members, read_limited
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.data.table.cells import MISSING
from silobench.errors import DataError, suggest

Size: TypeAlias = Annotated[int, Ge(4), Le(1024)]
Colour: TypeAlias = Literal["rgb", "grey"]


# --- one picture -------------------------------------------------------------------------------------

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_MOST_PIXELS = 89_478_485  # Pillow's default limit: a quarter of a gigabyte as RGB
_LONGEST_SIDE = 1_000_000  # pixels: Pillow takes some 12 bytes per row and copy besides those of the pixels
_LARGE = 2**22  # pixels: larger pictures are decoded one at a time, because each takes up to 16 bytes per pixel
_ONE_LARGE = threading.Lock()
_MODES: Mapping[Colour, str] = {"rgb": "RGB", "grey": "L"}


def read_picture(source: Path | bytes, where: str, size: int, colour: Colour) -> Pixels:
    """Decode a picture as ``[channels, size, size]``: rotated by its EXIF tag, cropped to its central square, scaled.

    Transparent pixels become white. Only the first frame of an animation and the upper 8 of 16 bits are used. `where`
    names the picture in errors.
    """
    mode = _MODES[colour]
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise Image.DecompressionBombError
            if max(image.size) > _LONGEST_SIDE:
                raise ValueError(f"a side has {max(image.size):,} pixels, but at most {_LONGEST_SIDE:,} are read")
            image.draft(mode, (2 * size, 2 * size))  # decode a much larger JPEG at a fraction of its size
            with _ONE_LARGE if image.width * image.height > _LARGE else nullcontext():
                ImageOps.exif_transpose(image, in_place=True)
                plain = _convert(image, mode)
                pixels = np.asarray(ImageOps.fit(plain, (size, size), Image.Resampling.BILINEAR))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(
            f"{where} has more than {_MOST_PIXELS:,} pixels, which may be a decompression bomb: scale it down or leave "
            "it out."
        ) from None
    except Exception as error:  # Pillow raises many types of error for a truncated or foreign file
        reason = str(error).partition(" <_io")[0] or type(error).__name__
        raise DataError(f"{where} cannot be read as a picture ({reason}): replace it or leave it out.") from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if colour == "rgb" else pixels[None]


def _convert(image: Image.Image, mode: str) -> Image.Image:
    """Convert a picture to `mode` with 8 bits per channel and no transparency."""
    if image.mode == "F" or (image.mode == "I" and not _has_16_bits(image)):
        raise ValueError("its pixels have 32 bits, but 8 or 16 are needed")
    if image.mode.startswith("I"):  # `convert` would clip values at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        opaque = image if image.mode == "RGBA" else image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return image.convert(mode)


def _has_16_bits(image: Image.Image) -> bool:
    low, high = cast(tuple[int, int], image.getextrema())
    return low >= 0 and high < 2**16


@contextmanager
def _pillow_warnings() -> Iterator[None]:
    """Ignore Pillow's warnings about odd metadata, and turn those about decompression bombs into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def read_pictures(paths: Sequence[Path], size: int, colour: Colour) -> Pixels:
    """Decode pictures in parallel threads: Pillow releases Python's lock while it decodes."""
    x = np.empty((len(paths), 3 if colour == "rgb" else 1, size, size), dtype=np.uint8)
    with _pillow_warnings(), ThreadPoolExecutor() as pool:
        decoded = pool.map(lambda path: read_picture(path, str(path), size, colour), paths)
        for row, pixels in enumerate(decoded):
            x[row] = pixels
    return x


def scaling_note(size: int) -> str:
    return f"pictures cropped to their central square and scaled to {size} x {size} pixels"


# --- any folder of pictures --------------------------------------------------------------------------

_Columns: TypeAlias = dict[str, list[str]]


def images(
    path: str,
    label: str = "label",
    group: str | tuple[str, ...] = (),
    pattern: str = "{label}/*",
    table: str = "",
    size: Size = 32,
    colour: Colour = "rgb",
    task: Literal["classification", "regression"] = "classification",
    test: TestShare = 0.2,
) -> Dataset:
    """A folder of pictures (png, jpeg, bmp, gif, webp, tiff, ppm), scaled to `size` x `size`.

    `pattern` describes the path of a picture inside the folder: ``{name}`` is a field and ``*`` matches any text, both
    without slashes, as in ``{hospital}/{label}/*`` or ``{source}/{age}_*``. `label` and `group` name fields, or columns
    of `table`: a CSV file whose column `file` has the path of each picture inside the folder. All pictures of a table
    must exist; pictures that are not in the table, or do not match the pattern, are left out.
    """
    root, fields = file_path(path), (label, *as_names(group))
    listed = list_pictures(root)
    if table:
        names, columns = match_table(Path(table), root, listed, pattern, fields)
    else:
        names, columns = match_pattern(root, listed, pattern, fields)
    y, classes = picture_targets(root, names, columns[label], task)
    x = read_pictures([root / name for name in names], size, colour)
    groups = {level: np.array(columns[level]) for level in fields[1:]}
    train, held = hold_out(Split(x, y, groups), test)
    unused = len(listed) - len(names)
    reason = "they are not in the table" if table else f"they do not match {pattern}"
    notes = (scaling_note(size), *([f"{unused} pictures left out: {reason}"] if unused else []))
    return Dataset(root.resolve().name, train, held, classes, "the user's own", notes, task=task, target=label)


def list_pictures(root: Path) -> list[str]:
    """Return the sorted paths of all pictures inside a folder; skip hidden files and folders."""
    if not root.is_dir():
        raise DataError(f"there is no folder {root}: give the folder with the pictures.")
    pictures = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside, names = Path(folder).relative_to(root), [name for name in files if not name.startswith(".")]
        pictures += [(inside / name).as_posix() for name in names if name.lower().endswith(_SUFFIXES)]
    if not pictures:
        raise DataError(f"the folder {root} has no pictures: files that end in {', '.join(_SUFFIXES)} are needed.")
    return sorted(pictures)


def match_pattern(root: Path, listed: Sequence[str], pattern: str, fields: Sequence[str]) -> tuple[list[str], _Columns]:
    """Return the pictures that match a pattern, and the values of `fields` for each of them."""
    known, expression = _compile(pattern)
    for name in fields:
        if name not in known:
            advice = suggest(name, known) if known else f"write {{{name}}} in its place in the path."
            raise DataError(f"the pattern '{pattern}' has no field '{name}': {advice}")
    matches = {name: match for name in listed if (match := expression.fullmatch(name))}
    if not matches:
        raise DataError(
            f"none of the {len(listed)} pictures in {root} matches the pattern '{pattern}': write one that matches, "
            f"for example, '{listed[0]}'."
        )
    return [*matches], {name: [m[known.index(name) + 1] for m in matches.values()] for name in fields}


def _compile(pattern: str) -> tuple[list[str], re.Pattern[str]]:
    """Return the fields of a pattern in order, and a regular expression with one group per field."""
    parts = re.split(r"(\{[^{}/]+\}|\*)", pattern)
    fields = [part[1:-1] for part in parts[1::2] if part != "*"]
    if len(set(fields)) < len(fields) or any(mark in text for text in parts[::2] for mark in "{}"):
        raise DataError(
            f"the pattern '{pattern}' has an unmatched brace or a repeated field: write it like {{group}}/{{label}}/*."
        )
    special = ["[^/]*" if part == "*" else "([^/]+?)" for part in parts[1::2]]
    literal = [re.escape(part) for part in parts[::2]]
    return fields, re.compile("".join(a + b for a, b in zip(literal, [*special, ""], strict=True)))


def match_table(
    table: Path, root: Path, listed: Sequence[str], pattern: str, fields: Sequence[str]
) -> tuple[list[str], _Columns]:
    """Return the sorted pictures of a table and the values of `fields`; other fields come from the pattern."""
    columns, lines = read_table(table)
    if "file" not in columns:
        raise DataError(
            f"{table} has no column 'file' with the paths of the pictures inside {root}: add it, or rename a column."
        )
    row_of = _rows_of_pictures(table, columns["file"], lines, listed, root)
    names, values = sorted(row_of), {}
    for name in (name for name in fields if name in columns):
        values[name] = [columns[name][row_of[file]].strip() for file in names]
        for file, cell in zip(names, values[name], strict=True):
            if cell.lower() in MISSING:
                raise DataError(
                    f"{table} has no value for '{name}' in line {lines[row_of[file]]}: add it, or remove the line."
                )
    others = [name for name in fields if name not in columns]
    unknown = [name for name in others if f"{{{name}}}" not in pattern]
    if unknown:
        raise DataError(f"neither {table} nor the pattern has the field '{unknown[0]}': {suggest(unknown[0], columns)}")
    if others:
        matching, matched_values = match_pattern(root, names, pattern, others)
        if len(matching) < len(names):
            other = next(name for name in names if name not in set(matching))
            raise DataError(f"{table} lists '{other}', which does not match '{pattern}': add a column '{others[0]}'.")
        values |= matched_values
    return names, values


def _rows_of_pictures(
    table: Path, cells: Sequence[str], lines: Sequence[int], listed: Sequence[str], root: Path
) -> dict[str, int]:
    """Return the row of every picture in a table. Only pictures listed in the folder count, so no path leads out."""
    row_of: dict[str, int] = {}
    known = set(listed)
    for row, cell in enumerate(cells):
        name = str(PurePosixPath(cell.strip().replace("\\", "/")))
        if name not in known:
            raise DataError(
                f"{table} lists '{cell.strip()}' in line {lines[row]}, but {root} has no such picture: add the "
                "picture, or remove the line."
            )
        if name in row_of:
            raise DataError(f"{table} lists '{name}' in lines {lines[row_of[name]]} and {lines[row]}: remove one line.")
        row_of[name] = row
    return row_of


def picture_targets(
    root: Path, names: Sequence[str], cells: Sequence[str], task: TaskKind
) -> tuple[Labels, tuple[str, ...]]:
    """Return the labels of pictures and their classes, which are none for regression."""
    if task == "classification":
        return encode_labels(str(root), np.array(cells))
    numbers = np.empty(len(cells), dtype=np.float32)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise DataError(
                f"{root / names[row]} has the label '{cell}': a finite number is needed for regression, so correct it."
            )
    return numbers, ()


# --- Chars74K, faces, mammals ------------------------------------------------------------------------

_CHARACTER = re.compile(r"(?:.*/)?(?:Fnt|Hnd/Img)/Sample(\d{3})/[^/]+\.png")
_LARGEST_FILE = 2**26  # bytes of a compressed picture
_OLDEST = 130


def chars74k(size: Size = 32) -> Dataset:
    """Digits and letters in 62 classes, printed in 1,016 fonts (fnt) and handwritten by 55 people (hnd), in grey.

    Characters are dark on white. The archives are read without extracting them. A fifth of each class is held out.
    """
    return stored("chars74k", _read_chars74k, size=size)


def _read_chars74k(files: Files, size: int) -> Dataset:
    labels, sources, pictures = [], [], []
    for source in ("fnt", "hnd"):
        for label, pixels in _characters(files[f"English{source.title()}.tgz"], size):
            labels.append(label)
            sources.append(source)
            pictures.append(pixels)
    whole = Split(np.stack(pictures), np.array(labels, dtype=np.int64), {"source": np.array(sources)})
    return Dataset(
        "chars74k", *hold_out(whole, 0.2), CHARACTERS, files.entry.licence, (scaling_note(size),),
        defaults={"partition": "by-group"},
    )  # fmt: skip


def _characters(path: Path, size: int) -> list[tuple[int, Pixels]]:
    """Return the class and the pixels of every character in an archive, sorted by name."""
    characters: dict[str, tuple[int, Pixels]] = {}
    with _pillow_warnings():
        for member in members(path):
            match = _CHARACTER.fullmatch(member.name)
            if match is None:
                continue
            where = f"{member.name} in {path}"
            if not 1 <= int(match[1]) <= len(CHARACTERS):
                raise DataError(f"{where} has an unknown class: Sample001 to Sample062 are needed; fetch it again.")
            data = read_limited(member.stream, _LARGEST_FILE, where)
            characters[member.name] = int(match[1]) - 1, read_picture(data, where, size, "grey")
    if not characters:
        raise DataError(f"{path} has no pictures like Fnt/Sample001/img001-00001.png: fetch it again.")
    return [characters[name] for name in sorted(characters)]


def age_faces(size: Size = 32) -> Dataset:
    """Faces with the age at the start of their file names, one folder per source; the target is the age."""
    return stored("age-faces", _read_age_faces, size=size)


def _read_age_faces(files: Files, size: int) -> Dataset:
    names = sorted(files.names)
    ages = np.array([_age(files, name) for name in names], dtype=np.float32)
    x = read_pictures([files[name] for name in names], size, "rgb")
    whole = Split(x, ages, {"source": np.array([name.partition("/")[0] for name in names])})
    return Dataset(
        "age-faces", *hold_out(whole, 0.2), (), files.entry.licence, (scaling_note(size),),
        defaults={"partition": "by-group"}, task="regression", target="age", unit="years",
    )  # fmt: skip


def _age(files: Files, name: str) -> int:
    match = re.match(r"(\d{1,3})_", PurePosixPath(name).name)
    if match is None or int(match[1]) > _OLDEST:
        raise DataError(
            f"{files[name]} does not start with an age: names like 25_0_2_20170116.jpg are needed; rename it."
        )
    return int(match[1])


def flickr_mammal(size: Size = 32) -> Dataset:
    """Photographs of 41 mammals by `continent` and `subcontinent`, from the user's download of Flickr-Mammal."""
    return stored("flickr-mammal", _read_flickr_mammal, size=size)


def _read_flickr_mammal(files: Files, size: int) -> Dataset:
    """Read the tables metadata/ANIMAL.csv, which list photographs (img_id) and their M49 regions (region1)."""
    available, listed = set(files.names), 0
    regions_of: dict[str, tuple[str, str]] = {}  # the animal and subcontinent of every picture
    for table in (name for name in files.names if name.endswith(".csv")):
        animal = PurePosixPath(table).stem
        columns, lines = read_table(files[table])
        for column in ("img_id", "region1"):
            if column not in columns:
                raise DataError(f"{files[table]} has no column '{column}': {suggest(column, columns)}")
        for id_, code in zip(columns["img_id"], columns["region1"], strict=True):
            picture = f"images/{animal}/{id_.strip()}.jpg"
            if picture in available and code.strip() in M49:
                regions_of[picture] = animal, M49[code.strip()]
        listed += len(lines)
    if not regions_of:
        raise DataError(
            f"none of the {listed} photographs that the tables in {files.root} list is in that folder: download them "
            "with the authors' scripts."
        )
    names = sorted(regions_of)
    y, classes = encode_labels("flickr-mammal", np.array([regions_of[name][0] for name in names]))
    regions = [regions_of[name][1] for name in names]
    groups = {"continent": np.array([CONTINENT_OF[r] for r in regions]), "subcontinent": np.array(regions)}
    missing = f"{listed - len(names)} of {listed} photographs left out: the file or the region is missing"
    return Dataset(
        "flickr-mammal",
        *hold_out(Split(read_pictures([files[name] for name in names], size, "rgb"), y, groups), 0.2),
        classes,
        files.entry.licence,
        (scaling_note(size), *([missing] if listed > len(names) else [])),
        {"partition": "by-group"},
    )
