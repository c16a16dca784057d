"""Admin requests that the client library does not offer, encoded here and sent to one broker.

The requests have flexible versions (KIP-482): arrays and compact strings start with their length plus one as an
unsigned varint, and every structure ends with tagged fields, which are always empty here (one zero byte). The requests
are sent to the broker that a Metadata response names as the controller. In KRaft mode the response names any live
broker, and that broker forwards the requests to the controller (KIP-590). TLS and SASL are not supported.

AlterPartitionReassignments, version 0 (KIP-455)
  Request   int32 timeout | [string topic, [int32 partition, nullable [int32 replica], tags], tags] | tags
  Response  int32 throttle | int16 error | nullable string message |
            [string topic, [int32 partition, int16 error, nullable string message, tags], tags] | tags
UnregisterBroker, version 0
  Request   int32 broker | tags
  Response  int32 throttle | int16 error | nullable string message | tags
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from harness.protocol.error_codes import TopicPartition
from harness.protocol.one_exchange import exchange
from harness.protocol.primitives import TAGS, Reader, compact_array, compact_text, head

REASSIGN: Final = 45
UNREGISTER: Final = 64


def reassign_request(replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float) -> bytes:
    """Encodes a request that moves partitions to other brokers. `replicas` lists the new brokers of each partition.

    The first broker of a list is the preferred leader.
    """
    topics = []
    for topic, group in groupby(sorted(replicas), key=lambda at: at[0]):
        rows = [
            struct.pack(">i", number)
            + compact_array([struct.pack(">i", broker) for broker in replicas[topic, number]])
            + TAGS
            for _, number in group
        ]
        topics.append(compact_text(topic) + compact_array(rows) + TAGS)
    return head(REASSIGN, 0) + TAGS + struct.pack(">i", int(timeout_s * 1000)) + compact_array(topics) + TAGS


def unregister_request(broker: int) -> bytes:
    """Encodes a request that unregisters a stopped broker."""
    return head(UNREGISTER, 0) + TAGS + struct.pack(">i", broker) + TAGS


Failure = tuple[int, str]
"""A protocol error's number, and the broker's message."""


def opening(answer: bytes) -> tuple[Reader, Failure]:
    """Returns a reader behind the first fields of a flexible response, which are these: throttle time, error, message.

    Also returns the error. Raises struct.error.
    """
    reader = Reader(answer)
    reader.take("i")  # correlation
    reader.tags()
    reader.take("i")  # throttle time
    return reader, (reader.take("h"), reader.compact_text())


def reassign_answer(answer: bytes) -> Failure:
    """Returns (code, message) of the first error in an AlterPartitionReassignments response; (0, "") without an error.

    Raises ValueError if the response is truncated.
    """
    try:
        reader, first = opening(answer)
        failures = [first]
        for _ in range(reader.varint() - 1):
            topic = reader.compact_text()
            for _ in range(reader.varint() - 1):
                number, error, message = reader.take("i"), reader.take("h"), reader.compact_text()
                failures.append((error, f"{topic}-{number}: {message}"))
                reader.tags()
            reader.tags()
    except struct.error as error:
        raise ValueError("an AlterPartitionReassignments answer is truncated") from error
    return next((each for each in failures if each[0]), (0, ""))


def unregister_answer(answer: bytes) -> Failure:
    """Returns (code, message) of the error in an UnregisterBroker response; the code is 0 if there is none.

    Raises ValueError if the response is truncated.
    """
    try:
        return opening(answer)[1]
    except struct.error as error:
        raise ValueError("an UnregisterBroker answer is truncated") from error


def ask(address: str, request: bytes, timeout_s: float) -> bytes:
    """Sends a request to a broker ("host:port"), and returns the response.

    Raises OSError if no response arrives within `timeout_s`, and ValueError if the response is not in Kafka's protocol.
    """
    host, _, port = address.rpartition(":")
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return exchange(connection, host, int(port), request, timeout_s)
