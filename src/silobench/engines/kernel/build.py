"""Compiles the native step with the user's own compiler, checks it, and keeps it for the next time.

A library's name is a hash of the source, the flags, the compiler's version and the processor's features, so that a
change in any of them makes another one. It comes into the cache whole and checked, or not at all.
"""

import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from silobench.atomic import replace_atomically
from silobench.engines.kernel.binding import Kernel

SOURCE = Path(__file__).with_name("step.cpp")
# Nothing here lets the compiler forget about NaN or infinity. Sums of products may be rounded once instead of twice.
FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
    "-ffp-contract=fast", "-Wno-psabi",
)  # fmt: skip
_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
_FEATURES = ("avx512f", "avx2", "fma", "avx", "sse4_2", "asimd", "sve")  # the most capable first
_LOG = logging.getLogger("silobench")
_PATIENCE = 300  # seconds


class NoNativeError(Exception):
    """Why there is no native step here, as the end of a sentence."""


@dataclass(frozen=True)
class Native:
    """The step of this machine."""

    kernel: Kernel
    key: str  # the hash that its bits depend on
    path: Path
    compiler: str  # and its version
    features: tuple[str, ...]  # of the processor

    @property
    def made_by(self) -> dict[str, str]:
        """What a record says of it."""
        return {"kernel": self.key, "cpu": " ".join(self.features) or platform.machine()}


def native() -> Native:
    """The step, compiled now if it never was; a `NoNativeError` says why there is none."""
    found = _found()
    if isinstance(found, NoNativeError):
        raise found
    return found


def why_not() -> str | None:
    """Why there is no native step; None if there is one."""
    found = _found()
    return None if isinstance(found, Native) else str(found)


@functools.cache
def say_why_not() -> None:
    """Say, once, that PyTorch is used where a native step could be, and why."""
    if reason := why_not():
        _LOG.warning("no native step, because %s: PyTorch is used instead, which takes longer.", reason)


@functools.cache
def _found() -> Native | NoNativeError:
    try:
        return _built()
    except NoNativeError as reason:
        return reason


def _built() -> Native:
    compiler = _compiler()
    version, command = _version(compiler), [*compiler, *FLAGS, _target()]
    key = _key(SOURCE.read_bytes(), command, version, _processor())
    path = _folder() / f"{key}.so"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock")):
                if not path.exists():  # nobody was faster
                    _build(command, path)
        kernel = Kernel(path)
    except OSError as error:
        raise NoNativeError(
            f"{path} cannot be made or loaded ({error.strerror or error}; SILOBENCH_KERNELS names another folder)"
        ) from error
    return Native(kernel, key, path, version, tuple(name for name in _FEATURES if name in _processor().split()))


def _folder() -> Path:
    """``$SILOBENCH_KERNELS``, else the user's cache folder."""
    chosen = os.environ.get("SILOBENCH_KERNELS")
    return Path(chosen) if chosen else user_cache_path("silobench") / "kernels"


def _compiler() -> list[str]:
    """What ``$CXX`` or ``$CC`` name, else the first that is there."""
    for variable in ("CXX", "CC"):
        if chosen := os.environ.get(variable):
            return shlex.split(chosen)
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    raise NoNativeError("no C++ compiler was found (install g++ or clang, or name one by CXX)")


def _version(compiler: Sequence[str]) -> str:
    said = _run([*compiler, "--version"]).stdout.splitlines()
    return said[0] if said else shlex.join(compiler)


def _target() -> str:
    """Return the compiler's option for the processor: the one that ``$SILOBENCH_MARCH`` names, else this one."""
    option = "-march" if platform.machine().lower() in ("x86_64", "amd64", "i686") else "-mcpu"
    return f"{option}={os.environ.get('SILOBENCH_MARCH') or 'native'}"


@functools.cache
def _processor() -> str:
    """The processor's features, where they are told, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return " ".join(sorted(next(found, "").split())) or f"{platform.machine()} {platform.processor()}"


def _key(source: bytes, command: Sequence[str], version: str, processor: str) -> str:
    parts = [source, shlex.join(command).encode(), version.encode(), processor.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(command: Sequence[str], path: Path) -> None:
    _LOG.info("compiling the native step for this processor, once: some seconds.")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        library = Path(folder) / path.name
        _run([*command, "-o", str(library), str(SOURCE), "-lm"])
        check(library)
        replace_atomically(path, library.read_bytes())


def check(library: Path) -> None:
    """Have a library checked by a process of its own."""
    command = [sys.executable, "-m", "silobench.engines.kernel.check", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else _last_line(done.stderr)
        raise NoNativeError(f"what was compiled failed its self-test ({how})")


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not done after {_PATIENCE} seconds"
        raise NoNativeError(f"the compiler {command[0]} cannot be used ({reason})") from error
    if done.returncode:
        said = _last_line(done.stderr)
        raise NoNativeError(
            f"the compiler {command[0]} ended with code {done.returncode}" + (f" ({said})" if said else "")
        )
    return done


def _last_line(text: str) -> str:
    """Of errors, if any of them says so."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors[:1] or lines[-1:] or [""])[0]
