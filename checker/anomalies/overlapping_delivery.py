"""Two members of a share group had the same record at the same time.

A delivered record is locked for its member until the lock expires, the record is released, or the member's session
ends. The two deliveries overlap if the later poll completed less than a lock duration after the earliest time at which
either acquisition can have happened, neither member released the record or may have ended before, and no leader may
have moved. Witness {group, key, offset, ops}. Source: KIP-932; group.share.record.lock.duration.ms.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import KIP_932, TRACKED, described
from checker.kernels.share_bucket import NEVER, ShareBucket
from checker.kernels.witness import pairs_of
from checker.tables.packing import Bools, Ints
from checker.tables.schema import FAIL, RELEASE


def neighbours(share: ShareBucket) -> Ints:
    """Returns the rows of deliveries whose next row is a delivery of the same record to another living member."""
    given, alive = share.deliveries, share.members.alive
    if len(given.record) < 2:
        return np.empty(0, np.int64)
    same = given.record[1:] == given.record[:-1]
    others = given.member[1:] != given.member[:-1]
    until = given.complete_ns[1:]
    living = (alive[given.member[:-1]] >= until) & (alive[given.member[1:]] >= until)
    return np.flatnonzero(same & others & living)


def released_before(share: ShareBucket, rows: Ints) -> Bools:
    """Returns whether the record of each delivery may have been released before the next row's poll completed."""
    acks, given = share.acknowledgements, share.deliveries
    first = np.full(len(share.records.group), NEVER, np.int64)
    released = (acks.kind == RELEASE) & (acks.type != FAIL)
    np.minimum.at(first, acks.record[released], acks.begin_ns[released])
    result: Bools = first[given.record[rows]] <= given.complete_ns[rows + 1]
    return result


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each two deliveries of a record whose locks overlap."""
    if share.lock_ns is None or not share.provable:
        return share.none()
    given, rows = share.deliveries, neighbours(share)
    begun = np.minimum(given.earliest[rows], given.earliest[rows + 1])
    until = given.complete_ns[rows + 1]
    overlap = (until - begun < share.lock_ns) & ~released_before(share, rows) & ~share.disturbed.between(begun, until)
    rows = rows[overlap]
    return share.witnesses(given.record[rows], ops=pairs_of(given.op[rows], given.op[rows + 1]))


ANOMALY = Anomaly(
    name="overlapping-delivery",
    summary="Two members of a share group had the same record while it was locked for one of them.",
    source=KIP_932,
    kind="share",
    prose=described("two members had the record within one lock duration"),
    guarantee=TRACKED,
    find_share=find,
)
