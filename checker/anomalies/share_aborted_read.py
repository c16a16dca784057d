"""A share group with read_committed got a record whose send had failed or whose transaction was aborted.

An op of type `fail` certainly wrote nothing that may be seen. Groups with read_uncommitted may get records of aborted
transactions. Witness {group, key, offset, value, ops}: the op that delivered it. Source: KIP-932;
share.isolation.level.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import COMMITTED, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.witness import pairs_of
from checker.tables.schema import FAIL


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each delivery of a value whose op failed."""
    given = share.all_deliveries
    isolation, txn = share.settings.isolation_level, share.options.settings.txn
    if isolation == "read_uncommitted" and txn is not False:
        return share.none()
    rows = np.flatnonzero(given.sent_type == FAIL)
    ops = pairs_of(given.op[rows], given.op[rows])
    return share.witnesses(given.record[rows], value=given.value[rows], ops=ops)


ANOMALY = Anomaly(
    name="share-aborted-read",
    summary="A share group with read_committed got a record of an aborted transaction or of a failed send.",
    source="KIP-932; share.isolation.level",
    kind="share",
    prose=described("value {value} was delivered, although its send failed"),
    guarantee=COMMITTED,
    find_share=find,
)
