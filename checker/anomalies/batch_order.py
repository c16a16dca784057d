"""A poll of a share group returned records of a partition that were not in ascending order, or the same record twice.

A poll returns the records of one fetch of a partition, in ascending order of offsets. Only if a leader has moved can
it join two fetches of a partition, so such polls are not judged. Witness {group, key, offset, before, ops}: `before` is
the offset that came directly before. Source: KafkaShareConsumer; KAFKA-19789.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import BY_BROKER, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.witness import pairs_of
from checker.tables.packing import order


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each record that does not follow the one before it in its poll."""
    given, records = share.deliveries, share.records
    if len(given.record) < 2:
        return share.none()
    key, offset = records.key[given.record], records.offset[given.record]
    by = order(given.op, key, given.place)
    same = (given.op[by][1:] == given.op[by][:-1]) & (key[by][1:] == key[by][:-1])
    odd = np.flatnonzero(same & (offset[by][1:] <= offset[by][:-1]))
    before, after = by[odd], by[odd + 1]
    calm = ~share.disturbed.between(given.earliest[after], given.complete_ns[after])
    before, after = before[calm], after[calm]
    ops = pairs_of(given.op[after], given.op[after])
    return share.witnesses(given.record[after], before=offset[before], ops=ops)


ANOMALY = Anomaly(
    name="batch-order",
    summary="A poll of a share group returned records of a partition out of order, or one of them twice.",
    source="KafkaShareConsumer; KAFKA-19789",
    kind="share",
    prose=described("the poll returned it after offset {before}"),
    guarantee=BY_BROKER,
    find_share=find,
)
