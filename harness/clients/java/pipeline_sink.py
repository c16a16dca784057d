"""The pipeline's sink for Kafka's Java client: a producer, transactional or not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.clients.client_protocols import Delivery
from harness.clients.java.jvm import Machine
from harness.clients.java.pipeline_source import JavaSource
from harness.clients.java.producer import JavaProducer
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.library import Sent
from harness.clients.pipeline.output_records import Outgoing, output_rows
from harness.clients.pipeline.transaction import step
from harness.clients.settings import Settings
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Failed, Mark, Output, Partition, Source
from harness.protocol.error_codes import ClientError

LINGER_MS: Final = 5


def opened(machine: Machine, settings: Settings) -> JavaProducer:
    """Opens a producer. Its linger time is LINGER_MS, unless the user has set another. Raises ClientError."""
    config = {"linger.ms": LINGER_MS, **settings.producer_config}
    return JavaProducer(machine, replace(settings, producer_config=config))


def sent(producer: JavaProducer, rows: Sequence[Outgoing], timeout_s: float) -> list[Sent]:
    """Sends records, and waits for all delivery reports. Returns the outcome of each record."""
    late = ClientError("_TIMED_OUT", f"not sent in {timeout_s:.1f} s")
    deadline = time.monotonic() + timeout_s
    # Each send may block while it waits for metadata.
    begun = [_begun(producer, row) if time.monotonic() < deadline else late for row in rows]
    return [_ended(producer, delivery, max(0.0, deadline - time.monotonic())) for delivery in begun]


def _begun(producer: JavaProducer, row: Outgoing) -> Delivery | ClientError:
    topic, partition, key, value = row
    try:
        return producer.send((topic, partition), value, key)
    except ClientError as error:
        return error


def _ended(producer: JavaProducer, begun: Delivery | ClientError, left_s: float) -> Sent:
    if isinstance(begun, ClientError):
        return Sent(None, begun)
    try:
        producer.wait([begun], left_s)
    except ClientError as error:
        return Sent(None, error)
    return Sent(begun.offset, begun.error)


class JavaSink:
    """`pipeline_app.ports.Sink`, implemented with KafkaProducer.

    A transactional producer is opened immediately, to fence older producers with the same transactional id.
    """

    def __init__(self, machine: Machine, pipeline: PipelineConfig) -> None:
        self._machine, self._pipeline = machine, pipeline
        self._producer = self._open()

    def _open(self) -> JavaProducer:
        pipeline = self._pipeline
        transactional = pipeline.options.transactional
        settings = replace(
            pipeline.settings,
            txn=transactional,
            acks="all",
            idempotence=True,
            retries=None,
            transactional_id=pipeline.transactional_id,
            producer_config={**pipeline.settings.producer_config, "acks": "all", "enable.idempotence": "true"},
        )
        try:
            producer = opened(self._machine, settings)
        except ClientError as error:
            raise Failed("fatal", f"producer: {error}") from None
        if transactional:
            step(producer.init, "initTransactions")
        return producer

    def begin(self) -> None:
        step(lambda _: self._producer.begin(), "beginTransaction")

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        self.send_rows(output_rows(self._pipeline, outputs, generation))

    def send_rows(self, rows: Sequence[Outgoing]) -> None:
        """Sends records. Without transactions, also waits until all of them are acknowledged."""
        if self._pipeline.options.transactional:
            self._post(rows)
            return
        deliveries = sent(self._producer, rows, self._pipeline.settings.patience_s)
        errors = [delivery.error for delivery in deliveries if delivery.error is not None]
        if errors:
            fatal = any(error.kind == "fatal" or error.code == "_TIMED_OUT" for error in errors)
            raise Failed("fatal" if fatal else "abort", f"send: {errors[0]}")

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

    def commit(self) -> None:
        step(self._producer.commit, "commitTransaction")

    def abort(self) -> None:
        step(self._producer.abort, "abortTransaction", "fatal")

    def reopen(self) -> None:
        self.close()
        self._producer = self._open()

    def close(self) -> None:
        self._producer.close()
