"""A web server on this machine that misbehaves when told to, and small catalogues, for tests of fetching."""

import hashlib
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from commands import PATIENCE
from silobench.data.store.catalog import Download, Entry, File, Source


def sum_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- the server --------------------------------------------------------------------------------------


@dataclass
class Page:
    """What the server gives for a path; `plan` has what it does for the first requests, then it behaves."""

    content: bytes
    etag: str = '"one"'
    headers: dict[str, str] = field(default_factory=dict)
    plan: list[Callable[["Handler", "Page"], None]] = field(default_factory=list)


@dataclass(frozen=True)
class Request:
    path: str
    range: str
    if_range: str


class Server:
    """Pages by path, and every request that came."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.log: list[Request] = []
        self.go_on = threading.Event()  # what a page that waits waits for
        self.halfway = threading.Event()  # it has begun to wait
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.silo = self  # type: ignore[attr-defined]
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def put(self, path: str, content: bytes, *plan: Callable[["Handler", "Page"], None], **more: Any) -> str:
        """Serve a page; gives its address."""
        self.pages[path] = Page(content, plan=list(plan), **more)
        return f"{self.address}/{path}"

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.log if request.path == path]

    def close(self) -> None:
        self.go_on.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: Server = self.server.silo  # type: ignore[attr-defined]
        path = self.path.lstrip("/")
        server.log.append(Request(path, self.headers.get("Range", ""), self.headers.get("If-Range", "")))
        self.close_connection = True
        page = server.pages.get(path)
        try:
            if page is None:
                status(404)(self, Page(b""))
            else:
                (page.plan.pop(0) if page.plan else behave)(self, page)
        except ConnectionError:  # the client went away
            pass

    def head(self, code: int, page: Page, length: int | None, **more: str) -> None:
        self.send_response(code)
        if page.etag:
            self.send_header("ETag", page.etag)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in {**page.headers, **more, "Connection": "close"}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def start(self, page: Page) -> int:
        """Where a valid range request begins; 0 for any other."""
        asked = self.headers.get("Range", "")
        same = self.headers.get("If-Range", page.etag) == page.etag
        return int(asked.removeprefix("bytes=").rstrip("-")) if asked and same else 0

    def log_message(self, *_: Any) -> None:
        pass


def behave(handler: Handler, page: Page) -> None:
    """The page, or the rest of it."""
    start, size = handler.start(page), len(page.content)
    if start >= size > 0:
        handler.head(416, page, 0, Content_Range=f"bytes */{size}")
    elif start:
        handler.head(206, page, size - start, Content_Range=f"bytes {start}-{size - 1}/{size}")
        handler.wfile.write(page.content[start:])
    else:
        handler.head(200, page, size)
        handler.wfile.write(page.content)


def drop(after: int) -> Callable[[Handler, Page], None]:
    """Promise everything, and hang up after some bytes."""

    def do(handler: Handler, page: Page) -> None:
        start = handler.start(page)
        handler.head(206 if start else 200, page, len(page.content) - start, **range_of(start, page))
        handler.wfile.write(page.content[start : start + after])

    return do


def range_of(start: int, page: Page) -> dict[str, str]:
    size = len(page.content)
    return {"Content_Range": f"bytes {start}-{size - 1}/{size}"} if start else {}


def status(code: int) -> Callable[[Handler, Page], None]:
    def do(handler: Handler, page: Page) -> None:
        handler.head(code, Page(b"", etag=""), 9)
        handler.wfile.write(b"go away!\n")

    return do


def ignore_range(handler: Handler, page: Page) -> None:
    handler.head(200, page, len(page.content))
    handler.wfile.write(page.content)


def wrong_range(handler: Handler, page: Page) -> None:
    """Says 206, but begins at the beginning."""
    size = len(page.content)
    handler.head(206, page, size, Content_Range=f"bytes 0-{size - 1}/{size}")
    handler.wfile.write(page.content)


def redirect(to: str) -> Callable[[Handler, Page], None]:
    return lambda handler, page: handler.head(302, Page(b"", etag=""), 0, Location=to)


def chunked(cut: int | None = None) -> Callable[[Handler, Page], None]:
    """In pieces of 1000 bytes and without a length; with `cut`, hang up after so many pieces."""

    def do(handler: Handler, page: Page) -> None:
        handler.head(200, page, None, Transfer_Encoding="chunked")
        pieces = [page.content[i : i + 1000] for i in range(0, len(page.content), 1000)]
        for piece in pieces[:cut]:
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if cut is None:
            handler.wfile.write(b"0\r\n\r\n")

    return do


def wait(after: int) -> Callable[[Handler, Page], None]:
    """Some bytes, and the rest only when the test says so."""

    def do(handler: Handler, page: Page) -> None:
        server: Server = handler.server.silo  # type: ignore[attr-defined]
        start = handler.start(page)
        handler.head(206 if start else 200, page, len(page.content) - start, **range_of(start, page))
        handler.wfile.write(page.content[start : start + after])
        handler.wfile.flush()
        server.halfway.set()
        server.go_on.wait(PATIENCE)
        handler.wfile.write(page.content[start + after :])

    return do


# --- catalogues --------------------------------------------------------------------------------------


def known(content: bytes) -> File:
    return File(bytes=len(content), sha256=sum_of(content))


def entry(name: str = "toy", files: dict[str, bytes] | None = None, **more: Any) -> Entry:
    """An entry whose files have these contents; one form of all of them, unless told otherwise."""
    facts = {key: known(content) for key, content in (files or {}).items()} | more.pop("unknown", {})
    forms = more.pop("forms", {"files": tuple(facts)} if facts else {})
    told = {"summary": "a toy", "licence": "odd licence", "citation": "nobody", "homepage": "http://home.invalid/"}
    return Entry(name=name, files=facts, forms=forms, **{**told, **more})


def source(client: str, *downloads: Download) -> Source:
    return Source(client=client, downloads=downloads)  # type: ignore[arg-type]


def use(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    """Let these be the whole catalogue."""
    made = {one.name: one for one in entries}
    for module in ("store.catalog", "store.directory", "word_vectors"):
        monkeypatch.setattr(f"silobench.data.{module}.catalog", lambda: made)


@contextmanager
def disk_of(largest: int) -> Iterator[None]:
    """No file can grow beyond some bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
