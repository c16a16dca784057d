"""Adapter for aiokafka, a client in Python on asyncio. Every producer and consumer has a loop of its own.

How aiokafka behaves where it matters here, read in its source (0.14) and seen on brokers:
- It has no count of retries. Without idempotence a send is given up after `request_timeout_ms`, and only
  between tries; with it, never: what a call waits for is bounded here.
- One request at a time goes to each broker, so sends of a partition keep their order without idempotence too.
- What failed for good leaves a hole in the sequence numbers of an idempotent producer, and nothing fills it:
  such a producer is given up.
- Groups rebalance beside the calls, not within `poll` as with other libraries: see `aiokafka_group`.
- Offsets go to a transaction without the member's generation (TxnOffsetCommit, version 0; KIP-447 added it),
  and committed offsets are asked for without waiting for pending transactions: a consumer that has lost its
  partitions without knowing is not fenced. One that knows does not commit them.
- `stop` flushes and leaves the group. To vanish as a crashed process would, all tasks are cancelled and the
  connections closed.
- Administration and metadata are librdkafka's, as for every client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from harness.clients.aiokafka import config as aiokafka_config
from harness.clients.aiokafka.group import Listener
from harness.clients.aiokafka.loop import Loop
from harness.clients.api import BEGINNING, END, Batch, Consumer, Delivery, Rebalanced, Record
from harness.clients.settings import Settings, settings
from harness.model.errors import BadInput
from harness.protocol.errors import ClientError
from harness.protocol.errors import TopicPartition as Partition

T = TypeVar("T")

TRY_TIMEOUT_S: Final = 3.0
START_PAUSE_S: Final = 0.1
BLOCK_TIMEOUT_S: Final = 3.0  # to find the cluster, know the topic and have room, as Java's max.block.ms
POSITION_TIMEOUT_S: Final = 0.05
CLOSE_TIMEOUT_S: Final = 5.0


async def _started(make: Callable[[], Any], vanish: Callable[[Any], Awaitable[object]]) -> Any:
    """A producer or consumer that has found the cluster; tries until it is cancelled."""
    while True:
        made = make()
        try:
            await made.start()
            return made
        except BaseException as error:
            with contextlib.suppress(Exception):
                await vanish(made)
            if not (isinstance(error, KafkaError) and error.retriable):
                raise
        await asyncio.sleep(START_PAUSE_S)


def _block_s(made: Settings) -> float:
    """How long a call may block that has no time-out of its own; less than its op may take."""
    return min(BLOCK_TIMEOUT_S, made.patience_s / 2)


async def _nothing() -> None:
    """No connections to close."""


def _tried(loop: Loop, kind: Any, config: Mapping[str, Any], what: str) -> None:
    """Raises BadInput when the library does not take these options."""

    async def make() -> None:
        kind(**config)._closed = True  # it has not been started

    try:
        loop.call(make, TRY_TIMEOUT_S, what)
    except (ValueError, TypeError, RuntimeError) as error:
        loop.end(_nothing)
        raise BadInput(f"{what} settings: {error}; see --{what}-config") from None


async def _vanish_producer(producer: Any) -> None:
    producer._closed = True  # `stop` would flush, and not doing it would be told at length
    await producer.client.close()


async def _vanish_consumer(consumer: Any) -> None:
    consumer._closed = True  # `stop` would leave the group
    await consumer._client.close()


def _result_of(loop: Loop, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """What a coroutine gives; the library's errors as ours. Raises ClientError."""
    try:
        return loop.call(make, timeout_s, what)
    except ClientError:
        raise
    except Exception as raised:
        raise aiokafka_config.converted(raised) from None


class AiokafkaProducer:
    """`api.Transactions` over AIOKafkaProducer."""

    def __init__(self, made: Settings) -> None:
        self._config = aiokafka_config.producer(made)
        self._loop = Loop("aiokafka-producer")
        _tried(self._loop, AIOKafkaProducer, self._config, "producer")
        self._block_s = _block_s(made)
        self._idempotent = made.idempotence or made.txn
        self._producer: Any = None
        self._reported = threading.Condition()
        self._hole = False

    def _call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        return _result_of(self._loop, make, timeout_s, what)

    async def _ready(self) -> Any:
        if self._producer is None:
            self._producer = await _started(lambda: AIOKafkaProducer(**self._config), _vanish_producer)
        return self._producer

    def send(self, partition: Partition, payload: bytes) -> Delivery:
        delivery = Delivery()

        def report(future: asyncio.Future[Any]) -> None:
            with self._reported:
                if future.cancelled():
                    delivery.error = ClientError("_DESTROY", "the producer was closed")
                elif (error := future.exception()) is not None:
                    found = aiokafka_config.converted(error)
                    self._hole = self._hole or self._idempotent
                    delivery.error = ClientError(found.code, found.text, "fatal" if self._hole else found.kind)
                else:
                    # None with acks=0; below 0 where a duplicate is answered as a success.
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
            raise ClientError("_STATE", "sequence numbers of a failed send are missing for good", "fatal")
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


