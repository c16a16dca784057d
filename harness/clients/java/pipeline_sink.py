"""The pipeline's sink for Kafka's Java client: a producer, transactional or not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

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
        """Sends records. Without transactions, also waits until all of them are acknowledged."""
        if self._pipeline.options.transactional:
            self._post(rows)
        else:
            super().send_rows(rows)

    def _post(self, rows: Sequence[Outgoing]) -> None:
        """Sends records in a transaction, without waiting for them.

        The transaction's commit waits for all records, and fails if a send has failed.
        """
        deadline = time.monotonic() + self._pipeline.settings.patience_s
        for topic, partition, key, value in rows:
            if time.monotonic() > deadline:
                raise Failed("abort", "send: took longer than an op may take")
            try:
                self._producer.post((topic, partition), value, key)
            except ClientError as error:
                raise Failed("fatal" if error.kind == "fatal" else "abort", f"send: {error}") from None

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
