"""A stranger in the run's consumer group, who joins and leaves over and over: each time the group rebalances.

It subscribes to every topic of the run, is given its share of the partitions, and commits nothing, so that
those who come after it begin where the group stood. It goes on in a thread of its own, until it is stopped.
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
STOP_TIMEOUT_S: Final = 10.0  # less than an administrator's request may take


class Storm:
    """joined: how often it was given partitions; shared: how often others kept some; errors: what failed.

    `topics` names the topics to join for, and how many partitions they have, anew before each time.
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
        """Leave for good; as `seen`. Safe to repeat."""
        self._stop.set()
        self._thread.join(STOP_TIMEOUT_S)
        return self.seen()

    def seen(self) -> dict[str, object]:
        """{"joined", "shared", "errors": the last few, if any}."""
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
        """Join, stay until partitions are assigned, leave."""
        given: list[int] = []

        def rebalanced(
            event: str, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int | None]
        ) -> None:
            if event == "assigned":
                given.append(len(partitions))

        consumer = self._library.consumer(self._settings)
        try:
            consumer.subscribe(sorted(topics), rebalanced)
            deadline = time.monotonic() + JOIN_TIMEOUT_S
            while not given and not self._stop.is_set() and time.monotonic() < deadline:
                consumer.poll(POLL_S, 1)
            if given:
                self.joined += 1
                self.shared += given[-1] < sum(topics.values())
        finally:
            consumer.close(leave=True)
