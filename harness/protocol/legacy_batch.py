"""Decodes message sets of formats 0 and 1, which were used before Kafka 0.11 and may still be on disk.

An entry consists of these fields, big-endian: offset int64, size int32, CRC-32 of the rest uint32, magic int8,
attributes int8; with format 1 also a timestamp int64; then key and value, each an int32 length (-1: null) and bytes.

An entry with compressed messages is called a wrapper: its value is itself a message set. With format 0, the offsets
inside the wrapper are absolute. With format 1, they are relative, and the offset of the wrapper is the absolute offset
of its last message. Sources: Kafka documentation, 5.3.3; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from harness.protocol import compression
from harness.protocol.flaws import Unreadable

LEAST: Final = 26  # size in bytes of an entry of format 0 with neither key nor value
_HEAD: Final = struct.Struct(">qiIbb")
_COVERED_AT: Final = 16
_CODEC: Final = 0x07
_SIZE_AT: Final = 8
_FROM_SIZE: Final = 12


class Message(NamedTuple):
    """One message. Its timestamp is -1 with format 0."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def entry(content: bytes) -> tuple[int, int, int, int, bool] | None:
    """Decodes the header of one whole entry of a message set (formats 0 and 1).

    Returns (first offset, last offset, attributes, timestamp, whether the checksum is correct), or None if the content
    is too short for an entry.
    """
    if len(content) < LEAST:
        return None
    offset, _, crc, magic, attributes = _HEAD.unpack_from(content)
    sound = zlib.crc32(memoryview(content)[_COVERED_AT:]) == crc
    timestamp = int.from_bytes(content[18:26], "big", signed=True) if magic == 1 else -1
    first = offset
    if sound and attributes & _CODEC:
        try:
            first = next(messages(content)).offset
        except (Unreadable, StopIteration):
            first = offset  # the error is reported when the records are read
    return first, offset, attributes, timestamp, sound


def messages(content: bytes) -> Iterator[Message]:
    """Yields the message in one whole entry of a message set, or, if the entry is compressed, the messages inside it.

    Raises Unreadable.
    """
    outer, attributes = _message(content, 0)
    if not attributes & _CODEC:
        yield outer
        return
    if outer.value is None:
        raise Unreadable("a compressed message without a value")
    inner = list(_inner(compression.plain(attributes & _CODEC, outer.value)))
    if not inner:
        raise Unreadable("a compressed message without messages")
    shift = outer.offset - inner[-1].offset if content[16] == 1 else 0
    for message in inner:
        yield message._replace(offset=message.offset + shift)


def _inner(data: bytes) -> Iterator[Message]:
    at = 0
    while at < len(data):
        if at + LEAST > len(data):
            raise Unreadable("a message is truncated", at)
        size = int.from_bytes(data[at + _SIZE_AT : at + _FROM_SIZE], "big", signed=True)
        if size < LEAST - _FROM_SIZE or at + _FROM_SIZE + size > len(data):
            raise Unreadable(f"a message with the impossible size {size}", at)
        message, attributes = _message(data, at)
        if attributes & _CODEC:
            raise Unreadable("a compressed message inside another", at)
        yield message
        at += _FROM_SIZE + size


def _message(data: bytes, begin: int) -> tuple[Message, int]:
    offset, size, _, magic, attributes = _HEAD.unpack_from(data, begin)
    at, end = begin + _HEAD.size, begin + _FROM_SIZE + size
    timestamp = -1
    if magic == 1:
        timestamp = int.from_bytes(data[at : at + 8], "big", signed=True)
        at += 8
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    return Message(offset, timestamp, key, value), attributes


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    if at + 4 > end:
        raise Unreadable("a message is truncated", at)
    length = int.from_bytes(data[at : at + 4], "big", signed=True)
    if length < 0:
        return None, at + 4
    if at + 4 + length > end:
        raise Unreadable(f"a key or value of {length} bytes extends beyond the end of its message", at)
    return data[at + 4 : at + 4 + length], at + 4 + length
