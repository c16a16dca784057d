"""The consumer side of a client: assignment, positions, polls as micro-op values, rewinding.

The reader tracks the positions itself. The position that the library reports may be before the transaction markers
that follow the last record, instead of past them.

The invariant is that a consumer's positions never pass records that no `ok` op has reported. If an op fails,
`rewind` seeks each partition back to the first record that the op has read. For this, `mark` must be called when an op
starts.
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

IDLE_S: Final = 0.05  # longest duration of a poll without assigned partitions
_LOGICAL: Final = {"earliest": BEGINNING, "latest": END}


class Reader:
    """Owns a consumer, which is either assigned or subscribed. To change between the two, creates a new consumer.

    subscribed  whether the consumer is subscribed, so that its group decides which partitions it reads
    notes       problems since the op started that did not make the op fail, one sentence for each problem
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
        """Assigns these keys.

        Keys that were assigned before keep their positions; new keys start at `auto_offset_reset`. With
        `seek_to_beginning`, all keys start at the beginning.
        """
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
        """Returns the offset at which to start reading a partition whose position is not known."""
        policy = self._settings.auto_offset_reset
        return self._beginning() if policy == "earliest" else _LOGICAL.get(policy, STORED)

    def _beginning(self) -> int:
        """Returns the offset for reading from the beginning: 0, or the logical offset BEGINNING.

        0 is safer. librdkafka 2.16 looks up a logical offset when a timer expires, and the timer outlives the
        assignment: if the partition has been assigned again at a known position, the timer can move it back to the
        beginning. But offset 0 is out of range if the log starts after 0, and then the reset policy decides where to
        read. So 0 is returned only if this policy is earliest, and never with the setting `logical_offsets`.
        """
        absolute = self._settings.auto_offset_reset == "earliest" and not self._settings.logical_offsets
        return 0 if absolute else BEGINNING

    def subscribe(self, keys: Sequence[int]) -> None:
        """Joins the group and subscribes to the topics of these keys; with `sub_pattern`, to all topics of the run.

        Reading starts at the group's committed offsets.
        """
        topics = sorted({self._settings.partition(key)[0] for key in keys})
        if self._settings.sub_pattern:
            topics = [f"^{self._settings.run.replace('.', '[.]')}-[0-9]+$"]
        if not self.subscribed or self._consumer is None:
            self._renew()
            self._assigned, self._positions = set(), {}
        assert self._consumer is not None
        self.subscribed = False  # if this fails, the next call makes a new consumer: a fatal error stays
        self._consumer.subscribe(topics, self._rebalanced)
        self.subscribed, self._topics = True, topics

    def _renew(self) -> None:
        """Replaces the consumer with a new one.

        A consumer cannot switch between manual assignment and subscription, because a rebalance in progress would undo
        a manual assignment.
        """
        old, self._consumer = self._consumer, None
        if old is not None:
            # If leaving the group times out, the group removes the member after its session timeout.
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
        """Returns [[key, offset], ...] in ascending order of the keys."""
        keys = {self._settings.key(*partition): offset for partition, offset in offsets.items()}
        return [[key, offset] for key, offset in sorted((k, o) for k, o in keys.items() if k is not None)]

    def rebalances(self) -> list[dict[str, Any]]:
        """Returns the rebalance events since this method was last called."""
        events, self._rebalances = self._rebalances, []
        return events

    # --- reading ---

    def mark(self) -> None:
        """Must be called when an op starts. Forgets the notes and the start positions of the previous op."""
        self._origin, self.notes = {}, []

    def poll(self, timeout_s: float) -> list[list[Any]]:
        """Polls once. Returns [[key, [[offset, value], ...]], ...], with the keys in the order of their first records.

        Raises ClientError if the consumer failed, or if it lost the position of a partition.
        """
        if self._consumer is None or not (self.subscribed or self._assigned):
            time.sleep(max(0.0, min(timeout_s, IDLE_S)))
            return []
        try:
            batch = self._consumer.poll(timeout_s, self._settings.records_max)
            polled = self._record_values(batch)
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
        """Replaces the consumer with a new one, and adds a note that says `why`.

        The new consumer continues at the old consumer's positions or, if subscribed, at the group's committed offsets.
        """
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

    def _record_values(self, batch: Batch) -> list[list[Any]]:
        run, key_of = self._settings.run, self._settings.key
        found: dict[TopicPartition, list[list[Any]] | None] = {}
        for record in batch.records:
            partition = (record.topic, record.partition)
            if partition not in found:
                key = key_of(*partition)
                found[partition] = None if key is None else []
                # The offset is below the position if the log was truncated and the consumer was reset.
                self._origin.setdefault(partition, min(record.offset, self._positions.get(partition, record.offset)))
            pairs = found[partition]
            if pairs is None:
                self.notes.append(f"poll: a record of {record.topic}-{record.partition}, which is not of this run")
                continue
            key = key_of(*partition)
            assert key is not None
            pairs.append([record.offset, payload.decode(record.value, run, key)])
            self._positions[partition] = record.offset + 1
        for partition, position in batch.ends.items():
            # An end event from before a rewind or rebalance may be older than the position.
            if position > self._positions.get(partition, -1):
                self._positions[partition] = position
        return [[key_of(*partition), pairs] for partition, pairs in found.items() if pairs]

    def committing(self) -> list[list[int | None]]:
        """Returns [[key, position], ...], the offsets that the op must commit; [] if the consumer is not subscribed."""
        return self._by_key(self.moved()) if self.subscribed else []

    def moved(self) -> dict[TopicPartition, int]:
        """Returns partition -> position, for the partitions that the op has read and that are still assigned."""
        return {
            partition: self._positions[partition]
            for partition in self._origin
            if partition in self._assigned and partition in self._positions
        }

    def commit(self, timeout_s: float) -> None:
        """Commits the positions that `moved` returns, and waits for the response. Raises ClientError."""
        moved = self.moved()
        if moved and self._consumer is not None:
            self._consumer.commit(moved, timeout_s)

    @property
    def consumer(self) -> Consumer:
        """The consumer, for `Transactions.send_offsets`. Only use it if `moved` returned at least one partition."""
        assert self._consumer is not None
        return self._consumer

    def rewind(self, timeout_s: float) -> None:
        """Undoes what the op has read: in the partitions that are still assigned, seeks back to where the op started.

        If seeking fails, replaces the consumer.
        """
        start_positions = {at: offset for at, offset in self._origin.items() if at in self._assigned}
        self._origin = {}
        if not start_positions or self._consumer is None:
            return
        self._positions.update(start_positions)
        try:
            self._consumer.seek(start_positions, timeout_s)
        except ClientError as error:
            self._replace(f"seek: {error}")

    def positions(self) -> dict[int, int]:
        """Returns key -> position, for every assigned key whose position is known."""
        keys = {self._settings.key(*partition): partition for partition in self._assigned}
        return {
            key: self._positions[partition]
            for key, partition in sorted((k, p) for k, p in keys.items() if k is not None)
            if partition in self._positions
        }

    def assigned(self) -> list[TopicPartition]:
        return sorted(self._assigned)

    def close(self, leave: bool) -> None:
        """Closes the consumer. With `leave`, a subscribed consumer leaves its group first."""
        consumer, self._consumer = self._consumer, None
        self._assigned, self._positions, self._origin = set(), {}, {}
        if consumer is not None:
            with contextlib.suppress(ClientError):
                consumer.close(leave=leave and self.subscribed)
