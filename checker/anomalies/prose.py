"""One witness of an anomaly as sentences: who wrote it, who read it, at which offset, what fault was on.

`FORMS` has one function per anomaly, and cycles have one for all; a name that it lacks is shown as its
fields. Without a lookup (a history file without tables) ops are named by their index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.report.text import cycle_text, pipeline_text
from harness.report.text.phrases import LISTED, Teller, first_of, joined, listed, many, seconds
from harness.stored.facts import Facts

Witness = Mapping[str, Any]

PAYLOAD: Final[Mapping[str, str]] = {
    "format": "what it holds is not a payload of this harness",
    "run": "its payload is of another run",
    "key": "its payload is of another key",
    "checksum": "its payload is damaged",
}


def _lost_write(witness: Witness, tell: Teller) -> str:
    key, value, offset = witness["key"], witness["value"], witness.get("offset")
    end, reader = witness.get("end"), witness.get("max-read")
    seen = tell.read(key, value)
    gone = f"{seen}, and no longer there when the log was read once more from its beginning"
    parts = [f"key {key}, value {value}: {tell.sent(key, value, witness.get('writer'))}"]
    parts.append(gone if seen else "nobody read it")
    index, most = witness.get("index"), witness.get("max-read-index")
    if not seen and reader is not None and index is not None and most is not None and index <= most:
        parts.append(f"{tell.who(reader)} read beyond its place")
    if end is not None:
        shorter = ", before the place where the record was acknowledged" if _before(end, offset) else ""
        parts.append(f"in the end the log of the key ended at offset {end}{shorter}")
    return joined(*parts)


def _before(end: int, offset: int | None) -> bool:
    return offset is not None and end <= offset


def _unseen(witness: Witness, tell: Teller) -> str:
    counts, messages = witness.get("unseen") or {}, witness.get("messages") or {}
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if not top:
        return joined("nothing was left unread")
    key = top[0][0]
    left = sorted(messages.get(key) or [], key=lambda one: (isinstance(one, str), one))
    per_key = ", ".join(f"key {key}: {count:,}" for key, count in top[:LISTED])
    more = f" and {len(top) - LISTED} more keys" if len(top) > LISTED else ""
    when = seconds(witness["time"]) if isinstance(witness.get("time"), int) else "the end"
    return joined(
        f"at {when} acknowledged records that nobody had read: {per_key}{more}",
        f"among them, of key {key}, the values {first_of(left, top[0][1])}" if left else "",
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
    place = tell.place("polled", key, reader, value)
    return joined(
        f"key {key}, value {value}: {tell.sent(key, value, witness['writer'])}",
        f"all the same {tell.who(reader)} read it{place}{tell.faults(reader)}",
    )


def _precommitted_read(witness: Witness, tell: Teller) -> str:
    key, value, op = witness["key"], witness["value"], witness["op"]
    return joined(
        f"{tell.who(op)} sent value {value} to key {key} and polled it{tell.place('polled', key, op, value)} "
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
    often = f", the first of {count:,} such records" if count and count > 1 else ""
    return joined(f"key {key}, offset {witness.get('offset')}: {tell.who(op)} polled {what}{often}{tell.faults(op)}")


def _torn_transaction(witness: Witness, tell: Teller) -> str:
    op = witness["op"]
    lost = witness.get("lost") or 0
    rest = "although it was aborted" if witness.get("aborted") else f"{lost:,} lost"
    return joined(
        f"the transaction of {tell.who(op)} sent {many(witness['sent'], 'record')}: "
        f"{witness['visible']:,} can be read, {rest}{tell.faults(op)}"
    )


def _step_inside(verb: str) -> Callable[[Witness, Teller], str]:
    """Anomalies between two records of one op."""

    def text(witness: Witness, tell: Teller) -> str:
        key, op, (first, second) = witness["key"], witness["op"], witness["values"]
        one, two = tell.step(verb, key, op, (first, second))
        said, about = _apart(witness, tell)
        return joined(
            f"{tell.who(op)} {VERBS[verb]} key {key}: value {first}{one} and then value {second}{two}, "
            f"{said}{tell.faults(op)}",
            about,
        )

    return text


def _step_between(verb: str) -> Callable[[Witness, Teller], str]:
    """Anomalies between two ops of one process."""

    def text(witness: Witness, tell: Teller) -> str:
        key, (before, after) = witness["key"], witness["ops"]
        faults = tell.faults(before, after)
        said, about = _apart(witness, tell)
        head = f"{tell.who(before)} {VERBS[verb]} key {key}"
        if "values" not in witness:
            return joined(f"{head}, and the next time ({tell.when(after)}) went on {said}{faults}", about)
        first, second = witness["values"]
        return joined(
            f"{head}: value {first}{tell.place(verb, key, before, first, last=True)}, and the next time "
            f"({tell.when(after)}) value {second}{tell.place(verb, key, after, second)}, {said}{faults}",
            about,
        )

    return text


def _stale_send(witness: Witness, tell: Teller) -> str:
    key, (first, second), (a, b) = witness["key"], witness["values"], witness["ops"]
    one, two = tell.op(a), tell.op(b)
    gap = ""
    if one is not None and two is not None and one.complete_ns is not None:
        gap = f" {(two.invoke_ns - one.complete_ns) / 1e6:,.1f} ms after that"
    return joined(
        f"key {key}, value {first}: {tell.sent(key, first, a)}",
        f"value {second} was sent only{gap or ' after that'}, by {tell.who(b)}, and stands "
        f"{-witness['delta']:,} before it in the log{tell.place('sent', key, b, second)}{tell.faults(b)}",
    )


def _offset_regression(witness: Witness, tell: Teller) -> str:
    key, kind, (a, b) = witness["key"], witness["kind"], witness["ops"]
    committed, found = witness.get("committed"), witness.get("found")
    head = f"key {key}: {tell.who(a)} committed the offset {committed}{tell.faults(a)}"
    if kind == "back":
        return joined(head, f"{tell.who(b)}, which began after that, committed the offset {found}{tell.faults(b)}")
    if kind == "lost":
        held = "no committed offset" if found is None else f"the committed offset {found}"
        return joined(head, f"an assignment in {tell.who(b)}, which began after that, found {held}{tell.faults(b)}")
    return joined(
        f"key {key}: an assignment in {tell.who(b)} found the committed offset {found}{tell.faults(b)}",
        f"only transactions that aborted had sent it, such as that of {tell.who(a)}",
    )


VERBS: Final = {"polled": "polled", "sent": "sent to"}


def _apart(witness: Witness, tell: Teller) -> tuple[str, str]:
    """(how the second record stands to the first, what is known of those between)."""
    delta, values = witness["delta"], witness.get("skipped") or []
    if delta == 0:
        return "the same record again", ""
    if delta < 0:
        return f"which stands {-delta:,} before it in the log", ""
    between = f" ({first_of(values, delta - 1)})" if values else ""
    sent = tell.sent(witness["key"], values[0]) if values else ""
    return (
        f"beyond {many(delta - 1, 'record')}{between}",
        f"value {values[0]} was {sent}" if sent else "",
    )


def _log_divergence(witness: Witness, tell: Teller) -> str:
    return joined(
        f"step {witness['step']}, {witness['over']}: {witness['seen']}",
        f"{many(witness['actions'], 'action')} in {witness['program']} ({witness['said']})",
    )


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
    "stale-send": _stale_send,
    "offset-regression": _offset_regression,
    **pipeline_text.FORMS,
    "log-divergence": _log_divergence,
}


def text(anomaly: str, witness: Witness, lookup: Facts | None) -> str:
    """A witness in prose."""
    form = cycle_text.text if cycle_text.is_cycle(witness) else FORMS.get(anomaly)
    if form is not None:
        try:
            return form(witness, Teller(lookup))
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, OSError):
            # A witness of another version, or tables that cannot be read: its fields speak for themselves.
            return _fields(witness)
    return _fields(witness)


def _fields(witness: Witness) -> str:
    return ", ".join(f"{name} {listed(held) if isinstance(held, list) else held}" for name, held in witness.items())
