"""Picture files: any folder of them, and the datasets that come as folders or archives of pictures."""

import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias, cast

import numpy as np
from annotated_types import Ge, Le
from PIL import Image, ImageOps

from silobench.data.dataset import Dataset, Labels, Split, TaskKind, encode_labels, hold_out
from silobench.data.readers.geo import CONTINENT_OF, M49
from silobench.data.readers.images import CHARACTERS, Pixels
from silobench.data.readers.user_files import MISSING, TestShare, as_names, read_table
from silobench.data.store.archives import blocks, members
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
from silobench.errors import DataError, suggest

Size: TypeAlias = Annotated[int, Ge(4), Le(1024)]
Colour: TypeAlias = Literal["rgb", "grey"]


def _cut(whole: Split, share: float, task: TaskKind) -> tuple[Split, Split]:
    """Training and test rows; classes in proportion, while numbers are drawn regardless of their values."""
    strata = whole.y if task == "classification" else np.zeros(len(whole), dtype=np.int64)
    train, test = hold_out(Split(np.arange(len(whole)), strata), share)
    return whole.take(train.x), whole.take(test.x)


# --- one picture -------------------------------------------------------------------------------------

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_MOST_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte as RGB
_MODES: Mapping[Colour, str] = {"rgb": "RGB", "grey": "L"}


def read_picture(source: Path | bytes, where: str, size: int, colour: Colour) -> Pixels:
    """A picture as ``[channels, size, size]``: upright by its EXIF, its middle square, scaled bilinearly.

    Transparent parts are white; of an animation the first frame is taken, of 16 bits the upper 8. `where` names it in
    errors.
    """
    mode = _MODES[colour]
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise Image.DecompressionBombError
            image.draft(mode, (2 * size, 2 * size))  # a JPEG much larger than needed is decoded at a fraction
            flat = _flat(ImageOps.exif_transpose(image), mode)
            pixels = np.asarray(ImageOps.fit(flat, (size, size), Image.Resampling.BILINEAR))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(
            f"{where} has more than {_MOST_PIXELS:,} pixels: that may be a bomb, so scale it down or leave it out."
        ) from None
    except Exception as error:  # Pillow raises many kinds for a torn or foreign file
        reason = str(error).partition(" <_io")[0] or type(error).__name__
        raise DataError(f"{where} cannot be read as a picture ({reason}): replace it or leave it out.") from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if colour == "rgb" else pixels[None]


def _flat(image: Image.Image, mode: str) -> Image.Image:
    """The picture with 8 bits a channel, opaque, in a mode."""
    if image.mode == "F" or (image.mode == "I" and not _has_16_bits(image)):
        raise ValueError("its pixels have 32 bits, where 8 or 16 are needed")
    if image.mode.startswith("I"):  # `convert` would clip it at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return image.convert(mode)


def _has_16_bits(image: Image.Image) -> bool:
    low, high = cast(tuple[int, int], image.getextrema())
    return low >= 0 and high < 2**16


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow warns of odd metadata, which does no harm, and of bombs, which are refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def read_pictures(paths: Sequence[Path], size: int, colour: Colour) -> Pixels:
    """The pictures in their order; Pillow decodes outside Python's lock, so threads help."""
    x = np.empty((len(paths), 3 if colour == "rgb" else 1, size, size), dtype=np.uint8)
    with _quiet(), ThreadPoolExecutor() as pool:
        found = pool.map(lambda path: read_picture(path, str(path), size, colour), paths)
        for row, pixels in enumerate(found):
            x[row] = pixels
    return x


