"""Reports aiokafka's rebalances in the results of polls. aiokafka itself rebalances at any time, also between polls.

A revocation delays the rebalance for up to `HANDOVER_S`, until a poll has reported the revocation, so that records
polled earlier can still be committed. Newly assigned partitions stay paused until a poll has reported the assignment.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka.abc import ConsumerRebalanceListener

from harness.protocol.error_codes import TopicPartition

HANDOVER_S: Final = 3.0  # less than the group's rebalance timeout
COMMITTED_TIMEOUT_S: Final = 1.0

Event = tuple[str, list[TopicPartition], Mapping[TopicPartition, int | None]]
"""(assigned | revoked, the partitions, partition -> committed offset for which the coordinator answered)."""


def _plain(partitions: Iterable[Any]) -> list[TopicPartition]:
    return sorted((each.topic, each.partition) for each in partitions)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka requires its base class
    """Collects rebalance events. Only `revoked` may be called outside the consumer's event loop.

    unreported  assigned partitions whose assignment no poll has reported yet
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._events: list[Event] = []
        self._taken = asyncio.Event()
        self._lock = threading.Lock()
        self._closing = False
        self.unreported: set[Any] = set()
        self._to_report: set[Any] = set()

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        revoked_partitions = list(revoked)
        if not revoked_partitions or self._closing:
            return
        self._taken.clear()
        self.unreported -= set(revoked_partitions)
        self._to_report -= set(revoked_partitions)
        with self._lock:
            self._events.append(("revoked", _plain(revoked_partitions), {}))
        try:
            await asyncio.wait_for(self._taken.wait(), HANDOVER_S)
        except TimeoutError:
            return  # the next poll reports it

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        assigned_now = list(assigned)
        if not assigned_now:
            return
        self._consumer.pause(*assigned_now)
        self.unreported = set(assigned_now)
        committed = await self._committed(assigned_now)
        with self._lock:
            self._events.append(("assigned", _plain(assigned_now), committed))
        self._to_report = set(assigned_now)

    async def _committed(self, partitions: list[Any]) -> dict[TopicPartition, int | None]:
        requests = {each: asyncio.ensure_future(self._consumer.committed(each)) for each in partitions}
        done, waiting = await asyncio.wait(requests.values(), timeout=COMMITTED_TIMEOUT_S)
        for task in waiting:
            task.cancel()
        return {
            (each.topic, each.partition): task.result()
            for each, task in requests.items()
            if task in done and task.exception() is None
        }

    async def take(self) -> list[Event]:
        """Returns the events since this method was last called, and resumes the partitions that these events assign."""
        with self._lock:
            events, self._events = self._events, []
        reported, self._to_report = self._to_report & self._consumer.assignment(), set()
        self.unreported -= reported
        if reported:
            self._consumer.resume(*reported)
        self._taken.set()
        return events

    def release(self) -> None:
        """Stops delaying rebalances. Called before the consumer leaves the group."""
        self._closing = True
        self._taken.set()

    def revoked(self, partitions: Iterable[TopicPartition]) -> bool:
        """Returns whether one of the partitions has been revoked and no poll has reported the revocation yet.

        Thread-safe.
        """
        with self._lock:
            revoked_partitions = {each for event, lost, _ in self._events if event == "revoked" for each in lost}
        return bool(revoked_partitions & set(partitions))
