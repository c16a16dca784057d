"""The simulated log: partitions, transactions with markers, and isolation levels.

One object contains all partitions of a run, identified by key. It has no clock, no randomness and no input or output,
so the same calls always have the same results. It behaves like Kafka's log (KIP-98): commit and abort write a marker,
which takes an offset, to every partition that the transaction wrote to. A reader under read_committed stops at the last
stable offset, before the first record of an open transaction, and does not see aborted records. The methods under
"bugs" violate these rules.
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
    """What is at an offset.

    `kind` is record, marker, hole (empty) or reserved (may be filled later by a record in flight).
    """

    kind: str
    value: Any = None
    txn: int | None = None


_MARKER: Final = Entry("marker")
_HOLE: Final = Entry("hole")
_RESERVED: Final = Entry("reserved")


class SimLog:
    """The simulated log. Partitions are identified by key, transactions by number. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: defaultdict[int, list[Entry]] = defaultdict(list)
        self._states: list[str] = []
        self._first: list[dict[int, int]] = []  # by transaction: key -> the transaction's first offset
        self._open: set[int] = set()
        self._reserved: defaultdict[int, set[int]] = defaultdict(set)
        self._leaked: set[int] = set()

    # --- writing ---

    def begin(self) -> int:
        """Begins a transaction. Returns its number."""
        self._states.append(OPEN)
        self._first.append({})
        self._open.add(len(self._states) - 1)
        return len(self._states) - 1

    def append(self, key: int, value: Any, txn: int | None = None) -> int:
        """Appends a record, and returns its offset. If a transaction is given, it must be open."""
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
            raise ValueError(f"transaction {txn} is already {self._states[txn]}")
        self._states[txn] = state
        self._open.discard(txn)
        for key in sorted(self._first[txn]):
            self._entries[key].append(_MARKER)

    def state(self, txn: int) -> str:
        return self._states[txn]

    # --- reading ---

    def keys(self) -> list[int]:
        """Returns the keys that have been written to."""
        return sorted(self._entries)

    def high_watermark(self, key: int) -> int:
        """Returns the offset after the last one that may be read."""
        return min(self._reserved[key], default=len(self._entries[key]))

    def last_stable(self, key: int, own: int | None = None) -> int:
        """Returns the lowest offset of the records in open transactions, except for the transaction `own`.

        Returns the high watermark if there are none.
        """
        end = self.high_watermark(key)
        firsts = (self._first[txn].get(key) for txn in self._open if txn != own)
        return min(end, min((at for at in firsts if at is not None), default=end))

    def end(self, key: int, isolation_level: str, own: int | None = None) -> int:
        """Returns the offset after the last one that a reader with this isolation level can read.

        The open transaction `own` does not limit this.
        """
        if isolation_level == "read_committed":
            return self.last_stable(key, own)
        return self.high_watermark(key)

    def read(
        self, key: int, position: int, count: int, isolation_level: str, own: int | None = None
    ) -> tuple[list[tuple[int, Any]], int]:
        """Reads up to `count` records from `position` on. The open transaction `own` does not limit the reading.

        Returns [(offset, value), ...], and the position for the next read. The next position is after all markers,
        aborted records and holes that directly follow the last record.
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
        """Reads like `read`, but includes the records of other open transactions.

        Stops before the first record of the reader's own transaction `reader`.
        """
        end = self.high_watermark(key)
        return self._read(key, position, count, "read_committed", min(end, self._first[reader].get(key, end)))

    def erase(self, key: int, offset: int) -> None:
        """Removes a record. No record can use its offset again."""
        self._entries[key][offset] = _HOLE

    def truncate(self, key: int, offset: int) -> bool:
        """Removes the record at `offset` if it is the last entry. Otherwise does nothing and returns False."""
        if len(self._entries[key]) != offset + 1:
            return False
        self._entries[key].pop()
        return True

    def reserve(self, key: int) -> int:
        """Reserves an offset for a record in flight, and returns it.

        Later offsets cannot be read until `fill` is called.
        """
        self._entries[key].append(_RESERVED)
        offset = len(self._entries[key]) - 1
        self._reserved[key].add(offset)
        return offset

    def fill(self, key: int, offset: int, value: Any, txn: int | None = None) -> None:
        """Fills a reserved offset with a record. If `value` is None, the offset stays empty."""
        self._reserved[key].discard(offset)
        if value is None:
            self._entries[key][offset] = _HOLE
            return
        if txn is not None:
            self._first[txn][key] = min(offset, self._first[txn].get(key, offset))
        self._entries[key][offset] = Entry("record", value, txn)

    def leak(self, txn: int) -> None:
        """Makes the records of this transaction visible even if it aborts."""
        self._leaked.add(txn)
