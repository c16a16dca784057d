"""Sends one request on a socket and receives its answer."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

_MAX_BYTES: Final = 64 << 20


def exchange(connection: socket.socket, address: str, port: int, request: bytes, timeout_s: float) -> bytes:
    """Connects, sends a request, and returns the answer. Neither `request` nor the answer includes its size.

    `connection` is a new socket in the right network namespace; it is closed afterwards. Raises OSError if the broker
    does not answer in time, and ValueError if the answer is not in Kafka's protocol.
    """
    deadline = time.monotonic() + timeout_s
    with connection:
        connection.settimeout(timeout_s)
        connection.connect((address, port))
        connection.sendall(struct.pack(">i", len(request)) + request)
        return receive(connection, deadline)


def receive(connection: socket.socket, deadline: float) -> bytes:
    """Returns the next answer on a connection, without its size. `deadline` is a time of time.monotonic().

    Raises OSError if the answer does not arrive in time, and ValueError if it is not in Kafka's protocol.
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
