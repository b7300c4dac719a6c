"""Images as small PNG files in text, for findings and pages."""

import base64
import io

from PIL import Image
from torch import Tensor

PNG = "data:image/png;base64,"  # how the address of a picture begins
_LARGEST = 64  # pixels on a side; a larger image is thinned out


def as_png(image: Tensor, low: float = 0.0, high: float = 1.0) -> str:
    """Return an image of shape (channels, height, width) as the address of a PNG, which contains the picture itself.

    It is in colour if it has three channels; otherwise its first channel is shown in grey. `low` is black, and `high`
    is white.
    """
    stride = -(-max(image.shape[1:]) // _LARGEST)
    shown = (image[:, ::stride, ::stride].double() - low) / (high - low)
    pixels = shown.clamp(0, 1).mul(255).round().byte()
    content = io.BytesIO()
    array = pixels.permute(1, 2, 0).contiguous() if len(image) == 3 else pixels[0].contiguous()
    Image.fromarray(array.numpy()).save(content, "PNG", optimize=True)
    return PNG + base64.b64encode(content.getvalue()).decode()
