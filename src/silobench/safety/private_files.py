"""Files that only their owner may read: keys, tokens and what silos remember.

They are private from their first byte on, whatever the umask is. On Windows, rights of folders decide instead.
"""

import os
import stat
from pathlib import Path

from silobench.errors import ConfigError

MODE, FOLDER_MODE = 0o600, 0o700


def opened_privately(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=opened_privately)`; one that is created is private, and no link is followed."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), MODE)


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read; one that exists is a `FileExistsError`."""
    with open(path, "xb", opener=opened_privately) as file:
        try:
            file.write(content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def need_private(path: Path, what: str) -> None:
    """Refuse a file or a folder that others on this machine can use; `what` names it in the sentence."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        needed = FOLDER_MODE if path.is_dir() else MODE
        raise ConfigError(
            f"{what} {path} can be used by others on this machine: run `chmod {needed:o} {path}`, and make a new one "
            "if somebody may have read it."
        )


def is_own(path: Path) -> bool:
    """Whether a file is this user's or the administrator's, and not open to everybody; its group is trusted."""
    status = path.stat()
    return os.name != "posix" or (status.st_uid in (0, os.getuid()) and not status.st_mode & stat.S_IWOTH)
