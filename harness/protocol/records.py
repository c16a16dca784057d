"""Decodes the records of a batch, and the markers that end transactions.

A record of format 2 has these fields: length, attributes int8, timestamp delta, offset delta, length of the key, key,
length of the value, value, number of headers, and for each header its key and value, also with their lengths. A length
of -1 means null. Numbers are zigzag varints unless a type is given. The key of a control record contains a version and
a type, both int16. Sources: Kafka documentation, 5.3.2; KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from harness.protocol import compression, legacy_batch
from harness.protocol.flaws import Unreadable
from harness.protocol.record_batch import HEAD, Batch

ABORT: Final = 0
COMMIT: Final = 1
HEADERS_MAX: Final = 100_000


class Record(NamedTuple):
    """One record.

    timestamp  ms since 1970
    headers    (name, value) of each header
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def records(batch: Batch) -> Iterator[Record]:
    """Yields the records of a batch with a valid checksum. Raises Unreadable if its content contradicts its header."""
    if batch.magic < 2:
        for message in legacy_batch.messages(batch.content):
            yield Record(*message)
        return
    body = compression.plain(batch.codec, batch.content[HEAD:])
    at = 0
    for number in range(batch.count):
        try:
            record, at = _record(batch, body, at)
        except IndexError:
            raise Unreadable(f"record {number} of {batch.count} is truncated", at) from None
        yield record
    if at != len(body):
        raise Unreadable(f"{len(body) - at} unexpected bytes after the last of {batch.count} records", at)


def marker(batch: Batch) -> int | None:
    """Returns the type of a control batch: ABORT, COMMIT or another number. Returns None for a data batch.

    Raises Unreadable.
    """
    if not batch.control:
        return None
    for record in records(batch):
        if record.key is None or len(record.key) < 4:
            raise Unreadable("a control record whose key has no type field")
        return int.from_bytes(record.key[2:4], "big")
    return None  # the log cleaner may have emptied the batch


def _record(batch: Batch, body: bytes, begin: int) -> tuple[Record, int]:
    size, at = varint(body, begin)
    end = at + size
    if size < 1 or end > len(body):
        raise Unreadable(f"a record with the impossible length {size}", begin)
    timestamp, at = varint(body, at + 1)
    offset, at = varint(body, at)
    key, at = _bytes(body, at, end)
    value, at = _bytes(body, at, end)
    count, at = varint(body, at)
    if not 0 <= count <= HEADERS_MAX:
        raise Unreadable(f"a record with {count} headers", begin)
    headers = []
    for _ in range(count):
        name, at = _bytes(body, at, end)
        content, at = _bytes(body, at, end)
        if name is None:
            raise Unreadable("a header without a name", begin)
        headers.append((name, content))
    if at != end:
        raise Unreadable(f"a record has a length of {size} bytes, but its fields take {at - (end - size)}", begin)
    if not 0 <= offset <= batch.last - batch.base:
        its = f"its batch has the offsets {batch.base} to {batch.last}"
        raise Unreadable(f"a record has the offset {batch.base + offset}, but {its}", begin)
    when = batch.max_timestamp if batch.append_time else batch.base_timestamp + timestamp
    return Record(batch.base + offset, when, key, value, tuple(headers)), end


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = varint(body, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise Unreadable(f"a field of {length} bytes extends beyond the end of its record", at)
    return body[at : at + length], at + length


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decodes a zigzag varint of at most 64 bits. Returns the number, and the position after it.

    Raises Unreadable if the number has more bits, and IndexError if the data ends.
    """
    byte = data[at]
    if byte < 0x80:  # fast path for one byte, the usual case
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, shift, begin = byte & 0x7F, 7, at
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
        if shift > 63:
            raise Unreadable("a number of more than 64 bits", begin)
