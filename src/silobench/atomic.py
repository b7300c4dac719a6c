"""Atomic writes."""

import os
from pathlib import Path


def replace_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file so that a reader sees the complete old or the complete new content, even after a crash.

    Without `durable` a power cut may lose the new content. That is enough for files that can be written again, and
    much quicker for many of them.
    """
    temporary = path.with_name(f"{path.name}.new")  # a fixed name is safe: the caller holds a lock
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
