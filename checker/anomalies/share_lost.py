"""A record of the log was never finished by a share group, and was not delivered any more.

Which records must be delivered is decided in checker.kernels.share_unfinished. Records whose last event is a confirmed
release are `released-not-redelivered`. Witness {group, key, offset, ops}: the op that delivered or acknowledged the
record last, or that sent it if no member ever got it. Source: KIP-932.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import DELIVERED, KIP_932, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.share_unfinished import unfinished
from checker.kernels.witness import pairs_of, table


def witnesses(share: ShareBucket, released: bool) -> pa.Table:
    """Returns a witness for each unfinished record whose last event is, or is not, a confirmed release."""
    found = share.once(unfinished).certain
    rows = found.where(found.released == released)
    ops = pairs_of(rows.last_op, rows.last_op)
    got = pa.array(np.where(rows.record >= 0, "its last delivery", "never delivered").tolist(), pa.string())
    return table({"group": rows.group, "key": rows.key, "offset": rows.offset, "after": got, "ops": ops})


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each record that a group did not finish."""
    return witnesses(share, released=False)


ANOMALY = Anomaly(
    name="share-lost",
    summary="A share group neither finished a record of the log nor delivered it any more.",
    source=KIP_932,
    kind="share",
    prose=described("the record is in the log, was not finished, and the group did not deliver it any more"),
    guarantee=DELIVERED,
    find_share=find,
)
