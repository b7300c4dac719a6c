"""Requests to the live view: any bytes get an answer of HTTP or none, and only pages of the edition leave."""

import io
from typing import Any

from fuzz.target import Target
from silobench.live.progress import Progress
from silobench.live.server import LiveServer, _Handler
from silobench.live.site import Edition

_FILES = {
    "index.html": b"<!doctype html>",
    "runs/a.html": b"run",
    "style.css": b"",
    "caf\xe9.html".encode().decode(): b"x",
}


class _Connection:
    """A connection whose other end wrote some bytes and reads the answer."""

    def __init__(self, content: bytes) -> None:
        self.content, self.answer = content, bytearray()

    def makefile(self, mode: str, size: int = -1) -> Any:
        return io.BytesIO(self.content)

    def sendall(self, content: bytes) -> None:
        self.answer += content

    def settimeout(self, seconds: float) -> None:
        pass


def _server() -> LiveServer:
    """Return a server that has no socket."""
    server = LiveServer.__new__(LiveServer)
    progress = Progress.__new__(Progress)
    server.edition = lambda: Edition(_FILES, "0", "now", progress)
    server.names = {"127.0.0.1", "localhost"}
    return server


_LIVE = _server()
_STATUS = (b"HTTP/1.0 200", b"HTTP/1.0 304", b"HTTP/1.0 40", b"HTTP/1.0 41", b"HTTP/1.0 431", b"HTTP/1.0 50")


def _request(data: bytes) -> None:
    connection = _Connection(data)
    _Handler(connection, ("127.0.0.1", 1), _LIVE)  # type: ignore[arg-type]
    answer = bytes(connection.answer)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer.startswith(b"HTTP/"):  # HTTP/0.9 has no head: only a sentence about what is wrong may come
        body, head = (b"", b"") if answer.endswith(b"\n") or not answer else (answer, b"")
    elif not answer.startswith(_STATUS):
        raise AssertionError(f"the answer starts with {answer[:60]!r}")
    if answer.startswith(b"HTTP/1.0 200") and body not in (*_FILES.values(), b""):
        raise AssertionError(f"the answer has {body[:60]!r}")
    if any(line.partition(b":")[0] not in _HEADERS for line in head.split(b"\r\n")[1:]):
        raise AssertionError(f"the answer has another header: {head!r}")


_HEADERS = {
    b"Server",
    b"Date",
    b"Content-Type",
    b"Content-Length",
    b"Cache-Control",
    b"Content-Security-Policy",
    b"ETag",
    b"Allow",
    b"Cross-Origin-Opener-Policy",
    b"Cross-Origin-Resource-Policy",
    b"Referrer-Policy",
    b"X-Content-Type-Options",
    b"X-Frame-Options",
    b"Connection",
}
_GET = b"GET /%s HTTP/1.1\r\nHost: %s\r\n%s\r\n"
_SEEDS = (
    _GET % (b"", b"localhost:8000", b""),
    _GET % (b"runs/a.html?x=1#y", b"127.0.0.1", b'If-None-Match: "0"\r\n'),
    _GET % (b"..%2f..%2fetc/passwd", b"[::1]:80", b""),
    b"HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd",
    b"GET /\r\n",
    _GET % (b"x", b"evil.example", b""),
    b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
)
_WORDS = (
    b"GET ",
    b"HEAD ",
    b"OPTIONS ",
    b" HTTP/1.1\r\n",
    b" HTTP/2.0\r\n",
    b" HTTP/0.9\r\n",
    b"Host: ",
    b"Host: [",
    b"Host: [::1]",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: keep-alive\r\n",
    b"%00",
    b"%0d%0aX: y",
    b"//",
    b"[",
    b"]",
    b"%",
    b"..%2f",
    b"\r\n",
    b"?",
    b"If-None-Match: *\r\n",
    b"//[",
    b"\xff",
    b":" * 70000,
)

TARGETS = (Target("live-request", _request, lambda: _SEEDS, words=_WORDS, most_bytes=2048),)
