"""Decodes record batches.

A batch of format 2 (KIP-98; Kafka documentation, 5.3.1), big-endian:

     0  base offset            int64     27  base timestamp    int64
     8  length of the rest     int32     35  largest timestamp int64
    12  partition leader epoch int32     43  producer id       int64
    16  magic, 2               int8      51  producer epoch    int16
    17  CRC-32C of what is     uint32    53  base sequence     int32
        from 21 on                       57  records           int32
    21  attributes             int16     61  the records, compressed together
    23  last offset delta      int32

The checksum does not cover base offset, length and leader epoch. Formats 0 and 1 (`harness.protocol.legacy_batch`) have
the magic byte at the same position. Their checksum is a CRC-32 of everything after the checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import google_crc32c

from harness.protocol import legacy_batch

HEAD: Final = 61
LENGTH_AT: Final = 8
FROM_LENGTH: Final = 12  # the length counts the bytes from here on
MAGIC_AT: Final = 16
COVERED_AT: Final = 21

_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch.

    at        position in its file, in bytes
    size      size in bytes
    base      first offset
    last      last offset
    epoch     leader epoch in which the batch was appended; -1 before format 2
    magic     format: 0, 1 or 2
    sound     whether the checksum is correct
    count     number of records according to the header; -1 before format 2
    content   the bytes of the whole batch

    The other fields are those of the header. producer_id, producer_epoch and base_sequence are -1 if the producer is
    not idempotent.
    """

    at: int
    size: int
    base: int
    last: int
    epoch: int
    magic: int
    sound: bool
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    content: bytes

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def append_time(self) -> bool:
        """Whether the broker assigned the timestamps (LogAppendTime)."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        """The last sequence number, which wraps from 2^31 - 1 to 0; -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last - self.base) % (1 << 31)


def parse(content: bytes, at: int = 0) -> Batch | None:
    """Decodes one whole batch. Returns None if its header is not valid, for example if the last offset is too large."""
    if len(content) <= MAGIC_AT:
        return None
    return _old(content, at) if content[MAGIC_AT] < 2 else _new(content, at)


def _old(content: bytes, at: int) -> Batch | None:
    """Decodes one whole entry of format 0 or 1. Returns None if it is not valid."""
    entry = legacy_batch.entry(content)
    if entry is None:
        return None
    base, last, attributes, timestamp, sound = entry
    if not -(1 << 63) <= base <= last < 1 << 63:
        return None
    return Batch(
        at=at,
        size=len(content),
        base=base,
        last=last,
        epoch=-1,
        magic=content[MAGIC_AT],
        sound=sound,
        attributes=attributes,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=-1,
        content=content,
    )


def _new(content: bytes, at: int) -> Batch | None:
    if len(content) < HEAD:
        return None
    (
        base,
        _,
        epoch,
        magic,
        crc,
        attributes,
        delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _HEAD.unpack_from(content)
    sound = google_crc32c.value(content[COVERED_AT:]) == crc
    if (sound and (delta < 0 or count < 0)) or base + max(delta, 0) >= 1 << 63:
        return None
    return Batch(
        at=at,
        size=len(content),
        base=base,
        last=base + max(delta, 0),
        epoch=epoch,
        magic=magic,
        sound=sound,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
        content=content,
    )


def batch_size(head: bytes | bytearray | memoryview) -> int:
    """Returns the total size in bytes of a batch, according to the length in its header, which may be wrong."""
    return FROM_LENGTH + int.from_bytes(head[LENGTH_AT:FROM_LENGTH], "big", signed=True)


def whole_batches(content: bytes | bytearray) -> Iterator[range]:
    """Yields the positions of consecutive batches of format 2.

    Stops at the first batch that is truncated or not valid.
    """
    at = 0
    while at + HEAD <= len(content):
        size = batch_size(content[at : at + FROM_LENGTH])
        if size < HEAD or at + size > len(content):
            return
        yield range(at, at + size)
        at += size
