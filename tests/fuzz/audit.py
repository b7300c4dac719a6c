"""What code does to the machine while it reads an input: files, programs, sockets and code, by Python's audit events.

Libraries in C open files without an audit event. `guard.strangers` finds what they write beside the output directory.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_IMPORT = "<frozen importlib._bootstrap"
_NEVER = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile",
    "pty.spawn", "pickle.find_class", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg",
    "socket.getaddrinfo", "socket.gethostbyname", "ftplib.connect", "http.client.connect", "smtplib.connect",
    "urllib.Request", "webbrowser.open", "os.setxattr", "os.chown",
)  # fmt: skip
_ONLY_IMPORTS = ("code.__new__", "marshal.loads", "marshal.load", "ctypes.dlopen")
# Libraries that write code for classes and distributions; they do not write it from data.
_GENERATORS = ("dataclasses.py", "collections/__init__.py", "scipy/stats/_distn_infrastructure.py")


class Breach(BaseException):
    """Something that no input may cause; no `except Exception` of the code under test hides it."""


class Watch:
    """What is forbidden while an input is read, and what happened nevertheless."""

    def __init__(self, output: Path) -> None:
        self.output = os.path.realpath(output)
        self.breaches: list[str] = []

    def reason(self, event: str, args: tuple[Any, ...]) -> str | None:
        """Return why an event is a breach; None if it is none."""
        if event in _NEVER:
            return f"{event} {args[:2]!r}"[:200]
        if event in _ONLY_IMPORTS:
            is_itself = event == "ctypes.dlopen" and args[0] is None  # the process, as it is loaded already
            return None if is_itself or _importing() else f"{event} outside an import"
        check = _CHECKS.get(event)
        return check(self, args) if check else None

    def is_inside(self, path: Any, folder: Any = None) -> bool:
        """Whether a path is in the output directory; `folder` is a descriptor that it may be relative to."""
        if isinstance(path, int):
            return True  # a descriptor that was opened before
        name = os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        real = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(name))), os.path.basename(name))
        return real == self.output or real.startswith(self.output + os.sep) or real == os.devnull


def _opened(watch: Watch, args: tuple[Any, ...]) -> str | None:
    path, mode, flags = args
    writes = bool(flags & _WRITING) or (isinstance(mode, str) and any(letter in mode for letter in "wax+"))
    if not writes or watch.is_inside(path) or _importing():
        return None
    return f"{os.fsdecode(path)!r} was opened for writing"


def _changed(watch: Watch, args: tuple[Any, ...]) -> str | None:
    path, folder = args[0], args[-1] if isinstance(args[-1], int) else None
    return None if watch.is_inside(path, folder) or _is_compiled(path) else f"{os.fsdecode(path)!r} was changed"


def _moved(watch: Watch, args: tuple[Any, ...]) -> str | None:
    paths = [path for path in args[:2] if not watch.is_inside(path) and not _is_compiled(path)]
    return f"{os.fsdecode(paths[0])!r} was moved or linked" if paths else None


def _executed(watch: Watch, args: tuple[Any, ...]) -> str | None:
    code = args[0]
    if not isinstance(code, CodeType):
        return "something was executed"
    from_library = os.path.isabs(code.co_filename) and os.path.exists(code.co_filename)
    if watch.is_inside(code.co_filename) and code.co_filename[:1] != "<":
        return f"code of {code.co_filename!r} was executed"
    if from_library or _importing() or _caller().endswith(_GENERATORS):
        return None
    return f"code {code.co_name!r} of {code.co_filename!r} was executed"


_CHECKS: dict[str, Callable[[Watch, tuple[Any, ...]], str | None]] = {
    "open": _opened, "os.mkdir": _changed, "os.remove": _changed, "os.rmdir": _changed, "os.truncate": _changed,
    "os.chmod": _changed, "os.rename": _moved, "os.link": _moved, "shutil.rmtree": _changed, "exec": _executed,
    "os.symlink": lambda watch, args: _changed(watch, args[1:]),
}  # fmt: skip


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            yield frame
        frame = frame.f_back


def _is_compiled(path: Any) -> bool:
    """Whether a path is that of a compiled module, which the first import of a module writes."""
    return "__pycache__" in Path(os.fsdecode(path)).parts and _importing()


def _importing() -> bool:
    return any(frame.f_code.co_filename.startswith(_IMPORT) for frame in _frames())


def _caller() -> str:
    return next(_frames()).f_code.co_filename


# --- one hook for the process: Python has no way to remove one -----------------------------------------

_watch: Watch | None = None
_installed = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    global _watch
    watch = _watch
    if watch is None:
        return
    _watch = None  # what the check itself does is not watched
    try:
        reason = watch.reason(event, args)
    finally:
        _watch = watch
    if reason is not None:
        watch.breaches.append(reason)
        raise Breach(reason)


@contextmanager
def watched(output: Path) -> Iterator[Watch]:
    """Watch what happens meanwhile; `output` is the only place where files may be written."""
    global _watch, _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    _watch = watch = Watch(output)
    try:
        yield watch
    finally:
        _watch = None
