"""Phrases about operations and records: the process, the time, the offset, and the active faults."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from harness.model.values_as_text import at_offset, seconds
from harness.stored import fault_spans
from harness.stored.operations_and_records import Facts, OpFact, Record


class OpPhrases:
    """Builds phrases about operations and records from a lookup. If the lookup lacks facts, the phrases are shorter."""

    def __init__(self, lookup: Facts | None) -> None:
        self._lookup = lookup

    def op(self, id_: int | None) -> OpFact | None:
        """Returns the facts about an operation, or None if they are not known."""
        return self._lookup.op(id_) if self._lookup is not None and id_ is not None else None

    def who(self, id_: int) -> str:
        """Returns the process, id and time of an operation, as a phrase."""
        fact = self.op(id_)
        if fact is None:
            return f"op {id_}"
        return f"process {fact.process} (op {id_}, {seconds(fact.at_ns)})"

    def when(self, id_: int) -> str:
        """Returns the id and time of an operation, as a phrase for a sentence that already names the process."""
        fact = self.op(id_)
        return f"op {id_}" if fact is None else f"op {id_}, {seconds(fact.at_ns)}"

    def faults(self, *ids: int | None) -> str:
        """Returns which faults were active during the operations, as the end of a sentence; empty if none was."""
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
        """Returns who sent a value, when, with which outcome, and during which faults; empty if not known."""
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
        """Returns who first read a value (at `offset`, if given), as a phrase; empty if no read is known."""
        for record in self.polls(key, value):
            if offset is None or record.offset == offset:
                at = "" if record.offset is None else f" at offset {record.offset}"
                return f"first read{at} by {self.who(record.op)}{self.faults(record.op)}"
        return ""

    def rows(self, verb: str, key: Any, op: int, value: Any) -> tuple[Record, ...]:
        """Returns all records of a key that an operation polled, if `verb` is "polled".

        For any other verb, returns the operation's sends of the value.
        """
        if self._lookup is None:
            return ()
        if verb == "polled":
            return self._lookup.polls_by(key, op)
        return tuple(record for record in self.sends(key, value) if record.op == op)

    def place(self, verb: str, key: Any, op: int, value: Any, last: bool = False) -> str:
        """Returns the offset at which an operation polled or sent a value, as a phrase; empty if not known.

        last  if the operation did so several times: whether to return the last offset, not the first
        """
        offsets = [record.offset for record in self.rows(verb, key, op, value) if record.value == value]
        return at_offset(offsets[-1 if last else 0]) if offsets else ""

    def step(self, verb: str, key: Any, op: int, values: Sequence[Any]) -> tuple[str, str]:
        """Returns, as phrases, the offsets of two values that an operation polled or sent one after the other."""
        rows = self.rows(verb, key, op, values[0])
        for one, two in itertools.pairwise(rows):
            if (one.value, two.value) == tuple(values):
                return at_offset(one.offset), at_offset(two.offset)
        return self.place(verb, key, op, values[0]), self.place(verb, key, op, values[1])
