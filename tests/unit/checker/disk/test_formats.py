"""Compressions, and message formats before 2, as another library writes them."""

from __future__ import annotations

import gzip
import io

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.protocol import compression, records, segment_file
from harness.protocol.flaws import Flaw, Unreadable
from harness.protocol.record_batch import Batch

BODY = b"a body that compresses well, well, well, well " * 40


def snappy_of_java(body: bytes) -> bytes:
    blocks = [pa.Codec("snappy").compress(body[at : at + 500], asbytes=True) for at in range(0, len(body), 500)]
    head = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (1, gzip.compress(BODY)),
        (2, pa.Codec("snappy").compress(BODY, asbytes=True)),
        (2, snappy_of_java(BODY)),
        (3, pa.Codec("lz4").compress(BODY, asbytes=True)),
        (4, pa.Codec("zstd").compress(BODY, asbytes=True)),
    ],
    ids=["gzip", "snappy", "snappy-java", "lz4", "zstd"],
)
def test_compressions(codec: int, compressed: bytes) -> None:
    assert compression.plain(codec, compressed) == BODY
    with pytest.raises(Unreadable):
        compression.plain(codec, compressed[: len(compressed) // 2])


def test_a_body_that_is_far_too_large() -> None:
    bomb = gzip.compress(bytes(compression.PLAIN_MAX + 1), 1)
    with pytest.raises(Unreadable, match="more than 64 MiB"):
        compression.plain(1, bomb)
    with pytest.raises(Unreadable, match="more than 64 MiB"):
        compression.plain(2, b"\xff\xff\xff\xff\x0f" + b"x")
    with pytest.raises(Unreadable, match="compression codec 5"):
        compression.plain(5, b"")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_formats_before_2(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for n in range(7):
        key = b"k%d" % n if n % 2 else None
        builder.append(n, timestamp=1000 + n if magic else None, key=key, value=b"v" * 50 * n)
    content = bytearray(builder.build())
    if codec:  # as a broker does: the wrapper's offset is that of its last message
        content[:8] = (106 if magic else 6).to_bytes(8, "big")
    found = [one for one in segment_file.read(io.BytesIO(bytes(content)), "x") if isinstance(one, Batch)]
    decoded = [record for batch in found for record in records.records(batch)]
    first = 100 if magic == 1 and codec else 0
    assert all(batch.sound for batch in found)
    assert [record.offset for record in decoded] == list(range(first, first + 7))
    assert (found[0].base, found[-1].last) == (first, first + 6)
    assert [len(record.value or b"") for record in decoded] == [50 * n for n in range(7)]
    assert decoded[2].timestamp == (1002 if magic else -1) and decoded[3].key == b"k3" and decoded[2].key is None
    content[17] ^= 64
    assert not next(one for one in segment_file.read(io.BytesIO(bytes(content)), "x") if isinstance(one, Batch)).sound


def test_a_batch_of_another_library() -> None:
    builder = DefaultRecordBatchBuilder(2, 1, True, 77, 3, 2**31 - 2, 1 << 20)
    for n in range(5):
        builder.append(n, 1000 + n, None, b"v%d" % n, [("h", b"x"), ("i", None)])
    (batch,) = segment_file.read(io.BytesIO(bytes(builder.build())), "x")
    assert isinstance(batch, Batch) and batch.sound and batch.transactional and not batch.control
    assert (batch.producer_id, batch.producer_epoch, batch.last_sequence) == (77, 3, 2)  # it has gone round
    decoded = list(records.records(batch))
    assert [record.timestamp for record in decoded] == list(range(1000, 1005))
    assert decoded[4].headers == ((b"h", b"x"), (b"i", None))


def test_numbers() -> None:
    assert records.varint(b"\x01", 0) == (-1, 1)
    assert records.varint(b"\xff\xff\xff\xff\x0f", 0) == (-(2**31), 5)
    with pytest.raises(Unreadable):
        records.varint(b"\xff" * 12, 0)


def test_an_empty_segment_and_one_of_zeros() -> None:
    assert list(segment_file.read(io.BytesIO(b""), "x")) == []
    (flaw,) = segment_file.read(io.BytesIO(bytes(5000)), "x")
    assert isinstance(flaw, Flaw) and flaw.at == 0
    assert flaw.what == "5000 bytes: zeros where a batch should start; nothing readable follows"
