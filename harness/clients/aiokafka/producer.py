"""A producer of aiokafka: see `harness.clients.aiokafka.adapter`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer, TopicPartition

from harness.clients.aiokafka import settings_and_errors
from harness.clients.aiokafka.calls import block_s, check_options, result_of, started
from harness.clients.aiokafka.consumer import AiokafkaConsumer
from harness.clients.aiokafka.loop import Loop
from harness.clients.client_protocols import Consumer, Delivery
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError
from harness.protocol.error_codes import TopicPartition as Partition

T = TypeVar("T")


async def _vanish_producer(producer: Any) -> None:
    producer._closed = True  # `stop` would flush, and aiokafka warns about a producer that is not closed
    await producer.client.close()


class AiokafkaProducer:
    """`client_protocols.Transactions`, implemented with AIOKafkaProducer."""

    def __init__(self, settings: Settings) -> None:
        self._config = settings_and_errors.producer(settings)
        self._loop = Loop("aiokafka-producer")
        check_options(self._loop, AIOKafkaProducer, self._config, "producer")
        self._block_s = block_s(settings)
        self._idempotent = settings.idempotence or settings.txn
        self._producer: Any = None
        self._reported = threading.Condition()
        self._hole = False

    def _call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        return result_of(self._loop, make, timeout_s, what)

    async def _ready(self) -> Any:
        if self._producer is None:
            self._producer = await started(lambda: AIOKafkaProducer(**self._config), _vanish_producer)
        return self._producer

    def send(self, partition: Partition, payload: bytes) -> Delivery:
        delivery = Delivery()

        def report(future: asyncio.Future[Any]) -> None:
            with self._reported:
                if future.cancelled():
                    delivery.error = ClientError("_DESTROY", "the producer was closed")
                elif (error := future.exception()) is not None:
                    client_error = settings_and_errors.converted(error)
                    self._hole = self._hole or self._idempotent
                    delivery.error = ClientError(
                        client_error.code, client_error.text, "fatal" if self._hole else client_error.kind
                    )
                else:
                    # There is none with acks=0; it is negative if a duplicate was acknowledged.
                    metadata = future.result()
                    delivery.offset = metadata.offset if metadata is not None and metadata.offset >= 0 else None
                delivery.done = True
                self._reported.notify_all()

        async def send() -> None:
            producer = await self._ready()
            if partition[1] not in await producer.partitions_for(partition[0]):
                raise ClientError("_UNKNOWN_PARTITION", f"{partition[0]} has no partition {partition[1]}")
            future = await producer.send(partition[0], payload, partition=partition[1])
            future.add_done_callback(report)

        self._call(send, self._block_s, "send")
        return delivery

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._reported:
            while not all(delivery.done for delivery in deliveries):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ClientError("_TIMED_OUT", f"no delivery report in {timeout_s:.1f} s")
                self._reported.wait(left_s)

    def init(self, timeout_s: float) -> None:
        self._call(self._ready, timeout_s, "init of transactions")

    def begin(self) -> None:
        if self._hole:
            raise ClientError("_STATE", "a failed send left a gap in the sequence numbers", "fatal")
        self._call(self._producer.begin_transaction, self._block_s, "begin of transaction")

    def send_offsets(self, positions: Mapping[Partition, int], consumer: Consumer, timeout_s: float) -> None:
        assert isinstance(consumer, AiokafkaConsumer)
        consumer.check_assigned(positions)
        offsets = {TopicPartition(*each): offset for each, offset in positions.items()}
        group = consumer.group_id
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, group), timeout_s, "send of offsets")

    def commit(self, timeout_s: float) -> None:
        self._call(self._producer.commit_transaction, timeout_s, "commit of transaction")

    def abort(self, timeout_s: float) -> None:
        self._call(self._producer.abort_transaction, timeout_s, "abort of transaction")

    def close(self) -> None:
        async def vanish() -> None:
            if self._producer is not None:
                await _vanish_producer(self._producer)

        self._loop.end(vanish)