def fitted(size: int) -> str:
    return f"the middle square of every picture scaled to {size} x {size} pixels"


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

    `pattern` describes the path of a picture inside the folder: ``{name}`` is a field and ``*`` anything, both within
    one file or folder name, as in ``{hospital}/{label}/*`` or ``{source}/{age}_*``. `label` and `group` name fields, or
    columns of `table`: a CSV file whose column `file` has the pictures' paths inside the folder. Of a table all
    pictures must be there; pictures that are not in it, or do not match the pattern, are left out.
    """
    root, wanted = Path(path), (label, *as_names(group))
    listed = list_pictures(root)
    if table:
        names, columns = _by_table(Path(table), root, listed, pattern, wanted)
    else:
        names, columns = by_pattern(root, listed, pattern, wanted)
    y, classes = _targets(root, names, columns[label], task)
    x = read_pictures([root / name for name in names], size, colour)
    groups = {level: np.array(columns[level]) for level in wanted[1:]}
    train, held = _cut(Split(x, y, groups), test, task)
    left = len(listed) - len(names)
    which = "are not in the table" if table else f"do not match {pattern}"
    notes = (fitted(size), *([f"{left} pictures that {which} left out"] if left else []))
    return Dataset(root.resolve().name, train, held, classes, "the user's own", notes, task=task)


def list_pictures(root: Path) -> list[str]:
    """The pictures under a folder by their paths inside it, sorted; hidden files and folders are left out."""
    if not root.is_dir():
        raise DataError(f"there is no folder {root}: give the folder that the pictures are in.")
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(root)
        found += [(inside / name).as_posix() for name in files if name.lower().endswith(_SUFFIXES) and name[0] != "."]
    if not found:
        raise DataError(f"the folder {root} has no pictures: files that end in {', '.join(_SUFFIXES)} are needed.")
    return sorted(found)


def by_pattern(root: Path, listed: Sequence[str], pattern: str, wanted: Sequence[str]) -> tuple[list[str], _Columns]:
    """The pictures that match the pattern, and the fields that are wanted."""
    fields, expression = _compiled(pattern)
    for name in wanted:
        if name not in fields:
            advice = suggest(name, fields) if fields else f"write {{{name}}} where it stands in the path."
            raise DataError(f"the pattern '{pattern}' has no field '{name}': {advice}")
    matches = {name: match for name in listed if (match := expression.fullmatch(name))}
    if not matches:
        raise DataError(f"none of the {len(listed)} pictures of {root} matches '{pattern}': '{listed[0]}' should, say.")
    return [*matches], {name: [m[fields.index(name) + 1] for m in matches.values()] for name in wanted}


def _compiled(pattern: str) -> tuple[list[str], re.Pattern[str]]:
    """The fields of a pattern in their order, and the expression whose groups they are."""
    parts = re.split(r"(\{[^{}/]+\}|\*)", pattern)
    fields = [part[1:-1] for part in parts[1::2] if part != "*"]
    if len(set(fields)) < len(fields) or any(mark in text for text in parts[::2] for mark in "{}"):
        raise DataError(
            f"the pattern '{pattern}' has a stray brace or a field twice: write it as in {{group}}/{{label}}/*."
        )
    special = ["[^/]*" if part == "*" else "([^/]+?)" for part in parts[1::2]]
    literal = [re.escape(part) for part in parts[::2]]
    return fields, re.compile("".join(a + b for a, b in zip(literal, [*special, ""], strict=True)))


def _by_table(
    table: Path, root: Path, listed: Sequence[str], pattern: str, wanted: Sequence[str]
) -> tuple[list[str], _Columns]:
    """The pictures of the table, sorted, and their values; what the table does not have comes from the pattern."""
    columns, lines = read_table(table)
    if "file" not in columns:
        raise DataError(f"{table} has no column 'file' with the pictures' paths inside {root}: add it, or rename one.")
    place = _places(table, columns["file"], lines, listed, root)
    names, found = sorted(place), {}
    for name in (name for name in wanted if name in columns):
        found[name] = [columns[name][place[file]].strip() for file in names]
        for file, cell in zip(names, found[name], strict=True):
            if cell.lower() in MISSING:
                raise DataError(
                    f"{table} has no value for '{name}' in line {lines[place[file]]}: fill it, or remove it."
                )
    others = [name for name in wanted if name not in columns]
    unknown = [name for name in others if f"{{{name}}}" not in pattern]
    if unknown:
        raise DataError(f"{table} has no column '{unknown[0]}', nor has the pattern: {suggest(unknown[0], columns)}")
    if others:
        matching, fields = by_pattern(root, names, pattern, others)
        if len(matching) < len(names):
            strange = next(name for name in names if name not in set(matching))
            raise DataError(f"{table} names '{strange}', which does not match '{pattern}': add a column '{others[0]}'.")
        found |= fields
    return names, found


def _places(
    table: Path, cells: Sequence[str], lines: Sequence[int], listed: Sequence[str], root: Path
) -> dict[str, int]:
    """The row of every picture that a table names. Only what was listed in the folder is found, so none leads out."""
    place: dict[str, int] = {}
    there = set(listed)
    for row, cell in enumerate(cells):
        name = str(PurePosixPath(cell.strip().replace("\\", "/")))
        if name not in there:
            raise DataError(f"{table} names '{cell.strip()}' in line {lines[row]}, but {root} has no such picture.")
        if name in place:
            raise DataError(f"{table} names '{name}' in lines {lines[place[name]]} and {lines[row]}: once is needed.")
        place[name] = row
    return place


def _targets(root: Path, names: Sequence[str], cells: Sequence[str], task: TaskKind) -> tuple[Labels, tuple[str, ...]]:
    if task == "classification":
        return encode_labels(str(root), np.array(cells))
    numbers = np.empty(len(cells), dtype=np.float32)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise DataError(f"{root / names[row]} has the label '{cell}': a finite number is needed for regression.")
    return numbers, ()


# --- Chars74K, faces, mammals ------------------------------------------------------------------------

_CHARACTER = re.compile(r"(?:.*/)?(?:Fnt|Hnd/Img)/Sample(\d{3})/[^/]+\.png")
_LARGEST_FILE = 2**26  # of a packed picture
_OLDEST = 130


