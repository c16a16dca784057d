"""A producer of Kafka's Java client: see `harness.clients.java.adapter`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.clients.call_timeout import bounded
from harness.clients.client_protocols import Consumer, Delivery
from harness.clients.java import settings_and_errors
from harness.clients.java.consumer import CLOSE_TIMEOUT_S, GRACE_S, JavaConsumer
from harness.clients.java.jvm import Machine
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition


class JavaProducer:
    """`client_protocols.Transactions`, implemented with KafkaProducer."""

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self._machine, self._futures = machine, {}  # type: tuple[Machine, dict[int, Any]]
        try:
            self._producer = machine.KafkaProducer(machine.properties(settings_and_errors.producer(settings)))
        except Exception as raised:
            raise machine.converted(raised) from None

    def send(self, partition: TopicPartition, payload: bytes, key: bytes | None = None) -> Delivery:
        delivery = Delivery()
        self._futures[id(delivery)] = self.post(partition, payload, key)
        return delivery

    def post(self, partition: TopicPartition, payload: bytes, key: bytes | None = None) -> Any:
        """Sends a record, and returns Java's future.

        In a transaction the future need not be awaited, because the commit fails if a send has failed.
        """
        try:
            return self._producer.send(self._machine.ProducerRecord(partition[0], partition[1], key, payload))
        except Exception as raised:
            raise self._machine.converted(raised) from None

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for delivery in deliveries:
            future = self._futures.pop(id(delivery), None)
            if future is None or delivery.done:
                continue
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            try:
                metadata = future.get(left_ms, self._machine.TimeUnit.MILLISECONDS)
            except Exception as raised:
                error = self._machine.converted(raised)
                if error.code == "_TimeoutException":  # of the future, not of the client
                    raise ClientError("_TIMED_OUT", f"no delivery report in {timeout_s:.1f} s") from None
                delivery.error = error
            else:
                offset = int(metadata.offset())
                delivery.offset = offset if offset >= 0 else None
            delivery.done = True

    def flush(self, timeout_s: float) -> None:
        """Waits until every earlier send has ended, as KafkaProducer.flush promises. Raises ClientError."""
        self._within(self._producer.flush, timeout_s, "flush")

    def raise_failed(self, future: Any) -> None:
        """Raises ClientError if a send has failed. `future` is Java's future of the send; it need not have ended."""
        try:
            if future.isDone():
                future.get()
        except Exception as raised:
            raise self._machine.converted(raised) from None

    def _within(self, call: Callable[[], Any], timeout_s: float, what: str) -> None:
        """Makes a transactional call, and gives it up if it takes too long. `what` names it, for the error message.

        The client itself limits calls to `max.block.ms`, but does not always keep this limit.
        """
        try:
            bounded(call, max(timeout_s, settings_and_errors.MAX_BLOCK_MS / 1000) + GRACE_S, what)
        except ClientError:
            raise
        except Exception as raised:
            raise self._machine.converted(raised) from None

    def init(self, timeout_s: float) -> None:
        self._within(self._producer.initTransactions, timeout_s, "initTransactions")

    def begin(self) -> None:
        self._within(self._producer.beginTransaction, 0.0, "beginTransaction")

    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        assert isinstance(consumer, JavaConsumer)
        self.offsets_of(consumer.offsets(positions), consumer.group(), timeout_s)

    def offsets_of(self, offsets: Any, group: Any, timeout_s: float = 0.0) -> None:
        """Adds consumer offsets to the transaction.

        offsets  Java map of partition -> offset
        group    the consumer's group metadata, a Java object
        """
        self._within(lambda: self._producer.sendOffsetsToTransaction(offsets, group), timeout_s, "send offsets")

    def commit(self, timeout_s: float) -> None:
        self._within(self._producer.commitTransaction, timeout_s, "commitTransaction")

    def abort(self, timeout_s: float) -> None:
        self._within(self._producer.abortTransaction, timeout_s, "abortTransaction")

    def close(self) -> None:
        try:
            bounded(lambda: self._producer.close(self._machine.millis(0)), CLOSE_TIMEOUT_S, "close")
        except Exception:
            self._machine.kill()
