"""Reads the dead letter queue of a share group (KIP-1191): a topic to which brokers write a record per dead letter.

The record's headers say where the record that it stands for is. Its own key and value are empty, unless the group's
setting errors.deadletterqueue.copy.record.enable is true.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.confluent.settings_and_errors import common, converted
from harness.clients.settings import Settings
from harness.clients.share.library import Place
from harness.protocol.error_codes import ClientError

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
METADATA_S: Final = 5.0
BATCH: Final = 500  # records per call


def place_of(headers: Sequence[tuple[str, bytes | None]]) -> Place:
    """Returns the place of the record that a dead letter stands for. Raises ClientError if a header is missing."""
    found: Mapping[str, bytes | None] = dict(headers)
    try:
        topic, partition, offset = (bytes(found[name] or b"").decode() for name in (TOPIC, PARTITION, OFFSET))
        return Place(topic, int(partition), int(offset))
    except (KeyError, ValueError) as error:
        raise ClientError("_BAD_MSG", f"a dead letter without the place of its record: {error}") from None


def dead_letters(settings: Settings, topic: str, timeout_s: float) -> list[Place]:
    """Returns the place of each record in the queue `topic`, sorted. Raises ClientError, also if time runs out."""
    deadline = time.monotonic() + timeout_s
    config = common(settings) | {
        "group.id": f"{settings.run}-dead-letters",
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
    }
    try:
        with closing(ck.Consumer(config)) as consumer:
            return sorted(_read(consumer, topic, deadline))
    except ck.KafkaException as error:
        raise converted(error) from None


def _read(consumer: Any, topic: str, deadline: float) -> set[Place]:
    partitions = consumer.list_topics(topic, timeout=METADATA_S).topics[topic].partitions
    if not partitions:
        raise ClientError("UNKNOWN_TOPIC_OR_PART", f"the dead letter queue {topic} has no partitions")
    left = {}
    for number in partitions:
        begin, end = consumer.get_watermark_offsets(ck.TopicPartition(topic, number), timeout=METADATA_S)
        if begin < end:
            left[number] = end
    consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for number in left])
    found: set[Place] = set()
    while left:
        if time.monotonic() > deadline:
            raise ClientError("_TIMED_OUT", f"the dead letter queue {topic} was not read to its end in time")
        for message in consumer.consume(BATCH, timeout=0.5):
            if message.error() is not None:
                raise converted(message.error())
            found.add(place_of(message.headers() or ()))
            if message.offset() + 1 >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
    return found
