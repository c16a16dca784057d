"""One request and its answer on a socket."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

_MAX_BYTES: Final = 64 << 20


def exchange(connection: socket.socket, address: str, port: int, request: bytes, timeout_s: float) -> bytes:
    """One request and its answer, both without their sizes.

    `connection` is a fresh socket of the right network; it is used up and closed. Raises OSError when the
    broker does not answer in time, ValueError when it answers something else.
    """
    deadline = time.monotonic() + timeout_s
    with connection:
        connection.settimeout(timeout_s)
        connection.connect((address, port))
        connection.sendall(struct.pack(">i", len(request)) + request)
        return receive(connection, deadline)


def receive(connection: socket.socket, deadline: float) -> bytes:
    """The next answer on a connection, without its size, by a moment of time.monotonic.

    Raises OSError when it does not come, ValueError for something else.
    """
    (size,) = struct.unpack(">i", _exactly(connection, 4, deadline))
    if not 8 <= size <= _MAX_BYTES:
        raise ValueError(f"{connection.getpeername()} does not speak Kafka's protocol")
    return _exactly(connection, size, deadline)


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        data += chunk
    return bytes(data)
