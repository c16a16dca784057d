"""The pipeline's library for confluent-kafka: writers, readers of whole logs, committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.call_timeout import bounded
from harness.clients.client_protocols import Admin
from harness.clients.confluent.adapter import Confluent, destroy_beside
from harness.clients.confluent.pipeline_sink import LINGER_MS, ConfluentSink
from harness.clients.confluent.pipeline_source import ConfluentSource, committed_marks, marked
from harness.clients.confluent.settings_and_errors import consumer_config, converted, made_with, producer_config
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.library import Row, Sent
from harness.pipeline_app.ports import Mark, Sink, Source
from harness.protocol.error_codes import ClientError, TopicPartition

PORTION: Final = 5_000
POLL_S: Final = 0.2
TRY_S: Final = 2.0


class ConfluentWriter:
    """`pipeline.library.Writer`, with the plan's acks, retries and idempotence. Never transactional."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        config = producer_config(pipeline.settings) | {"linger.ms": LINGER_MS}
        self._producer: Any = made_with(ck.Producer, config, "producer")

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        sent: list[Sent | None] = [None] * len(records)
        unreported = len(records)

        def reporter(at: int) -> Any:
            def report(error: Any, message: Any) -> None:
                nonlocal unreported
                unreported -= 1
                if error is not None:
                    sent[at] = Sent(None, converted(error))
                else:
                    offset = message.offset()
                    sent[at] = Sent(offset if offset is not None and offset >= 0 else None)

            return report

        for at, ((topic, partition), key, value) in enumerate(records):
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=reporter(at))
            except (ck.KafkaException, BufferError) as error:
                sent[at] = Sent(None, converted(error))
                unreported -= 1
        deadline = time.monotonic() + timeout_s
        while unreported and (left_s := deadline - time.monotonic()) > 0:
            try:
                self._producer.poll(min(left_s, POLL_S))
            except ck.KafkaException:
                break
        no_report = Sent(None, ClientError("_TIMED_OUT", f"no delivery report in {timeout_s:.1f} s"))
        return [delivery or no_report for delivery in sent]

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        deadline = time.monotonic() + timeout_s
        counts: dict[str, int] = {}
        for topic in topics:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                answer = self._producer.list_topics(topic, timeout=left_s).topics[topic]
            except ck.KafkaException as error:
                raise converted(error) from None
            if answer.error is not None:
                raise converted(answer.error)
            counts[topic] = len(answer.partitions)
        return counts

    def close(self) -> None:
        holder, self._producer = [self._producer], None
        destroy_beside(holder)


