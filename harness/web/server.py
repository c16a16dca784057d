"""The HTTP server on the loopback interface, for browsers on this machine only.

With DNS rebinding, a web page of another origin can give its own host name the address 127.0.0.1, so that a browser
sends the page's requests to this server. The Host header of such a request contains the page's host name. The server
therefore accepts only requests with a name of the loopback interface in the Host header. As the server changes nothing,
it accepts only GET and HEAD.
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
    """A website: something that has an answer to each request."""

    def answer(self, target: str) -> Answer:
        """Returns the answer to a request for `target`."""


class Server(ThreadingHTTPServer):
    """An HTTP server that handles each request in a thread of its own, up to AT_ONCE requests at the same time."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, site: Answering, log: Say) -> None:
        self.site, self.log = site, log
        self._room = BoundedSemaphore(AT_ONCE)
        super().__init__((ADDRESS, port), Handler)

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts to handle a request. Waits if AT_ONCE requests are already being handled.

        If it has to wait for longer than BUSY_S seconds, the request is dropped.
        """
        if not self._room.acquire(timeout=BUSY_S):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles a request, in the thread that was started for it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs a failed request in one line, unless the browser closed the connection or was too slow."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            self.log(f"a request failed: {type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    """Handles one connection, which is closed after one request."""

    server: Server
    timeout = IDLE_S
    server_version, sys_version = "harness", ""

    def do_GET(self) -> None:
        """Answers a GET request."""
        self._answer(True)

    def do_HEAD(self) -> None:
        """Answers a HEAD request."""
        self._answer(False)

    def _refuse_method(self) -> None:
        self._plain(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self, body: bool) -> None:
        if self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if not self._is_for_us():
            self._plain(HTTPStatus.FORBIDDEN, f"Use http://{ADDRESS}:{self.server.port}/ instead.")
            return
        try:
            answer = self.server.site.answer(self.path)
        except ConnectionError:
            raise
        except Exception as error:
            # An unusual file may cause any error; it must affect this request only.
            self.server.log(f"{self.path[:200]!r}: {type(error).__name__}: {error}"[:1000])
            self._plain(
                HTTPStatus.INTERNAL_SERVER_ERROR, "This cannot be shown; see the server's terminal for the reason."
            )
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
        """Answers a request that the standard library rejects because it is malformed or too long."""
        self.command = getattr(self, "command", None) or ""
        if self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"  # otherwise the answer would have no headers
        self._plain(code, message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing, because successful requests are not logged."""


def _copy(source: Any, out: Any, length: int) -> None:
    """Copies `length` bytes from one open file to another, or fewer if there are no more.

    The length of a served file is determined when the file is opened. The file may have become shorter since then.
    """
    while length > 0 and (data := source.read(min(COPY_BYTES, length))):
        out.write(data)
        length -= len(data)


def made(runs: Path, port: int, log: Say) -> Server:
    """Returns a listening server for a folder of runs.

    Raises BadInput if `runs` is a file, and Missing if the port is in use.
    """
    site = Site(runs)
    server = listening(site, port, log)
    try:
        site.views.catalogue.rows()  # fills the cache, so that the first page is as fast as later ones
    except BaseException:
        server.server_close()
        raise
    return server


def listening(site: Answering, port: int, log: Say) -> Server:
    """Returns a listening server for a website. Raises Missing if the port cannot be used."""
    try:
        return Server(port, site, log)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise Missing(f"port {port} on {ADDRESS} {why}; choose another --port, or 0 for any free port") from None
