"""The log role without brokers: batches, and which records of a fetch an application sees."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.protocol import requests as wire
from harness.protocol.encode_batch import encode, encode_old
from harness.protocol.error_codes import ClientError
from harness.protocol.fetched_batches import visible, whole
from harness.protocol.records import records

TRIPLES = (
    (1_700_000_000_000, "k", "v"),
    (1_699_999_000_000, None, "long" * 50),
    (1_700_000_000_001, "k2", None),
)


def placed(batch: bytes, base: int) -> bytes:
    """The batch as a broker stores it: the base offset is not covered by the checksum."""
    return struct.pack(">q", base) + batch[8:]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_contains_the_added_records(codec: str) -> None:
    data = placed(encode(TRIPLES, codec, 7, 2, 11, True), 40)
    (batch,) = whole(data)
    assert (batch.base, batch.last, batch.size, batch.count) == (40, 42, len(data), 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 2, 11)
    assert batch.transactional and batch.max_timestamp == TRIPLES[2][0]
    texts = [(one.offset, one.timestamp, one.key, one.value) for one in records(batch)]
    assert [(offset, stamp) for offset, stamp, _, _ in texts] == [(40 + n, t[0]) for n, t in enumerate(TRIPLES)]
    assert visible([batch], 41, []) == [[41, *TRIPLES[1]], [42, *TRIPLES[2]]]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_as_another_library_makes_them(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for at, (stamp, key, value) in enumerate(TRIPLES):
        raw = [None if text is None else text.encode() for text in (key, value)]
        builder.append(at, timestamp=stamp if magic else None, key=raw[0], value=raw[1])
    assert encode_old(TRIPLES, magic) == bytes(builder.build())


def test_a_truncated_batch_is_skipped_and_a_damaged_one_is_reported() -> None:
    one, other = placed(encode(TRIPLES), 0), placed(encode(TRIPLES), 3)
    assert [batch.base for batch in whole(one + other)] == [0, 3]
    for cut in range(1, len(other)):
        assert [batch.base for batch in whole(one + other[:cut])] == [0]
    damaged = one[:-1] + bytes([one[-1] ^ 1])
    with pytest.raises(ClientError, match="damaged"):
        list(whole(damaged))


def marker(base: int, producer: int, commit: bool) -> bytes:
    key = struct.pack(">hh", 0, int(commit)).decode("latin-1")
    batch = bytearray(placed(encode(((0, key, "\0" * 6),), "none", producer, 0, -1, True), base))
    batch[22] |= 0x20  # control
    return bytes(batch)


def test_aborted_transactions_are_hidden_and_committed_ones_are_not() -> None:
    def sent(base: int, producer: int) -> bytes:
        return placed(encode(((0, "k", str(base)),), "none", producer, 0, 0, True), base)

    data = sent(0, 1) + sent(1, 2) + marker(2, 1, False) + sent(3, 1) + marker(4, 2, True) + marker(5, 1, True)
    batches = list(whole(data, checked=False))
    assert [row[0] for row in visible(batches, 0, [(1, 0)])] == [1, 3]
    assert [row[0] for row in visible(batches, 0, [])] == [0, 1, 3]


def test_answers_are_read() -> None:
    topic = wire.text("t")
    head = struct.pack(">i", 0) + struct.pack(">i", 1) + topic + struct.pack(">i", 1)
    assert wire.listed(head + struct.pack(">ihqq", 0, 0, -1, 17)) == (0, 17)
    assert wire.deleted(head + struct.pack(">iqh", 0, 5, 1)) == (1, 5)
    fetched = struct.pack(">ihi", 0, 0, 0) + head[4:] + struct.pack(">ihqqqi", 0, 0, 9, 4, 0, 1)
    fetched += struct.pack(">qq", 3, 1) + struct.pack(">i", 2) + b"xy"
    assert wire.fetched(fetched) == (0, 9, 4, [(3, 1)], b"xy")
    with pytest.raises(struct.error):
        wire.fetched(fetched[:-1])
