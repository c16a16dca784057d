"""The pipeline's sink for client programs: a producer, transactional or not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.clients.client_protocols import Delivery
from harness.clients.exec.adapter import Exec
from harness.clients.exec.pipeline_source import ExecSource
from harness.clients.exec.producer import ExecProducer
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.library import Sent
from harness.clients.pipeline.output_records import Outgoing, output_rows
from harness.clients.pipeline.transaction import step
from harness.pipeline_app.ports import Failed, Mark, Output, Partition, Source
from harness.protocol.error_codes import ClientError


def sent(producer: ExecProducer, rows: Sequence[Outgoing], timeout_s: float) -> list[Sent]:
    """Sends records, and waits for all answers. Returns the outcome of each record."""
    begun: list[Delivery | ClientError] = []
    deadline = time.monotonic() + timeout_s
    for topic, partition, key, value in rows:
        try:
            begun.append(producer.send((topic, partition), value, key))
        except ClientError as error:
            begun.append(error)
    deliveries = [delivery for delivery in begun if isinstance(delivery, Delivery)]
    try:
        producer.wait(deliveries, max(0.0, deadline - time.monotonic()))
    except ClientError as error:
        late = error
    return [
        Sent(None, delivery)
        if isinstance(delivery, ClientError)
        else Sent(delivery.offset, delivery.error if delivery.done else late)
        for delivery in begun
    ]


class ExecSink:
    """`pipeline_app.ports.Sink` for a client program.

    A transactional producer is opened immediately, to fence older producers with the same transactional id.
    """

    def __init__(self, program: Exec, pipeline: PipelineConfig) -> None:
        self._program, self._pipeline = program, pipeline
        self._producer = self._open()

    def _open(self) -> ExecProducer:
        pipeline = self._pipeline
        transactional = pipeline.options.transactional
        settings = replace(
            pipeline.settings,
            txn=transactional,
            acks="all",
            idempotence=True,
            retries=None,
            transactional_id=pipeline.transactional_id,
        )
        try:
            producer = self._program.producer(settings)
        except ClientError as error:
            raise Failed("fatal", f"producer: {error}") from None
        if transactional:
            step(producer.init, "init_transactions")
        return producer

    def begin(self) -> None:
        step(lambda _: self._producer.begin(), "begin")

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        self.send_rows(output_rows(self._pipeline, outputs, generation))

    def send_rows(self, rows: Sequence[Outgoing]) -> None:
        """Sends records, and waits until all are acknowledged."""
        deliveries = sent(self._producer, rows, self._pipeline.settings.patience_s)
        errors = [delivery.error for delivery in deliveries if delivery.error is not None]
        if errors:
            fatal = any(error.kind == "fatal" or error.code == "_TIMED_OUT" for error in errors)
            raise Failed("fatal" if fatal else "abort", f"send: {errors[0]}")

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        assert isinstance(source, ExecSource)
        if marks:
            offsets, consumer = {at: mark.offset for at, mark in marks.items()}, source.consumer()
            step(lambda left_s: self._producer.send_offsets(offsets, consumer, left_s), "send_offsets")

    def commit(self) -> None:
        step(self._producer.commit, "commit")

    def abort(self) -> None:
        step(self._producer.abort, "abort", "fatal")

    def reopen(self) -> None:
        self.close()
        self._producer = self._open()

    def close(self) -> None:
        self._producer.close()
