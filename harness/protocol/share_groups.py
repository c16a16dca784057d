"""The start offsets of share groups: DescribeShareGroupOffsets (KIP-932), which librdkafka's admin client lacks.

DescribeShareGroupOffsets, version 0 (flexible: see `admin_requests`); the group's coordinator answers
  Request   [string group, nullable [string topic, [int32 partition], tags], tags] | tags
  Response  int32 throttle | [string group, [string topic, uuid, [int32 partition, int64 start offset, int32 epoch,
            int16 error, nullable string message, tags], tags], int16 error, nullable string message, tags] | tags
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from typing import Final

from harness.protocol.error_codes import TopicPartition
from harness.protocol.primitives import TAGS, Reader, compact_array, compact_text, head

DESCRIBE: Final = 90
_ALL_TOPICS: Final = b"\0"


def dead_letter_topic(group: str) -> str:
    """Returns the name of a group's dead letter queue. By default, brokers require this prefix (KIP-1191)."""
    return f"dlq.{group}"


def request(group: str) -> bytes:
    """Encodes a request for the start offsets of all partitions of a group."""
    return head(DESCRIBE, 0) + TAGS + compact_array([compact_text(group) + _ALL_TOPICS + TAGS]) + TAGS


def start_offsets(answer: bytes) -> tuple[int, dict[TopicPartition, int | None]]:
    """Returns (error code of the group, partition -> start offset) from a response.

    The start offset of a partition is None until the group has finished a record of that partition. Partitions that the
    group does not read yet, and partitions with an error, are omitted. Raises ValueError if the response is truncated.
    """
    starts: dict[TopicPartition, int | None] = {}
    try:
        reader = Reader(answer)
        reader.take("i")  # correlation
        reader.tags()
        reader.take("i")  # throttle time
        groups = reader.varint() - 1
        if groups != 1:
            raise ValueError(f"a DescribeShareGroupOffsets answer has {groups} groups")
        reader.compact_text()
        for _ in range(reader.varint() - 1):
            topic = reader.compact_text()
            reader.raw(16)
            for _ in range(reader.varint() - 1):
                partition, start, _, error = reader.take("iqih")
                reader.compact_text()
                reader.tags()
                if not error:
                    starts[topic, int(partition)] = int(start) if start >= 0 else None
            reader.tags()
        return int(reader.take("h")), starts
    except (struct.error, UnicodeError) as error:
        raise ValueError("a DescribeShareGroupOffsets answer is truncated") from error
