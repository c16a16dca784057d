"""A server for the tests, and raw HTTP requests, because clients normalise paths."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.web import server


@dataclass(frozen=True)
class Reply:
    """status, headers by their lower-case names, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Served:
    """A running server; `log`: its output to the terminal."""

    made: server.Server
    log: list[str]

    @property
    def port(self) -> int:
        return self.made.port

    def raw(self, request: bytes) -> bytes:
        """The complete response to these bytes."""
        with socket.create_connection((server.ADDRESS, self.port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            found = b""
            while data := connection.recv(1 << 16):
                found += data
        return found

    def get(self, path: str | bytes, host: str | None = None, method: str = "GET") -> Reply:
        """The response to a request for exactly this path."""
        target = path if isinstance(path, bytes) else path.encode()
        named = host if host is not None else f"127.0.0.1:{self.port}"
        head = b"%s %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (method.encode(), target, named.encode())
        answer, _, body = self.raw(head).partition(b"\r\n\r\n")
        lines = answer.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        return Reply(int(lines[0].split()[1]), {name.lower(): value for name, value in headers.items()}, body)


@contextmanager
def serving(runs: Path) -> Iterator[Served]:
    """A server on a free port."""
    log: list[str] = []
    with server.made(runs, 0, log.append) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield Served(made, log)
        finally:
            made.shutdown()
            thread.join()
