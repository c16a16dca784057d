"""One witness of an anomaly as sentences: who wrote it, who read it, at which offset, what fault was on.

`FORMS` has one function per anomaly; a name that it lacks is shown as its fields. Without a lookup (a history
file without tables) ops are named by their index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.report import spans
from harness.report.lookup import Lookup, OpFact, Record

LISTED: Final = 8
Witness = Mapping[str, Any]

PAYLOAD: Final[Mapping[str, str]] = {
    "format": "what it holds is not a payload of this harness",
    "run": "its payload is of another run",
    "key": "its payload is of another key",
    "checksum": "its payload is damaged",
}


def seconds(time_ns: int) -> str:
    """A time since the run began."""
    return f"{time_ns / 1e9:.2f} s"


def listed(values: Sequence[Any]) -> str:
    """The first few values."""
    text = ", ".join(str(value) for value in values[:LISTED])
    return text + (f", ... ({len(values):,} in all)" if len(values) > LISTED else "")


class Teller:
    """Phrases about ops and records, as far as the lookup knows them."""

    def __init__(self, lookup: Lookup | None) -> None:
        self._lookup = lookup

    def op(self, id_: int | None) -> OpFact | None:
        """The facts about an op."""
        return self._lookup.op(id_) if self._lookup is not None and id_ is not None else None

    def who(self, id_: int) -> str:
        """Process, op and time."""
        fact = self.op(id_)
        if fact is None:
            return f"op {id_}"
        return f"process {fact.process} (op {id_}, {seconds(fact.at_ns)})"

    def faults(self, *ids: int | None) -> str:
        """The faults that were on while any of the ops ran, as the end of a sentence."""
        found: dict[str, None] = {}
        for fact in map(self.op, ids):
            if fact is not None and self._lookup is not None:
                for span in spans.during(self._lookup.spans, fact.invoke_ns, fact.at_ns):
                    found[span.label] = None
        return f", while {' and '.join(found)} was on" if found else ""

    def sends(self, key: Any, value: Any) -> tuple[Record, ...]:
        return self._lookup.sends(key, value) if self._lookup is not None else ()

    def polls(self, key: Any, value: Any) -> tuple[Record, ...]:
        return self._lookup.polls(key, value) if self._lookup is not None else ()

    def sent(self, key: Any, value: Any, op: int | None = None) -> str:
        """Who sent a value, when, how that ended, and what fault was on; empty when not known."""
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
        return f"{'failed' if fact.type == 'fail' else 'indeterminate'} {took}{why}"

    def read(self, key: Any, value: Any, offset: int | None = None) -> str:
        """Who first read a value, at an offset if one is given; empty when nobody did, or it is not known."""
        for record in self.polls(key, value):
            if offset is None or record.offset == offset:
                at = "" if record.offset is None else f" at offset {record.offset}"
                return f"first read{at} by {self.who(record.op)}{self.faults(record.op)}"
        return ""

    def place(self, key: Any, op: int, value: Any) -> str:
        """The offset at which an op polled or sent a value, in words; empty when not known."""
        if self._lookup is None:
            return ""
        for record in (*self._lookup.polls_by(key, op), *self.sends(key, value)):
            if record.value == value and record.op == op and record.offset is not None:
                return f" at offset {record.offset}"
        return ""


def joined(*parts: str) -> str:
    """Sentences of the parts that say something."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)


def _lost_write(witness: Witness, tell: Teller) -> str:
    key, value, writer = witness["key"], witness["value"], witness.get("writer")
    end, reader = witness.get("end"), witness.get("max-read")
    if end is not None:
        unread = f"nobody read it, and the final polls read this log to its end, offset {end}"
        offset = witness.get("offset")
        if offset is not None and offset >= end:
            unread += ": the log is now shorter than what was acknowledged"
    elif reader is not None:
        unread = f"nobody read it, and {tell.who(reader)} read beyond it"
    else:
        unread = "nobody read it"
    return joined(f"key {key}, value {value}: {tell.sent(key, value, writer)}", unread)


def _unseen(witness: Witness, tell: Teller) -> str:
    counts, messages = witness.get("unseen") or {}, witness.get("messages") or {}
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if not top:
        return joined("nothing was left unread")
    key = top[0][0]
    per_key = ", ".join(f"key {key}: {count:,}" for key, count in top[:LISTED])
    more = f" and {len(top) - LISTED} more keys" if len(top) > LISTED else ""
    when = seconds(witness["time"]) if isinstance(witness.get("time"), int) else "the end"
    return joined(
        f"at {when} acknowledged records that nobody had read: {per_key}{more}",
        f"of key {key} among them the values {listed(messages.get(key, []))}" if messages.get(key) else "",
    )


def _inconsistent_offsets(witness: Witness, tell: Teller) -> str:
    key, offset, values = witness["key"], witness["offset"], witness["values"]
    parts = [f"key {key}: offset {offset} was seen to hold the values {listed(values)}"]
    for value in values[:3]:
        known = [tell.sent(key, value), tell.read(key, value, offset)]
        known = [text for text in known if text]
        if known:
            parts.append(f"value {value}: {'; '.join(known)}")
    return joined(*parts)


