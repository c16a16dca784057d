"""The one Kafka request that the cluster itself makes: who is registered? Metadata, version 1, by hand.

Request   int32 size | int16 api key 3 | int16 version 1 | int32 correlation | string client | int32 0 topics
Answer    int32 size | int32 correlation | [int32 node, string host, int32 port, nullable string rack] |
          int32 controller | [topics]
Source: https://kafka.apache.org/protocol#The_Messages_Metadata. A broker that is fenced is not listed.
"""

from __future__ import annotations

import socket
import struct
import time

_CLIENT = b"harness"
_MAX_BYTES = 1 << 20
REQUEST = struct.pack(">hhih", 3, 1, 1, len(_CLIENT)) + _CLIENT + struct.pack(">i", 0)


def registered(connection: socket.socket, address: str, port: int, timeout_s: float) -> frozenset[int]:
    """Ids of the brokers that the one at `address` knows to be alive. Raises OSError or ValueError.

    `connection` is a fresh socket of the right network; it is used up and closed.
    """
    deadline = time.monotonic() + timeout_s
    with connection:
        connection.settimeout(timeout_s)
        connection.connect((address, port))
        connection.sendall(struct.pack(">i", len(REQUEST)) + REQUEST)
        (size,) = struct.unpack(">i", exactly(connection, 4, deadline))
        if not 8 <= size <= _MAX_BYTES:
            raise ValueError(f"{address}:{port} does not speak Kafka's protocol")
        return parse(exactly(connection, size, deadline))


def parse(answer: bytes) -> frozenset[int]:
    """Node ids in a Metadata answer (without its size). Raises ValueError when it is cut short."""
    try:
        (count,) = struct.unpack_from(">i", answer, 4)
        at, ids = 8, []
        for _ in range(count):
            (node,) = struct.unpack_from(">i", answer, at)
            at = _after_string(answer, at + 4) + 4
            at = _after_string(answer, at)
            ids.append(node)
        return frozenset(ids)
    except struct.error as error:
        raise ValueError("a Metadata answer was cut short") from error


def _after_string(data: bytes, at: int) -> int:
    length: int = struct.unpack_from(">h", data, at)[0]
    return at + 2 + max(length, 0)


def exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        data += chunk
    return bytes(data)
