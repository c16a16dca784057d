"""Metadata and log end offsets with librdkafka before 2.3, whose AdminClient has no ListOffsets.

This module has only the requests that the clients of a run make themselves. Topics are created and changed by the admin
role, which uses the installed version of librdkafka.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.confluent.settings_and_errors import converted, placed
from harness.protocol.error_codes import ClientError, TopicPartition

LISTS_OFFSETS: Final = 0x02030000  # first librdkafka whose AdminClient has ListOffsets


class OldAdmin:
    """Implements `partitions`, `offsets` and `close` of `client_protocols.Admin` with consumers.

    Each isolation level has its own consumer: with read_committed, the end offset of a partition is the last stable
    offset, otherwise the high watermark (ListOffsets, version 2; KIP-98).
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._consumers: dict[str, Any] = {}

    def _consumer(self, isolation_level: str) -> Any:
        if isolation_level not in self._consumers:
            own = {"group.id": "harness-asks", "isolation.level": isolation_level}
            self._consumers[isolation_level] = ck.Consumer({**self._config, **own})
        return self._consumers[isolation_level]

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        try:
            topics = self._consumer("read_uncommitted").list_topics(timeout=timeout_s).topics
        except ck.KafkaException as error:
            raise converted(error) from None
        return placed(topics, names)

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        deadline, consumer = time.monotonic() + timeout_s, self._consumer(isolation_level)
        offsets = {}
        for topic, number in partitions:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                marks = consumer.get_watermark_offsets(ck.TopicPartition(topic, number), timeout=left_s)
            except ck.KafkaException as error:
                raise converted(error) from None
            if marks is None:
                raise ClientError(
                    "_TIMED_OUT", f"no response to the request for the offsets of {topic}-{number} in {left_s:.1f} s"
                )
            offsets[topic, number] = (int(marks[0]), int(marks[1]))
        return offsets

    def close(self) -> None:
        self._consumers.clear()
