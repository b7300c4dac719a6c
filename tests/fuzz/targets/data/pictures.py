"""Pictures: files of many formats and modes, bombs, and metadata that contradict the pixels."""

import io
import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from silobench.data.readers.image_files import read_pictures

_FORMATS = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "JPEG": ("L", "RGB", "CMYK"), "BMP": ("1", "L", "P", "RGB"),
    "GIF": ("L", "P", "RGB"), "WEBP": ("RGB", "RGBA"),
    "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "F", "LAB", "I;16"),
    "PPM": ("1", "L", "RGB", "I"),
}  # fmt: skip


def picture_file(rng: Random) -> bytes:
    """Return a small picture of any format and mode, with odd sides and metadata; rarely a bomb."""
    if rng.random() < 0.01:
        return png_of(*rng.choice(((9_000, 9_000), (40_000, 40_000), (2**31 - 1, 1), (1, 89_000_000), (0, 0))), rng)
    form = rng.choice([*_FORMATS])
    mode, size = rng.choice(_FORMATS[form]), (rng.choice((1, 2, 7, 40)), rng.choice((1, 3, 8, 33)))
    picture = _picture(mode, size)
    target = io.BytesIO()
    options = {}
    if rng.random() < 0.3 and form in ("JPEG", "PNG", "WEBP", "TIFF"):
        exif = Image.Exif()
        exif[0x0112] = rng.choice((1, 3, 6, 8, 0, 99))
        options["exif"] = exif
    if rng.random() < 0.2 and form == "PNG" and mode in ("L", "P", "RGB"):
        options["transparency"] = (1, 2, 3) if mode == "RGB" else 1
    if rng.random() < 0.3 and form == "TIFF" and mode in ("L", "RGB"):
        options["compression"] = rng.choice(("tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits"))
    if rng.random() < 0.2 and form in ("GIF", "TIFF", "WEBP"):
        options |= {"save_all": True, "append_images": [picture.copy()] * 3}
    try:
        picture.save(target, form, **options)
    except (OSError, RuntimeError, ValueError):  # the format does not have this mode, or not with these options
        target = io.BytesIO()
        picture.convert("RGB").save(target, form)
    return target.getvalue()


def _picture(mode: str, size: tuple[int, int]) -> Image.Image:
    if mode in ("I", "F", "I;16"):
        kind = {"I": np.int32, "F": np.float32, "I;16": np.uint16}[mode]
        return Image.fromarray((np.arange(size[0] * size[1]).reshape(size[1], size[0]) * 700 % 60_000).astype(kind))
    return (
        Image.new("LAB", size)
        if mode == "LAB"
        else Image.linear_gradient("L").resize(size).convert("RGB").convert(mode)
    )


def png_of(width: int, height: int, rng: Random) -> bytes:
    """Return a PNG of black pixels of any size, which is a thousand times smaller than its pixels."""
    rows = zlib.compress(bytes(min((width // 8 + 2) * height, 20_000_000)), 9)
    head = struct.pack(">IIBBBBB", width, height, rng.choice((1, 8)), rng.choice((0, 2, 3, 6)), 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", bytes(6)), (b"tRNS", b"\0\1"), (b"IDAT", rows), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def read_picture_file(content: bytes) -> None:
    """Read the content as a picture, in colour or in grey."""
    path = Path("picture.png")
    path.write_bytes(content)
    read_pictures([path], 16, "rgb" if len(content) % 2 else "grey")
