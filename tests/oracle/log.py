"""Replicated logs of keys: appends, replication, elections, transactions, deletion; and every record's true fate.

A log is the leader's; every other copy is a prefix of it, known by its length (`reach`). What lies below the high
watermark is in every in-sync copy. An election that is clean takes a copy in sync; what the new leader lacks is gone
from all. Source: Kafka documentation, Design, "Replication"; KIP-101 (followers truncate to the leader's log);
KIP-966 (the high watermark stands still while fewer than min.insync.replicas are in sync).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.model.randomness import Draw

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
LOST, DELETED, COMPACTED = "lost", "deleted", "compacted"
RECORD_BYTES = 100


@dataclass(slots=True)
class Entry:
    """A record, or a transaction's marker (value None)."""

    offset: int
    value: int | None
    txn: int | None
    time_ms: int
    gone: str = ""  # why it is no longer there


@dataclass(slots=True)
class Partition:
    """The log of one key.

    copies      how many there are; copy `leader` leads
    reach       by copy, the offset after its last record
    flushed     by copy, the offset after the last record that is on its disk
    flushing    every record is written to disk at once (log.flush.interval.messages=1)
    segments    first offsets of the segments, the last one active
    history     every entry that there ever was, those that are gone too
    """

    key: int
    copies: int
    min_isr: int
    records_per_segment: int
    flushing: bool = False
    entries: list[Entry] = field(default_factory=list)
    history: list[Entry] = field(default_factory=list)
    start: int = 0
    leader: int = 0
    available: bool = True
    reach: list[int] = field(default_factory=list)
    flushed: list[int] = field(default_factory=list)
    isr: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)
    segments: list[int] = field(default_factory=lambda: [0])
    cleaned: int = 0
    high_watermark: int = 0
    truncations: list[int] = field(default_factory=list)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.reach, self.flushed, self.isr = [0] * self.copies, [0] * self.copies, set(range(self.copies))

    @property
    def end(self) -> int:
        return self.reach[self.leader]

    def append(self, value: int | None, txn: int | None, time_ms: int) -> Entry:
        entry = Entry(self.end, value, txn, time_ms)
        self.entries.append(entry)
        self.history.append(entry)
        self.reach[self.leader] += 1
        if self.end - self.segments[-1] > self.records_per_segment:
            self.segments.append(entry.offset)
        return entry

    def replicate(self) -> bool:
        """Followers that keep up fetch everything; the others fall out of sync. Whether enough are in sync."""
        for copy in range(self.copies):
            if copy not in self.behind:
                self.reach[copy] = self.end
            elif copy != self.leader:
                self.isr.discard(copy)
        if self.flushing:
            self.flushed = list(self.reach)
        self.isr |= {copy for copy in range(self.copies) if copy not in self.behind}
        self.isr.add(self.leader)
        if len(self.isr) < self.min_isr:
            return False
        self.high_watermark = max(self.high_watermark, min(self.reach[copy] for copy in self.isr))
        return True

    def flush(self, draw: Draw) -> None:
        """What operating systems write to disk in their own time."""
        for copy in range(self.copies):
            if self.flushing or draw.random() < 0.2:
                self.flushed[copy] = self.reach[copy]

    def elect(self, leader: int) -> list[Entry]:
        """A copy leads, and the others follow it; the records that are gone by that."""
        self.leader, self.epoch = leader, self.epoch + 1
        return self.truncate(self.reach[leader])

    def truncate(self, to: int) -> list[Entry]:
        """All copies end there; the records that are gone by that."""
        lost = [entry for entry in self.entries if entry.offset >= to]
        if any(reach > to for reach in self.reach) or self.high_watermark > to:
            self.truncations.append(to)
        for entry in lost:
            entry.gone = LOST
        self.entries = [entry for entry in self.entries if entry.offset < to]
        self.reach = [min(reach, to) for reach in self.reach]
        self.flushed = [min(flushed, to) for flushed in self.flushed]
        self.segments = [base for base in self.segments if base < to] or [min(self.start, to)]
        self.start = min(self.start, to)
        self.high_watermark = min(self.high_watermark, to)
        self.cleaned = min(self.cleaned, to)
        return lost

    def delete_before(self, offset: int) -> None:
        """Records before the offset are deleted, as by DeleteRecords or retention."""
        self.start = max(self.start, min(offset, self.end))
        self._remove((entry for entry in self.entries if entry.offset < self.start), DELETED)
        while len(self.segments) > 1 and self.segments[1] <= self.start:
            self.segments.pop(0)

    def remove(self, entries: Iterable[Entry], why: str) -> None:
        """Take records out of the middle: their offsets stay empty."""
        self._remove(entries, why)

    def _remove(self, entries: Iterable[Entry], why: str) -> None:
        for entry in entries:
            entry.gone = why
        self.entries = [entry for entry in self.entries if not entry.gone]

    def old_segments(self, limit_ms: int, now_ms: int) -> int:
        """Up to where retention by time deletes: whole segments, oldest first, whose last time is over (KIP-33)."""
        bounds = [*self.segments, self.end]
        until = self.start
        for base, after in itertools.pairwise(bounds):
            held = [entry.time_ms for entry in self.history if base <= entry.offset < after and entry.gone != LOST]
            if after > self.high_watermark or (held and now_ms - max(held) <= limit_ms):
                break
            until = max(until, after)
        return until

    def large_segments(self, limit_bytes: int) -> int:
        """Up to where retention by size deletes: whole segments, never the active one, while the limit is kept."""
        left = len(self.entries) * RECORD_BYTES
        until = self.start
        for base, after in zip(self.segments, self.segments[1:], strict=False):
            size = sum(RECORD_BYTES for entry in self.entries if base <= entry.offset < after)
            if left - size < limit_bytes or after > self.high_watermark:
                break
            left, until = left - size, after
        return until

    def clean(self) -> None:
        """What compaction makes of records without key: the cleaner keeps none of them in segments not active."""
        until = min(self.segments[-1], self.high_watermark)
        self.remove((entry for entry in self.entries if entry.offset < until), COMPACTED)
        self.cleaned = max(self.cleaned, until)


class Logs:
    """The logs of all keys, and the transactions over them."""

    def __init__(self, partitions: dict[int, Partition]) -> None:
        self.partitions = partitions
        self.txns: dict[int, str] = {}

    def begin(self) -> int:
        self.txns[len(self.txns)] = OPEN
        return len(self.txns) - 1

    def finish(self, txn: int, state: str, now_ms: int) -> None:
        """Commit or abort, with a marker in every log that the transaction wrote to."""
        self.txns[txn] = state
        for partition in self.partitions.values():
            if any(entry.txn == txn for entry in partition.entries):
                partition.append(None, txn, now_ms)
                partition.replicate()

    def stable(self, key: int, committed_only: bool) -> int:
        """Up to where a consumer reads: the high watermark, or the last stable offset."""
        partition = self.partitions[key]
        until = partition.high_watermark
        if committed_only:
            for entry in partition.entries:
                if entry.txn is not None and self.txns[entry.txn] == OPEN:
                    return min(until, entry.offset)
        return until

    def read(self, key: int, position: int, most: int, committed_only: bool) -> tuple[list[Entry], int]:
        """Records from a position, and the position after them."""
        until = self.stable(key, committed_only)
        found: list[Entry] = []
        for entry in self.partitions[key].entries:
            if not position <= entry.offset < until or entry.value is None:
                continue
            if committed_only and entry.txn is not None and self.txns[entry.txn] == ABORTED:
                continue
            if len(found) == most:
                return found, found[-1].offset + 1
            found.append(entry)
        return found, max(position, until)
