"""Reads the sends and polls of one key from the tables, within given ranges of offsets.

A range is called a window. If a value was polled in a window, its sends are also read if they are outside all windows.
Nothing else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from harness.stored.fault_spans import Span
from harness.stored.operations_and_records import Lookup, OpFact, Record, Row

ROWS_MAX: Final = 200_000

Window = tuple[int, int]


@dataclass(frozen=True)
class Records:
    """The sends and polls of one key, in the order of the history.

    spans  when each fault was active
    ops    id of an operation -> its process, outcome and times, as far as they were looked up
    """

    sends_: Sequence[Row]
    polls_: Sequence[Row]
    spans: Sequence[Span]
    ops: Mapping[int, OpFact] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether ROWS_MAX polls were read, so that some polls may be missing here."""
        return len(self.polls_) >= ROWS_MAX

    def op(self, id_: int) -> OpFact | None:
        """Returns the process, outcome and times of an operation; None if they are not known."""
        return self.ops.get(id_) or self._facts.get(id_)

    @cached_property
    def _facts(self) -> dict[int, OpFact]:
        return {row.op: fact_of(row) for row in (*self.polls_, *self.sends_)}

    @cached_property
    def _by_value(self) -> tuple[dict[Any, list[Record]], dict[Any, list[Record]]]:
        found: tuple[dict[Any, list[Record]], dict[Any, list[Record]]] = ({}, {})
        for by_value, rows in zip(found, (self.sends_, self.polls_), strict=True):
            for row in rows:
                by_value.setdefault(repr(row.value), []).append(Record(row.op, row.value, row.offset))
        return found

    def sends(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Returns the sends of a value. `key` must be the key to which this object belongs."""
        return tuple(self._by_value[0].get(repr(value), ()))

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Returns the polls of a value. `key` must be the key to which this object belongs."""
        return tuple(self._by_value[1].get(repr(value), ()))

    def polls_by(self, key: Any, op: int) -> tuple[Record, ...]:
        """Returns the records that an operation polled. `key` must be the key to which this object belongs."""
        return tuple(Record(row.op, row.value, row.offset) for row in self.polls_ if row.op == op)


def fact_of(row: Row) -> OpFact:
    """Returns what a row of the tables says about its operation: process, outcome and times."""
    f = "txn" if row.txn else "send" if row.sent else "poll"
    return OpFact(row.op, row.op, row.process, row.type, f, row.invoke_ns, row.complete_ns, None)


def offsets_of(lookup: Lookup, key: Any, values: Iterable[Any]) -> dict[str, set[int]]:
    """Returns repr(value) -> the offsets at which the value was sent or polled."""
    wanted = list(values)
    found: dict[str, set[int]] = {}
    for kind in ("sends", "polls"):
        for row in lookup.rows(kind, key, ROWS_MAX, values=wanted) if wanted else ():
            if row.offset is not None:
                found.setdefault(repr(row.value), set()).add(row.offset)
    return found


def polled_by(lookup: Lookup, key: Any, ops: Iterable[int]) -> dict[int, list[int]]:
    """Returns id of an operation -> the offsets of the key that it polled, in the order in which they were polled."""
    wanted = sorted(set(ops))
    found: dict[int, list[int]] = {}
    for row in lookup.rows("polls", key, ROWS_MAX, ops=wanted) if wanted else ():
        if row.offset is not None:
            found.setdefault(row.op, []).append(row.offset)
    return found


def read(lookup: Lookup, key: Any, windows: Sequence[Window], limit: int = ROWS_MAX) -> Records:
    """Reads the sends and polls of a key in windows of offsets (inclusive).

    If a value was polled in a window but not sent in one, its sends outside the windows are also read. At most `limit`
    sends and `limit` polls are read in the windows, and at most `limit` sends outside them; the earliest are read.
    """
    sends = lookup.rows("sends", key, limit, offsets=windows)
    polls = lookup.rows("polls", key, limit, offsets=windows)
    sent_values = {repr(row.value) for row in sends}
    unsent = {repr(row.value): row.value for row in polls if repr(row.value) not in sent_values}
    more = lookup.rows("sends", key, limit, values=list(unsent.values())) if unsent else []
    return Records([*sends, *more], polls, lookup.spans)
