"""A member of a share group released a record, and the group did not deliver it any more, although its count was below
the limit.

Judged like `share-lost`. Witness {group, key, offset, ops}: the op that released it. Source: KIP-932.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import DELIVERED, KIP_932, described
from checker.anomalies.share_lost import witnesses
from checker.kernels.share_bucket import ShareBucket


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each record whose release is its last event."""
    return witnesses(share, released=True)


ANOMALY = Anomaly(
    name="released-not-redelivered",
    summary="A share group did not deliver a released record again, although its delivery count was below the limit.",
    source=KIP_932,
    kind="share",
    prose=described("the record was released, and the group did not deliver it any more"),
    guarantee=DELIVERED,
    find_share=find,
)
