"""The server: HTTP on loopback, for the browser of who started it, and nobody else.

A page of another origin can make a browser ask 127.0.0.1 under a name of its own (DNS rebinding), so the
Host header must be one of loopback's. There is nothing to change here, so nothing but GET and HEAD is taken.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final, Protocol

from harness.model.errors_and_exit_codes import Missing
from harness.web import run_files
from harness.web.site import Answer, Site

ADDRESS: Final = "127.0.0.1"
NAMES: Final = (ADDRESS, "localhost", "[::1]")
AT_ONCE: Final = 16
IDLE_S: Final = 30.0
BUSY_S: Final = 10.0
COPY_BYTES: Final = 1 << 18
Say = Callable[[str], None]


class Answering(Protocol):
    """What stands where."""

    def answer(self, target: str) -> Answer:
        """What stands at the target of a request."""


class Server(ThreadingHTTPServer):
    """A thread for each request, AT_ONCE of them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, site: Answering, log: Say) -> None:
        self.site, self.log = site, log
        self._room = BoundedSemaphore(AT_ONCE)
        super().__init__((ADDRESS, port), Handler)

    @property
    def port(self) -> int:
        """The one that it listens on."""
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a request when there is room; drop it when there is none for long."""
        if not self._room.acquire(timeout=BUSY_S):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Carry out a request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no news; anything else is one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            self.log(f"a request failed: {type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    """One connection; it is closed after a request."""

    server: Server
    timeout = IDLE_S
    server_version, sys_version = "harness", ""

    def do_GET(self) -> None:
        """Answer with what stands there."""
        self._answer(True)

    def do_HEAD(self) -> None:
        """Answer with its headers."""
        self._answer(False)

    def _refuse_method(self) -> None:
        self._plain(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered here.")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self, body: bool) -> None:
        if self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if not self._is_for_us():
            self._plain(HTTPStatus.FORBIDDEN, f"This server answers as http://{ADDRESS}:{self.server.port}/ only.")
            return
        try:
            answer = self.server.site.answer(self.path)
        except ConnectionError:
            raise
        except Exception as error:
            # Whatever an odd file does to code that reads it is this request's trouble only.
            self.server.log(f"{self.path[:200]!r}: {type(error).__name__}: {error}"[:1000])
            self._plain(HTTPStatus.INTERNAL_SERVER_ERROR, "This cannot be shown: the terminal of the server says why.")
            return
        try:
            self._send(answer, body)
        finally:
            if answer.file is not None:
                answer.file[0].close()

    def _is_for_us(self) -> bool:
        hosts = self.headers.get_all("Host") or []
        allowed = {f"{name}:{self.server.port}" for name in NAMES}
        return len(hosts) == 1 and hosts[0].strip().lower() in allowed

    def _send(self, answer: Answer, body: bool) -> None:
        length = len(answer.body) if answer.file is None else answer.file[1]
        self._head(answer.status, answer.kind, answer.policy)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.write is None and answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if not body:
            return
        if answer.write is not None:
            answer.write(self.wfile)
        elif answer.file is not None:
            _copy(answer.file[0], self.wfile, length)
        else:
            self.wfile.write(answer.body)

    def _head(self, status: int, kind: str, policy: str) -> None:
        self.send_response(status)
        self.close_connection = True
        for name, value in (
            ("Content-Type", kind),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)

    def _plain(self, status: int, text: str) -> None:
        body = f"{text}\n".encode(errors="backslashreplace")
        self._head(status, run_files.TEXT, run_files.NOTHING)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself: a request that is none, or too long."""
        self.command = getattr(self, "command", None) or ""
        if self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"  # so that the answer has headers
        self._plain(code, message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests that went well are not told."""


def _copy(source: Any, out: Any, length: int) -> None:
    """What a file held when it was opened; it may grow meanwhile, or be cut off."""
    while length > 0 and (data := source.read(min(COPY_BYTES, length))):
        out.write(data)
        length -= len(data)


def made(runs: Path, port: int, log: Say) -> Server:
    """A server that listens. Raises BadInput for a folder that is none, and Missing for a port in use."""
    site = Site(runs)
    server = listening(site, port, log)
    try:
        site.views.catalogue.rows()  # so that the first page comes as quickly as the others
    except BaseException:
        server.server_close()
        raise
    return server


def listening(site: Answering, port: int, log: Say) -> Server:
    """A server of anything that answers. Raises Missing for a port in use."""
    try:
        return Server(port, site, log)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise Missing(f"port {port} of {ADDRESS} {why}; name another with --port, or 0 for any that is free") from None
