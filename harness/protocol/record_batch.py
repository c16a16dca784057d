"""Segments as record batches, read one by one, damage and all.

A batch of format 2 (KIP-98; Kafka documentation, 5.3.1), big-endian:

     0  base offset            int64     27  base timestamp    int64
     8  length of the rest     int32     35  largest timestamp int64
    12  partition leader epoch int32     43  producer id       int64
    16  magic, 2               int8      51  producer epoch    int16
    17  CRC-32C of what is     uint32    53  base sequence     int32
        from 21 on                       57  records           int32
    21  attributes             int16     61  the records, compressed together
    23  last offset delta      int32

Base offset, length and leader epoch are covered by no checksum. Formats 0 and 1 (`harness.protocol.legacy_batch`) have
the magic byte in the same place, and a CRC-32 of what follows it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import google_crc32c

from harness.protocol import legacy_batch
from harness.protocol.flaws import Flaw

HEAD: Final = 61
FROM_LENGTH: Final = 12  # the length counts what comes after this
MAGIC_AT: Final = 16
COVERED_AT: Final = 21
BATCH_MAX: Final = 256 << 20
# How far, and over how many bytes of checksums, the next sound batch is looked for behind damage.
SEARCH_MAX: Final = 16 << 20
_SUMMED_MAX: Final = 128 << 20

_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch.

    at, size  where in its file
    base, last  offsets; epoch: of the leader that wrote it, -1 before format 2
    sound     whether its checksum holds
    count     of records, as its head says; -1 before format 2
    producer_id, producer_epoch, base_sequence  -1: no idempotent producer
    content   all of it
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
        """Whether timestamps are the broker's."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        """Sequence numbers go from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last - self.base) % (1 << 31)


def read(file: BinaryIO, name: str) -> Iterator[Batch | Flaw]:
    """The batches of a segment in order of the file, and what lies between that is none.

    A batch whose checksum does not hold comes as a Batch that is not `sound`. One batch at a time is in
    memory, and at most SEARCH_MAX bytes behind damage.
    """
    size = file.seek(0, 2)
    at = 0
    while at < size:
        batch = _batch(file, at, size)
        if batch is not None and (batch.sound or _begins(file, at + batch.size, size)):
            yield batch
            at += batch.size
            continue
        found = _search(file, at + 1, size)
        yield Flaw(name, at, _gap(file, at, found, size))
        if found is None:
            return
        at = found


def _length(file: BinaryIO, at: int, size: int) -> int | None:
    """The size of what begins there, if that may be a batch."""
    file.seek(at)
    head = file.read(MAGIC_AT + 1)
    if len(head) <= MAGIC_AT or head[MAGIC_AT] > 2 or head[0] & 0x80:
        return None
    whole = FROM_LENGTH + int.from_bytes(head[8:12], "big", signed=True)
    least = HEAD if head[MAGIC_AT] == 2 else legacy_batch.LEAST
    return whole if least <= whole <= min(size - at, BATCH_MAX) else None


def _begins(file: BinaryIO, at: int, size: int) -> bool:
    """Whether a batch may begin there, or the file ends: what precedes is then rather damaged than torn."""
    return at == size or _length(file, at, size) is not None


def _batch(file: BinaryIO, at: int, size: int) -> Batch | None:
    whole = _length(file, at, size)
    if whole is None:
        return None
    file.seek(at)
    return parse(file.read(whole), at)


def parse(content: bytes, at: int = 0) -> Batch | None:
    """One whole batch; None when its head makes no sense, such as offsets that end before they begin."""
    if len(content) <= MAGIC_AT:
        return None
    if content[MAGIC_AT] < 2:
        entry = legacy_batch.entry(content)
        if entry is None:
            return None
        base, last, attributes, timestamp, sound = entry
        if not -(1 << 63) <= base <= last < 1 << 63:
            return None
        return Batch(
            at, len(content), base, last, -1, content[MAGIC_AT], sound, attributes, timestamp, timestamp,
            -1, -1, -1, -1, content,
        )  # fmt: skip
    if len(content) < HEAD:
        return None
    (
        base, _, epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp, producer_id,
        producer_epoch, base_sequence, count,
    ) = _HEAD.unpack_from(content)  # fmt: skip
    sound = google_crc32c.value(content[COVERED_AT:]) == crc
    if (sound and (delta < 0 or count < 0)) or base + max(delta, 0) >= 1 << 63:
        return None
    return Batch(
        at, len(content), base, base + max(delta, 0), epoch, magic, sound, attributes, base_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, count, content,
    )  # fmt: skip


def _search(file: BinaryIO, begin: int, size: int) -> int | None:
    """Where the next sound batch of format 2 begins, looked for within bounds."""
    file.seek(begin)
    window = memoryview(content := file.read(SEARCH_MAX))
    summed, at = 0, content.find(b"\x02", MAGIC_AT)
    while at >= 0:
        start = at - MAGIC_AT
        whole = FROM_LENGTH + int.from_bytes(window[start + 8 : start + 12], "big", signed=True)
        if HEAD <= whole <= len(window) - start and not window[start] & 0x80:
            crc = int.from_bytes(window[start + 17 : start + COVERED_AT], "big")
            if google_crc32c.value(bytes(window[start + COVERED_AT : start + whole])) == crc:
                return begin + start
            summed += whole
            if summed > _SUMMED_MAX:
                return None
        at = content.find(b"\x02", at + 1)
    return None


def _gap(file: BinaryIO, at: int, found: int | None, size: int) -> str:
    """What stands where a batch should."""
    end = size if found is None else found
    file.seek(at)
    head = file.read(MAGIC_AT + 1)
    if not any(head):
        zeros, begin = len(head), file.tell()
        while begin + zeros <= end and (piece := file.read(1 << 16)) and not any(piece):
            zeros += len(piece)
        what = "zeros where a batch should begin"
    elif len(head) <= MAGIC_AT:
        what = "too few for a batch: the file ends in the middle of one"
    else:
        whole = FROM_LENGTH + int.from_bytes(head[8:12], "big", signed=True)
        if HEAD <= whole <= BATCH_MAX and at + whole > size and head[MAGIC_AT] <= 2:
            base = int.from_bytes(head[:8], "big", signed=True)
            what = f"the batch of offset {base} has {whole} bytes, and the file ends before"
        else:
            what = "not the beginning of a batch"
    then = "nothing readable follows" if found is None else f"the next sound batch is at byte {found}"
    return f"{end - at} bytes: {what}; {then}"
