"""Sends one request on a socket and receives its response."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

_MAX_BYTES: Final = 64 << 20


def exchange(connection: socket.socket, address: str, port: int, request: bytes, timeout_s: float) -> bytes:
    """Connects, sends a request, and returns the response.

    Neither the request nor the response includes its leading size. `connection` is a new socket in the right network
    namespace; it is closed afterwards. Raises OSError if the broker does not respond within `timeout_s`, and ValueError
    if the response is not in Kafka's protocol.
    """
    deadline = time.monotonic() + timeout_s
    with connection:
        connection.settimeout(timeout_s)
        connection.connect((address, port))
        connection.sendall(struct.pack(">i", len(request)) + request)
        return receive(connection, deadline)


def receive(connection: socket.socket, deadline: float) -> bytes:
    """Returns the next response on a connection, without its leading size. `deadline` is a time of time.monotonic().

    Raises OSError if the response does not arrive before the deadline, and ValueError if it is not in Kafka's protocol.
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
