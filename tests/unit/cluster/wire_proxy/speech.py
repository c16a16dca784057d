"""Kafka's frames, encoded by hand, and a broker that answers all of them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from harness.model.wire_rules import APIS

FLEXIBLE = {"Produce": 9, "EndTxn": 3, "InitProducerId": 2, "AddPartitionsToTxn": 3, "TxnOffsetCommit": 3}


def header(api: str, version: int, correlation: int, client: str | None = "c") -> bytes:
    """A request's header, with tagged fields if this version of the API has them."""
    raw = client.encode() if client is not None else b""
    start = struct.pack(">hhih", APIS[api], version, correlation, len(raw) if client is not None else -1)
    return start + raw + (b"\0" if version >= FLEXIBLE.get(api, 99) else b"")


def text(value: str | None, compact: bool) -> bytes:
    if value is None:
        return b"\0" if compact else struct.pack(">h", -1)
    raw = value.encode()
    return (bytes([len(raw) + 1]) if compact else struct.pack(">h", len(raw))) + raw


def produce(correlation: int, acks: int = -1, txn: str | None = None, version: int = 9, size: int = 100) -> bytes:
    first = text(txn, version >= 9) if version >= 3 else b""
    return header("Produce", version, correlation) + first + struct.pack(">hi", acks, 1000) + b"r" * size


def end_txn(correlation: int, txn: str, commit: bool, version: int = 1) -> bytes:
    return (
        header("EndTxn", version, correlation)
        + text(txn, version >= 3)
        + struct.pack(">qhb", 77, 3, commit)
        + (b"\0" if version >= 3 else b"")
    )


def fetch(correlation: int) -> bytes:
    return header("Fetch", 4, correlation) + b"f" * 30


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def read(sock: socket.socket) -> bytes:
    """Reads one frame, without its size. Raises EOFError, or TimeoutError."""
    return exactly(sock, struct.unpack(">i", exactly(sock, 4))[0])


def correlation(body: bytes) -> int:
    return int(struct.unpack_from(">i", body)[0])


class Broker:
    """Answers each request with its correlation id and an echo, and records it. acks=0 gets no response."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.serve: Callable[[socket.socket], None] = self._serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place: tuple[str, int] = self._listener.getsockname()
        self._sockets: list[socket.socket] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._sockets.append(sock)
                self._start(self.serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with suppress(EOFError, OSError):
            while True:
                body = read(sock)
                self.requests.append(body)
                api, _, number = struct.unpack_from(">hhi", body)
                if api != APIS["Produce"] or b"\xff\xff" in body[:40]:
                    sock.sendall(framed(struct.pack(">i", number) + body[-50:]))

    def apis(self) -> list[int]:
        return [struct.unpack_from(">h", body)[0] for body in self.requests]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
