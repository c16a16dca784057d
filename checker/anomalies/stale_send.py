"""Stale send: a record stands in the log before one that was acknowledged before its own send began.

An append happens between its op's invocation and completion, and a log only grows at its end; so of two sends
to a key of which the first is acknowledged before the second begins, by whatever processes, the first has the
lower offset. It is the cycle of one ww and one real-time edge (G0-realtime) that no interleaving explains.

Only records that stand, read, at just one offset, alone there, count, and such as were acknowledged there and deleted
before anybody read them (what else was never read may be lost: checker.anomalies.lost_write); and as the earlier send
only one whose acknowledgement told that very offset: with acks=0 there is none, and a duplicate may land later than
its acknowledgement. Witness {key, values, delta, ops}, the acknowledged one first, then of the records before it
the one that was sent last. Native rules only. Source: Kafka documentation, Design, 4.6.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, DURABLE, Guarantee
from checker.anomalies.lost_write import excuses
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import pairs_of, table
from checker.tables.packing import Ints, empty, pack, ranks
from checker.tables.schema import OK
from harness.model.values_as_text import joined


def _latest_before(key: Ints, begun: Ints) -> Ints:
    """Per row, the row of its key that began last among those up to it. Rows of one key stand together."""
    packed = pack(key, begun) if len(key) else empty()
    if packed is None:
        packed = key * len(key) + ranks(begun)[1]
    highest = np.maximum.accumulate(packed)
    rows = np.arange(len(key), dtype=np.int64)
    result: Ints = np.maximum.accumulate(np.where(packed == highest, rows, 0))
    return result


def find(bucket: Bucket) -> pa.Table:
    """One witness per acknowledged record with a record before it that was sent only then."""
    data, orders, sends = bucket.data, bucket.versions, bucket.sends
    pick = orders.slot_pick
    alone = (orders.slot_values == 1) & (orders.first[pick] == orders.last[pick])
    slots = np.flatnonzero(alone & (data.writer_row[pick] >= 0))
    if not bucket.times_in_order:
        slots = slots[:0]
    row = data.writer_row[pick[slots]]
    confirmed = (sends.type[row] == OK) & (sends.offset[row] == orders.slot_offset[slots])
    placed = data.polled_ok[pick[slots]] | (confirmed & bucket.once(excuses).legal[pick[slots]])
    slots, row, confirmed = slots[placed], row[placed], confirmed[placed]
    pair = pick[slots]
    late = _latest_before(orders.slot_key[slots], sends.invoke_ns[row])
    at = np.flatnonzero(confirmed & (sends.complete_ns[row] < sends.invoke_ns[row[late]]))
    late = late[at]
    return table(
        {
            "key": bucket.key_codes(pair[at]),
            "values": pairs_of(bucket.values(pair[at]), bucket.values(pair[late])),
            "delta": slots[late] - slots[at],
            "ops": pairs_of(sends.op[row[at]], sends.op[row[late]]),
        }
    )


def prose(witness: Witness, phrases: Phrases) -> str:
    key, (first, second), (a, b) = witness["key"], witness["values"], witness["ops"]
    first_op, second_op = phrases.op(a), phrases.op(b)
    gap = ""
    if first_op is not None and second_op is not None and first_op.complete_ns is not None:
        gap = f" {(second_op.invoke_ns - first_op.complete_ns) / 1e6:,.1f} ms after that"
    return joined(
        f"key {key}, value {first}: {phrases.sent(key, first, a)}",
        f"value {second} was sent only{gap or ' after that'}, by {phrases.who(b)}, and stands "
        f"{-witness['delta']:,} before it in the log{phrases.place('sent', key, b, second)}{phrases.faults(b)}",
    )


ANOMALY = Anomaly(
    name="stale-send",
    summary="A record stands before another one that was acknowledged before it was sent.",
    source="Kafka documentation: Design, 4.6 Message Delivery Semantics: a log is only appended to",
    prose=prose,
    guarantee=Guarantee(
        DURABLE,
        "a log is only appended to, so what is acknowledged stands before what is sent later",
        f"{DOCUMENTED}: Design, 4.6 Message Delivery Semantics, 4.7 Replication",
    ),
    find=find,
    native=True,
    worst_first=("delta", False),
)
