"""The pipeline's sink for Kafka's Java client: a producer, transactional or not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.clients.java.jvm import Machine
from harness.clients.java.pipeline_source import JavaSource
from harness.clients.java.producer import JavaProducer
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.output_records import Outgoing
from harness.clients.pipeline.producer_sink import ProducerSink
from harness.clients.pipeline.transaction import step
from harness.clients.settings import Settings
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Failed, Mark, Partition, Source
from harness.protocol.error_codes import ClientError

LINGER_MS: Final = 5


def opened(machine: Machine, settings: Settings) -> JavaProducer:
    """Opens a producer. Its linger time is LINGER_MS, unless the user has set another. Raises ClientError."""
    config = {"linger.ms": LINGER_MS, **settings.producer_config}
    return JavaProducer(machine, replace(settings, producer_config=config))


class JavaSink(ProducerSink[JavaProducer]):
    """`pipeline_app.ports.Sink`, implemented with KafkaProducer."""

    def __init__(self, machine: Machine, pipeline: PipelineConfig) -> None:
        self._machine = machine
        super().__init__(pipeline)

    def _opened(self, settings: Settings) -> JavaProducer:
        config = {**settings.producer_config, "acks": "all", "enable.idempotence": "true"}
        return opened(self._machine, replace(settings, producer_config=config))

    def send_rows(self, rows: Sequence[Outgoing]) -> None:
        """Sends records. Without transactions, also flushes, and raises Failed if a send has failed.

        After the flush, every send has ended: an application that commits offsets next relies on this promise.
        """
        deadline = time.monotonic() + self._pipeline.settings.patience_s
        futures = self._post(rows, deadline)
        if self._pipeline.options.transactional:
            return  # the commit waits for all records, and fails if a send has failed
        try:
            self._producer.flush(max(0.0, deadline - time.monotonic()))
            for future in futures:
                self._producer.raise_failed(future)
        except ClientError as error:
            fatal = error.kind == "fatal" or error.code == "_TIMED_OUT"
            raise Failed("fatal" if fatal else "abort", f"send: {error}") from None

    def _post(self, rows: Sequence[Outgoing], deadline: float) -> list[Any]:
        """Sends records, without waiting for them. Returns Java's futures."""
        futures: list[Any] = []
        for topic, partition, key, value in rows:
            if time.monotonic() > deadline:
                raise Failed("abort", "send: took longer than an op may take")
            try:
                futures.append(self._producer.post((topic, partition), value, key))
            except ClientError as error:
                raise Failed("fatal" if error.kind == "fatal" else "abort", f"send: {error}") from None
        return futures

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        assert isinstance(source, JavaSource)
        if not marks:
            return
        try:
            offsets = source.marked(marks)
            if self._pipeline.options.mistake == mistakes.NOT_FENCED:
                group = self._machine.group_without_member(self._pipeline.settings.group_id)
            else:
                group = source.group()
        except ClientError as error:
            raise Failed("fatal", f"group metadata: {error}") from None
        step(lambda _: self._producer.offsets_of(offsets, group), "sendOffsetsToTransaction")