class ConfluentLogs:
    """`pipeline.library.Logs`. Each call of `read` uses a new consumer."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._pipeline = pipeline

    def read(
        self, ends: Mapping[TopicPartition, int], isolation: str, idle_s: float
    ) -> Iterator[tuple[TopicPartition, Row] | None]:
        settings = self._pipeline.settings
        config = consumer_config(settings) | {"isolation.level": isolation, "enable.auto.commit": False}
        config["group.id"] = f"{settings.run}-reading"
        for name in ("group.protocol", "partition.assignment.strategy"):
            config.pop(name, None)
        consumer: Any = made_with(ck.Consumer, config, "consumer")
        try:
            yield from _read_to_ends(consumer, {at: end for at, end in ends.items() if end > 0}, idle_s)
        finally:
            holder = [consumer]
            del consumer
            destroy_beside(holder)


def _read_to_ends(
    consumer: Any, ends: dict[TopicPartition, int], idle_s: float
) -> Iterator[tuple[TopicPartition, Row] | None]:
    """Yields records until the end of each partition is reached. Yields None whenever no record arrives for a moment.

    Transaction markers may follow the last record, so the position at the end comes from the end-of-partition event.
    Raises ClientError if no record arrives for `idle_s` seconds.
    """
    consumer.assign([ck.TopicPartition(*at, 0) for at in ends])
    last = time.monotonic()
    while ends:
        try:
            messages = consumer.consume(PORTION, POLL_S)
        except ck.KafkaException as error:
            raise converted(error) from None
        if messages:
            last = time.monotonic()
        elif time.monotonic() - last > idle_s:
            raise ClientError("_TIMED_OUT", f"no records in {idle_s:.0f} s; not read to the end: {sorted(ends)}")
        else:
            yield None
        for message in messages:
            at, offset = (message.topic(), message.partition()), message.offset()
            end = ends.get(at)
            if end is None:
                continue
            event = message.error()
            if event is None:
                if offset < end:
                    time_ms, headers = message.timestamp()[1], message.headers() or ()
                    yield at, Row(offset, time_ms, message.value() or b"", message.key(), headers)
                reached = offset + 1
            elif event.code() == ck.KafkaError._PARTITION_EOF:
                reached = offset
            else:
                continue
            if reached >= end:
                del ends[at]


class ConfluentPipeline:
    """`pipeline.library.PipelineLibrary` for confluent-kafka."""

    def source(self, pipeline: PipelineConfig) -> Source:
        return ConfluentSource(pipeline)

    def sink(self, pipeline: PipelineConfig) -> Sink:
        return ConfluentSink(pipeline)

    def writer(self, pipeline: PipelineConfig) -> ConfluentWriter:
        return ConfluentWriter(pipeline)

    def logs(self, pipeline: PipelineConfig) -> ConfluentLogs:
        return ConfluentLogs(pipeline)

    def admin(self, pipeline: PipelineConfig) -> Admin:
        admin: Admin = Confluent().admin(pipeline.settings)
        return admin

    def committed(
        self, pipeline: PipelineConfig, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Mark | None]:
        config = consumer_config(pipeline.settings) | {"isolation.level": "read_committed"}
        consumer: Any = made_with(ck.Consumer, config, "consumer")
        try:
            return committed_marks(consumer, partitions, timeout_s)
        finally:
            holder = [consumer]
            del consumer
            destroy_beside(holder)

    def commit(self, pipeline: PipelineConfig, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        holder: list[Any] = [made_with(ck.Consumer, consumer_config(pipeline.settings), "consumer")]
        offsets = marked(marks)
        try:
            answer = bounded(
                lambda: holder[0].commit(offsets=offsets, asynchronous=False), timeout_s, "commit of offsets"
            )
        except ck.KafkaException as error:
            raise converted(error) from None
        finally:
            destroy_beside(holder)
        error_of_partition = next((partition.error for partition in answer or () if partition.error is not None), None)
        if error_of_partition is not None:
            raise converted(error_of_partition)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


class BesideConfluent:
    """Base class for the `pipeline.library.PipelineLibrary` of a library other than confluent-kafka.

    Reads logs, handles committed offsets and makes admin requests with librdkafka. It does not use the
    properties that the user has set, because they are properties of the other library.
    """

    def __init__(self) -> None:
        self._confluent = ConfluentPipeline()

    def logs(self, pipeline: PipelineConfig) -> ConfluentLogs:
        return self._confluent.logs(_without_properties(pipeline))

    def admin(self, pipeline: PipelineConfig) -> Admin:
        return self._confluent.admin(_without_properties(pipeline))

    def committed(
        self, pipeline: PipelineConfig, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Mark | None]:
        return self._confluent.committed(_without_properties(pipeline), partitions, timeout_s)

    def commit(self, pipeline: PipelineConfig, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        self._confluent.commit(_without_properties(pipeline), marks, timeout_s)

    def sizes(self, pipeline: PipelineConfig, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Returns topic -> number of partitions. Raises ClientError."""
        admin = self.admin(pipeline)
        try:
            rows = admin.partitions(topics, timeout_s)
        finally:
            admin.close()
        return {topic: sum(row["topic"] == topic for row in rows) for topic in topics}


def _without_properties(pipeline: PipelineConfig) -> PipelineConfig:
    return replace(pipeline, settings=replace(pipeline.settings, producer_config={}, consumer_config={}))


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `pipeline.client.PipelineClient`."""
    from harness.clients.pipeline.client import PipelineClient
    from harness.clients.pipeline.config import parse_pipeline_config

    return PipelineClient(parse_pipeline_config(config), ConfluentPipeline())
