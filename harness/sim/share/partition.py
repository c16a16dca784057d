"""A log, and the share partition through which a group reads it. It works like the share-partition leader of KIP-932.

A record is available, acquired by a member until its lock expires, or final (acknowledged or archived). Each
acquisition raises the delivery count. If the count has reached the limit, the record is archived instead of becoming
available again. Every change of a record's state is stored, except acquisitions. If a record is acquired when the
leader changes, the new leader therefore makes it available, with its stored count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
MARKER: Final = "marker"

AVAILABLE: Final = "available"
ACQUIRED: Final = "acquired"
ACCEPTED: Final = "accepted"
ARCHIVED: Final = "archived"
FINAL: Final = (ACCEPTED, ARCHIVED)

INVALID: Final = "INVALID_RECORD_STATE"
MAX_LOCKS: Final = 40


@dataclass(slots=True)
class Entry:
    """One offset of a log: a value, or the marker of a transaction."""

    value: Any
    state: str


class Log:
    """The log of one key."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def append(self, value: Any, state: str) -> int:
        self.entries.append(Entry(value, state))
        return len(self.entries) - 1

    def stable(self) -> int:
        """Returns the last stable offset: the first offset of an open transaction, or the end of the log."""
        opened = (offset for offset, entry in enumerate(self.entries) if entry.state == OPEN)
        return next(opened, len(self.entries))


@dataclass(slots=True)
class State:
    """The state of one record of a share partition.

    count     the delivery count
    member    the member that acquired the record last
    until_ns  time at which the lock expires
    stored    (state, count) as stored, from which a new leader starts
    """

    state: str = AVAILABLE
    count: int = 0
    member: str = ""
    until_ns: int = 0
    stored: tuple[str, int] = (AVAILABLE, 0)

    def store(self) -> None:
        self.stored = (self.state, self.count)


@dataclass(slots=True)
class SharePartition:
    """A group's state of one key.

    start    the start offset
    letters  the offsets in the dead letter queue
    bug      returns whether the bug of this name is enabled and occurs now
    """

    log: Log
    lock_ns: int
    limit: int
    committed_only: bool
    bug: Callable[[str], bool]
    start: int = 0
    highest_listed: int = 0
    records: dict[int, State] = field(default_factory=dict)
    letters: set[int] = field(default_factory=set)
    aborted_seen: set[int] = field(default_factory=set)

    def _at(self, offset: int) -> State:
        return self.records.setdefault(offset, State())

    def expire(self, now_ns: int) -> None:
        """Ends the locks that have expired."""
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.until_ns <= now_ns:
                self._free(offset, record)

    def _free(self, offset: int, record: State, lower: bool = False) -> None:
        """Makes an acquired record available; archives it if its delivery count has reached the limit.

        lower  take the acquisition back: lower the delivery count by 1, and never archive the record
        """
        if lower:
            record.count -= 1
            record.state = AVAILABLE
        elif record.count >= self.limit:
            self._archive(offset, record)
        else:
            record.state = AVAILABLE
        record.store()

    def _archive(self, offset: int, record: State, letter: bool = True) -> None:
        record.state = ARCHIVED
        if letter:
            self.letters.add(offset)

    def acquire(self, member: str, most: int, now_ns: int) -> list[list[Any]]:
        """Returns at most `most` records as [offset, value, delivery count], and locks them for the member."""
        self.expire(now_ns)
        found: list[list[Any]] = []
        end = self.log.stable() if self.committed_only else len(self.log.entries)
        locked = sum(record.state == ACQUIRED for record in self.records.values())
        for offset in range(self.start, end):
            if len(found) >= most or locked + len(found) >= MAX_LOCKS:
                break
            entry, record = self.log.entries[offset], self._at(offset)
            if record.state in FINAL:
                continue
            if entry.state == MARKER or (entry.state == ABORTED and self.committed_only):
                if entry.state == ABORTED and offset not in self.aborted_seen and self.bug("aborted-visible"):
                    found.append([offset, entry.value, 1])
                self.aborted_seen.add(offset)
                continue
            if record.state == AVAILABLE and record.count == 0 and self.bug("skip-record"):
                self._archive(offset, record, letter=False)
                continue
            stolen = record.state == ACQUIRED and record.member != member and self.bug("share-lock")
            if record.state == AVAILABLE or stolen:
                record.state, record.member, record.until_ns = ACQUIRED, member, now_ns + self.lock_ns
                record.count += 1
                found.append([offset, entry.value, record.count])
        self._advance()
        return found

    def acknowledge(self, member: str, rows: list[tuple[int, str]], now_ns: int) -> str | None:
        """Applies acknowledgements (offset, kind), all or none of them. Returns the error if they are refused, or None.

        Acknowledgements below the start offset have no effect and cause no error, as on Kafka's brokers.
        """
        self.expire(now_ns)
        rows = [(offset, kind) for offset, kind in rows if offset >= self.start]
        states = [self.records.get(offset) for offset, _ in rows]
        if any(state is None or state.state != ACQUIRED or state.member != member for state in states):
            return INVALID
        if self.bug("refuse-held"):
            for (offset, _), state in zip(rows, states, strict=True):
                assert state is not None
                self._free(offset, state, lower=True)
            return INVALID
        for (offset, kind), state in zip(rows, states, strict=True):
            assert state is not None
            self._apply(offset, kind, state, now_ns)
        self._advance()
        return None

    def _apply(self, offset: int, kind: str, record: State, now_ns: int) -> None:
        if kind == "accept":
            record.state = AVAILABLE if self.bug("redeliver-accepted") else ACCEPTED
        elif kind == "reject":
            self._archive(offset, record, letter=not self.bug("no-dead-letter"))
        elif kind == "release":
            if record.count < self.limit and self.bug("forget-released"):
                self._archive(offset, record)
            else:
                self._free(offset, record)
            if record.state == AVAILABLE and self.bug("reset-count"):
                record.count = 0
        else:
            record.until_ns = now_ns + self.lock_ns
            return
        record.store()

    def end(self, member: str) -> None:
        """Ends a member's session: the records that the member has acquired become available."""
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.member == member:
                self._free(offset, record, lower=True)

    def move(self) -> None:
        """Gives the share partition a new leader, which knows only what was stored."""
        for record in self.records.values():
            record.state, record.count = record.stored

    def _advance(self) -> None:
        end = self.log.stable() if self.committed_only else len(self.log.entries)
        while self.start < end:
            entry, record = self.log.entries[self.start], self.records.get(self.start)
            skipped = entry.state == MARKER or (entry.state == ABORTED and self.committed_only)
            if not skipped and (record is None or record.stored[0] not in FINAL):
                break
            self.start += 1

    def listed(self) -> int:
        """Returns the start offset as an administrator sees it."""
        self._advance()
        if self.highest_listed > 0 and self.bug("start-back"):
            return self.highest_listed - 1
        self.highest_listed = max(self.highest_listed, self.start)
        return self.start
