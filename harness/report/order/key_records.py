"""The records of one key around some places: who sent and who polled them, from the key's bucket of the
tables.

Only the key's rows between the offsets asked for are read, and those of the values that witnesses name.
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
    """Of one key: sends and polls in the order of the history; facts of ops where they were looked up."""

    sends_: Sequence[Row]
    polls_: Sequence[Row]
    spans: Sequence[Span]
    ops: Mapping[int, OpFact] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether there may be more polls than were read."""
        return len(self.polls_) >= ROWS_MAX

    def op(self, id_: int) -> OpFact | None:
        """What is known of an op: all of it where that was looked up, else what its records say."""
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
        """Who sent a value; `key` is this one."""
        return tuple(self._by_value[0].get(repr(value), ()))

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        """Who polled a value; `key` is this one."""
        return tuple(self._by_value[1].get(repr(value), ()))

    def polls_by(self, key: Any, op: int) -> tuple[Record, ...]:
        """What an op polled; `key` is this one."""
        return tuple(Record(row.op, row.value, row.offset) for row in self.polls_ if row.op == op)


def fact_of(row: Row) -> OpFact:
    """What a record says of its op."""
    f = "txn" if row.txn else "send" if row.sent else "poll"
    return OpFact(row.op, row.op, row.process, row.type, f, row.invoke_ns, row.complete_ns, None)


def offsets_of(lookup: Lookup, key: Any, values: Iterable[Any]) -> dict[str, set[int]]:
    """repr(value) -> the offsets at which it was sent or polled."""
    wanted = list(values)
    found: dict[str, set[int]] = {}
    for kind in ("sends", "polls"):
        for row in lookup.rows(kind, key, ROWS_MAX, values=wanted) if wanted else ():
            if row.offset is not None:
                found.setdefault(repr(row.value), set()).add(row.offset)
    return found


def polled_by(lookup: Lookup, key: Any, ops: Iterable[int]) -> dict[int, list[int]]:
    """op -> the offsets that it polled of the key, in order."""
    wanted = sorted(set(ops))
    found: dict[int, list[int]] = {}
    for row in lookup.rows("polls", key, ROWS_MAX, ops=wanted) if wanted else ():
        if row.offset is not None:
            found.setdefault(row.op, []).append(row.offset)
    return found


def read(lookup: Lookup, key: Any, windows: Sequence[Window], limit: int = ROWS_MAX) -> Records:
    """The records of a key in windows of offsets (both ends in), and the sends of what was polled there.

    At most `limit` of each: the first ones.
    """
    sends = lookup.rows("sends", key, limit, offsets=windows)
    polls = lookup.rows("polls", key, limit, offsets=windows)
    known = {repr(row.value) for row in sends}
    unknown = {repr(row.value): row.value for row in polls if repr(row.value) not in known}
    more = lookup.rows("sends", key, limit, values=list(unknown.values())) if unknown else []
    return Records([*sends, *more], polls, lookup.spans)
