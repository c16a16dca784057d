"""Primitive types of Kafka's requests and responses, big-endian, and the header of a request.

In flexible versions (KIP-482), arrays and compact strings start with their length plus one as an unsigned varint, and
every structure ends with tagged fields, which are always empty here (one zero byte).
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

TAGS: Final = b"\0"
_CLIENT: Final = b"harness"
_VARINT_BYTES_MAX: Final = 5


class Reader:
    """A decoder that returns the values in some data one after another.

    Its methods raise struct.error at the end of the data.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def ended(self) -> bool:
        """Whether all data has been decoded."""
        return self._at >= len(self._data)

    def take(self, code: str) -> Any:
        """Returns the next value, whose type is a format character of `struct`.

        For several characters, returns a tuple of values.
        """
        values = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return values[0] if len(values) == 1 else values

    def raw(self, length: int) -> bytes:
        """Returns the next `length` bytes; no bytes if `length` is negative."""
        if self._at + length > len(self._data):
            raise struct.error("the answer is truncated")
        taken = self._data[self._at : self._at + max(length, 0)]
        self._at += max(length, 0)
        return taken

    def text(self) -> str:
        """Returns the next value, a nullable string; an empty string for null."""
        return self.raw(self.take("h")).decode(errors="replace")

    def ints(self) -> tuple[int, ...]:
        """Returns the numbers of the next value, an int32 array."""
        return tuple(self.take("i") for _ in range(self.take("i")))

    def varint(self) -> int:
        try:
            value, self._at = read_varint(self._data, self._at)
        except IndexError as error:
            raise struct.error("the answer is truncated") from error
        return value

    def compact_text(self) -> str:
        """Returns the next value, a compact string; an empty string for null."""
        return self.raw(self.varint() - 1).decode(errors="replace")

    def tags(self) -> None:
        """Skips the tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())


def read_varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Decodes an unsigned varint of at most 5 bytes that starts at position `at`. Returns (value, position after it).

    Raises IndexError if the varint is longer or the data ends.
    """
    value = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError("a varint of more than 5 bytes")


def varint(number: int) -> bytes:
    """Encodes an unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(value: str | None) -> bytes:
    """Encodes a nullable string."""
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def compact_text(value: str) -> bytes:
    raw = value.encode()
    return varint(len(raw) + 1) + raw


def compact_array(items: Sequence[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def head(api: int, version: int, correlation: int = 1) -> bytes:
    """Encodes the header of a request. In flexible versions, the caller must append TAGS to it."""
    return struct.pack(">hhih", api, version, correlation, len(_CLIENT)) + _CLIENT
