"""What a silo keeps on its own disk: keys, memories by round, answers, and what it spent of its rows' privacy."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load, save

from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.method.types import Vector
from silobench.safety.private_files import FOLDER_MODE, MODE
from silobench.training.state import PartyMemory

_DIGEST_BYTES = 32
_SEAL = b"silobench sealed\n"  # begins a file; the digest of the rest follows


@dataclass(frozen=True)
class Drawer:
    """A folder of files that only its owner can read."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> "Drawer":
        """Return the folder, which is made if it is missing."""
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path.chmod(FOLDER_MODE)
        return cls(path)

    def locked(self) -> FileLock:
        """Return a lock on the folder, taken; an error if another process has it."""
        lock = FileLock(self.path / ".lock", mode=MODE)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RecordError(
                f"{self.path} is in use by another process of this silo: stop it first, or leave it running."
            ) from error
        return lock

    def put(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Write a file atomically, and only for its owner; without `durable` a power cut may lose it."""
        try:
            sealed = _SEAL + hashlib.sha256(content).digest() + content
            replace_atomically(self.path / name, sealed, durable=durable, is_locked=True, private=True)
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be written ({error.strerror}): free space, or fix its rights."
            ) from error

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none. A damaged one is refused."""
        file = self.path / name
        if not os.path.lexists(file):
            return None
        try:
            stored = file.read_bytes()
        except OSError as error:
            raise damaged(file) from error
        if not stored.startswith(_SEAL):  # written by an earlier version
            return stored
        digest, content = stored[len(_SEAL) :][:_DIGEST_BYTES], stored[len(_SEAL) + _DIGEST_BYTES :]
        if hashlib.sha256(content).digest() != digest:
            raise damaged(file)
        return content

    def drop(self, pattern: str, before: int | None = None) -> None:
        """Delete files of a pattern; with `before`, only those of earlier rounds, by the number after the last dash."""
        for file in self.path.glob(pattern):
            if before is None or int(file.name.rpartition("-")[2]) < before:
                file.unlink()

    # --- answers -------------------------------------------------------------------------------------

    def put_answer(self, name: str, letter: bytes, answer: bytes) -> None:
        """Store an answer under the digest of its letter."""
        self.put(f"answer-{name}", hashlib.sha256(letter).digest() + answer)

    def answer(self, name: str, letter: bytes) -> tuple[bytes | None, bool]:
        """Return the stored answer to a letter, and whether another letter was answered in its place."""
        stored = self.get(f"answer-{name}")
        if stored is None:
            return None, False
        is_same = stored[:_DIGEST_BYTES] == hashlib.sha256(letter).digest()
        return (stored[_DIGEST_BYTES:], False) if is_same else (None, True)

    def stored_answer(self, name: str) -> bytes:
        """Return the answer of this name, to whatever letter; empty if there is none."""
        return (self.get(f"answer-{name}") or b"")[_DIGEST_BYTES:]

    # --- memories ------------------------------------------------------------------------------------

    def put_memory(self, name: str, owners: PartyMemory) -> None:
        """Store the memory of a party."""
        arrays = {f"{owner}/{key}": value for owner, memory in owners.items() for key, value in memory.items()}
        self.put(name, save({key: value.contiguous().numpy() for key, value in arrays.items()}))

    def memory(self, name: str) -> PartyMemory | None:
        """Return the memory of a party; None if there is none of this name."""
        content = self.get(name)
        if content is None:
            return None
        owners: dict[str, dict[str, Vector]] = {}
        try:
            arrays = load(content)
        except SafetensorError as error:
            raise damaged(self.path / name) from error
        for key, array in arrays.items():
            owner, _, rest = key.partition("/")
            owners.setdefault(owner, {})[rest] = torch.from_numpy(array)
        return owners


def damaged(file: Path) -> RecordError:
    """Return the error about a file that is not as the silo wrote it."""
    return RecordError(
        f"{file} is damaged or missing: put it back from a backup of the silo's folder; without one, only a new run of "
        "the consortium can go on, and what the silo spent of its rows' privacy must be counted by its owner."
    )


def by_round(kind: str, round: int) -> str:
    """Return the name of a file of one round."""
    return f"{kind}-{round:06}"


def packed(secrets: Mapping[str, bytes]) -> bytes:
    """Return named byte strings as one."""
    return save({name: np.frombuffer(content, np.uint8) for name, content in secrets.items()})


def unpacked(content: bytes) -> dict[str, bytes]:
    """Return the byte strings of `packed`."""
    return {name: array.tobytes() for name, array in load(content).items()}
