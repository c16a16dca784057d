"""The pipeline's source for Kafka's Java client: a consumer that is a member of the group.

A KafkaConsumer accepts calls from one thread at a time, and within its rebalance listener only from the polling
thread. So the JVM uses py4j's single-threaded model: see `Machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from harness.clients.java.consumer import CLOSE_TIMEOUT_S, JavaConsumer
from harness.clients.java.jvm import Machine
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.group_member import Member
from harness.pipeline_app.ports import Failed, Kind, Mark, Partition, Record
from harness.protocol.error_codes import ClientError

COMMIT_S: Final = 3.0


class _Listener:
    """A ConsumerRebalanceListener that passes rebalance events on immediately."""

    def __init__(self, member: JavaSource) -> None:
        self._member = member

    def onPartitionsAssigned(self, partitions: Any) -> None:
        self._member.on_assigned(partitions)

    def onPartitionsRevoked(self, partitions: Any) -> None:
        self._member.on_taken(partitions, lost=False)

    def onPartitionsLost(self, partitions: Any) -> None:
        self._member.on_taken(partitions, lost=True)

    class Java:
        implements = ("org.apache.kafka.clients.consumer.ConsumerRebalanceListener",)


class JavaSource(Member):
    """`pipeline_app.ports.Source` for the Java client."""

    def __init__(self, machine: Machine, pipeline: PipelineConfig) -> None:
        super().__init__(pipeline)
        config = {
            **pipeline.settings.consumer_config,
            "auto.commit.interval.ms": int(pipeline.options.commit_s * 1000),
            **({"group.instance.id": pipeline.static_name} if pipeline.static_members else {}),
        }
        settings = replace(
            pipeline.settings,
            auto_commit=pipeline.options.mode == "auto-commit",
            isolation_level="read_committed",
            records_max=pipeline.options.records_max,
            consumer_config=config,
        )
        try:
            self._consumer = JavaConsumer(machine, settings)
            self._consumer.subscribe_with(pipeline.input_topics, _Listener(self))
        except ClientError as error:
            raise Failed("fatal", f"subscribe: {error}") from None

    def on_assigned(self, partitions: Any) -> None:
        self._assigned(_plain(partitions))

    def on_taken(self, partitions: Any, lost: bool) -> None:
        if gone := _plain(partitions):
            self._taken(gone, lost)

    # --- Member ---

    def _take(self, taken: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        try:
            records = self._consumer.take(timeout_s)
        except ClientError as error:
            if error.kind == "retriable":
                return
            raise Failed("fatal", f"poll: {error}") from None
        for record in records:
            value = orjson.loads(record.value or b"")
            taken.setdefault((record.topic, record.partition), []).append((record.offset, value["id"], value["key"]))

    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        return self._consumer.marks(partitions)

    def _end(self, at: Partition) -> int:
        return self._consumer.end(at)

    def _start(self, starts: Mapping[Partition, int]) -> None:
        self._consumer.seek(starts, 0.0)

    def _close(self, leave: bool) -> None:
        if leave:
            self._consumer.close_within(CLOSE_TIMEOUT_S)
        else:
            self._consumer.close(leave=False)

    # --- ports.Source ---

    def seek(self, positions: Mapping[Partition, int]) -> None:
        try:
            self._consumer.seek(positions, 0.0)
        except ClientError as error:
            raise Failed("fatal", f"seek: {error}") from None

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._ignoring_revoked(partial(self._consumer.hold, partitions, True))

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._ignoring_revoked(partial(self._consumer.hold, partitions, False))

    def _ignoring_revoked(self, call: Callable[[], None]) -> None:
        """Makes a call for a partition that may have been revoked. Ignores errors that are not fatal. Raises Failed."""
        try:
            call()
        except ClientError as error:
            if error.kind == "fatal":
                raise Failed("fatal", str(error)) from None

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        try:
            self._consumer.commit_marks(marks, COMMIT_S)
        except ClientError as error:
            kind: Kind = "fatal" if error.kind == "fatal" else "abort"
            raise Failed(kind, f"commit of offsets: {error}") from None

    def marked(self, marks: Mapping[Partition, Mark]) -> Any:
        """Converts partition -> offset with metadata to a Java map of TopicPartition -> OffsetAndMetadata.

        Raises ClientError.
        """
        return self._consumer.marked(marks)

    def group(self) -> Any:
        """Returns this member's group metadata, a Java object, to pass to sendOffsetsToTransaction.

        With it the broker rejects the commit if this consumer is no longer a current member of the group (KIP-447).
        Raises ClientError.
        """
        return self._consumer.group()

    def generation(self) -> int | None:
        try:
            number = self._consumer.generation()
        except ClientError as error:
            raise Failed("fatal", f"generation: {error}") from None
        return number if number >= 0 else None


def _plain(partitions: Any) -> list[Partition]:
    return [(str(each.topic()), int(each.partition())) for each in partitions]
