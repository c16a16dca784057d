"""The pipeline's sink for confluent-kafka: a producer, transactional or not.

`send_offsets_to_transaction` may block forever: see `adapter`. If it does, `bounded` abandons the call and the
producer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.call_timeout import bounded
from harness.clients.confluent.adapter import GRACE_S, destroy_beside
from harness.clients.confluent.pipeline_source import ConfluentSource, anonymous, marked
from harness.clients.confluent.settings_and_errors import converted, made_with, producer_config
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.output_records import Outgoing, output_rows
from harness.clients.pipeline.transaction import STEP_S, step
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Failed, Kind, Mark, Output, Partition, Source

LINGER_MS: Final = 5


def _refused(error: Any) -> Failed:
    """Returns the Failed to raise for a send that librdkafka refused with `error`.

    Its kind is "fatal" if the producer is no longer usable (for example, it was fenced), otherwise "abort".
    """
    failed = converted(error)
    return Failed("fatal" if failed.kind == "fatal" else "abort", f"send: {failed}")


def _step(producer: Any, name: str, *args: Any, abortable: Kind = "abort") -> None:
    def once(left_s: float) -> None:
        try:
            bounded(partial(getattr(producer, name), *args, left_s), left_s + GRACE_S, name)
        except ck.KafkaException as error:
            raise converted(error) from None

    step(once, name, abortable)


class ConfluentSink:
    """`pipeline_app.ports.Sink`, implemented with `confluent_kafka.Producer`.

    A transactional producer is opened immediately, to fence older producers with the same transactional id.
    """

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._pipeline, self._transactional = pipeline, pipeline.options.transactional
        self._anonymous = pipeline.options.mistake == mistakes.NOT_FENCED
        self._errors: list[Any] = []
        self._unreported = 0
        self._producer: Any = self._open()

    def _open(self) -> Any:
        pipeline = self._pipeline
        settings = pipeline.settings
        config = producer_config(settings)
        config |= {"linger.ms": LINGER_MS, "acks": "all", "enable.idempotence": True}
        if self._transactional:
            config["transactional.id"] = pipeline.transactional_id
            config["transaction.timeout.ms"] = int(settings.transaction_timeout_s * 1000)
            config["message.timeout.ms"] = min(config["message.timeout.ms"], int(settings.transaction_timeout_s * 1000))
        producer = made_with(ck.Producer, config, "producer")
        if self._transactional:
            _step(producer, "init_transactions")
        return producer

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except ck.KafkaException as error:
            failed = converted(error)
            raise Failed("abort" if failed.kind == "abortable" else "fatal", f"begin: {failed}") from None

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        self.send_rows(output_rows(self._pipeline, outputs, generation))

    def send_rows(self, rows: Sequence[Outgoing]) -> None:
        """Sends records. Without transactions, also waits until all of them are acknowledged."""
        self._errors = []
        produce = self._producer.produce
        report = None if self._transactional else self._report
        for topic, partition, key, value in rows:
            try:
                produce(topic, value, key, partition, on_delivery=report)
            except BufferError:
                self._producer.poll(STEP_S)
                self._retry_send(topic, value, key, partition, report)
            except ck.KafkaException as error:
                raise _refused(error) from None
            self._unreported += 1
        if self._transactional:
            self._producer.poll(0)
            self._unreported = 0
            return
        deadline = time.monotonic() + self._pipeline.settings.patience_s
        while self._unreported and time.monotonic() < deadline:
            self._producer.poll(0.05)
        if self._unreported or self._errors:
            why = converted(self._errors[0]) if self._errors else "no delivery report in time"
            raise Failed("fatal" if self._unreported else "abort", f"send: {why}")

    def _retry_send(self, topic: str, value: bytes, key: bytes, partition: int, report: Any) -> None:
        try:
            self._producer.produce(topic, value, key, partition, on_delivery=report)
        except (BufferError, ck.KafkaException) as error:
            raise _refused(error) from None

    def _report(self, error: Any, message: Any) -> None:
        self._unreported -= 1
        if error is not None:
            self._errors.append(error)

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        assert isinstance(source, ConfluentSource)
        group = source.group()
        if self._anonymous:
            group = anonymous(self._pipeline.settings.group_id)
        if marks:
            _step(self._producer, "send_offsets_to_transaction", marked(marks), group)

    def commit(self) -> None:
        _step(self._producer, "commit_transaction")

    def abort(self) -> None:
        _step(self._producer, "abort_transaction", abortable="fatal")

    def reopen(self) -> None:
        self.close()
        self._producer = self._open()

    def close(self) -> None:
        holder, self._producer = [self._producer], None
        destroy_beside(holder)
