"""A consumer of aiokafka: see `harness.clients.aiokafka.adapter`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from harness.clients.aiokafka import settings_and_errors
from harness.clients.aiokafka.calls import block_s, check_options, result_of, started
from harness.clients.aiokafka.group import Listener
from harness.clients.aiokafka.loop import Loop
from harness.clients.client_protocols import BEGINNING, END, Batch, Rebalanced, Record
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError
from harness.protocol.error_codes import TopicPartition as Partition

T = TypeVar("T")

POSITION_TIMEOUT_S: Final = 0.05
CLOSE_TIMEOUT_S: Final = 5.0


async def _vanish_consumer(consumer: Any) -> None:
    consumer._closed = True  # instead of `stop`, which would leave the group
    await consumer._client.close()


class AiokafkaConsumer:
    """`client_protocols.Consumer`, implemented with AIOKafkaConsumer."""

    def __init__(self, settings: Settings) -> None:
        self._config = settings_and_errors.consumer(settings)
        self.group_id = settings.group_id
        self._block_s = block_s(settings)
        self._loop = Loop("aiokafka-consumer")
        check_options(self._loop, AIOKafkaConsumer, self._config, "consumer")
        self._consumer: Any = None
        self._listener: Listener | None = None
        self._rebalanced: Rebalanced | None = None
        self._next: dict[Any, int] = {}  # offset behind the last returned record

    def _call(self, make: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
        return result_of(self._loop, make, timeout_s, what)

    async def _ready(self) -> Any:
        if self._consumer is None:
            self._consumer = await started(lambda: AIOKafkaConsumer(**self._config), _vanish_consumer)
        return self._consumer

    def assign(self, positions: Mapping[Partition, int]) -> None:
        async def assign() -> None:
            consumer = await self._ready()
            consumer.assign([TopicPartition(*each) for each in positions])
            await self._seek(positions)

        self._call(assign, self._block_s, "assign")

    async def _seek(self, positions: Mapping[Partition, int]) -> None:
        """Seeks assigned partitions to the given offsets.

        All absolute offsets are set before the first await, because a fetch could otherwise start at an old offset.
        """
        assigned = self._consumer.assignment()  # revoked partitions are skipped: their position is the group's
        offsets = {at: offset for each, offset in positions.items() if (at := TopicPartition(*each)) in assigned}
        self._next = {each: at for each, at in self._next.items() if each not in offsets}
        for each, offset in offsets.items():
            if offset >= 0:
                self._consumer.seek(each, offset)
                self._next[each] = offset
        for logical, seek in ((BEGINNING, "seek_to_beginning"), (END, "seek_to_end")):
            unresolved = [each for each, offset in offsets.items() if offset == logical]
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
                reported = {TopicPartition(*each) for each in partitions}
                self._next = {each: at for each, at in self._next.items() if each not in reported}
                self._rebalanced(event, partitions, committed)
        return self._call(lambda: self._poll(timeout_s, records_max), timeout_s + self._block_s, "poll")

    async def _poll(self, timeout_s: float, records_max: int) -> Batch:
        if self._consumer is None:
            raise ClientError("_STATE", "no partitions are assigned, because the cluster was not reached", "fatal")
        try:
            # During a rebalance, getmany blocks until its end, without a limit.
            polled = await asyncio.wait_for(
                self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=records_max),
                timeout_s + POSITION_TIMEOUT_S,
            )
        except TimeoutError:
            polled = {}
        except Exception as raised:
            # It may have dropped records of other partitions: seek back, so that they are returned again.
            readable, error = self._readable(), settings_and_errors.converted(raised)
            for each in readable & self._next.keys():
                self._consumer.seek(each, self._next[each])
            kind = error.kind if readable <= self._next.keys() else "fatal"
            raise ClientError(error.code, error.text, kind) from None
        records = []
        for each, taken in polled.items():
            records += [Record(r.topic, r.partition, r.offset, r.value) for r in taken]
            self._next[each] = taken[-1].offset + 1
        return Batch(records, {} if records else await self._positions())

    async def _positions(self) -> dict[Partition, int]:
        """Returns partition -> position, for the assigned partitions whose position is known.

        A position at the end of a partition is already past any transaction markers.
        """
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
        """Raises an abortable ClientError if one of the partitions has been revoked since the last poll."""
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