class AiokafkaConsumer:
    """`api.Consumer` over AIOKafkaConsumer."""

    def __init__(self, made: Settings) -> None:
        self._config = aiokafka_config.consumer(made)
        self.group_id = made.group_id
        self._block_s = _block_s(made)
        self._loop = Loop("aiokafka-consumer")
        _tried(self._loop, AIOKafkaConsumer, self._config, "consumer")
        self._consumer: Any = None
        self._listener: Listener | None = None
        self._rebalanced: Rebalanced | None = None
        self._next: dict[Any, int] = {}  # behind what was handed over

    def _call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        return _result_of(self._loop, make, timeout_s, what)

    async def _ready(self) -> Any:
        if self._consumer is None:
            self._consumer = await _started(lambda: AIOKafkaConsumer(**self._config), _vanish_consumer)
        return self._consumer

    def assign(self, positions: Mapping[Partition, int]) -> None:
        async def assign() -> None:
            consumer = await self._ready()
            consumer.assign([TopicPartition(*each) for each in positions])
            await self._seek(positions)

        self._call(assign, self._block_s, "assign")

    async def _seek(self, positions: Mapping[Partition, int]) -> None:
        """Where each is known before anything waits, so that no fetch begins elsewhere meanwhile."""
        assigned = self._consumer.assignment()  # a partition that was revoked begins where the group says
        found = {at: offset for each, offset in positions.items() if (at := TopicPartition(*each)) in assigned}
        self._next = {each: at for each, at in self._next.items() if each not in found}
        for each, offset in found.items():
            if offset >= 0:
                self._consumer.seek(each, offset)
                self._next[each] = offset
        for logical, seek in ((BEGINNING, "seek_to_beginning"), (END, "seek_to_end")):
            unresolved = [each for each, offset in found.items() if offset == logical]
            if unresolved:
                await getattr(self._consumer, seek)(*unresolved)

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        async def subscribe() -> None:
            consumer = await self._ready()
            self._listener = self._listener or Listener(consumer)
            consumer.subscribe(list(topics), listener=self._listener)

        self._rebalanced = rebalanced
        self._call(subscribe, self._block_s, "subscribe")

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        if self._listener is not None and self._rebalanced is not None:
            events = self._call(self._listener.take, self._block_s, "rebalance")
            for event, partitions, committed in events:
                gone = {TopicPartition(*each) for each in partitions}
                self._next = {each: at for each, at in self._next.items() if each not in gone}
                self._rebalanced(event, partitions, committed)
        return self._call(lambda: self._poll(timeout_s, records_max), timeout_s + self._block_s, "poll")

    async def _poll(self, timeout_s: float, records_max: int) -> Batch:
        if self._consumer is None:
            raise ClientError("_STATE", "nothing is assigned: the cluster was not found", "fatal")
        try:
            # While the group rebalances, getmany waits for its end, however long.
            found = await asyncio.wait_for(
                self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=records_max),
                timeout_s + POSITION_TIMEOUT_S,
            )
        except TimeoutError:
            found = {}
        except Exception as raised:
            # It may have taken records of other partitions before: they are to be handed over again.
            readable, error = self._readable(), aiokafka_config.converted(raised)
            for each in readable & self._next.keys():
                self._consumer.seek(each, self._next[each])
            kind = error.kind if readable <= self._next.keys() else "fatal"
            raise ClientError(error.code, error.text, kind) from None
        records = []
        for each, taken in found.items():
            records += [Record(r.topic, r.partition, r.offset, r.value) for r in taken]
            self._next[each] = taken[-1].offset + 1
        return Batch(records, {} if records else await self._positions())

    async def _positions(self) -> dict[Partition, int]:
        """Where partitions stand, beyond markers; without those where that is not known yet."""
        requests = {each: asyncio.ensure_future(self._consumer.position(each)) for each in self._readable()}
        if not requests:
            return {}
        done, waiting = await asyncio.wait(requests.values(), timeout=POSITION_TIMEOUT_S)
        for task in waiting:
            task.cancel()
        known = {each: task for each, task in requests.items() if task in done and task.exception() is None}
        self._next |= {each: task.result() for each, task in known.items()}
        return {(each.topic, each.partition): task.result() for each, task in known.items()}

    def _readable(self) -> set[Any]:
        assigned = self._consumer.assignment()
        return assigned - self._listener.unreported if self._listener is not None else set(assigned)

    def check_assigned(self, positions: Mapping[Partition, int]) -> None:
        """Raises ClientError, after which the transaction may be aborted, for partitions that are lost."""
        if self._listener is not None and self._listener.revoked(positions):
            raise ClientError("_ASSIGNMENT_LOST", "partitions have been revoked since the poll", "abortable")

    def seek(self, positions: Mapping[Partition, int], timeout_s: float) -> None:
        self._call(lambda: self._seek(positions), timeout_s, "seek")

    def commit(self, positions: Mapping[Partition, int], timeout_s: float) -> None:
        self.check_assigned(positions)
        offsets = {TopicPartition(*each): offset for each, offset in positions.items()}
        self._call(lambda: self._consumer.commit(offsets), timeout_s, "commit of offsets")

    def close(self, leave: bool) -> None:
        consumer = self._consumer
        try:
            if leave and consumer is not None:
                if self._listener is not None:
                    self._listener.release()
                self._call(consumer.stop, CLOSE_TIMEOUT_S, "leaving the group")
        finally:

            async def vanish() -> None:
                if consumer is not None:
                    await _vanish_consumer(consumer)

            self._loop.end(vanish)


class Aiokafka:
    """`api.Library`."""

    def __init__(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # its errors are raised as well

    def producer(self, made: Settings) -> AiokafkaProducer:
        return AiokafkaProducer(made)

    def consumer(self, made: Settings) -> AiokafkaConsumer:
        return AiokafkaConsumer(made)

    def admin(self, made: Settings) -> Any:
        from harness.clients.confluent.library import Confluent

        return Confluent().admin(made)


def problem(config: Mapping[str, Any]) -> str:
    """What it has against the settings, or "": see `table.PROBLEMS`."""
    library, made = Aiokafka(), settings(config)
    try:
        library.producer(made).close()
        library.consumer(made).close(leave=False)
    except BadInput as error:
        return str(error)
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """A client of one process (`queue.QueueClient`)."""
    from harness.clients.queue import QueueClient

    return QueueClient(settings(config), Aiokafka())
