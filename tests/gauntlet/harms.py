"""Ways to damage a file, as disks, crashes and people do it. Each draws where from a seeded generator."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TypeAlias

Harm: TypeAlias = Callable[[Path, Random], str]  # damages a file, and returns where
_PAGE = 4096


def cut_off(file: Path, random: Random) -> str:
    """Truncate a file at a random place."""
    content = file.read_bytes()
    end = random.randrange(len(content))
    file.write_bytes(content[:end])
    return f"after {end} of {len(content)} bytes"


def flip_bit(file: Path, random: Random) -> str:
    """Invert one bit."""
    content = bytearray(file.read_bytes())
    place, bit = random.randrange(len(content)), random.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"bit {bit} of byte {place} of {len(content)}"


def tear(file: Path, random: Random) -> str:
    """Cut off a part of the last line, as a write that was not finished does."""
    content = file.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1
    end = random.randrange(start, len(content))
    file.write_bytes(content[:end])
    return f"its last line begins at {start} and ends at {end}"


def zero_page(file: Path, random: Random) -> str:
    """Overwrite a page of the file with zeros, as a crash of some file systems does."""
    content = bytearray(file.read_bytes())
    start = random.randrange(0, len(content), _PAGE)
    end = min(start + _PAGE, len(content))
    content[start:end] = bytes(end - start)
    file.write_bytes(content)
    return f"bytes {start} to {end} of {len(content)}"


def empty(file: Path, random: Random) -> str:
    """Leave nothing in the file."""
    file.write_bytes(b"")
    return ""


def delete(file: Path, random: Random) -> str:
    """Delete the file."""
    file.unlink()
    return ""


def put_folder(file: Path, random: Random) -> str:
    """Put a folder in its place."""
    file.unlink()
    file.mkdir()
    return ""


def put_dangling_link(file: Path, random: Random) -> str:
    """Put a link to nothing in its place."""
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))
    return ""


HARMS: Mapping[str, Harm] = {
    "cut off": cut_off,
    "one bit flipped": flip_bit,
    "last line torn": tear,
    "page of zeros": zero_page,
    "emptied": empty,
    "deleted": delete,
    "folder in its place": put_folder,
    "dangling link in its place": put_dangling_link,
}
REPEATED = ("cut off", "one bit flipped")  # whose place matters most
WRITTEN = ("cut off", "one bit flipped", "last line torn", "page of zeros")  # which need a file that is not empty
