"""The consuming half of a client: assignment, positions, polls as micro-op values, rewinding.

Positions are kept here rather than asked of the library, which may not say where a partition stands when
transaction markers follow its last record. The rule that the rest serves: a consumer's positions never pass
records that no `ok` op has reported. `mark` is called as an op begins; when the op fails, `rewind` goes back
to where each partition stood before the op's first record of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.clients import payload
from harness.clients.client_protocols import BEGINNING, END, STORED, Batch, Consumer, Library
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

IDLE_S: Final = 0.05  # how long a poll with nothing assigned takes at most
_LOGICAL: Final = {"earliest": BEGINNING, "latest": END}


class Reader:
    """One consumer at a time, either assigned or subscribed; the other mode takes a new consumer.

    subscribed  whether the group decides the assignment
    notes       trouble since the op began that did not fail it, one sentence each
    """

    def __init__(self, settings: Settings, library: Library) -> None:
        self._settings, self._library = settings, library
        self._consumer: Consumer | None = None
        self._topics: list[str] = []
        self._assigned: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self._origin: dict[TopicPartition, int] = {}
        self._rebalances: list[dict[str, Any]] = []
        self.subscribed = False
        self.notes: list[str] = []

    # --- what to read ---

    def assign(self, keys: Sequence[int], seek_to_beginning: bool) -> None:
        """Read these keys: those kept go on where they stand, new ones begin at `auto_offset_reset`."""
        start = self._beginning() if seek_to_beginning else self._start()
        known = {} if seek_to_beginning else self._positions
        partitions = [self._settings.partition(key) for key in keys]
        positions = {partition: known.get(partition, start) for partition in partitions}
        if self.subscribed or self._consumer is None:
            self._renew()
        self.subscribed, self._topics, self._assigned = False, [], set()
        assert self._consumer is not None
        self._consumer.assign(positions)
        self._assigned = set(partitions)
        self._positions = {partition: at for partition, at in positions.items() if at >= 0}

    def _start(self) -> int:
        """Where a partition without a position begins."""
        policy = self._settings.auto_offset_reset
        return self._beginning() if policy == "earliest" else _LOGICAL.get(policy, STORED)

    def _beginning(self) -> int:
        """Offset 0 rather than the logical BEGINNING: librdkafka 2.16 looks a logical offset up under a timer
        that outlives the assignment, and so can send a partition that has been assigned again at a known
        position back to the beginning. Of a log that starts later, offset 0 is out of range and the reset
        policy applies, which must then be earliest. `logical_offsets` asks for the library's own way."""
        absolute = self._settings.auto_offset_reset == "earliest" and not self._settings.logical_offsets
        return 0 if absolute else BEGINNING

    def subscribe(self, keys: Sequence[int]) -> None:
        """Join the group for the topics that hold these keys; its committed offsets decide where to begin."""
        topics = sorted({self._settings.partition(key)[0] for key in keys})
        if not self.subscribed or self._consumer is None:
            self._renew()
            self._assigned, self._positions = set(), {}
        assert self._consumer is not None
        self._consumer.subscribe(topics, self._rebalanced)
        self.subscribed, self._topics = True, topics

    def _renew(self) -> None:
        """A fresh consumer in place of the old one: it cannot change between assigned and subscribed, since
        a rebalance that was under way would undo a manual assignment."""
        old, self._consumer = self._consumer, None
        if old is not None:
            # What does not leave in time vanishes, and the group finds out by its session.
            with contextlib.suppress(ClientError):
                old.close(leave=self.subscribed)
        self._consumer = self._library.consumer(self._settings)

    def _rebalanced(
        self,
        event: str,
        partitions: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, int | None],
    ) -> None:
        keys = [self._settings.key(*partition) for partition in partitions]
        event_data: dict[str, Any] = {"event": event, "keys": [key for key in keys if key is not None]}
        if committed:
            event_data["committed"] = self._by_key(committed)
        self._rebalances.append(event_data)
        for partition in partitions:
            self._positions.pop(partition, None)
            self._origin.pop(partition, None)
        if event == "assigned":
            self._assigned |= set(partitions)
        else:
            self._assigned -= set(partitions)

    def _by_key(self, offsets: Mapping[TopicPartition, int | None]) -> list[list[int | None]]:
        """[[key, offset], ...], keys ascending."""
        keys = {self._settings.key(*partition): offset for partition, offset in offsets.items()}
        return [[key, offset] for key, offset in sorted((k, o) for k, o in keys.items() if k is not None)]

    def rebalances(self) -> list[dict[str, Any]]:
        """The rebalance events since the last call."""
        events, self._rebalances = self._rebalances, []
        return events

    # --- reading ---

    def mark(self) -> None:
        """An op begins."""
        self._origin, self.notes = {}, []

    def poll(self, timeout_s: float) -> list[list[Any]]:
        """One poll: [[key, [[offset, value], ...]], ...], keys in the order of their first record.

        Raises ClientError when the consumer cannot go on, or told only of an error that lost its position.
        """
        if self._consumer is None or not (self.subscribed or self._assigned):
            time.sleep(max(0.0, min(timeout_s, IDLE_S)))
            return []
        try:
            batch = self._consumer.poll(timeout_s, self._settings.records_max)
            polled = self._taken(batch)
            for error in batch.errors:
                if error.kind == "fatal" or error.code == "_AUTO_OFFSET_RESET":
                    raise error
                self.notes.append(f"poll: {error}")
        except ClientError as error:
            if error.kind == "fatal":
                self._replace(f"poll: {error}")
            raise
        return polled

    def _replace(self, why: str) -> None:
        """A new consumer that goes on where the old one stood, or, subscribed, where the group says."""
        self.notes.append(f"{why}; the consumer was replaced")
        self._renew()
        assert self._consumer is not None
        try:
            if self.subscribed:
                self._assigned, self._positions = set(), {}
                self._consumer.subscribe(self._topics, self._rebalanced)
            else:
                self._consumer.assign({at: self._positions.get(at, self._start()) for at in self._assigned})
        except ClientError as error:
            self.notes.append(f"assign: {error}")

    def _taken(self, batch: Batch) -> list[list[Any]]:
        run, key_of = self._settings.run, self._settings.key
        found: dict[TopicPartition, list[list[Any]] | None] = {}
        for record in batch.records:
            partition = (record.topic, record.partition)
            if partition not in found:
                key = key_of(*partition)
                found[partition] = None if key is None else []
                # Before the position if the log was cut off there and the consumer began again.
                self._origin.setdefault(partition, min(record.offset, self._positions.get(partition, record.offset)))
            pairs = found[partition]
            if pairs is None:
                self.notes.append(f"poll: a record of {record.topic}-{record.partition}, not of this run")
                continue
            key = key_of(*partition)
            assert key is not None
            pairs.append([record.offset, payload.decode(record.value, run, key)])
            self._positions[partition] = record.offset + 1
        for partition, position in batch.ends.items():
            # An end told before a rewind or rebalance may be older than the position.
            if position > self._positions.get(partition, -1):
                self._positions[partition] = position
        return [[key_of(*partition), pairs] for partition, pairs in found.items() if pairs]

    def committing(self) -> list[list[int | None]]:
        """[[key, position], ...] of what an op has to commit to the group."""
        return self._by_key(self.moved()) if self.subscribed else []

    def moved(self) -> dict[TopicPartition, int]:
        """Positions to commit: of the partitions read since `mark` and still held."""
        return {
            partition: self._positions[partition]
            for partition in self._origin
            if partition in self._assigned and partition in self._positions
        }

    def commit(self, timeout_s: float) -> None:
        """Commit what was read since `mark` to the group, and wait. Raises ClientError."""
        moved = self.moved()
        if moved and self._consumer is not None:
            self._consumer.commit(moved, timeout_s)

    @property
    def consumer(self) -> Consumer:
        """The consumer, for its offsets in a transaction. There is one, or nothing has moved."""
        assert self._consumer is not None
        return self._consumer

    def rewind(self, timeout_s: float) -> None:
        """Go back to where the op found every partition that is still held; at worst with a new consumer."""
        back = {at: offset for at, offset in self._origin.items() if at in self._assigned}
        self._origin = {}
        if not back or self._consumer is None:
            return
        self._positions.update(back)
        try:
            self._consumer.seek(back, timeout_s)
        except ClientError as error:
            self._replace(f"seek: {error}")

    def positions(self) -> dict[int, int]:
        """Key -> position, of every assigned key whose position is known."""
        keys = {self._settings.key(*partition): partition for partition in self._assigned}
        return {
            key: self._positions[partition]
            for key, partition in sorted((k, p) for k, p in keys.items() if k is not None)
            if partition in self._positions
        }

    def assigned(self) -> list[TopicPartition]:
        return sorted(self._assigned)

    def close(self, leave: bool) -> None:
        """Give up the consumer; with `leave`, tell the group."""
        consumer, self._consumer = self._consumer, None
        self._assigned, self._positions, self._origin = set(), {}, {}
        if consumer is not None:
            with contextlib.suppress(ClientError):
                consumer.close(leave=leave and self.subscribed)