def chars74k(size: Size = 32) -> Dataset:
    """Digits and letters in 62 classes, printed in 1,016 typefaces (fnt) and written by 55 people (hnd), in grey.

    Dark on white. The archives are read as they are; a fifth of each class is held out.
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
        "chars74k", *_cut(whole, 0.2, "classification"), CHARACTERS, files.entry.licence, (fitted(size),),
        defaults={"partition": "by-group"},
    )  # fmt: skip


def _characters(path: Path, size: int) -> list[tuple[int, Pixels]]:
    """Class and pixels of every character of an archive, sorted by name."""
    found: dict[str, tuple[int, Pixels]] = {}
    with _quiet():
        for member in members(path):
            match = _CHARACTER.fullmatch(member.name)
            if match is None:
                continue
            where = f"{member.name} in {path}"
            if not 1 <= int(match[1]) <= len(CHARACTERS):
                raise DataError(
                    f"{where} is of a class that is none: Sample001 to Sample062 are needed; fetch it again."
                )
            data = b"".join(blocks(member.stream, _LARGEST_FILE, where))
            found[member.name] = int(match[1]) - 1, read_picture(data, where, size, "grey")
    if not found:
        raise DataError(f"{path} has no pictures like Fnt/Sample001/img001-00001.png: fetch it again.")
    return [found[name] for name in sorted(found)]


def age_faces(size: Size = 32) -> Dataset:
    """Faces whose file names begin with the age, one folder a source; the age is what to learn, as a number."""
    return stored("age-faces", _read_age_faces, size=size)


def _read_age_faces(files: Files, size: int) -> Dataset:
    names = sorted(files.names)
    ages = np.array([_age(files, name) for name in names], dtype=np.float32)
    x = read_pictures([files[name] for name in names], size, "rgb")
    whole = Split(x, ages, {"source": np.array([name.partition("/")[0] for name in names])})
    return Dataset(
        "age-faces", *_cut(whole, 0.2, "regression"), (), files.entry.licence, (fitted(size),),
        defaults={"partition": "by-group"}, task="regression",
    )  # fmt: skip


def _age(files: Files, name: str) -> int:
    match = re.match(r"(\d{1,3})_", PurePosixPath(name).name)
    if match is None or int(match[1]) > _OLDEST:
        raise DataError(
            f"{files[name]} does not begin with an age: names like 25_0_2_20170116.jpg are needed; rename it."
        )
    return int(match[1])


def flickr_mammal(size: Size = 32) -> Dataset:
    """Photographs of 41 mammals by `continent` and `subcontinent`: the user's own download of Flickr-Mammal."""
    return stored("flickr-mammal", _read_flickr_mammal, size=size)


def _read_flickr_mammal(files: Files, size: int) -> Dataset:
    """The tables metadata/ANIMAL.csv name photographs by img_id and give their region of M49 as region1."""
    there, listed = set(files.names), 0
    found: dict[str, tuple[str, str]] = {}  # the animal and subcontinent of every picture
    for table in (name for name in files.names if name.endswith(".csv")):
        animal = PurePosixPath(table).stem
        columns, lines = read_table(files[table])
        for column in ("img_id", "region1"):
            if column not in columns:
                raise DataError(f"{files[table]} has no column '{column}': {suggest(column, columns)}")
        for id_, code in zip(columns["img_id"], columns["region1"], strict=True):
            picture = f"images/{animal}/{id_.strip()}.jpg"
            if picture in there and code.strip() in M49:
                found[picture] = animal, M49[code.strip()]
        listed += len(lines)
    if not found:
        raise DataError(
            f"none of the {listed} photographs that the tables in {files.root} name is there: download them."
        )
    names = sorted(found)
    y, classes = encode_labels("flickr-mammal", np.array([found[name][0] for name in names]))
    regions = [found[name][1] for name in names]
    groups = {"continent": np.array([CONTINENT_OF[r] for r in regions]), "subcontinent": np.array(regions)}
    gone = f"{listed - len(found)} of {listed} photographs are not there, or have no region, and were left out"
    return Dataset(
        "flickr-mammal",
        *_cut(Split(read_pictures([files[name] for name in names], size, "rgb"), y, groups), 0.2, "classification"),
        classes,
        files.entry.licence,
        (fitted(size), *([gone] if listed > len(found) else [])),
        {"partition": "by-group"},
    )
