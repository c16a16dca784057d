"""Phantom read: an op polled a value that no op sent, that was sent only later, or whose payload does not verify.

Polls and sends in ops of every type count, including sends that never completed. An op polls its records before it
completes. If all sends of a value were invoked after that completion, the value cannot have been in the log. Witness
{key, value, offset, op, count}: `op` is the first op that polled the value, `count` how many polled records have it.
Under native rules there is also `writer`, the op that sent the value later (null if no op did). Jepsen's checker has no
such anomaly: it throws `no-writer-of-value` for a value that no op sent. Source: jepsen.tests.kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, Guarantee, damage_noticed
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import nullable, table
from checker.tables.packing import Ints, begins, order
from harness.model.values_as_text import joined


def _first_sent(bucket: Bucket) -> Ints:
    """Returns, for each value, when its first send was invoked, in nanoseconds.

    The result is the largest integer if no op sent the value. It is -1 if the invocation is missing in the history,
    because the send may have begun at any time.
    """
    sends = bucket.sends
    invoke_ns = np.where(sends.invoke_ns == sends.complete_ns, -1, sends.invoke_ns)
    since = np.full(len(bucket.data.pair_key), np.iinfo(np.int64).max, np.int64)
    since[sends.pair] = invoke_ns
    again = np.flatnonzero(invoke_ns < since[sends.pair])  # a value that was sent more than once
    np.minimum.at(since, sends.pair[again], invoke_ns[again])
    return since


def _without_source(bucket: Bucket) -> Ints:
    """Returns the rows of `polls` with a value that no op had begun to send when the poll completed."""
    polls, writer_row = bucket.polls, bucket.data.writer_row
    if bucket.options.jepsen_compatible or not bucket.times_in_order:
        return np.flatnonzero(writer_row[polls.pair] < 0)
    rows = np.flatnonzero(polls.complete_ns < _first_sent(bucket)[polls.pair])
    return rows[(polls.complete_ns[rows] >= 0) | (writer_row[polls.pair[rows]] < 0)]


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each value that was polled although it was never sent, or before it was sent."""
    polls = bucket.polls
    rows = _without_source(bucket)
    rows = rows[order(polls.pair[rows], polls.op[rows])]
    pair = polls.pair[rows]
    heads = np.flatnonzero(begins(pair))
    first = rows[heads]
    columns = {
        "key": bucket.key_codes(polls.pair[first]),
        "value": bucket.values(polls.pair[first]),
        "offset": nullable(polls.offset[first]),
        "op": polls.op[first],
        "count": np.diff(np.append(heads, len(rows))),
    }
    if not bucket.options.jepsen_compatible:
        columns["writer"] = nullable(bucket.data.writer[polls.pair[first]])
    return table(columns)


def keep_proven(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Keeps the witnesses of records whose payload does not verify, and of values that were sent later.

    The others are dropped, because a missing line may contain the op that sent the value.
    """
    values = [original.get(code, code) for code in rows.column("value").to_pylist()]
    broken = pa.array([isinstance(value, str) and value.startswith(BAD) for value in values], pa.bool_())
    return rows.filter(pc.or_(broken, pc.is_valid(rows.column("writer"))))


BAD: Final = "bad-payload:"
PAYLOAD: Final[Mapping[str, str]] = {
    "format": "its payload is not in this harness's format",
    "run": "its payload is from another run",
    "key": "its payload is from another key",
    "checksum": "its payload is damaged",
}


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, op, count = witness["key"], witness["value"], witness["op"], witness.get("count", 1)
    writer = witness.get("writer")
    if writer is not None:
        what = f"value {value} before it was sent"
    elif isinstance(value, str) and value.startswith(BAD):
        reason, _, start = value.removeprefix(BAD).partition(":")
        what = f"a record that does not verify: {PAYLOAD.get(reason, reason)}"
        what += f" (it begins with {start})" if start else ""
    else:
        what = f"value {value}, which was never sent"
    often = f", the first of {count:,} such records" if count and count > 1 else ""
    return joined(
        f"key {key}, offset {witness.get('offset')}: {phrases.who(op)} polled {what}{often}{phrases.faults(op)}",
        f"it was {phrases.sent(key, value, writer)}" if writer is not None else "",
    )


ANOMALY = Anomaly(
    name="phantom-read",
    summary="A record was read that was never sent, was sent only later, or whose content differs from what was sent.",
    source="jepsen.tests.kafka, no-writer-of-value; Kafka documentation: check.crcs",
    prose=prose,
    guarantee=Guarantee((damage_noticed,), "consumers read only what was sent", f"{DOCUMENTED}: check.crcs"),
    find=find,
    if_lines_missing=keep_proven,
)
