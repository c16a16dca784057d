"""Record batches as a producer makes them, and as a fetch gives them back: of format 2; `encode_old` below.

The layout is that of `harness.protocol.record_batch` and `records`, which read them. Source: Kafka documentation, 5.3.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import google_crc32c
import pyarrow as pa

from harness.protocol import compression
from harness.protocol import record_batch as batches
from harness.protocol.errors import ClientError
from harness.protocol.record_batch import COVERED_AT, FROM_LENGTH, HEAD, MAGIC_AT, Batch
from harness.protocol.records import ABORT, marker
from harness.protocol.records import records as records_of

Triple = tuple[int, str | None, str | None]  # timestamp in ms, key, value

_COVERED: Final = struct.Struct(">hiqqqhii")
_TRANSACTIONAL: Final = 0x10


def encode(
    triples: Sequence[Triple],
    codec: str = "none",
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A batch, its offsets from 0 on: a broker writes the real ones into its head, and changes no size."""
    first = triples[0][0]
    body = b"".join(_record(at, stamp - first, key, value) for at, (stamp, key, value) in enumerate(triples))
    number = compression.NAMES.index(codec)
    covered = _COVERED.pack(
        number | (_TRANSACTIONAL if transactional else 0),
        len(triples) - 1,
        first,
        max(stamp for stamp, _, _ in triples),
        producer,
        epoch,
        sequence,
        len(triples),
    ) + _packed(codec, body)
    # Leader epoch -1 and magic 2 stand between the length and the checksum.
    head = struct.pack(">qiibI", 0, COVERED_AT - FROM_LENGTH + len(covered), -1, 2, google_crc32c.value(covered))
    return head + covered


def encode_old(triples: Sequence[Triple], magic: int) -> bytes:
    """Messages of format 0, which knows no time, or 1, uncompressed. Source: Kafka documentation, 5.3.3."""

    def message(at: int, stamp: int, key: str | None, value: str | None) -> bytes:
        time = struct.pack(">q", stamp) if magic else b""
        covered = struct.pack(">bb", magic, 0) + time + sized(key) + sized(value)
        return struct.pack(">qiI", at, 4 + len(covered), zlib.crc32(covered)) + covered

    def sized(text: str | None) -> bytes:
        raw = b"" if text is None else text.encode()
        return struct.pack(">i", -1 if text is None else len(raw)) + raw

    return b"".join(message(at, *triple) for at, triple in enumerate(triples))


def _packed(codec: str, body: bytes) -> bytes:
    if codec == "none":
        return body
    if codec == "gzip":
        return gzip.compress(body, mtime=0)
    found: bytes = pa.compress(body, codec=codec, asbytes=True)
    return found


def _record(offset: int, later: int, key: str | None, value: str | None) -> bytes:
    fields = b"\0" + _varint(later) + _varint(offset) + _text(key) + _text(value) + b"\0"
    return _varint(len(fields)) + fields


def _text(text: str | None) -> bytes:
    if text is None:
        return _varint(-1)
    raw = text.encode()
    return _varint(len(raw)) + raw


def _varint(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def whole(data: bytes, checked: bool = True) -> Iterator[Batch]:
    """The batches of a fetch; the last one may be cut short, and is left out then.

    `checked`: raise ClientError for a wrong checksum, too.
    """
    at = 0
    while len(data) - at > MAGIC_AT:
        size = FROM_LENGTH + int.from_bytes(data[at + 8 : at + FROM_LENGTH], "big", signed=True)
        if size < HEAD or at + size > len(data):
            return
        batch = batches.parse(data[at : at + size], at)
        if batch is None or (checked and not batch.sound):
            raise ClientError("CORRUPT_MESSAGE", f"the batch at byte {at} of a fetch is damaged")
        yield batch
        at += size


def visible(batches: Sequence[Batch], at: int, aborted: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """[offset, timestamp, key, value] from offset `at` on; no markers, nothing aborted (KIP-98)."""
    waiting = sorted(aborted, key=lambda one: one[1])
    hidden: set[int] = set()
    found: list[list[Any]] = []
    for batch in batches:
        while waiting and waiting[0][1] <= batch.last:
            hidden.add(waiting.pop(0)[0])
        if batch.control:
            if marker(batch) == ABORT:
                hidden.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in hidden):
            found += (
                [one.offset, one.timestamp, _decoded(one.key), _decoded(one.value)]
                for one in records_of(batch)
                if one.offset >= at
            )
    return found


def _decoded(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
