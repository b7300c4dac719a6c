"""Atomic writes."""

import os
import secrets
from pathlib import Path

from silobench.safety.private_files import MODE, opened_privately


def replace_atomically(
    path: Path, content: bytes, *, durable: bool = True, is_locked: bool = False, private: bool = False
) -> None:
    """Replace a file so that a reader sees the complete old or the complete new content, even after a crash.

    Without `durable` a power cut may lose the new content. That is enough for files that can be written again, and
    much quicker for many of them. `is_locked` says that a lock keeps other processes out. The content then goes through
    a file with a fixed name, so that what a kill leaves behind is overwritten by the next write; without a lock, two
    processes would write into the same file. A `private` file can be read by its owner only. A link is replaced, not
    followed.
    """
    temporary = path.with_name(f"{path.name}.new" if is_locked else f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with open(temporary, "wb", opener=opened_privately if private else _opened) as file:
            if private:
                os.chmod(temporary, MODE)  # one that a crash left may have another mode
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
