"""Images as small PNG files in text, for findings and pages."""

import base64
import struct
import zlib

from torch import Tensor

_LARGEST = 64  # pixels on a side; a larger image is thinned out


def as_png(image: Tensor, low: float = 0.0, high: float = 1.0) -> str:
    """Return an image of shape (channels, height, width) as the address of a PNG, ``data:image/png;base64,...``.

    It is in colour if it has three channels; otherwise its first channel is shown in grey. `low` is black, and `high`
    is white.
    """
    stride = -(-max(image.shape[1:]) // _LARGEST)
    chosen = image if len(image) == 3 else image[:1]
    shown = (chosen[:, ::stride, ::stride].double() - low) / (high - low)
    pixels = shown.clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).contiguous().numpy()
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # no filter
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
