"""A member that tests whether the run's consumer group settles, and one of a new group, for comparison.

Both members subscribe to every topic of the run, at the same time and with the same settings, and poll all the time.
They commit nothing. If the member of the new group is assigned partitions, then the brokers, the machine and the client
library are fit to serve the run's group, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.clients.client_protocols import Admin, Library
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

CLIENT_ID: Final = "group-probe"
POLL_S: Final = 0.1
STOP_TIMEOUT_S: Final = 8.0  # less than the timeout of an admin request
MEMBERS_MAX: Final = 16


class _Member:
    """A member that polls in a thread until it is stopped.

    assigned_s  seconds until it was assigned partitions; None while it has none
    errors      messages of the failures
    """

    def __init__(self, library: Library, settings: Settings, topics: Sequence[str]) -> None:
        self._library, self._settings, self._topics = library, settings, topics
        self._stop = threading.Event()
        self._began = time.monotonic()
        self.assigned_s: float | None = None
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, name=settings.group_id, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self, within_s: float) -> None:
        self._thread.join(within_s)

    def _run(self) -> None:
        try:
            consumer = self._library.consumer(self._settings)
        except ClientError as error:
            self.errors.append(str(error))
            return
        try:
            consumer.subscribe(self._topics, self._rebalanced)
            while not self._stop.is_set():
                self.errors += [str(error) for error in consumer.poll(POLL_S, 1).errors]
        except ClientError as error:
            self.errors.append(str(error))
        finally:
            consumer.close(leave=True)

    def _rebalanced(
        self, event: str, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int | None]
    ) -> None:
        if event == "assigned":
            self.assigned_s = time.monotonic() - self._began
        else:
            self.assigned_s = None


class GroupProbe:
    """The two members. They join when the object is made, and leave when `stop` is called."""

    def __init__(self, library: Library, admin: Admin, settings: Settings, topics: Sequence[str]) -> None:
        own = {**settings.consumer_config, "client.id": CLIENT_ID}
        settings = replace(settings, auto_commit=False, consumer_config=own)
        self._admin, self._group = admin, settings.group_id
        new = replace(settings, group=f"{settings.group_id}-new")
        self._members = [_Member(library, each, topics) for each in (settings, new)]

    def look(self, timeout_s: float) -> dict[str, Any]:
        """Returns {"group", "state", "others", "assigned_s", "new_assigned_s", "errors"}.

        state           the state of the run's group, as its coordinator reports it; UNKNOWN if it does not
        others          [client id, host] of each member of the group that is not the probe
        assigned_s      after how long the member of the run's group was assigned partitions; None if it has none
        new_assigned_s  the same for the member of the new group
        errors          the last few errors of the member of the run's group
        """
        try:
            seen = self._admin.group(self._group, timeout_s)
        except ClientError as error:
            seen = {"state": f"UNKNOWN ({error})", "members": []}
        own, new = self._members
        return {
            "group": self._group,
            "state": seen["state"],
            "others": [member for member in seen["members"] if member[0] != CLIENT_ID][:MEMBERS_MAX],
            "assigned_s": own.assigned_s,
            "new_assigned_s": new.assigned_s,
            "errors": own.errors[-3:],
        }

    def stop(self) -> None:
        """Makes both members leave their groups. Safe to repeat."""
        for member in self._members:
            member.stop()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for member in self._members:
            member.join(max(0.0, deadline - time.monotonic()))
