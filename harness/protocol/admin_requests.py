"""Requests that the client library does not offer, made by hand and sent to one broker.

Flexible versions (KIP-482): arrays and compact strings carry their length plus one as an unsigned varint, and
every structure ends with tagged fields, here none (one zero byte). They go to the broker that metadata names
as controller; in KRaft mode any broker passes them on (KIP-590). Without TLS or SASL.

AlterPartitionReassignments, version 0 (KIP-455)
  Request   int32 timeout | [string topic, [int32 partition, nullable [int32 replica], tags], tags] | tags
  Answer    int32 throttle | int16 error | nullable string message |
            [string topic, [int32 partition, int16 error, nullable string message, tags], tags] | tags
UnregisterBroker, version 0
  Request   int32 broker | tags
  Answer    int32 throttle | int16 error | nullable string message | tags
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from harness.protocol.errors import TopicPartition
from harness.protocol.metadata import exchange

_CLIENT: Final = b"harness"
_TAGS: Final = b"\0"
REASSIGN: Final = 45
UNREGISTER: Final = 64


def varint(number: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: str) -> bytes:
    raw = text.encode()
    return varint(len(raw) + 1) + raw


def _array(items: Sequence[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def _header(api: int) -> bytes:
    return struct.pack(">hhih", api, 0, 1, len(_CLIENT)) + _CLIENT + _TAGS


def reassign_request(replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float) -> bytes:
    """Have each partition on these brokers, the first of which is its preferred leader."""
    topics = []
    for topic, group in groupby(sorted(replicas), key=lambda at: at[0]):
        rows = [
            struct.pack(">i", number)
            + _array([struct.pack(">i", broker) for broker in replicas[topic, number]])
            + _TAGS
            for _, number in group
        ]
        topics.append(_text(topic) + _array(rows) + _TAGS)
    return _header(REASSIGN) + struct.pack(">i", int(timeout_s * 1000)) + _array(topics) + _TAGS


def unregister_request(broker: int) -> bytes:
    """Forget a broker that does not run."""
    return _header(UNREGISTER) + struct.pack(">i", broker) + _TAGS


class _Cursor:
    """Reads one value after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def varint(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self.take("B")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def text(self) -> str:
        length = self.varint() - 1
        if length < 0:
            return ""
        raw = self._data[self._at : self._at + length]
        if len(raw) < length:
            raise struct.error("a string was cut short")
        self._at += length
        return raw.decode(errors="replace")

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._at += self.varint()


Failure = tuple[int, str]
"""A protocol error's number, and what the broker says of it."""


def _opening(answer: bytes) -> tuple[_Cursor, Failure]:
    cursor = _Cursor(answer)
    cursor.take("i")  # correlation
    cursor.tags()
    cursor.take("i")  # throttle time
    return cursor, (cursor.take("h"), cursor.text())


def reassign_answer(answer: bytes) -> Failure:
    """The first error of an answer, 0 for none. Raises ValueError when it is cut short."""
    try:
        cursor, first = _opening(answer)
        found = [first]
        for _ in range(cursor.varint() - 1):
            topic = cursor.text()
            for _ in range(cursor.varint() - 1):
                number, error, message = cursor.take("i"), cursor.take("h"), cursor.text()
                found.append((error, f"{topic}-{number}: {message}"))
                cursor.tags()
            cursor.tags()
    except struct.error as error:
        raise ValueError("an AlterPartitionReassignments answer was cut short") from error
    return next((each for each in found if each[0]), (0, ""))


def unregister_answer(answer: bytes) -> Failure:
    """Its error, 0 for none. Raises ValueError when it is cut short."""
    try:
        return _opening(answer)[1]
    except struct.error as error:
        raise ValueError("an UnregisterBroker answer was cut short") from error


def ask(address: str, request: bytes, timeout_s: float) -> bytes:
    """A broker's answer ("host:port"). Raises OSError when there is none in time, ValueError for nonsense."""
    host, _, port = address.rpartition(":")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return exchange(connection, host, int(port), request, timeout_s)