def _duplicate(witness: Witness, tell: Teller) -> str:
    key, value, offsets = witness["key"], witness["value"], witness.get("offsets") or []
    parts = [
        f"key {key}, value {value} stands at {witness['count']} offsets: {listed(offsets)}",
        tell.sent(key, value),
    ]
    parts += [tell.read(key, value, offset) for offset in offsets[:3]]
    return joined(*parts)


def _aborted_read(witness: Witness, tell: Teller) -> str:
    key, value, reader = witness["key"], witness["value"], witness["reader"]
    return joined(
        f"key {key}, value {value}: {tell.sent(key, value, witness['writer'])}",
        f"all the same it was read{tell.place(key, reader, value)} by {tell.who(reader)}{tell.faults(reader)}",
    )


def _precommitted_read(witness: Witness, tell: Teller) -> str:
    key, value, op = witness["key"], witness["value"], witness["op"]
    return joined(
        f"{tell.who(op)} sent value {value} to key {key} and polled it{tell.place(key, op, value)} "
        f"within the same transaction, before it could commit{tell.faults(op)}"
    )


def _phantom_read(witness: Witness, tell: Teller) -> str:
    key, value, op, count = witness["key"], witness["value"], witness["op"], witness.get("count", 1)
    if isinstance(value, str) and value.startswith("bad-payload:"):
        reason, _, start = value.removeprefix("bad-payload:").partition(":")
        what = f"a record that does not verify: {PAYLOAD.get(reason, reason)}"
        what += f" (it begins with {start})" if start else ""
    else:
        what = f"value {value}, which nobody sent"
    often = f"; {count:,} records are so" if count and count > 1 else ""
    return joined(
        f"key {key}, offset {witness.get('offset')}: {tell.who(op)} polled {what}{often}{tell.faults(op)}"
    )


def _torn_transaction(witness: Witness, tell: Teller) -> str:
    op = witness["op"]
    lost = witness.get("lost") or 0
    rest = "although it was aborted" if witness.get("aborted") else f"and {lost} are lost"
    return joined(
        f"the transaction of {tell.who(op)} sent {witness['sent']} records: "
        f"{witness['visible']} of them can be read, {rest}{tell.faults(op)}"
    )


def _step_inside(verb: str) -> Callable[[Witness, Teller], str]:
    """Anomalies between two records of one op."""

    def text(witness: Witness, tell: Teller) -> str:
        key, op, (first, second) = witness["key"], witness["op"], witness["values"]
        return joined(
            f"{tell.who(op)} {verb} value {first} of key {key}{tell.place(key, op, first)} "
            f"and then value {second}{tell.place(key, op, second)}, {_apart(witness['delta'])}{tell.faults(op)}",
            _skipped(witness, tell),
        )

    return text


def _step_between(verb: str) -> Callable[[Witness, Teller], str]:
    """Anomalies between two ops of one process."""

    def text(witness: Witness, tell: Teller) -> str:
        key, (before, after) = witness["key"], witness["ops"]
        if "values" not in witness:
            return joined(
                f"{tell.who(before)} {verb} key {key}, and the next time, {tell.who(after)}, "
                f"{_apart(witness['delta'])}{tell.faults(before, after)}",
                _skipped(witness, tell),
            )
        first, second = witness["values"]
        return joined(
            f"{tell.who(before)} {verb} value {first} of key {key}{tell.place(key, before, first)}, and the next "
            f"time, {tell.who(after)}, value {second}{tell.place(key, after, second)}, "
            f"{_apart(witness['delta'])}{tell.faults(before, after)}"
        )

    return text


def _apart(delta: int) -> str:
    if delta == 0:
        return "the same record again"
    if delta < 0:
        return f"which stands {-delta:,} before it in the log"
    return f"{delta - 1:,} records further on than the next one"


def _skipped(witness: Witness, tell: Teller) -> str:
    values = witness.get("skipped") or []
    if not values:
        return ""
    first = tell.sent(witness["key"], values[0])
    return f"passed over: the values {listed(values)}" + (f"; {values[0]} was {first}" if first else "")


FORMS: Final[Mapping[str, Callable[[Witness, Teller], str]]] = {
    "lost-write": _lost_write,
    "unseen": _unseen,
    "inconsistent-offsets": _inconsistent_offsets,
    "duplicate": _duplicate,
    "G1a": _aborted_read,
    "precommitted-read": _precommitted_read,
    "phantom-read": _phantom_read,
    "torn-transaction": _torn_transaction,
    "int-poll-skip": _step_inside("polled"),
    "int-nonmonotonic-poll": _step_inside("polled"),
    "int-send-skip": _step_inside("sent"),
    "int-nonmonotonic-send": _step_inside("sent"),
    "poll-skip": _step_between("polled"),
    "nonmonotonic-poll": _step_between("polled"),
    "nonmonotonic-send": _step_between("sent"),
}


def text(anomaly: str, witness: Witness, lookup: Lookup | None) -> str:
    """A witness in prose."""
    form = FORMS.get(anomaly)
    if form is not None:
        try:
            return form(witness, Teller(lookup))
        except (KeyError, ValueError, TypeError):
            pass  # the witness of another version: its fields speak for themselves
    return ", ".join(
        f"{name} {listed(held) if isinstance(held, list) else held}" for name, held in witness.items()
    )
