"""The code that the pipeline sources of all libraries share. It reports rebalances to the instance during a poll."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.clients.pipeline.config import PipelineConfig
from harness.pipeline_app.ports import Failed, Mark, Partition, Rebalances, Record
from harness.protocol.error_codes import ClientError

COMMITTED_S: Final = 8.0  # longer than the timeout of a killed instance's transaction, whose offsets are pending
PAUSE_S: Final = 0.05  # between two attempts
ONE_POLL_S: Final = 3.0


class Member(ABC):
    """Implements `pipeline_app.ports.Source`, except for the abstract methods, which each library implements.

    The library's rebalance callbacks call `_assigned` and `_taken`. The callbacks run within `_take` and `close`.
    """

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._latest = pipeline.settings.auto_offset_reset == "latest"
        self._incremental, self._one_poll = pipeline.incremental, pipeline.one_poll
        self._on: Rebalances | None = None
        self._failed: Failed | None = None
        self._revoked = self._closing = False
        self._gone: set[Partition] = set()  # revoked or lost since the last assignment
        self._given: list[Partition] = []  # assigned last, unless revoked since

    # --- implemented by each library ---

    @abstractmethod
    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        """Polls once, and adds the polled records to `found`. Raises Failed."""

    @abstractmethod
    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        """Returns partition -> committed offset with its metadata (None: nothing committed).

        Waits only briefly for brokers. Raises ClientError.
        """

    @abstractmethod
    def _end(self, at: Partition) -> int:
        """Returns the current end offset of a partition. Raises ClientError."""

    @abstractmethod
    def _start(self, starts: Mapping[Partition, int]) -> None:
        """Starts reading newly assigned partitions at these offsets. Raises ClientError."""

    @abstractmethod
    def _close(self, leave: bool) -> None:
        """Closes the consumer. If `leave` is true, it leaves the group first. Raises ClientError."""

    # --- called by the library's callbacks, within a poll or `close` ---

    def _notify(self, call: Callable[[Rebalances], None]) -> None:
        """Makes a call to the instance. If it fails, stores the error for `poll` to raise: callbacks must not raise."""
        if self._on is None or self._failed is not None:
            return
        try:
            call(self._on)
        except Failed as failed:
            self._failed = failed
        except ClientError as error:
            self._failed = Failed("fatal", f"rebalance: {error}")

    def _assigned(self, partitions: list[Partition]) -> None:
        self._revoked = False
        self._gone.clear()
        if self._closing:
            return
        if self._given and not self._incremental:
            # If a topic's metadata changes within this callback, librdkafka rejoins without a revocation.
            # Other members may have owned the partitions in the meantime.
            given = self._given
            self._notify(lambda on: on.revoked(given, True))
        self._given = partitions
        self._notify(lambda on: self._start(on.assigned(self._committed(partitions))))

    def _taken(self, partitions: list[Partition], lost: bool) -> None:
        self._revoked, self._given = True, []
        self._gone.update(partitions)
        self._notify(lambda on: on.revoked(partitions, lost))

    def _committed(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        deadline = time.monotonic() + COMMITTED_S
        if not partitions:
            return {}
        while True:
            try:
                return {at: mark or self._reset(at) for at, mark in self._marks(partitions).items()}
            except ClientError as error:
                if error.kind == "fatal" or time.monotonic() > deadline:
                    raise Failed("fatal", f"committed offsets: {error}") from None
                time.sleep(PAUSE_S)

    def _reset(self, at: Partition) -> Mark | None:
        """Returns where to start reading a partition that has no committed offset.

        If auto.offset.reset is latest, this is the current end of the partition. Otherwise returns None, for the
        beginning.
        """
        return Mark(self._end(at)) if self._latest else None

    # --- ports.Source ---

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        self._on = on
        found: dict[Partition, list[Record]] = {}
        try:
            self._take(found, timeout_s, records_max)
            if self._one_poll and self._revoked:
                until = time.monotonic() + ONE_POLL_S
                while self._revoked and self._failed is None and time.monotonic() < until:
                    for at in self._gone:  # if they are assigned again, their records are read again
                        found.pop(at, None)
                    self._take(found, timeout_s, records_max)
        finally:
            self._on = None
        if self._failed is not None:
            raise self._failed
        return found

    def close(self, leave: bool, on: Rebalances) -> None:
        self._on = on if leave else None
        self._closing = True
        try:
            self._close(leave)
        except ClientError as error:
            raise Failed("fatal", f"leaving the group: {error}") from None
        finally:
            self._on = None
        if self._failed is not None:
            raise self._failed
