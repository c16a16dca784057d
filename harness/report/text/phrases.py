"""Phrases about operations and records: the process, the time, the offset, and the active faults."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from harness.model.values_as_text import at_offset, seconds
from harness.stored import fault_spans
from harness.stored.operations_and_records import Facts, OpFact, Record


class OpPhrases:
    """Builds phrases about operations and records from what a lookup finds.

    If the lookup does not find something, the phrases are shorter.
    """

    def __init__(self, lookup: Facts | None) -> None:
        self._lookup = lookup

    def op(self, id_: int | None) -> OpFact | None:
        """Returns the process, outcome and times of an operation; None if they are not known."""
        return self._lookup.op(id_) if self._lookup is not None and id_ is not None else None

    def who(self, id_: int) -> str:
        """Returns the process, id and time of an operation as a phrase."""
        fact = self.op(id_)
        if fact is None:
            return f"op {id_}"
        return f"process {fact.process} (op {id_}, {seconds(fact.at_ns)})"

    def when(self, id_: int) -> str:
        """Returns the id and time of an operation as a phrase, for use where the process is already named."""
        fact = self.op(id_)
        return f"op {id_}" if fact is None else f"op {id_}, {seconds(fact.at_ns)}"

    def faults(self, *ids: int | None) -> str:
        """Returns the faults that were active during the operations, as the end of a sentence; empty if none was."""
        found: dict[str, None] = {}
        for fact in map(self.op, ids):
            if fact is not None and self._lookup is not None:
                for span in fault_spans.during(self._lookup.spans, fact.invoke_ns, fact.at_ns):
                    found[span.label] = None
        return f", while {' and '.join(found)} was active" if found else ""

    def sends(self, key: Any, value: Any) -> tuple[Record, ...]:
        return self._lookup.sends(key, value) if self._lookup is not None else ()

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        return self._lookup.polls(key, value) if self._lookup is not None else ()

    def sent(self, key: Any, value: Any, op: int | None = None) -> str:
        """Returns who sent a value, when, during which faults, and with which outcome; empty if not known."""
        records = [record for record in self.sends(key, value) if op is None or record.op == op]
        if op is None and records:
            op = records[0].op
        if op is None:
            return ""
        fact = self.op(op)
        if fact is None:
            return f"sent by op {op}"
        text = f"sent by process {fact.process} at {seconds(fact.invoke_ns)} (op {op})"
        offset = records[0].offset if records else None
        return f"{text}{self.faults(op)}, {self._ended(fact, offset)}"

    def _ended(self, fact: OpFact, offset: int | None) -> str:
        if fact.complete_ns is None:
            return "never completed"
        took = f"after {(fact.complete_ns - fact.invoke_ns) / 1e6:,.1f} ms"
        if fact.type == "ok":
            return f"acknowledged {took}" + (f" at offset {offset}" if offset is not None else "")
        why = f" ({fact.error})" if fact.error else ""
        stored = f", though the record had been acknowledged at offset {offset}" if offset is not None else ""
        return f"{'failed' if fact.type == 'fail' else 'indeterminate'} {took}{why}{stored}"

    def read(self, key: Any, value: Any, offset: int | None = None) -> str:
        """Returns who first read a value (at `offset`, unless it is None), as a phrase; empty if not known."""
        for record in self.polls(key, value):
            if offset is None or record.offset == offset:
                at = "" if record.offset is None else f" at offset {record.offset}"
                return f"first read{at} by {self.who(record.op)}{self.faults(record.op)}"
        return ""

    def rows(self, verb: str, key: Any, op: int, value: Any) -> tuple[Record, ...]:
        """Returns the records of a key that an operation polled or sent.

        If `verb` is "polled", these are all records of the key that it polled; otherwise its sends of the value.
        """
        if self._lookup is None:
            return ()
        if verb == "polled":
            return self._lookup.polls_by(key, op)
        return tuple(record for record in self.sends(key, value) if record.op == op)

    def place(self, verb: str, key: Any, op: int, value: Any, last: bool = False) -> str:
        """Returns the offset at which an operation polled or sent a value, as a phrase; empty if not known.

        last  which offset to return if there are several: the last one, otherwise the first one
        """
        offsets = [record.offset for record in self.rows(verb, key, op, value) if record.value == value]
        return at_offset(offsets[-1 if last else 0]) if offsets else ""

    def step(self, verb: str, key: Any, op: int, values: Sequence[Any]) -> tuple[str, str]:
        """Returns the offsets of two values that an operation polled or sent, as phrases.

        If there are several offsets, prefers those at which the two values directly follow each other.
        """
        rows = self.rows(verb, key, op, values[0])
        for one, two in itertools.pairwise(rows):
            if (one.value, two.value) == tuple(values):
                return at_offset(one.offset), at_offset(two.offset)
        return self.place(verb, key, op, values[0]), self.place(verb, key, op, values[1])
