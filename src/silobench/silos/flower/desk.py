"""The desk of a silo: a local socket where Flower's processes hand in letters and get the answers.

Only bytes cross it, never pickled objects. Its folder is private to the user, and both ends prove that they know a key.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path

from silobench.safety.private_files import write_private

_SOCKET, _KEY = "desk.sock", "desk.key"
# What Python says of a visitor whose proof of the key is too long, and of one who breaks off within a message.
_OF_VISITORS = ("bad message length", "got end of file during message")


@contextmanager
def opened_desk() -> Iterator[tuple[Path, Listener]]:
    """Open a desk in a new private folder, and yield the folder and the listener; remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="silobench-desk-"))  # mode 0700; a socket needs a short path
    try:
        key = secrets.token_bytes(32)
        write_private(folder / _KEY, key)
        before = os.umask(0o177)
        try:
            listener = Listener(str(folder / _SOCKET), family="AF_UNIX", authkey=key, backlog=8)
        finally:
            os.umask(before)
        with listener:
            yield folder, listener
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answer_letters(listener: Listener, answer: Callable[[bytes], bytes]) -> None:
    """Answer letters one after the other, for ever. A visitor who has no key or breaks off does no harm."""
    while True:
        try:
            with listener.accept() as visitor:
                visitor.send_bytes(answer(visitor.recv_bytes()))
        except (AuthenticationError, EOFError, ConnectionError):
            continue
        except OSError as error:
            if str(error) not in _OF_VISITORS:  # others are about the desk, which may be closed
                raise


def forward(folder: Path, letter: bytes) -> bytes:
    """Hand in a letter at the desk of a folder, and return the answer."""
    with Client(str(folder / _SOCKET), family="AF_UNIX", authkey=(folder / _KEY).read_bytes()) as desk:
        desk.send_bytes(letter)
        return desk.recv_bytes()
