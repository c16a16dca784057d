"""What each broker believes about leaders and replicas, and which belief is the newest. Metadata, version 7.

A broker that is cut off from the others goes on naming itself leader. So the question goes to every broker,
and for each partition the answer with the highest leader epoch counts (KIP-320).

Request   int32 size | int16 3 | int16 7 | int32 correlation | string client |
          int32 -1 (all topics) | bool create
Answer    int32 correlation | int32 throttle | [int32 node, string host, int32 port, nullable string rack] |
          nullable string cluster | int32 controller | [int16 error, string topic, bool internal,
          [int16 error, int32 partition, int32 leader, int32 epoch, [replicas], [isr], [offline]]]
Source: https://kafka.apache.org/protocol#The_Messages_Metadata
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_CLIENT = b"harness"
_MAX_BYTES = 64 << 20
REQUEST = struct.pack(">hhih", 3, 7, 1, len(_CLIENT)) + _CLIENT + struct.pack(">ib", -1, 0)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """leader: broker id or None; isr: broker ids in sync; replicas: how many there should be."""

    leader: int | None
    epoch: int
    isr: frozenset[int]
    replicas: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """What one broker says: who is registered, who leads what, and who controls.

    controller  broker id or None; with KRaft any live broker (KIP-590), see `quorum`
    """

    brokers: frozenset[int]
    partitions: Mapping[tuple[str, int], PartitionView]
    controller: int | None = None


class _Cursor:
    """Reads big-endian values one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str:
        length = self.take("h")
        if length < 0:
            return ""
        raw = self._data[self._at : self._at + length]
        self._at += length
        return raw.decode()

    def ints(self) -> frozenset[int]:
        return frozenset(self.take("i") for _ in range(self.take("i")))


def parse(answer: bytes) -> View:
    """The view in an answer (without its size). Raises ValueError when it is cut short."""
    cursor = _Cursor(answer)
    try:
        cursor.take("q")  # correlation and throttle time
        brokers = set()
        for _ in range(cursor.take("i")):
            brokers.add(cursor.take("i"))
            cursor.text()
            cursor.take("i")
            cursor.text()
        cursor.text()
        controller = cursor.take("i")
        partitions = {}
        for _ in range(cursor.take("i")):
            cursor.take("h")
            topic = cursor.text()
            cursor.take("b")
            for _ in range(cursor.take("i")):
                cursor.take("h")
                number, leader, epoch = cursor.take("i"), cursor.take("i"), cursor.take("i")
                replicas = len(cursor.ints())
                isr = cursor.ints()
                cursor.ints()
                led_by = leader if leader >= 0 else None
                partitions[(topic, number)] = PartitionView(led_by, epoch, isr, replicas)
        return View(frozenset(brokers), partitions, controller if controller >= 0 else None)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError("a Metadata answer was cut short") from error


def ask(connection: socket.socket, address: str, port: int, timeout_s: float) -> View:
    """One broker's view: see `exchange`."""
    return parse(exchange(connection, address, port, REQUEST, timeout_s))


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


def newest(views: Iterable[View]) -> View:
    """For each partition what the broker with the highest leader epoch says; registered: by most views' word.

    Among equal epochs the smaller in-sync set counts: a leader that was cut off has not heard of a shrink.
    """
    listed = list(views)
    partitions: dict[tuple[str, int], PartitionView] = {}
    for view in listed:
        for at, partition in view.partitions.items():
            known = partitions.get(at)
            if known is None or (partition.epoch, -len(partition.isr)) > (known.epoch, -len(known.isr)):
                partitions[at] = partition
    everyone = frozenset(broker for view in listed for broker in view.brokers)
    agreed = frozenset(
        broker for broker in everyone if 2 * sum(broker in view.brokers for view in listed) > len(listed)
    )
    return View(agreed, partitions)


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        data += chunk
    return bytes(data)
