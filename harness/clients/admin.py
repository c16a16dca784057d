"""The admin role: what the harness asks of the cluster, as JSON requests through a worker process.

Each public method is a request by its name; arguments and values are plain JSON data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.clients.api import Admin, Library
from harness.clients.settings import Settings
from harness.model.errors import BadInput


class AdminRole:
    """Answers for one run: where no topics are named, the run's are meant."""

    def __init__(self, admin: Admin, settings: Settings, library: Library) -> None:
        self._admin, self._settings, self._library = admin, settings, library

    def problem(self) -> str:
        """What the harness or the library has against the run's client settings, as a sentence that names
        the first; empty when there is nothing. Asks no broker."""
        try:
            self._library.producer(self._settings).close()
            self._library.consumer(self._settings).close(leave=False)
        except BadInput as error:
            return str(error)
        return ""

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int | None = None,
        replication: int = 3,
        config: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> list[str]:
        """Make the topics that do not exist, and wait for leaders everywhere. Names of those made."""
        count = partitions or self._settings.partitions_per_topic
        return self._admin.create_topics(names, count, replication, config or {}, timeout_s)

    def leaders(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """[topic, partition, broker id or None] of every partition of the run."""
        return [[row["topic"], row["partition"], row["leader"]] for row in self.partitions(timeout_s)]

    def partitions(self, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        """{"topic", "partition", "leader", "isr"} of every partition of the run."""
        of_run = self._settings.key
        return [row for row in self._admin.partitions(None, timeout_s) if of_run(row["topic"], 0) is not None]

    def controller(self, timeout_s: float = 5.0) -> int | None:
        """The broker that metadata names as controller. In KRaft mode that is any live broker (KIP-590):
        it accepts administration, and says nothing about the quorum's leader."""
        controller: int | None = self._admin.cluster(timeout_s)["controller"]
        return controller

    def brokers(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """[id, "host:port"] of every registered broker."""
        return [[number, at] for number, at in sorted(self._admin.cluster(timeout_s)["brokers"].items())]

    def list_offsets(
        self, keys: Sequence[int], isolation_level: str | None = None, timeout_s: float = 5.0
    ) -> list[list[int]]:
        """[key, log start, end] of each key; the end is the last stable offset under read_committed."""
        made = self._settings
        partitions = {made.partition(key): key for key in keys}
        found = self._admin.offsets(list(partitions), isolation_level or made.isolation_level, timeout_s)
        return [[partitions[partition], start, end] for partition, (start, end) in found.items()]

    def keys(self, timeout_s: float = 5.0) -> list[int]:
        """Every key that has a partition, ascending."""
        rows = self.partitions(timeout_s)
        found = [self._settings.key(row["topic"], row["partition"]) for row in rows]
        return sorted(key for key in found if key is not None)

    def delete_records(self, before: Sequence[Sequence[int]], timeout_s: float = 10.0) -> list[list[int]]:
        """[key, offset] of each: delete what is below. [key, where its log begins now]."""
        partitions = {self._settings.partition(key): (key, offset) for key, offset in before}
        asked = {partition: offset for partition, (_, offset) in partitions.items()}
        found = self._admin.delete_records(asked, timeout_s)
        return [[partitions[partition][0], start] for partition, start in found.items()]
