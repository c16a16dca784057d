"""An extra member of the run's consumer group that repeatedly joins and leaves, so that the group rebalances.

The extra member subscribes to every topic of the run and is assigned a share of the partitions. It commits nothing, so
the next owners of its partitions start at the offsets that the group had committed before. It runs in a thread until it
is stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.clients.client_protocols import Library
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

JOIN_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.1
STOP_TIMEOUT_S: Final = 10.0  # less than the timeout of an admin request


class Storm:
    """The extra member, which joins and leaves the group once every `period_s` seconds.

    topics  is called before each join; returns topic -> number of partitions, for the topics to subscribe to
    joined  how often the extra member was assigned partitions
    shared  how often it was assigned only some of the partitions, because the group had other members
    errors  messages of the failures
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        topics: Callable[[], Mapping[str, int]],
        period_s: float,
    ) -> None:
        self._library, self._topics, self._period_s = library, topics, period_s
        self._settings = replace(settings, auto_commit=False)
        self._stop = threading.Event()
        self.joined, self.shared = 0, 0
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, name="storm", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, object]:
        """Leaves the group and ends the thread. Returns the same counts as `seen`. Safe to repeat."""
        self._stop.set()
        self._thread.join(STOP_TIMEOUT_S)
        return self.seen()

    def seen(self) -> dict[str, object]:
        """Returns {"joined": count, "shared": count, "errors": the last few messages, omitted if there are none}."""
        counts: dict[str, object] = {"joined": self.joined, "shared": self.shared}
        return counts | ({"errors": self.errors[-3:]} if self.errors else {})

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._visit(self._topics())
            except ClientError as error:
                self.errors.append(str(error))
            self._stop.wait(max(0.0, self._period_s - (time.monotonic() - began)))

    def _visit(self, topics: Mapping[str, int]) -> None:
        """Joins the group, waits until partitions are assigned, and leaves the group."""
        assigned_counts: list[int] = []

        def rebalanced(
            event: str, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int | None]
        ) -> None:
            if event == "assigned":
                assigned_counts.append(len(partitions))

        consumer = self._library.consumer(self._settings)
        try:
            consumer.subscribe(sorted(topics), rebalanced)
            deadline = time.monotonic() + JOIN_TIMEOUT_S
            while not assigned_counts and not self._stop.is_set() and time.monotonic() < deadline:
                consumer.poll(POLL_S, 1)
            if assigned_counts:
                self.joined += 1
                self.shared += assigned_counts[-1] < sum(topics.values())
        finally:
            consumer.close(leave=True)
