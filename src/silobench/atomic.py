"""Files that are there whole or not at all."""

import os
from pathlib import Path


def replace_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at every moment the old or the new content is there, whole."""
    temporary = path.with_name(f"{path.name}.new")  # the caller holds a lock
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
