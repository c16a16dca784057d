"""Unseen: values that must be in the log and that no `ok` op had polled by the end of the history.

The witnesses are rows {key, count, messages, complete}, one per key. The queue check joins these rows into Jepsen's
single witness {time, unseen, messages}. Jepsen counts the values that `ok` ops sent. Native rules differ:

- Values of `info` ops count, too, if they must exist.
- Legally deleted values do not count.
- The anomaly counts against the verdict only for keys whose log the final polls read to the end (`complete`). For other
  keys, values also count if it is unknown whether they must exist.

Under Jepsen's rules a quirk of Jepsen is kept: if a key has no acknowledged sends, and its first `ok` poll is in the
last `ok` op of the history, the values of this poll count. Source: jepsen.tests.kafka, `unseen`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import Rows
from checker.anomalies.guarantees import KEPT
from checker.anomalies.lost_write import excuses
from checker.anomalies.prose import Phrases, Witness
from checker.anomalies.what_stands import keep_none
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import int_lists, table
from checker.tables.packing import Bools, begins
from checker.tables.schema import OK
from harness.model.check_options import CheckOptions
from harness.model.values_as_text import LISTED, first_of, joined, seconds


def _polled_at_last(bucket: Bucket) -> Bools:
    """Returns, for each value, whether it counts as unseen only because of a quirk of Jepsen's checker.

    The quirk applies if the last `ok` op polled the value, no earlier `ok` op polled its key, and no send to the key
    was acknowledged.
    """
    data = bucket.data
    last = bucket.small.meta["last_ok_op"]
    read = bucket.polls.type == OK
    op, key, pair = bucket.polls.op[read], bucket.polls.key[read], bucket.polls.pair[read]
    nothing = data.nothing.where(data.nothing.type == OK)
    earlier = np.zeros(len(data.keys), np.bool_)
    earlier[key[op < last]] = True
    earlier[nothing.key[nothing.op < last]] = True
    earlier[bucket.sends.key[bucket.sends.type == OK]] = True
    odd = np.zeros(len(data.pair_key), np.bool_)
    odd[pair[(op == last) & ~earlier[key]]] = True
    return odd


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each key with values that must exist and were never polled."""
    data = bucket.data
    if bucket.options.jepsen_compatible:
        acknowledged = np.zeros(len(data.pair_key), np.bool_)
        acknowledged[bucket.sends.pair[bucket.sends.type == OK]] = True
        left = (acknowledged & ~data.polled_ok) | _polled_at_last(bucket)
    else:
        _, _, read_to_end = bucket.ends.of(data.keys)
        expected = np.where(read_to_end[data.pair_key], bucket.must_exist, bucket.may_have_to_exist)
        excused = bucket.once(excuses)
        nowhere = bucket.versions.last < 0  # no known offset: the value may be above the log start
        gone = np.where(read_to_end[data.pair_key], excused.legal | (excused.unsure >= 0), excused.legal & ~nowhere)
        left = expected & ~data.polled_ok & ~gone
    pairs = np.flatnonzero(left)
    key = data.pair_key[pairs]
    heads = np.flatnonzero(begins(key))
    count = np.diff(np.append(heads, len(pairs)))
    codes = data.keys[key[heads]]
    _, _, complete = bucket.ends.of(codes)
    return table(
        {
            "key": codes,
            "count": count,
            "messages": int_lists(bucket.values(pairs), count),
            "complete": complete,
        }
    )


def bad(rows: Rows, options: CheckOptions) -> bool:
    """Returns whether the final polls read the log of at least one of the keys to its end."""
    return any(row["complete"] for row in rows)


def prose(witness: Witness, phrases: Phrases) -> str:
    counts, messages = witness.get("unseen") or {}, witness.get("messages") or {}
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if not top:
        return joined("every record was read")
    key = top[0][0]
    left = sorted(messages.get(key) or [], key=lambda value: (isinstance(value, str), value))
    per_key = ", ".join(f"{count:,} of key {key}" for key, count in top[:LISTED])
    more = f" and {len(top) - LISTED} more keys" if len(top) > LISTED else ""
    when = seconds(witness["time"]) if isinstance(witness.get("time"), int) else "the end"
    return joined(
        f"records that should be in the log had not been read by {when}: {per_key}{more}",
        f"unread values of key {key}: {first_of(left, top[0][1])}" if left else "",
    )


ANOMALY = Anomaly(
    name="unseen",
    summary="Records that should be in the log had not been read by any consumer when the history ended.",
    source="jepsen.tests.kafka, unseen; Kafka documentation: acks",
    prose=prose,
    guarantee=KEPT,
    bad=bad,
    find=find,
    if_lines_missing=keep_none,
)
