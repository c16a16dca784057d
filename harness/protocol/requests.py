"""Requests about one partition, encoded here, so that no library hides, retries or batches anything.

The requests have versions that brokers from 2.4 to 4.x and librdkafka's mock cluster support. These versions are not
flexible, except for the ListOffsets requests about one tier, i.e. about the local log or the remote tier. Functions
come in pairs: the first encodes a request, and the second decodes its response, without the leading size and
correlation id. Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from harness.protocol import brokers_metadata_views
from harness.protocol.primitives import Reader, compact_text, text

PRODUCE: Final = (0, 7)
PRODUCE_OLD: Final = (0, 2)  # the last version that accepts formats before 2; removed in 4.0
FETCH: Final = (1, 10)
LIST_OFFSETS: Final = (2, 2)
LIST_LOCAL_OFFSETS: Final = (2, 8)  # KIP-405
LIST_TIERED_OFFSETS: Final = (2, 9)  # KIP-1005, since 3.9
METADATA: Final = (3, 7)
FIND_COORDINATOR: Final = (10, 1)
DELETE_RECORDS: Final = (21, 0)
INIT_PRODUCER_ID: Final = (22, 0)
ADD_PARTITIONS: Final = (24, 0)
ADD_OFFSETS: Final = (25, 0)
END_TXN: Final = (26, 0)
TXN_OFFSET_COMMIT: Final = (28, 0)
DESCRIBE_CONFIGS: Final = (32, 1)

EARLIEST: Final = -2
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
CONSUMER: Final = -1
DEBUGGING: Final = -2  # a replica id for tools: any replica answers, and the latest offset is its log end offset

_TOPIC: Final = 2  # resource type
_WAIT_MS: Final = 15_000


class Fetched(NamedTuple):
    """The contents of a Fetch response.

    aborted  (producer id, first offset) of each aborted transaction
    data     the batches; the last one may be truncated
    """

    error: int
    high_watermark: int
    last_stable: int
    aborted: list[tuple[int, int]]
    data: bytes


def _one(topic: str, partition: bytes) -> bytes:
    """Encodes an array of one topic with one partition, whose fields are already encoded in `partition`."""
    return struct.pack(">i", 1) + text(topic) + struct.pack(">i", 1) + partition


def _down(answer: Reader) -> Reader:
    """Skips the start of an array with one topic and one partition.

    The next value is the one after the partition number.
    """
    answer.take("i")
    answer.text()
    answer.take("ii")
    return answer


def produce(topic: str, partition: int, batch: bytes, acks: int, transactional_id: str | None) -> bytes:
    return text(transactional_id) + produce_old(topic, partition, batch, acks)


def produce_old(topic: str, partition: int, messages: bytes, acks: int) -> bytes:
    """Encodes a Produce request of an earlier version, which does not begin with a transactional id."""
    rest = struct.pack(">ii", partition, len(messages)) + messages
    return struct.pack(">hi", acks, _WAIT_MS) + _one(topic, rest)


def produced(answer: bytes) -> tuple[int, int]:
    """Returns (error code, base offset) from a Produce response."""
    error, base = _down(Reader(answer)).take("hq")
    return int(error), int(base)


def fetch(topic: str, partition: int, offset: int, committed: bool, max_bytes: int, waits: bool) -> bytes:
    """Encodes a Fetch request. `committed`: fetch with isolation level read_committed.

    waits  let the broker wait for records from the remote tier, up to its own time limit (KIP-1018)

    The request's minimum size is 0 bytes, so the broker does not wait for new records. librdkafka's mock cluster waits
    nevertheless.
    """
    head = struct.pack(">iiiibii", CONSUMER, _WAIT_MS * waits, 0, max_bytes, committed, 0, -1)
    return head + _one(topic, struct.pack(">iiqqi", partition, -1, offset, -1, max_bytes)) + struct.pack(">i", 0)


def fetched(answer: bytes) -> Fetched:
    reader = Reader(answer)
    error = reader.take("ihi")[1]
    if error:
        return Fetched(error, -1, -1, [], b"")
    error, high, stable, _ = _down(reader).take("hqqq")
    aborted = [reader.take("qq") for _ in range(max(reader.take("i"), 0))]
    return Fetched(error, high, stable, aborted, reader.raw(reader.take("i")))


def list_offsets(topic: str, partition: int, timestamp: int, committed: bool, replica: int = CONSUMER) -> bytes:
    return struct.pack(">ib", replica, committed) + _one(topic, struct.pack(">iq", partition, timestamp))


def listed(answer: bytes) -> tuple[int, int]:
    """Returns (error code, offset) from a ListOffsets response."""
    reader = Reader(answer)
    reader.take("i")
    error, _, offset = _down(reader).take("hqq")
    return int(error), int(offset)


def list_tier_offsets(topic: str, partition: int, timestamp: int) -> bytes:
    """Encodes a ListOffsets request about one tier. `timestamp` is EARLIEST_LOCAL or LATEST_TIERED.

    The result starts with the tagged fields of the request's header.
    """
    wanted = struct.pack(">iiq", partition, -1, timestamp)
    return b"\0" + struct.pack(">ib", CONSUMER, 0) + b"\2" + compact_text(topic) + b"\2" + wanted + b"\0\0\0"


def listed_of_tier(answer: bytes) -> tuple[int, int]:
    """Returns (error code, offset) from the response to `list_tier_offsets`."""
    reader = Reader(answer)
    reader.take("bib")
    reader.raw(reader.take("b") - 1)
    _, _, error, _, offset = reader.take("bihqq")
    return int(error), int(offset)


def topic_metadata(topic: str) -> bytes:
    return struct.pack(">i", 1) + text(topic) + b"\0"


class Placed(NamedTuple):
    """Where a topic's partitions are.

    brokers     broker id -> (host, port)
    partitions  partition -> (leader, leader epoch, replicas, in-sync replicas)
    """

    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[int, tuple[int, int, tuple[int, ...], tuple[int, ...]]]


def placed(answer: bytes) -> Placed:
    cluster = brokers_metadata_views.read(Reader(answer))
    return Placed(cluster.brokers, {number: row for (_, number), row in cluster.partitions.items()})


def find_coordinator(key: str, of_group: bool = False) -> bytes:
    """Encodes a FindCoordinator request. `key` is a transactional id, or with `of_group` the id of a group."""
    return text(key) + (b"\0" if of_group else b"\1")


def coordinator(answer: bytes) -> tuple[int, int]:
    """Returns (error code, broker id) from a FindCoordinator response."""
    reader = Reader(answer)
    error = reader.take("ih")[1]
    reader.text()
    return int(error), int(reader.take("i"))


def init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    return text(transactional_id) + struct.pack(">i", timeout_ms)


def initialised(answer: bytes) -> tuple[int, int, int]:
    """Returns (error code, producer id, producer epoch) from an InitProducerId response."""
    _, error, producer, epoch = Reader(answer).take("ihqh")
    return int(error), int(producer), int(epoch)


def add_partition(transactional_id: str, producer: int, epoch: int, topic: str, partition: int) -> bytes:
    return text(transactional_id) + struct.pack(">qh", producer, epoch) + _one(topic, struct.pack(">i", partition))


def added(answer: bytes) -> int:
    """Returns the error code from an AddPartitionsToTxn response; 0 if there is no error."""
    reader = Reader(answer)
    reader.take("i")
    return int(_down(reader).take("h"))


def add_offsets(transactional_id: str, producer: int, epoch: int, group: str) -> bytes:
    """Encodes an AddOffsetsToTxn request; `ended` decodes the response."""
    return text(transactional_id) + struct.pack(">qh", producer, epoch) + text(group)


def txn_offset_commit(
    transactional_id: str, producer: int, epoch: int, group: str, topic: str, partition: int, offset: int
) -> bytes:
    """Encodes a TxnOffsetCommit request; `added` decodes the response."""
    head = text(transactional_id) + text(group) + struct.pack(">qh", producer, epoch)
    return head + _one(topic, struct.pack(">iq", partition, offset) + text(None))


def end_txn(transactional_id: str, producer: int, epoch: int, commit: bool) -> bytes:
    return text(transactional_id) + struct.pack(">qhb", producer, epoch, commit)


def ended(answer: bytes) -> int:
    """Returns the error code from an EndTxn response; 0 if there is no error."""
    return int(Reader(answer).take("ih")[1])


def delete_records(topic: str, partition: int, offset: int) -> bytes:
    return _one(topic, struct.pack(">iq", partition, offset)) + struct.pack(">i", _WAIT_MS)


def deleted(answer: bytes) -> tuple[int, int]:
    """Returns (error code, log start offset) from a DeleteRecords response."""
    reader = Reader(answer)
    reader.take("i")
    start, error = _down(reader).take("qh")
    return int(error), int(start)


def describe_config(topic: str, name: str) -> bytes:
    return struct.pack(">ib", 1, _TOPIC) + text(topic) + struct.pack(">i", 1) + text(name) + b"\0"


def described(answer: bytes) -> str:
    """Returns the value of the setting in a DescribeConfigs response; an empty string if there is no value."""
    reader = Reader(answer)
    reader.take("ii")
    error = reader.take("h")
    reader.text()
    reader.take("b")
    reader.text()
    if error or not reader.take("i"):
        return ""
    reader.text()
    return reader.text()
