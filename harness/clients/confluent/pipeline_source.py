"""The pipeline's source for confluent-kafka: a consumer that is a member of the group.

Behaviour of librdkafka that matters here, from its source (2.16) and observed on brokers:
- Rebalance callbacks are called within `consume`. If a partition is assigned again during the call, librdkafka discards
  the partition's records that the call had fetched before (rd_kafka_purge_outdated_messages). So no record from before
  a rebalance is returned after the rebalance.
- The group metadata is an opaque value in Python, with this layout: b"CGMDv2:", the generation as four bytes, group
  and member id, each followed by a zero byte, then either a byte 1, or a byte 0 and the static member's name.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck
import orjson

from harness.clients.call_timeout import bounded
from harness.clients.confluent.adapter import CLOSE_TIMEOUT_S, destroy_beside
from harness.clients.confluent.settings_and_errors import consumer_config, converted, made_with
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.group_member import COMMITTED_S, Member
from harness.pipeline_app.instance_state import END
from harness.pipeline_app.ports import Failed, Mark, Partition, Record
from harness.protocol.error_codes import ClientError

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")
STEP_S: Final = 6.0  # timeout of one request
TRY_S: Final = 2.0


def anonymous(group: str) -> bytes:
    """Returns the metadata of a group without a member, to pass to `send_offsets_to_transaction`.

    Given such metadata, the coordinator does not check the generation (KIP-447 keeps this for old clients).
    """
    return _MAGIC + _GENERATION.pack(-1) + group.encode() + b"\0\0\1"


def marked(marks: Mapping[Partition, Mark]) -> list[Any]:
    """Converts partition -> offset with metadata to a list of TopicPartition.

    confluent-kafka refuses texts with a NUL, and ends each text with one itself.
    """
    return [
        ck.TopicPartition(topic, number, mark.offset, metadata=mark.state.removesuffix(END))
        for (topic, number), mark in marks.items()
    ]


def committed_marks(consumer: Any, partitions: Iterable[Partition], timeout_s: float) -> dict[Partition, Mark | None]:
    """Returns partition -> the group's committed offset with its metadata (None: nothing committed).

    Raises ClientError.
    """
    requested = [ck.TopicPartition(*at) for at in partitions]
    marks: dict[Partition, Mark | None] = {}
    try:
        for partition in consumer.committed(requested, timeout=timeout_s):
            if partition.error is not None:
                raise converted(partition.error)
            mark = Mark(partition.offset, _state(partition))
            marks[partition.topic, partition.partition] = mark if partition.offset >= 0 else None
    except ck.KafkaException as error:
        raise converted(error) from None
    return marks


def _state(partition: Any) -> str:
    """Returns the metadata of a committed offset, or a text that no instance writes if it cannot be decoded.

    confluent-kafka reads metadata beyond its end unless it ends with a NUL (docs/findings/confluent-metadata). That of
    instances does. Other libraries of the group may commit metadata of their own, such as the member's id.
    """
    try:
        state: str = partition.metadata or ""
    except UnicodeDecodeError as error:
        return f"not decoded: {error}"
    return state


def _plain(partitions: Sequence[Any]) -> list[Partition]:
    return [(partition.topic, partition.partition) for partition in partitions]


class ConfluentSource(Member):
    """`pipeline_app.ports.Source` for confluent-kafka."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        super().__init__(pipeline)
        auto_commit = pipeline.options.mode == "auto-commit"
        config = consumer_config(pipeline.settings) | {
            "enable.auto.commit": auto_commit,
            "auto.commit.interval.ms": int(pipeline.options.commit_s * 1000),
            # These events must not advance the offsets that the library stores (they did from 2.2.0 to 2.13.0).
            "enable.partition.eof": auto_commit,
            # Required so that fetching committed offsets waits for pending transactions (KIP-447).
            "isolation.level": "read_committed",
        }
        if pipeline.static_members:
            config["group.instance.id"] = pipeline.static_name
        self._consumer: Any = made_with(ck.Consumer, config, "consumer")
        self._consumer.subscribe(
            pipeline.input_topics,
            on_assign=lambda _, partitions: self._assigned(_plain(partitions)),
            on_revoke=lambda _, partitions: self._taken(_plain(partitions), lost=False),
            on_lost=lambda _, partitions: self._taken(_plain(partitions), lost=True),
        )

    # --- Member ---

    def _start(self, starts: Mapping[Partition, int]) -> None:
        offsets = [ck.TopicPartition(*at, offset) for at, offset in starts.items()]
        try:
            (self._consumer.incremental_assign if self._incremental else self._consumer.assign)(offsets)
        except ck.KafkaException as error:
            raise converted(error) from None

    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        return committed_marks(self._consumer, partitions, TRY_S)

    def _end(self, at: Partition) -> int:
        partition = ck.TopicPartition(*at)
        try:
            ends: tuple[int, int] = self._consumer.get_watermark_offsets(partition, timeout=TRY_S, cached=False)
        except ck.KafkaException as error:
            raise converted(error) from None
        return ends[1]

    def _take(self, taken: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        try:
            messages = self._consumer.consume(records_max, timeout_s)
        except (ck.KafkaException, RuntimeError) as error:
            failed = converted(error)
            if failed.kind == "retriable":
                return
            raise Failed("fatal", f"consume: {failed}") from None
        loads = orjson.loads
        for message in messages:
            if message.error() is not None:
                if message.error().fatal():
                    raise Failed("fatal", f"consume: {converted(message.error())}")
                continue
            at = (message.topic(), message.partition())
            value = loads(message.value())
            records = taken.get(at)
            if records is None:
                records = taken[at] = []
            records.append((message.offset(), value["id"], value["key"]))

    def _close(self, leave: bool) -> None:
        holder = [self._consumer]
        try:
            if leave:
                bounded(holder[0].close, CLOSE_TIMEOUT_S + COMMITTED_S, "close")
        finally:
            self._consumer = None
            destroy_beside(holder)

    # --- ports.Source ---

    def seek(self, positions: Mapping[Partition, int]) -> None:
        def seek_all() -> None:
            for at, offset in positions.items():
                self._consumer.seek(ck.TopicPartition(*at, offset))

        try:
            bounded(seek_all, STEP_S, "seek")
        except (ck.KafkaException, ClientError) as error:
            raise Failed("fatal", f"seek: {error}") from None

    def pause(self, partitions: Sequence[Partition]) -> None:
        with contextlib.suppress(ck.KafkaException):  # the partition may have been revoked since
            self._consumer.pause([ck.TopicPartition(*at) for at in partitions])

    def resume(self, partitions: Sequence[Partition]) -> None:
        with contextlib.suppress(ck.KafkaException):
            self._consumer.resume([ck.TopicPartition(*at) for at in partitions])

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        offsets = marked(marks)
        try:
            answer = bounded(
                lambda: self._consumer.commit(offsets=offsets, asynchronous=False),
                STEP_S,
                "commit of offsets",
            )
            found_errors = [partition.error for partition in answer or () if partition.error is not None]
        except ck.KafkaException as error:
            raise Failed("abort", f"commit of offsets: {converted(error)}") from None
        except ClientError as error:
            raise Failed("fatal", str(error)) from None
        if found_errors:
            raise Failed("abort", f"commit of offsets: {converted(found_errors[0])}")

    def group(self) -> bytes:
        """Returns this member's group metadata, to pass to `send_offsets_to_transaction`.

        With it the broker rejects the commit if this consumer is no longer a current member of the group (KIP-447).
        """
        try:
            metadata: bytes = self._consumer.consumer_group_metadata()
        except ck.KafkaException as error:
            raise Failed("fatal", f"group metadata: {converted(error)}") from None
        return metadata

    def generation(self) -> int | None:
        metadata = self.group()
        if not metadata.startswith(_MAGIC):
            return None
        number: int = _GENERATION.unpack_from(metadata, len(_MAGIC))[0]
        return number if number >= 0 else None
