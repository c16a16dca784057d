"""Encodes record batches as a producer does: format 2; `encode_old` encodes messages of formats 0 and 1.

The layout is described in `harness.protocol.record_batch` and `records`, which decode it. Source: Kafka documentation,
5.3.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import google_crc32c

from harness.protocol import compression
from harness.protocol.primitives import varint
from harness.protocol.record_batch import COVERED_AT, FROM_LENGTH, TRANSACTIONAL

Triple = tuple[int, str | None, str | None]  # timestamp in ms, key, value

_COVERED: Final = struct.Struct(">hiqqqhii")


def encode(
    triples: Sequence[Triple],
    codec: str = "none",
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Encodes a batch of records, each given as (timestamp, key, value). Offsets start at 0.

    The broker replaces the base offset, without changing the size of the batch.
    """
    first = triples[0][0]
    body = b"".join(_record(at, stamp - first, key, value) for at, (stamp, key, value) in enumerate(triples))
    number = compression.NAMES.index(codec)
    covered = _COVERED.pack(
        number | (TRANSACTIONAL if transactional else 0),
        len(triples) - 1,
        first,
        max(stamp for stamp, _, _ in triples),
        producer,
        epoch,
        sequence,
        len(triples),
    ) + compression.compressed(codec, body)
    # Leader epoch -1 and magic 2 are between the length and the checksum.
    head = struct.pack(">qiibI", 0, COVERED_AT - FROM_LENGTH + len(covered), -1, 2, google_crc32c.value(covered))
    return head + covered


def encode_old(triples: Sequence[Triple], magic: int) -> bytes:
    """Encodes records, each given as (timestamp, key, value), as uncompressed messages.

    `magic` is the format: 0, which has no timestamps, or 1.

    Source: Kafka documentation, 5.3.3.
    """

    def message(at: int, stamp: int, key: str | None, value: str | None) -> bytes:
        time = struct.pack(">q", stamp) if magic else b""
        covered = struct.pack(">bb", magic, 0) + time + sized(key) + sized(value)
        return struct.pack(">qiI", at, 4 + len(covered), zlib.crc32(covered)) + covered

    def sized(text: str | None) -> bytes:
        raw = b"" if text is None else text.encode()
        return struct.pack(">i", -1 if text is None else len(raw)) + raw

    return b"".join(message(at, *triple) for at, triple in enumerate(triples))


def _record(offset: int, later: int, key: str | None, value: str | None) -> bytes:
    fields = b"\0" + _zigzag(later) + _zigzag(offset) + _text(key) + _text(value) + b"\0"
    return _zigzag(len(fields)) + fields


def _text(text: str | None) -> bytes:
    if text is None:
        return _zigzag(-1)
    raw = text.encode()
    return _zigzag(len(raw)) + raw


def _zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))
