"""Detects first signs of anomalies while a run is in progress: contradictions between two operations.

They are only hints. The checker decides at the end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from harness.model.op import Op, polls, sends

RECORDS_MAX: Final = 500_000
SHOWN: Final = 5
Place = tuple[bytes, bytes] | tuple[bytes, int]


@dataclass(slots=True)
class First:
    """The signs found so far, and the records that are needed to find more. Keys and values are kept as JSON text.

    values    (key, offset) -> value
    offsets   (key, value) -> offset
    unread    records that were sent by a successful operation and have not been polled yet
    read      records that were polled
    counts    anomaly -> number of signs
    places    (anomaly, offset or record) of each sign, so that none is counted twice
    messages  for each anomaly, descriptions of the first SHOWN signs
    full      whether the search has stopped, because there were more than RECORDS_MAX records
    """

    values: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    offsets: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    unread: set[tuple[bytes, bytes]] = field(default_factory=set)
    read: set[tuple[bytes, bytes]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    places: set[tuple[str, Place]] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    full: bool = False

    def add(self, op: Op) -> None:
        """Compares a successful operation with the earlier ones, and notes any signs of anomalies."""
        if self.full:
            return
        for key, offset, value in sends(op):
            record = _code(key), _code(value)
            if record not in self.read:
                self.unread.add(record)
            if type(offset) is int:
                self._place(op, record, offset)
        for key, offset, value in polls(op):
            record = _code(key), _code(value)
            self.read.add(record)
            self.unread.discard(record)
            if type(offset) is int:
                self._place(op, record, offset)
        if len(self.values) + len(self.read) + len(self.unread) > RECORDS_MAX:
            self.full = True
            for collection in (self.values, self.offsets, self.unread, self.read, self.places):
                collection.clear()

    def _place(self, op: Op, record: tuple[bytes, bytes], offset: int) -> None:
        key, value = record
        known_value = self.values.setdefault((key, offset), value)
        if known_value != value:
            text = f"offset {offset} contained value {known_value.decode()} before"
            self._report("inconsistent-offsets", (key, offset), op, record, text)
            return
        known_offset = self.offsets.setdefault(record, offset)
        if known_offset != offset:
            self._report("duplicate", record, op, record, f"at offset {offset}, and before at offset {known_offset}")

    def _report(self, name: str, place: Place, op: Op, record: tuple[bytes, bytes], what: str) -> None:
        if (name, place) in self.places:
            return
        self.places.add((name, place))
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] <= SHOWN:
            key, value = (part.decode()[:100] for part in record)
            self.messages.append(f"{name}: op {op.index} has value {value} of key {key}: {what[:200]}")


def _code(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
