"""A member of the group, whatever its library: rebalances that come within a poll, told to the instance."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.clients.pipeline.config import Made
from harness.pipeline_app.ports import Failed, Mark, Partition, Rebalances, Record
from harness.protocol.error_codes import ClientError

COMMITTED_S: Final = 8.0  # beyond the time-out of a killed instance's transaction, which holds offsets back
PAUSE_S: Final = 0.05  # between two tries
ONE_POLL_S: Final = 3.0


class Member(ABC):
    """`ports.Source` but for what each library does in its own way.

    A library's rebalance callbacks call `_assigned` and `_taken`; they come from within `_take` and `close`.
    """

    def __init__(self, made: Made) -> None:
        self._latest = made.settings.auto_offset_reset == "latest"
        self._incremental, self._one_poll = made.incremental, made.one_poll
        self._on: Rebalances | None = None
        self._failed: Failed | None = None
        self._revoked = self._closing = False
        self._gone: set[Partition] = set()  # since the last assignment
        self._given: list[Partition] = []  # by the last assignment, unless revoked

    # --- what a library fills in ---

    @abstractmethod
    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        """Poll once, and put what came into `found`. Raises Failed."""

    @abstractmethod
    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        """What the group has committed, asked for a short while. Raises ClientError."""

    @abstractmethod
    def _end(self, at: Partition) -> int:
        """Where a partition ends now. Raises ClientError."""

    @abstractmethod
    def _start(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions, which have just been assigned, from there on. Raises ClientError."""

    # --- callbacks of the library, within a poll or the close ---

    def _notify(self, call: Callable[[Rebalances], None]) -> None:
        """What goes wrong in a callback is kept for `poll` to raise: the library must go on."""
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
            # librdkafka: when the metadata of a topic changes within this callback, the member joins again
            # without a revocation. Others may have had the partitions meanwhile.
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
        """Where to begin without a committed offset: at the end as it is now, under `latest`."""
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
                    for at in self._gone:  # they may come back, and are then read again
                        found.pop(at, None)
                    self._take(found, timeout_s, records_max)
        finally:
            self._on = None
        if self._failed is not None:
            raise self._failed
        return found
