"""Compile the native step with the user's compiler, check it and cache it.

A library's name is a hash of the source, the flags, the compiler's version and the processor's features, so a change in
any of them makes a new library. A library enters the cache complete and checked, or not at all. Its digest is stored
beside it, because a library with one wrong bit may compute wrong numbers: a damaged one is compiled again.
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

from silobench.atomic import replace_atomically
from silobench.engines.kernel.binding import Kernel
from silobench.processes import cache_folder, cpu_info
from silobench.safety.private_files import FOLDER_MODE, is_own

SOURCE = Path(__file__).with_name("step.cpp")
HEADERS = (Path(__file__).with_name("batch.h"), Path(__file__).with_name("orders.h"))  # which it includes
# No flag lets the compiler ignore NaN or infinity. Sums of products may be rounded once instead of twice.
FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
    "-ffp-contract=fast", "-Wno-psabi", "-pthread",
)  # fmt: skip
_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
_FEATURES = ("avx512f", "avx2", "fma", "avx", "sse4_2", "asimd", "sve")  # the most capable first
# With these variables a user keeps libraries from instructions that the processor has, which changes how they round.
_LIMITS = (
    "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
    "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE",
)  # fmt: skip
_LOG = logging.getLogger("silobench")
_PATIENCE = 300  # seconds
_SELF_TEST = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("silobench.engines.kernel.check", run_name="__main__", alter_sys=True)
"""


class NoNativeError(Exception):
    """The native step is not available; the message is the reason, as the end of a sentence."""


@dataclass(frozen=True)
class Native:
    """The compiled step of this machine."""

    kernel: Kernel
    key: str  # hash of everything that can affect its rounding
    path: Path
    compiler: str  # with its version
    features: tuple[str, ...]  # of the processor

    @property
    def facts(self) -> dict[str, str]:
        """Facts for the run record."""
        return {"kernel": self.key, "cpu": cpu_type()}


def native() -> Native:
    """Return the step, compiling it at first use; raise `NoNativeError` if that is not possible."""
    result = _native_or_error()
    if isinstance(result, NoNativeError):
        raise result
    return result


def why_not() -> str | None:
    """Return why there is no native step, or None if there is one."""
    result = _native_or_error()
    return None if isinstance(result, Native) else str(result)


@functools.cache
def warn_if_missing() -> None:
    """Warn once if PyTorch has to replace the native step, with the reason."""
    if reason := why_not():
        _LOG.warning("the native step is not available, because %s: PyTorch is used instead, which is slower.", reason)


@functools.cache
def _native_or_error() -> Native | NoNativeError:
    try:
        return _built()
    except NoNativeError as reason:
        return reason


def _built() -> Native:
    compiler = _compiler()
    version, command = _version(compiler), [*compiler, *FLAGS, _target()]
    key = _key(b"".join(file.read_bytes() for file in (SOURCE, *HEADERS)), command, version, _processor())
    path = _folder() / f"{key}.so"
    try:
        if not _is_whole(path):
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            _need_own(path.parent)  # before the self-test, which loads the library
            with FileLock(path.with_suffix(".lock")):
                if not _is_whole(path):  # another process may have built it meanwhile
                    _build(command, path)
        _need_own(path.parent, path)
        kernel = Kernel(path)
    except OSError as error:
        raise NoNativeError(
            f"{path} cannot be written or loaded ({error.strerror or error}; set SILOBENCH_KERNELS to another folder)"
        ) from error
    return Native(kernel, key, path, version, cpu_features())


def _need_own(folder: Path, *files: Path) -> None:
    """Refuse a folder or a file in it that others can write: loading a library executes it."""
    if not all(map(is_own, (folder, *files))):
        raise NoNativeError(f"others can write to {folder}; set SILOBENCH_KERNELS to a folder of your own")


def _folder() -> Path:
    """Return ``$SILOBENCH_KERNELS``, else a folder in the user's cache; for a user without a home, a temporary one."""
    if chosen := os.environ.get("SILOBENCH_KERNELS"):
        return Path(chosen)
    temporary = Path(tempfile.gettempdir()) / f"silobench-kernels-{os.getuid() if os.name == 'posix' else ''}"
    folder = cache_folder(without_home=temporary)
    return folder if folder == temporary else folder / "kernels"  # others could replace a folder in one of theirs


