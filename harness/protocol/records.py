"""The records of a batch, and the markers that end transactions.

A record of format 2: its length, then attributes int8, timestamp delta, offset delta, key length and key,
value length and value (-1: null), number of headers, each with its key and value; the numbers are zigzag
varints. A control record's key holds a version and a type, both int16. Sources: Kafka documentation, 5.3.2;
KIP-98.
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
    """One record. timestamp: ms since 1970; headers: (name, value)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def records(batch: Batch) -> Iterator[Record]:
    """The records of a sound batch. Raises Unreadable where its content is not what its head says."""
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
            raise Unreadable(f"record {number} of {batch.count} ends too early", at) from None
        yield record
    if at != len(body):
        raise Unreadable(f"{len(body) - at} bytes behind the last of {batch.count} records", at)


def marker(batch: Batch) -> int | None:
    """ABORT, COMMIT or another type of a control batch; None for a batch of data. Raises Unreadable."""
    if not batch.control:
        return None
    for record in records(batch):
        if record.key is None or len(record.key) < 4:
            raise Unreadable("a control record whose key is no type")
        return int.from_bytes(record.key[2:4], "big")
    return None  # the cleaner may empty it


def _record(batch: Batch, body: bytes, begin: int) -> tuple[Record, int]:
    size, at = varint(body, begin)
    end = at + size
    if size < 1 or end > len(body):
        raise Unreadable(f"a record of {size} bytes", begin)
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
        raise Unreadable(f"a record of {size} bytes holds {at - (end - size)}", begin)
    if not 0 <= offset <= batch.last - batch.base:
        raise Unreadable(f"offset {batch.base + offset} in the batch {batch.base} to {batch.last}", begin)
    when = batch.max_timestamp if batch.append_time else batch.base_timestamp + timestamp
    return Record(batch.base + offset, when, key, value, tuple(headers)), end


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = varint(body, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise Unreadable(f"{length} bytes reach beyond their record", at)
    return body[at : at + length], at + length


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits, and where it ends. Raises Unreadable, IndexError at the end."""
    byte = data[at]
    if byte < 0x80:  # most are short
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
