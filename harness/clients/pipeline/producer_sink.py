"""The parts of the pipeline workload that need only a producer: sinks and writers.

They are for the libraries whose producers implement `client_protocols.Transactions`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from harness.clients.client_protocols import Delivery, Transactions
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.library import Sent
from harness.clients.pipeline.output_records import Outgoing, output_rows
from harness.clients.pipeline.transaction import step
from harness.clients.settings import Settings
from harness.pipeline_app.ports import Failed, Mark, Output, Partition, Source
from harness.protocol.error_codes import ClientError, TopicPartition


class KeyedProducer(Transactions, Protocol):
    """A producer whose records can have keys."""

    def send(self, partition: TopicPartition, payload: bytes, key: bytes | None = None) -> Delivery: ...


P = TypeVar("P", bound=KeyedProducer)


def sent(producer: KeyedProducer, rows: Sequence[Outgoing], timeout_s: float) -> list[Sent]:
    """Sends records, and waits for all delivery reports. Returns the outcome of each record."""
    late = ClientError("_TIMED_OUT", f"not sent in {timeout_s:.1f} s")
    deadline = time.monotonic() + timeout_s
    # Each send may block while it waits for metadata.
    begun = [_begun(producer, row) if time.monotonic() < deadline else late for row in rows]
    return [_ended(producer, delivery, max(0.0, deadline - time.monotonic())) for delivery in begun]


def _begun(producer: KeyedProducer, row: Outgoing) -> Delivery | ClientError:
    topic, partition, key, value = row
    try:
        return producer.send((topic, partition), value, key)
    except ClientError as error:
        return error


def _ended(producer: KeyedProducer, begun: Delivery | ClientError, left_s: float) -> Sent:
    if isinstance(begun, ClientError):
        return Sent(None, begun)
    try:
        producer.wait([begun], left_s)
    except ClientError as error:
        return Sent(None, error)
    return Sent(begun.offset, begun.error)


class ProducerWriter:
    """`pipeline.library.Writer`.

    producer  opened with the plan's acks, retries and idempotence; never transactional
    sizes     called as the method `sizes`
    """

    def __init__(self, producer: KeyedProducer, sizes: Callable[[Sequence[str], float], dict[str, int]]) -> None:
        self._producer, self._sizes = producer, sizes

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        rows = [(topic, partition, key, value) for (topic, partition), key, value in records]
        return sent(self._producer, rows, timeout_s)

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        return self._sizes(topics, timeout_s)

    def close(self) -> None:
        self._producer.close()


class ProducerSink(ABC, Generic[P]):
    """`pipeline_app.ports.Sink`, except for the abstract methods, which each library implements.

    A transactional producer is opened immediately, to fence older producers with the same transactional id.
    """

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._pipeline = pipeline
        self._producer: P = self._open()

    @abstractmethod
    def _opened(self, settings: Settings) -> P:
        """Returns a new producer. Raises ClientError."""

    @abstractmethod
    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        """Adds the offsets to the transaction."""

    def _open(self) -> P:
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
            producer = self._opened(settings)
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

    def commit(self) -> None:
        step(self._producer.commit, "commit")

    def abort(self) -> None:
        step(self._producer.abort, "abort", "fatal")

    def reopen(self) -> None:
        self.close()
        self._producer = self._open()

    def close(self) -> None:
        self._producer.close()