def _compiler() -> list[str]:
    """Return the command in ``$CXX`` or ``$CC``, else the first compiler on the path."""
    for variable in ("CXX", "CC"):
        chosen = os.environ.get(variable, "")
        try:
            command = shlex.split(chosen)
        except ValueError as error:
            raise NoNativeError(f"the command in {variable} cannot be read ({error})") from error
        if command:
            return command
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    raise NoNativeError("no C++ compiler was found (install g++ or clang, or name one in CXX)")


def _version(compiler: Sequence[str]) -> str:
    lines = _run([*compiler, "--version"]).stdout.splitlines()
    return lines[0] if lines else shlex.join(compiler)


def _target() -> str:
    """Return the compiler's option for the processor: the one that ``$SILOBENCH_MARCH`` names, else this one."""
    option = "-march" if platform.machine().lower() in ("x86_64", "amd64", "i686") else "-mcpu"
    return f"{option}={os.environ.get('SILOBENCH_MARCH') or 'native'}"


@functools.cache
def _processor() -> str:
    """Return the processor's features where the system lists them, else its kind."""
    features = cpu_info("flags", "Features").split()
    return " ".join(sorted(features)) or f"{platform.machine()} {platform.processor()}"


def cpu_features() -> tuple[str, ...]:
    """Return the processor's features that affect rounding, the most capable first."""
    return tuple(name for name in _FEATURES if name in _processor().split())


def cpu_type() -> str:
    """Return the text that run records use for the type of processor, with the limits that a user sets for it."""
    limits = [f"{name}={os.environ[name]}" for name in _LIMITS if os.environ.get(name)]
    return " ".join([*(cpu_features() or (platform.machine(),)), *limits])


def _key(source: bytes, command: Sequence[str], version: str, processor: str) -> str:
    parts = [source, shlex.join(command).encode(), version.encode(), processor.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(command: Sequence[str], path: Path) -> None:
    if path.exists():
        _LOG.warning("%s is damaged, or from an earlier version: it is compiled again.", path)
    _LOG.info("compiling the native step for this processor, once; this takes some seconds.")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        library = Path(folder) / path.name
        _run([*command, "-o", str(library), f"-I{HEADERS[0].parent}", str(SOURCE), "-lm"])
        check(library)
        content = library.read_bytes()
        replace_atomically(path, content)
        replace_atomically(_digest_file(path), hashlib.sha256(content).hexdigest().encode())


def _is_whole(library: Path) -> bool:
    """Whether a library is in the cache as it was checked; libraries of earlier versions have no digest."""
    try:
        actual, stated = hashlib.sha256(library.read_bytes()).hexdigest(), _digest_file(library).read_bytes().decode()
    except (OSError, ValueError):
        return False
    return actual == stated


def _digest_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def check(library: Path) -> None:
    """Check a library in a separate process, because a wrong one may crash."""
    root = Path(__file__).parents[3]
    # With -P, so that it imports nothing from the working directory, which may have a numpy.py.
    command = [sys.executable, "-P", "-c", _SELF_TEST, str(root), str(library)]
    try:
        done = _finished(command)
    except subprocess.TimeoutExpired as error:
        raise NoNativeError(f"the self-test of the compiled library did not end in {_PATIENCE} seconds") from error
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else _error_line(done.stderr)
        raise NoNativeError(f"the compiled library failed its self-test ({how})")


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        done = _finished(command)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it did not finish in {_PATIENCE} seconds"
        raise NoNativeError(f"the compiler {command[0]} cannot be used ({reason})") from error
    if done.returncode:
        error_line = _error_line(done.stderr)
        detail = f" ({error_line})" if error_line else ""
        raise NoNativeError(f"the compiler {command[0]} ended with code {done.returncode}{detail}")
    return done


def _finished(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end. Its output may be of any encoding: it is only shown."""
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", timeout=_PATIENCE, check=False
    )


def _error_line(text: str) -> str:
    """Return the first line that mentions an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors[:1] or lines[-1:] or [""])[0]
