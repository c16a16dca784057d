"""Finds records that brokers deleted before the comparison read them. Spark's Kafka source skips them without an error.

Each batch starts at the offsets at which the previous batch ended. Spark stores these offsets in its checkpoint. If the
broker's earliest offset is higher than the start of a batch, the records in between have been deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Offsets = Mapping[str, Mapping[str, int]]


def between(begin: Offsets, end: Offsets, earliest: Offsets) -> tuple[dict[tuple[str, str], tuple[int, int]], int]:
    """Compares the offsets at which a batch began and ended with the brokers' earliest offsets.

    Returns (possible losses, number of recreated partitions). The possible losses are a mapping (topic, partition) ->
    (first lost offset, offset after the last lost one). They are only possible, because the batch may have read the
    records before they were deleted. A partition whose end offset is below its start offset was recreated.
    """
    lost, recreated = {}, 0
    for topic, partitions in begin.items():
        for partition, first in partitions.items():
            last = end.get(topic, {}).get(partition)
            if last is None or last < first:
                recreated += 1
                continue
            limit = min(earliest.get(topic, {}).get(partition, first), last)
            if limit > first:
                lost[topic, partition] = (first, limit)
    return lost, recreated


def admin(spark: Any, bootstrap: str, options: Mapping[str, str], timeout_s: float) -> Any:
    """Returns an instance of Kafka's Java admin client in Spark's JVM."""
    jvm = spark.sparkContext._jvm
    properties = jvm.java.util.Properties()
    wait = str(int(timeout_s * 1000))
    for name, value in {
        **options,
        "bootstrap.servers": bootstrap,
        "request.timeout.ms": wait,
        "default.api.timeout.ms": wait,
    }.items():
        properties.setProperty(name, value)
    return jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)


def earliest(spark: Any, client: Any, offsets: Offsets, timeout_s: float) -> dict[str, dict[str, int]]:
    """Returns the brokers' earliest offset of each partition in `offsets`. Raises Py4JError."""
    jvm = spark.sparkContext._jvm
    first = jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest()
    wanted = jvm.java.util.HashMap()
    at = {}
    for topic, partitions in offsets.items():
        for partition in partitions:
            key = jvm.org.apache.kafka.common.TopicPartition(topic, int(partition))
            wanted.put(key, first)
            at[topic, partition] = key
    future = client.listOffsets(wanted).all()
    answer = future.get(int(timeout_s * 1000), jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), key in at.items():
        found.setdefault(topic, {})[partition] = int(answer.get(key).offset())
    return found


def absent(spark: Any, client: Any, topics: tuple[str, ...], timeout_s: float) -> list[str]:
    """Returns the topics among `topics` that do not exist. Raises Py4JError if no broker answers."""
    jvm = spark.sparkContext._jvm
    future = client.listTopics().names()
    names = future.get(int(timeout_s * 1000), jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    return [topic for topic in topics if not names.contains(topic)]
