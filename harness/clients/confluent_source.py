"""The pipeline's source over confluent-kafka: a member of the group.

What librdkafka does where it matters here, read in its source (2.16) and seen on brokers:
- Rebalance callbacks come from within `consume`. What the same call had gathered before, of partitions that
  are assigned anew, it throws away (rd_kafka_purge_outdated_messages), so nothing of before comes after.
- The group's metadata is opaque to Python but has a layout: b"CGMDv2:", the generation as four bytes, group
  and member, each with a zero byte behind it, and a byte 1, or 0 and the static member's name.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck
import orjson

from harness.clients.api import ClientError
from harness.clients.bounded import bounded
from harness.clients.confluent import CLOSE_TIMEOUT_S, _dropped
from harness.clients.confluent_config import consumer_config, converted, made_with
from harness.clients.pipeline.config import Made
from harness.model.pipeline.ports import Failed, Mark, Partition, Rebalances, Record

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")
COMMITTED_S: Final = 8.0  # beyond the time-out of a killed instance's transaction, which holds offsets back
STEP_S: Final = 6.0  # for one request
TRY_S: Final = 2.0
ONE_POLL_S: Final = 3.0


def anonymous(group: str) -> bytes:
    """Metadata of nobody: the coordinator checks no generation then (KIP-447 keeps that for old clients)."""
    return _MAGIC + _GENERATION.pack(-1) + group.encode() + b"\0\0\1"


def marked(marks: Mapping[Partition, Mark]) -> list[Any]:
    return [
        ck.TopicPartition(topic, number, mark.offset, metadata=mark.state)
        for (topic, number), mark in marks.items()
    ]


def found_marks(answer: Sequence[Any]) -> dict[Partition, Mark | None]:
    """Raises ClientError for the first partition that was not answered."""
    found: dict[Partition, Mark | None] = {}
    for one in answer:
        if one.error is not None:
            raise converted(one.error)
        found[one.topic, one.partition] = Mark(one.offset, one.metadata or "") if one.offset >= 0 else None
    return found


class ConfluentSource:
    """`ports.Source`."""

    def __init__(self, made: Made) -> None:
        config = consumer_config(made.settings) | {
            "enable.auto.commit": made.options.mode == "auto-commit",
            "auto.commit.interval.ms": int(made.options.commit_s * 1000),
            "enable.partition.eof": False,
            # Only then are offsets waited for whose transaction has not ended (KIP-447).
            "isolation.level": "read_committed",
        }
        if made.static_members:
            config["group.instance.id"] = f"{made.settings.run}-{made.slot}"
        self._latest = made.settings.auto_offset_reset == "latest"
        self._incremental, self._one_poll = made.incremental, made.one_poll
        self._consumer: Any = made_with(ck.Consumer, config, "consumer")
        self._on: Rebalances | None = None
        self._failed: Failed | None = None
        self._revoked = self._closing = False
        self._gone: set[Partition] = set()  # since the last assignment
        self._given: list[Partition] = []  # by the last assignment, unless revoked
        self._consumer.subscribe(
            made.input_topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    # --- callbacks of the library, within `consume` and `close` ---

    def _told(self, call: Callable[[Rebalances], None]) -> None:
        """What goes wrong in a callback is kept for `poll` to raise: the library must go on."""
        if self._on is None or self._failed is not None:
            return
        try:
            call(self._on)
        except Failed as failed:
            self._failed = failed
        except ck.KafkaException as error:
            self._failed = Failed("fatal", f"rebalance: {converted(error)}")

    def _assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._revoked = False
        self._gone.clear()
        if self._closing:
            return
        if self._given and not self._incremental:
            # librdkafka: when the metadata of a topic changes within this callback, the member joins again
            # without a revocation. Others may have had the partitions meanwhile.
            given = self._given
            self._told(lambda on: on.revoked(given, True))
        self._given = [(p.topic, p.partition) for p in partitions]

        def assign(on: Rebalances) -> None:
            starts = on.assigned(self._committed(partitions))
            offsets = [ck.TopicPartition(*at, offset) for at, offset in starts.items()]
            (consumer.incremental_assign if self._incremental else consumer.assign)(offsets)

        self._told(assign)

    def _revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._taken(partitions, lost=False)

    def _lose(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._taken(partitions, lost=True)

    def _taken(self, partitions: Sequence[Any], lost: bool) -> None:
        gone = [(p.topic, p.partition) for p in partitions]
        self._revoked, self._given = True, []
        self._gone.update(gone)
        self._told(lambda on: on.revoked(gone, lost))

    def _committed(self, partitions: Sequence[Any]) -> dict[Partition, Mark | None]:
        deadline = time.monotonic() + COMMITTED_S
        if not partitions:
            return {}
        while True:
            try:
                marks = found_marks(self._consumer.committed(list(partitions), timeout=TRY_S))
                return {at: mark or self._reset(at) for at, mark in marks.items()}
            except (ck.KafkaException, ClientError) as error:
                if time.monotonic() > deadline:
                    failed = error if isinstance(error, ClientError) else converted(error)
                    raise Failed("fatal", f"committed offsets: {failed}") from None

    def _reset(self, at: Partition) -> Mark | None:
        """Where to begin without a committed offset: at the end as it is now, under `latest`."""
        if not self._latest:
            return None
        ends: tuple[int, int] = self._consumer.get_watermark_offsets(
            ck.TopicPartition(*at), timeout=TRY_S, cached=False
        )
        return Mark(ends[1])

    # --- ports.Source ---

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        self._on = on
        found: dict[Partition, list[Record]] = {}
        try:
            self._take(found, timeout_s, records_max)
            if self._one_poll and self._revoked:
                until = time.monotonic() + ONE_POLL_S
                while self._revoked and self._failed is None and time.monotonic() < until:
                    for at in self._gone:  # they may come back, and are then read again
                        found.pop(at, None)
                    self._take(found, timeout_s, records_max)
        finally:
            self._on = None
        if self._failed is not None:
            raise self._failed
        return found

    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
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
            records = found.get(at)
            if records is None:
                records = found[at] = []
            records.append((message.offset(), value["id"], value["key"]))

    def seek(self, positions: Mapping[Partition, int]) -> None:
        def seek_all() -> None:
            for at, offset in positions.items():
                self._consumer.seek(ck.TopicPartition(*at, offset))

        try:
            bounded(seek_all, STEP_S, "seek")
        except (ck.KafkaException, ClientError) as error:
            raise Failed("fatal", f"seek: {error}") from None

    def pause(self, partitions: Sequence[Partition]) -> None:
        with contextlib.suppress(ck.KafkaException):  # gone meanwhile: nothing to pause
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
            found_errors = [one.error for one in answer or () if one.error is not None]
        except ck.KafkaException as error:
            raise Failed("abort", f"commit of offsets: {converted(error)}") from None
        except ClientError as error:
            raise Failed("fatal", str(error)) from None
        if found_errors:
            raise Failed("abort", f"commit of offsets: {converted(found_errors[0])}")

    def group(self) -> bytes:
        """What fences this member's commits in transactions (KIP-447)."""
        metadata: bytes = self._consumer.consumer_group_metadata()
        return metadata

    def generation(self) -> int | None:
        metadata = self.group()
        if not metadata.startswith(_MAGIC):
            return None
        number: int = _GENERATION.unpack_from(metadata, len(_MAGIC))[0]
        return number if number >= 0 else None

    def close(self, leave: bool, on: Rebalances) -> None:
        holder = [self._consumer]
        self._on = on if leave else None
        self._closing = True
        try:
            if leave:
                bounded(holder[0].close, CLOSE_TIMEOUT_S + COMMITTED_S, "leaving the group")
        except ClientError as error:
            raise Failed("fatal", str(error)) from None
        finally:
            self._on, self._consumer = None, None
            _dropped(holder)
        if self._failed is not None:
            raise self._failed
