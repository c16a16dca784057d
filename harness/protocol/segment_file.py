"""Reads a segment batch by batch, including its damaged parts, and finds the batches in an undamaged segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import google_crc32c

from harness.protocol import legacy_batch
from harness.protocol.flaws import Flaw
from harness.protocol.record_batch import (
    COVERED_AT,
    FROM_LENGTH,
    HEAD,
    MAGIC_AT,
    Batch,
    batch_size,
    parse,
    whole_batches,
)

BATCH_MAX: Final = 256 << 20
# Limits of the search for the next sound batch after damage: distance, and bytes for which checksums are computed.
SEARCH_MAX: Final = 16 << 20
_SUMMED_MAX: Final = 128 << 20


def read(file: BinaryIO, name: str) -> Iterator[Batch | Flaw]:
    """Yields the batches of a segment in file order, and a Flaw for each range of bytes that is not a batch.

    A batch with a wrong checksum is yielded as a Batch that is not `sound`. The function keeps at most one batch in
    memory. After damage, it keeps at most SEARCH_MAX bytes, in which it searches for the next batch.
    """
    size = file.seek(0, 2)
    at = 0
    while at < size:
        batch = _batch(file, at, size)
        if batch is not None and (batch.sound or _begins(file, at + batch.size, size)):
            yield batch
            at += batch.size
            continue
        next_at = _search(file, at + 1, size)
        yield Flaw(name, at, _gap(file, at, next_at, size))
        if next_at is None:
            return
        at = next_at


def _length(file: BinaryIO, at: int, size: int) -> int | None:
    """Returns the size in bytes of the batch that starts at position `at`; None if no batch can start there."""
    file.seek(at)
    head = file.read(MAGIC_AT + 1)
    if len(head) <= MAGIC_AT or head[MAGIC_AT] > 2 or head[0] & 0x80:
        return None
    whole = batch_size(head)
    least = HEAD if head[MAGIC_AT] == 2 else legacy_batch.LEAST
    return whole if least <= whole <= min(size - at, BATCH_MAX) else None


def _begins(file: BinaryIO, at: int, size: int) -> bool:
    """Returns whether position `at` is the end of the file, or a batch may start there.

    Called for the end of a batch with a wrong checksum. If the result is true, that batch is whole but damaged;
    otherwise only a part of it was written.
    """
    return at == size or _length(file, at, size) is not None


def _batch(file: BinaryIO, at: int, size: int) -> Batch | None:
    whole = _length(file, at, size)
    if whole is None:
        return None
    file.seek(at)
    return parse(file.read(whole), at)


def _search(file: BinaryIO, begin: int, size: int) -> int | None:
    """Returns the position of the next sound batch of format 2.

    Returns None if there is none in the next SEARCH_MAX bytes.
    """
    file.seek(begin)
    window = memoryview(content := file.read(SEARCH_MAX))
    summed, at = 0, content.find(b"\x02", MAGIC_AT)
    while at >= 0:
        start = at - MAGIC_AT
        whole = batch_size(window[start : start + FROM_LENGTH])
        if HEAD <= whole <= len(window) - start and not window[start] & 0x80:
            crc = int.from_bytes(window[start + 17 : start + COVERED_AT], "big")
            if google_crc32c.value(bytes(window[start + COVERED_AT : start + whole])) == crc:
                return begin + start
            summed += whole
            if summed > _SUMMED_MAX:
                return None
        at = content.find(b"\x02", at + 1)
    return None


def _gap(file: BinaryIO, at: int, next_at: int | None, size: int) -> str:
    """Returns what is wrong with the bytes from `at` to `next_at`, which are not a batch."""
    end = size if next_at is None else next_at
    file.seek(at)
    head = file.read(MAGIC_AT + 1)
    if not any(head):
        zeros, begin = len(head), file.tell()
        while begin + zeros <= end and (piece := file.read(1 << 16)) and not any(piece):
            zeros += len(piece)
        what = "zeros where a batch should start"
    elif len(head) <= MAGIC_AT:
        what = "too few for a batch: the file ends in the middle of one"
    else:
        whole = batch_size(head)
        if HEAD <= whole <= BATCH_MAX and at + whole > size and head[MAGIC_AT] <= 2:
            base = int.from_bytes(head[:8], "big", signed=True)
            what = f"the batch of offset {base} has {whole} bytes, but the file ends before that"
        else:
            what = "not the start of a batch"
    then = "nothing readable follows" if next_at is None else f"the next sound batch is at byte {next_at}"
    return f"{end - at} bytes: {what}; {then}"


def covered(content: bytes | bytearray) -> list[range]:
    """Returns, for each whole record batch of a segment, the range of bytes that the batch's checksum covers.

    The checksum does not cover the leader epoch. If a bit of the leader epoch is flipped, no server notices, and the
    replica may never get in sync again (see docs/understand/findings.md).
    """
    return [range(place.start + COVERED_AT, place.stop) for place in whole_batches(content)]


def extent(content: bytes) -> tuple[int, int | None]:
    """Returns (end, largest timestamp) of a segment: the offset that follows its last record, and the time in ms.

    The timestamp is None if the segment has control batches, because clients do not know the timestamps of control
    batches. Raises ValueError for a segment without a whole batch.
    """
    batches = [parse(content[place.start : place.stop]) for place in whole_batches(content)]
    decoded = [batch for batch in batches if batch is not None]
    if not decoded:
        raise ValueError("no whole batch")
    largest = None if any(batch.control for batch in decoded) else max(batch.max_timestamp for batch in decoded)
    return decoded[-1].last + 1, largest
