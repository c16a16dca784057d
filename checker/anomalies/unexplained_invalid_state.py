"""An acknowledgement was refused with INVALID_RECORD_STATE, although its member still held the lock.

The lock holds at least for a lock duration after the earliest time at which the record can have been acquired, or since
its last confirmed renewal. The broker refuses the acknowledgements of a request for one partition together, so this is
judged only if every acknowledgement of the op for the key was within its lock, was the member's first one since the
delivery, and no leader may have moved. Witness {group, key, offset, ops}: the delivery, then the acknowledgement.
Source: KIP-932 (ShareAcknowledge).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import KIP_932, TRACKED, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.share_locks import matches
from checker.kernels.witness import pairs_of
from checker.tables.packing import begins, order
from checker.tables.schema import INVALID_STATE


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each op and key whose acknowledgements were refused without a reason."""
    acks, given = share.acknowledgements, share.deliveries
    if share.lock_ns is None or not share.provable or share.options.settings.deletes or len(acks.record) == 0:
        return share.none()
    if len(given.record) == 0:
        return share.none()
    found = share.once(matches)
    delivery = np.maximum(found.delivery, 0)
    begun = np.maximum(given.earliest[delivery], found.renewed)
    within = (found.delivery >= 0) & found.first & (acks.complete_ns >= 0)
    within &= acks.complete_ns < begun + share.lock_ns
    within &= ~share.disturbed.between(given.earliest[delivery], acks.complete_ns)
    refused = acks.error == INVALID_STATE
    key = share.records.key[acks.record]
    by = order(acks.op, key)
    heads = np.flatnonzero(begins(acks.op[by], key[by]))
    whole = np.logical_and.reduceat(within[by], heads)
    some = np.maximum.reduceat(np.where(refused[by], np.arange(len(by)), -1), heads)
    rows = by[some[whole & (some >= 0)]]
    return share.witnesses(acks.record[rows], ops=pairs_of(given.op[delivery[rows]], acks.op[rows]))


ANOMALY = Anomaly(
    name="unexplained-invalid-state",
    summary="An acknowledgement was refused with INVALID_RECORD_STATE while its member held the lock.",
    source=KIP_932,
    kind="share",
    prose=described("the acknowledgement was refused within the lock duration"),
    guarantee=TRACKED,
    find_share=find,
)
