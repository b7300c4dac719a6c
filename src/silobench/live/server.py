"""A read-only web server for the live view, on this machine unless another address is asked for.

It answers GET and HEAD with files of the newest edition, which are in memory: no request reaches the disk. Requests for
another host name are refused, because a page elsewhere may let its own name point to this machine (DNS rebinding).
"""

import errno
import hashlib
import ipaddress
import mimetypes
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from silobench.errors import ConfigError
from silobench.live.site import STATE, Edition

_HEADERS = {
    "Cache-Control": "no-cache",  # the browser asks each time, and gets 304 where nothing changed
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_METHODS = ("GET", "HEAD")


class LiveServer(ThreadingHTTPServer):
    """Serves the editions that a function returns, at a host and a port; port 0 is any that is free."""

    daemon_threads = True

    def __init__(self, host: str, port: int, edition: Callable[[], Edition]) -> None:
        self.edition = edition
        self.names = {host.lower(), "localhost"}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            if is_everywhere(host):
                self.names.add(socket.gethostname().lower())
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(_refusal(host, port, error)) from error

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        host, port = self.server_address[:2]
        name = "127.0.0.1" if is_everywhere(str(host)) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"

    def is_named(self, host: str) -> bool:
        """Return whether a Host header names this server: by an IP address, or by a name that it is known by.

        The port does not matter, so that a tunnel may have another.
        """
        name = (urlsplit(f"//{host}").hostname or "").lower()
        return name in self.names or _is_address(name)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer requests while the body runs."""
        thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that went away in the middle of an answer."""


def _refusal(host: str, port: int, error: OSError | OverflowError) -> str:
    """Return why a server cannot listen, and which option to change."""
    reason = getattr(error, "strerror", None) or str(error)
    if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES):
        return f"port {port} of {host} cannot be used ({reason}): choose another --port."
    return f"--host {host} is no address of this machine ({reason}): leave it out, or give one that it has."


class _Handler(BaseHTTPRequestHandler):
    """Answers one request. A connection is closed after it (HTTP/1.0), so that none outlives the server."""

    server_version, sys_version = "silobench", ""
    timeout = 30  # seconds that a silent connection stays open
    server: LiveServer

    def parse_request(self) -> bool:
        """Read the head of a request; refuse methods that could change something, and requests for other hosts."""
        if not super().parse_request():
            return False
        if self.command not in _METHODS:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"the live view is read-only\n", Allow=", ".join(_METHODS))
            return False
        try:
            is_named = self.server.is_named(self.headers.get("Host", ""))
        except ValueError:  # not a host
            is_named = False
        if not is_named:
            self.send_error(HTTPStatus.FORBIDDEN, "this server does not have that name: open it by its address")
        return is_named

    def do_GET(self) -> None:
        edition = self.server.edition()
        try:
            path = unquote(urlsplit(self.path).path).removeprefix("/")
        except ValueError:  # such as http://[::1
            self.send_error(HTTPStatus.BAD_REQUEST, "that is not an address of a page")
            return
        name = f"{path}index.html" if path.endswith("/") or not path else path
        content = edition.state() if name == STATE else edition.files.get(name)
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        if etag in self.headers.get("If-None-Match", ""):
            self._answer(HTTPStatus.NOT_MODIFIED, b"", ETag=etag)
            return
        self._answer(HTTPStatus.OK, content, _type_of(name), ETag=etag)

    def do_HEAD(self) -> None:
        self.do_GET()  # `_answer` leaves out the content

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with a sentence."""
        self._answer(HTTPStatus(code), f"{message or HTTPStatus(code).phrase}\n".encode())

    def _answer(self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8", **more: str) -> None:
        self.send_response(status)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        for name, value in {**_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing: pages ask every few seconds."""


def is_everywhere(host: str) -> bool:
    """Return whether a host stands for every address of this machine."""
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


def is_private(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    return host.lower() == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _type_of(name: str) -> str:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    is_text = kind.startswith("text/") or kind in ("application/json", "image/svg+xml")
    return f"{kind}; charset=utf-8" if is_text else kind
