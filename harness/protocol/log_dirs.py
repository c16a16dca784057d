"""A broker's log directories: which logs are in them, whether they are online, and moving logs between them (KIP-113).

Both requests go to the broker itself, and have no flexible versions here: version 1 works with Kafka 2.4 to 4.3.

DescribeLogDirs, version 1
  Request   [string topic, [int32 partition]], null: all topics
  Response  int32 throttle | [int16 error, string directory,
                              [string topic, [int32 partition, int64 size, int64 lag, bool future]]]
AlterReplicaLogDirs, version 1
  Request   [string directory, [string topic, [int32 partition]]]
  Response  int32 throttle | [string topic, [int32 partition, int16 error]]
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.capabilities import LogDir
from harness.protocol import error_codes
from harness.protocol.error_codes import TopicPartition
from harness.protocol.primitives import Reader, head, text

_ALTER: Final = 34
_DESCRIBE: Final = 35
DESCRIBE: Final = head(_DESCRIBE, 1) + struct.pack(">i", -1)


def described(answer: bytes) -> dict[str, LogDir]:
    """Decodes a DescribeLogDirs response: path -> directory. Raises ValueError if the response is truncated."""
    try:
        return dict(_directory(reader) for reader in [_opened(answer)] for _ in range(reader.take("i")))
    except struct.error as error:
        raise ValueError("a DescribeLogDirs answer is truncated") from error


def _opened(answer: bytes) -> Reader:
    reader = Reader(answer)
    reader.take("ii")  # correlation id, throttle time
    return reader


def _directory(reader: Reader) -> tuple[str, LogDir]:
    code, path = reader.take("h"), reader.text()
    logs: dict[TopicPartition, bool] = {}
    for _ in range(reader.take("i")):
        topic = reader.text()
        for _ in range(reader.take("i")):
            partition, _, _, future = reader.take("iqq?")
            logs[topic, partition] = future
    return path, LogDir(error_codes.name(code) if code else "", logs)


def alter_request(moves: Mapping[str, Sequence[TopicPartition]]) -> bytes:
    """Encodes a request to move logs. `moves`: path of a directory -> the logs that are to be there."""
    return head(_ALTER, 1) + _array([text(path) + _array(_topics(logs)) for path, logs in sorted(moves.items())])


def _topics(logs: Sequence[TopicPartition]) -> list[bytes]:
    by_topic: dict[str, list[bytes]] = {}
    for topic, partition in sorted(logs):
        by_topic.setdefault(topic, []).append(struct.pack(">i", partition))
    return [text(topic) + _array(partitions) for topic, partitions in by_topic.items()]


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def altered(answer: bytes) -> dict[TopicPartition, str]:
    """Decodes an AlterReplicaLogDirs response: (topic, partition) -> name of the error, for the logs that had one.

    The broker has then begun to copy the other logs. Raises ValueError if the response is truncated.
    """
    failed: dict[TopicPartition, str] = {}
    try:
        reader = _opened(answer)
        for _ in range(reader.take("i")):
            topic = reader.text()
            for _ in range(reader.take("i")):
                partition, code = reader.take("ih")
                if code:
                    failed[topic, partition] = error_codes.name(code)
    except struct.error as error:
        raise ValueError("an AlterReplicaLogDirs answer is truncated") from error
    return failed
