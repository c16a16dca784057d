"""Stale send: a record was sent after another record had been acknowledged, but has the lower offset.

An append happens between the invocation and the completion of its op, and a log grows only at its end. If a first send
to a key is acknowledged before a second send to the key is invoked, by the same process or another, the first send must
therefore have the lower offset. A violation is a cycle of one ww and one realtime edge (G0-realtime) that no
interleaving explains.

A record counts if it was read at exactly one offset, and no other record was seen at that offset. A record that was
acknowledged, and was deleted before it was read, counts with the acknowledged offset. (Any other record that was never
read may be lost: checker.anomalies.lost_write.) The first send counts only if it was acknowledged with the offset at
which its record is: with acks=0 there is no offset, and a duplicate may be appended after the acknowledgement. Witness
{key, values, delta, ops}: first the acknowledged record, then a record that precedes it in the log; if several precede
it, the one that was sent last. Native rules only. Source: Kafka documentation, Design, 4.6.
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
from harness.model.values_as_text import joined, many


def _latest_before(key: Ints, begun: Ints) -> Ints:
    """Returns, for each row, the row with the latest `begun` among this row and the earlier rows of its key.

    The rows of a key are consecutive.
    """
    packed = pack(key, begun) if len(key) else empty()
    if packed is None:
        packed = key * len(key) + ranks(begun)[1]
    highest = np.maximum.accumulate(packed)
    rows = np.arange(len(key), dtype=np.int64)
    result: Ints = np.maximum.accumulate(np.where(packed == highest, rows, 0))
    return result


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each record that was acknowledged before a record ahead of it in the log was sent."""
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
        gap = f" {(second_op.invoke_ns - first_op.complete_ns) / 1e6:,.1f} ms later"
    return joined(
        f"key {key}, value {first}: {phrases.sent(key, first, a)}",
        f"value {second} was sent{gap or ' later'}, by {phrases.who(b)}, but is {many(-witness['delta'], 'position')} "
        f"earlier in the log{phrases.place('sent', key, b, second)}{phrases.faults(b)}",
    )


ANOMALY = Anomaly(
    name="stale-send",
    summary="A record that was sent after another record had been acknowledged precedes that record in the log.",
    source="Kafka documentation: Design, 4.6 Message Delivery Semantics: a log is append-only",
    prose=prose,
    guarantee=Guarantee(
        DURABLE,
        "a log is append-only, so an acknowledged record has a lower offset than any record sent later",
        f"{DOCUMENTED}: Design, 4.6 Message Delivery Semantics, 4.7 Replication",
    ),
    find=find,
    native=True,
    worst_first=("delta", False),
)
