"""The client of one process of the share workload: a sender, a member of a share group, or a reader of the logs.

    share-poll         polls as a member of the group; joins it if the process has no consumer
    share-acknowledge  acknowledges records: [[key, offset, accept | release | reject | renew], ...]
    share-close        leaves the group
    share-offsets      asks the group's coordinator for its start offsets, and for how many partitions it reads
    share-dead-letters lists the records in the group's dead letter queue (KIP-1191)
    share-recreate     deletes the run's topics and creates them again: [[key, end offset], ...] of the deleted logs
    share-sizes        asks how many partitions each topic has; the producer then learns of new partitions
    others             those of the queue workload: `harness.clients.queue`

A poll or an acknowledgement that fails as a whole is `info`: the broker may have delivered records, or taken the
acknowledgements. The consumer is then dropped, and a new process replaces the client's process.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from harness.clients import payload
from harness.clients.client_protocols import Admin
from harness.clients.error_outcomes import describe
from harness.clients.queue import QueueClient
from harness.clients.settings import Settings
from harness.clients.share.library import Place, ShareConsumer, ShareLibrary
from harness.model.op import FAIL, INFO, OK, Op
from harness.protocol import admin_requests, share_groups
from harness.protocol.error_codes import ClientError

ADMIN_S: Final = 3.0
SPARE_S: Final = 0.5  # an acknowledgement ends this much before the op's own limit


class ShareClient:
    """The client of one process. Not thread-safe. After an `info` completion, only `close` may be called."""

    def __init__(
        self,
        settings: Settings,
        library: ShareLibrary,
        options: Mapping[str, Any],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """options: {"topics": number of topics, "acknowledgement": implicit or explicit}

        For topics that are created again, the options contain "partitions_max" (see `Settings`).
        """
        settings = replace(settings, partitions_max=options.get("partitions_max"))
        self._settings, self._library, self._ended_with = settings, library, ended
        self._topics = [f"{settings.run}-{number}" for number in range(int(options["topics"]))]
        self._acknowledgement = options["acknowledgement"]
        self._queue = QueueClient(settings, library)
        self._member: ShareConsumer | None = None
        self._admin: Admin | None = None
        self._sizes: dict[str, int] = {}
        self._renewed: set[Place] = set()
        self.broken = False
        self._handlers: Mapping[str, Callable[[Op], Op]] = {
            "share-poll": self._poll,
            "share-acknowledge": self._acknowledge,
            "share-close": self._close,
            "share-offsets": self._offsets,
            "share-dead-letters": self._dead_letters,
            "share-sizes": self._count_partitions,
            "share-recreate": self._recreate,
            "crash": self._crash,
        }

    def invoke(self, op: Op) -> Op:
        """Returns the completion of `op`."""
        if self.broken:
            return op.with_(type=FAIL, error="broken: an earlier op of this client was indeterminate; open a new one")
        self._move_to(int(op.extra.get("incarnation", 0)))
        done = self._handlers.get(op.f, self._queue.invoke)(op)
        self.broken = done.type == INFO
        return done

    def _move_to(self, incarnation: int) -> None:
        """Replaces the producer and the reader if the topics have been created again since they were opened."""
        if incarnation == self._settings.incarnation:
            return
        self._queue.close()
        self._settings = replace(self._settings, incarnation=incarnation)
        self._queue = QueueClient(self._settings, self._library)

    # --- the member ---

    def _poll(self, op: Op) -> Op:
        try:
            if self._member is None:
                group = f"{self._settings.run}-{op.extra['group']}"
                self._renewed.clear()
                self._member = self._library.share_consumer(self._settings, group, self._topics, self._acknowledgement)
            polled = self._member.poll(self._settings.poll_ms / 1000)
        except ClientError as error:
            return self._lost(op, "poll", error)
        rows: dict[str, list[list[Any]]] = {"records": [], "renewed": []}
        for each in polled.records:
            key = self._key_of_record(each.place, each.value)
            row = [key, each.place.offset, payload.decode(each.value, self._settings.run, key), each.deliveries]
            rows["renewed" if each.place in self._renewed else "records"].append(row)
        self._renewed -= {each.place for each in polled.records}
        value: dict[str, Any] = {name: found for name, found in rows.items() if found or name == "records"}
        if polled.acknowledged:
            value["acknowledged"] = [
                [self._key(place), place.offset, "accept", error]
                for place, error in sorted(polled.acknowledged.items())
            ]
        extra = {**op.extra, "notes": list(polled.errors)} if polled.errors else op.extra
        return op.with_(type=OK, value=value, extra=extra)

    def _key(self, place: Place) -> int:
        key = self._settings.key(place.topic, place.partition)
        return -1 if key is None else key

    def _key_of_record(self, place: Place, value: bytes | None) -> int:
        """Returns the key of a record: the one that it names, if this is a key of its partition."""
        named = payload.key_of(value) if self._settings.partitions_max else None
        if named is not None and named >= 0 and self._settings.partition(named) == (place.topic, place.partition):
            return named
        return self._key(place)

    def _acknowledge(self, op: Op) -> Op:
        if self._member is None:
            return op.with_(type=FAIL, error="unknown: this process has no share consumer, so it has no records")
        kinds = {Place(*self._settings.partition(key), offset): kind for key, offset, kind in op.value}
        try:
            results = self._member.acknowledge(kinds, self._settings.patience_s - SPARE_S)
        except ClientError as error:
            return self._lost(op, "commit-offsets", error)
        self._renewed |= {place for place, kind in kinds.items() if kind == "renew" and results[place] is None}
        value = [[*row, results[place]] for row, place in zip(op.value, kinds, strict=True)]
        return op.with_(type=OK, value=value)

    def _lost(self, op: Op, situation: Any, error: ClientError) -> Op:
        """Drops the consumer after an error. Returns the op as `info`."""
        self._drop()
        return op.with_(type=INFO, error=describe(situation, error))

    def _drop(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.drop()

    def _close(self, op: Op) -> Op:
        member, self._member = self._member, None
        if member is not None:
            try:
                member.close()
            except ClientError as error:
                return op.with_(type=INFO, error=describe("commit-offsets", error))
        return op.with_(type=OK)

    def _crash(self, op: Op) -> Op:
        self._drop()
        self._queue.crash()
        return op.with_(type=INFO)

    # --- requests to the cluster ---

    def _ask(self) -> Admin:
        if self._admin is None:
            self._admin = self._library.admin(self._settings)
        return self._admin

    def _offsets(self, op: Op) -> Op:
        group, failed = f"{self._settings.run}-{op.extra['group']}", "no broker answered"
        try:
            brokers = self._ask().cluster(ADMIN_S)["brokers"]
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))
        for address in brokers.values():
            try:
                code, starts = share_groups.start_offsets(
                    admin_requests.ask(address, share_groups.request(group), ADMIN_S)
                )
            except (OSError, ValueError) as error:
                failed = f"{address}: {error}"
                continue
            if code == 0:
                keys = {self._settings.key(*at): start for at, start in starts.items()}
                value = {str(key): at for key, at in keys.items() if key is not None and at is not None}
                return op.with_(type=OK, value=value, extra={**op.extra, "partitions": len(starts)})
            failed = f"{address}: error code {code}"
        return op.with_(type=FAIL, error=f"admin: {failed}")

    def _dead_letters(self, op: Op) -> Op:
        topic = share_groups.dead_letter_topic(f"{self._settings.run}-{op.extra['group']}")
        try:
            places = self._library.dead_letters(self._settings, topic, self._settings.patience_s - SPARE_S)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("poll", error))
        return op.with_(type=OK, value=[[self._key(place), place.offset] for place in places])

    def _recreate(self, op: Op) -> Op:
        """Deletes the topics and creates them again, with as many partitions and replicas and the same min ISR.

        The completion is `info`, with the ends of the deleted logs, if the topics may have been deleted.
        """
        deadline = time.monotonic() + self._settings.patience_s - SPARE_S
        names = ("min.insync.replicas",)
        try:
            admin = self._ask()
            rows = admin.partitions(self._topics, ADMIN_S)
            ends = admin.offsets([(row["topic"], row["partition"]) for row in rows], "read_uncommitted", ADMIN_S)
            config = admin.configs(self._topics, names, ADMIN_S)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))
        gone = [[self._settings.key(*at), end] for at, (_, end) in sorted(ends.items())]
        sizes = Counter(row["topic"] for row in rows)
        try:
            admin.delete_topics(self._topics, deadline - time.monotonic())
            for topic in self._topics:
                replicas = max(len(row["replicas"]) for row in rows if row["topic"] == topic)
                admin.create_topics(
                    [topic], sizes[topic], replicas, config[topic], max(1.0, deadline - time.monotonic())
                )
        except ClientError as error:
            return op.with_(type=INFO, value=gone, error=describe("admin", error))
        return op.with_(type=OK, value=gone)

    def _count_partitions(self, op: Op) -> Op:
        try:
            rows = self._ask().partitions(self._topics, ADMIN_S)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))
        sizes = {topic: sum(row["topic"] == topic for row in rows) for topic in self._topics}
        if self._sizes and sizes != self._sizes:
            # A new producer asks for the metadata; the old one might wait for minutes before it does.
            self._queue.close()
            self._queue = QueueClient(self._settings, self._library)
        self._sizes = sizes
        return op.with_(type=OK, value={str(number): sizes[topic] for number, topic in enumerate(self._topics)})

    def close(self) -> None:
        """Closes the sender, and drops the consumer: another process has replaced this one."""
        self.broken = True
        with contextlib.suppress(ClientError):
            self._drop()
        self._queue.close()
        self._ended_with()
