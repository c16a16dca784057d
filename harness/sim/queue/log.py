"""The simulated log: partitions, transactions with markers, isolation levels, and nothing else.

One object holds every partition of a run, by key. It has no clock, no randomness and no input or output:
who calls what when is the caller's matter, so a run over it is repeatable. It behaves as Kafka's log does
(KIP-98): a commit or an abort puts a marker, which takes an offset, on every partition the transaction
wrote to; a reader under read_committed stops at the last stable offset, before the first record of an open
transaction, and does not see aborted records. The methods under "bugs" do what no log should.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at an offset. kind: record | marker | hole (nothing there) | reserved (to be filled)."""

    kind: str
    value: Any = None
    txn: int | None = None


_MARKER: Final = Entry("marker")
_HOLE: Final = Entry("hole")
_RESERVED: Final = Entry("reserved")


class SimLog:
    """Partitions by key; transactions by number. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: defaultdict[int, list[Entry]] = defaultdict(list)
        self._states: list[str] = []
        self._first: list[dict[int, int]] = []  # by transaction: key -> its first offset there
        self._open: set[int] = set()
        self._reserved: defaultdict[int, set[int]] = defaultdict(set)
        self._leaked: set[int] = set()

    # --- writing ---

    def begin(self) -> int:
        """A new transaction."""
        self._states.append(OPEN)
        self._first.append({})
        self._open.add(len(self._states) - 1)
        return len(self._states) - 1

    def append(self, key: int, value: Any, txn: int | None = None) -> int:
        """Append a record; its offset. A transaction must be open."""
        if txn is not None:
            if self._states[txn] != OPEN:
                raise ValueError(f"transaction {txn} is {self._states[txn]}")
            self._first[txn].setdefault(key, len(self._entries[key]))
        self._entries[key].append(Entry("record", value, txn))
        return len(self._entries[key]) - 1

    def commit(self, txn: int) -> None:
        self._end(txn, COMMITTED)

    def abort(self, txn: int) -> None:
        self._end(txn, ABORTED)

    def _end(self, txn: int, state: str) -> None:
        if self._states[txn] != OPEN:
            raise ValueError(f"transaction {txn} is {self._states[txn]} already")
        self._states[txn] = state
        self._open.discard(txn)
        for key in sorted(self._first[txn]):
            self._entries[key].append(_MARKER)

    def state(self, txn: int) -> str:
        return self._states[txn]

    # --- reading ---

    def keys(self) -> list[int]:
        """Keys that were ever written."""
        return sorted(self._entries)

    def high_watermark(self, key: int) -> int:
        """One past the last record that may be read."""
        return min(self._reserved[key], default=len(self._entries[key]))

    def last_stable(self, key: int, own: int | None = None) -> int:
        """The first offset of an open transaction, or the high watermark. `own` does not count as open."""
        end = self.high_watermark(key)
        firsts = (self._first[txn].get(key) for txn in self._open if txn != own)
        return min(end, min((at for at in firsts if at is not None), default=end))

    def end(self, key: int, isolation_level: str, own: int | None = None) -> int:
        """Where a reader of this isolation level has caught up."""
        if isolation_level == "read_committed":
            return self.last_stable(key, own)
        return self.high_watermark(key)

    def read(
        self, key: int, position: int, count: int, isolation_level: str, own: int | None = None
    ) -> tuple[list[tuple[int, Any]], int]:
        """At most `count` records from `position` on as (offset, value), and the position after them.

        The position steps over markers, aborted records and holes that follow the last record.
        """
        return self._read(key, position, count, isolation_level, self.end(key, isolation_level, own))

    def _read(
        self, key: int, position: int, count: int, isolation_level: str, end: int
    ) -> tuple[list[tuple[int, Any]], int]:
        found: list[tuple[int, Any]] = []
        entries = self._entries[key]
        at = position
        while at < end:
            entry = entries[at]
            if entry.kind == "record" and self._visible(entry.txn, isolation_level):
                if len(found) == count:
                    break
                found.append((at, entry.value))
            at += 1
        return found, at

    def _visible(self, txn: int | None, isolation_level: str) -> bool:
        if txn is None or isolation_level != "read_committed":
            return True
        return self._states[txn] != ABORTED or txn in self._leaked

    # --- bugs ---

    def read_dirty(self, key: int, position: int, count: int, reader: int) -> tuple[list[tuple[int, Any]], int]:
        """As `read`, with the records of open transactions, up to the first of the transaction `reader`."""
        end = self.high_watermark(key)
        return self._read(key, position, count, "read_committed", min(end, self._first[reader].get(key, end)))

    def erase(self, key: int, offset: int) -> None:
        """The record is gone; its offset stays empty."""
        self._entries[key][offset] = _HOLE

    def truncate(self, key: int, offset: int) -> bool:
        """A new leader lacks everything from `offset` on. False if that would lose more than one record."""
        if len(self._entries[key]) != offset + 1:
            return False
        self._entries[key].pop()
        return True

    def reserve(self, key: int) -> int:
        """Keep an offset for a record in flight; nothing after it can be read until it is filled."""
        self._entries[key].append(_RESERVED)
        offset = len(self._entries[key]) - 1
        self._reserved[key].add(offset)
        return offset

    def fill(self, key: int, offset: int, value: Any, txn: int | None = None) -> None:
        """The record that the offset was kept for; None: there will be none."""
        self._reserved[key].discard(offset)
        if value is None:
            self._entries[key][offset] = _HOLE
            return
        if txn is not None:
            self._first[txn][key] = min(offset, self._first[txn].get(key, offset))
        self._entries[key][offset] = Entry("record", value, txn)

    def leak(self, txn: int) -> None:
        """Show the records of this transaction though it aborts."""
        self._leaked.add(txn)
