"""Recognises anomalies directly in a few operations, without any code of the checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.op import Op, polls, sends

Pair = tuple[Any, Any]


def read_plainly(anomaly: str, witness: Mapping[str, Any], ops: Sequence[Op]) -> None:
    """Asserts that the operations show what the witness says, for the anomalies known here."""
    done = {op.index: op for op in ops if op.type != "invoke"}
    read = [row for op in done.values() if op.type == "ok" for row in polls(op)]
    pair = (witness.get("key"), witness.get("value"))
    if anomaly == "lost-write":
        lost(*pair, list(done.values()))
    elif anomaly == "torn-transaction":
        torn(done[witness["op"]], list(done.values()))
    elif anomaly == "duplicate":
        rows = read + [row for op in done.values() for row in sends(op) if row[1] is not None]
        assert len({offset for key, offset, value in rows if (key, value) == pair}) > 1
    elif anomaly == "inconsistent-offsets":
        rows = read + [row for op in done.values() if op.type == "ok" for row in sends(op)]
        place = (witness["key"], witness["offset"])
        assert len({value for key, offset, value in rows if (key, offset) == place}) > 1
    elif anomaly == "G1a":
        assert done[witness["writer"]].type == "fail" and done[witness["reader"]].type == "ok"
        assert pair in _pairs(sends(done[witness["writer"]])) & _pairs(polls(done[witness["reader"]]))
    elif anomaly == "phantom-read":
        assert pair in _pairs(read)


def torn(transaction: Op, done: Sequence[Op]) -> None:
    """Committed, with some of its records read and some lost; or aborted, with some read."""
    sent = _pairs(sends(transaction))
    seen = sent & _pairs(row for op in done if op.type == "ok" for row in polls(op))
    assert seen
    if transaction.type == "fail":
        return
    assert transaction.type in ("ok", "info") and seen < sent
    for key, value in sent - seen:
        lost(key, value, done)


def lost(key: Any, value: Any, done: Sequence[Op]) -> None:
    """Acknowledged or committed, and never polled, although a consumer read beyond it, or the log to its end."""
    (writer,) = [op for op in done if (key, value) in _pairs(sends(op))]
    assert writer.type in ("ok", "info")
    assert not any((key, value) in _pairs(polls(op)) for op in done if op.type == "ok")
    offset = next(at for k, at, v in sends(writer) if (k, v) == (key, value))
    read = [at for op in done if op.type == "ok" for k, at, _ in polls(op) if k == key]
    ends = [
        (dict(op.extra["positions"]).get(key), end)
        for op in done
        for k, _, end in op.extra.get("ends", ())
        if k == key and op.extra.get("final")
    ]
    to_the_end = any(position is not None and position >= end for position, end in ends)
    assert to_the_end or (offset is not None and max(read, default=-1) >= offset)


def _pairs(rows: Any) -> set[Pair]:
    return {(key, value) for key, _, value in rows}
