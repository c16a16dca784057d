"""The consumer side of a client: assignment, positions, polls as micro-op values, rewinding.

Positions are tracked here, because the library may not report the position behind transaction markers that follow
the last record. The invariant is that a consumer's positions never pass records that no `ok` op has reported.
`mark` is called when an op starts; if the op fails, `rewind` seeks each partition back to before the op's first
record.
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
    """Owns one consumer at a time, assigned or subscribed; a change of the mode creates a new consumer.

    subscribed  whether the group decides the assignment
    notes       problems since the op started that did not make it fail, a sentence each
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
        """Assign these keys. Those assigned before keep their positions; new ones start at `auto_offset_reset`."""
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
        """Return the start offset of a partition without a position."""
        policy = self._settings.auto_offset_reset
        return self._beginning() if policy == "earliest" else _LOGICAL.get(policy, STORED)

    def _beginning(self) -> int:
        """Return the offset to start from the beginning: 0, or BEGINNING with `logical_offsets`.

        librdkafka 2.16 looks up a logical offset under a timer that outlives the assignment, so it can move a
        partition that was since assigned again at a known position back to the beginning. If the log starts later,
        offset 0 is out of range and the reset policy applies, so it must be earliest.
        """
        absolute = self._settings.auto_offset_reset == "earliest" and not self._settings.logical_offsets
        return 0 if absolute else BEGINNING

    def subscribe(self, keys: Sequence[int]) -> None:
        """Join the group for the topics of these keys. Partitions start at the group's committed offsets."""
        topics = sorted({self._settings.partition(key)[0] for key in keys})
        if not self.subscribed or self._consumer is None:
            self._renew()
            self._assigned, self._positions = set(), {}
        assert self._consumer is not None
        self._consumer.subscribe(topics, self._rebalanced)
        self.subscribed, self._topics = True, topics

    def _renew(self) -> None:
        """Replace the consumer with a new one.

        A consumer cannot switch between manual assignment and subscription, because a rebalance in progress would
        undo a manual assignment.
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
        """Return [[key, offset], ...], keys ascending."""
        keys = {self._settings.key(*partition): offset for partition, offset in offsets.items()}
        return [[key, offset] for key, offset in sorted((k, o) for k, o in keys.items() if k is not None)]

    def rebalances(self) -> list[dict[str, Any]]:
        """Return the rebalance events since the last call."""
        events, self._rebalances = self._rebalances, []
        return events

    # --- reading ---

    def mark(self) -> None:
        """Start a new op: forget the start positions and notes of the last one."""
        self._origin, self.notes = {}, []

    def poll(self, timeout_s: float) -> list[list[Any]]:
        """Poll once. Returns [[key, [[offset, value], ...]], ...], keys in the order of their first records.

        Raises ClientError if the consumer failed, or reported an error by which a partition lost its position.
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
        """Replace the consumer by a new one that continues at the same positions or, if subscribed, at the group's
        committed offsets."""
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
        """Return [[key, position], ...], the offsets that the op has to commit for the group."""
        return self._by_key(self.moved()) if self.subscribed else []

    def moved(self) -> dict[TopicPartition, int]:
        """Return the positions to commit: those of partitions read since `mark` that are still assigned."""
        return {
            partition: self._positions[partition]
            for partition in self._origin
            if partition in self._assigned and partition in self._positions
        }

    def commit(self, timeout_s: float) -> None:
        """Commit the positions of partitions read since `mark`, and wait for the response. Raises ClientError."""
        moved = self.moved()
        if moved and self._consumer is not None:
            self._consumer.commit(moved, timeout_s)

    @property
    def consumer(self) -> Consumer:
        """The consumer, for `send_offsets`. It exists whenever `moved` is not empty."""
        assert self._consumer is not None
        return self._consumer

    def rewind(self, timeout_s: float) -> None:
        """Seek all partitions that are still assigned back to before the op. If seeking fails, replace the consumer."""
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
        """Return key -> position, for every assigned key whose position is known."""
        keys = {self._settings.key(*partition): partition for partition in self._assigned}
        return {
            key: self._positions[partition]
            for key, partition in sorted((k, p) for k, p in keys.items() if k is not None)
            if partition in self._positions
        }

    def assigned(self) -> list[TopicPartition]:
        return sorted(self._assigned)

    def close(self, leave: bool) -> None:
        """Close the consumer; with `leave`, leave the group first."""
        consumer, self._consumer = self._consumer, None
        self._assigned, self._positions, self._origin = set(), {}, {}
        if consumer is not None:
            with contextlib.suppress(ClientError):
                consumer.close(leave=leave and self.subscribed)
