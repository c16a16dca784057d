"""The delivery count of a record was below 1 or above the limit, fell, or did not rise.

Each acquisition raises the count by one. The end of a member's session lowers it again by the acquisitions that it
returns, so it can repeat, but not fall. The kinds:

- range  the count is below 1 or above the limit
- fell   a later acquisition had a lower count: the same member's, or that of a member that began after the first
- same   two living members got the record with the same count

The last two are judged only if no leader may have moved in between, because acquisitions in flight are not stored.
Witness {group, key, offset, kind, counts, ops}. Source: KIP-932; group.share.delivery.count.limit.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.overlapping_delivery import neighbours
from checker.anomalies.share_guarantees import KIP_932, TRACKED, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.witness import pairs_of
from checker.tables.packing import Ints


def _range(share: ShareBucket) -> Ints:
    count, limit = share.deliveries.count, share.settings.delivery_limit
    return np.flatnonzero((count < 1) | (count > limit) if limit is not None else count < 1)


def _fell(share: ShareBucket) -> Ints:
    given = share.deliveries
    if len(given.record) < 2:
        return np.empty(0, np.int64)
    later = (given.member[1:] == given.member[:-1]) | (given.earliest[1:] > given.complete_ns[:-1])
    later &= (given.record[1:] == given.record[:-1]) & (given.op[1:] != given.op[:-1])
    fell = later & (given.count[1:] < given.count[:-1])
    return np.flatnonzero(fell & ~share.disturbed.between(given.earliest[:-1], given.complete_ns[1:]))


def _same(share: ShareBucket) -> Ints:
    given, rows = share.deliveries, neighbours(share)
    begun = np.minimum(given.earliest[rows], given.earliest[rows + 1])
    same = given.count[rows] == given.count[rows + 1]
    result: Ints = rows[same & ~share.disturbed.between(begun, given.complete_ns[rows + 1])]
    return result


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each wrong count."""
    given, ranged = share.deliveries, _range(share)
    found = [(kind, rows(share)) for kind, rows in (("fell", _fell), ("same", _same)) if share.provable]
    first = np.concatenate([ranged, *(rows for _, rows in found)])
    second = np.concatenate([ranged, *(rows + 1 for _, rows in found)])
    kinds = ["range"] * len(ranged) + [kind for kind, rows in found for _ in rows]
    return share.witnesses(
        given.record[first],
        kind=pa.array(kinds, pa.string()),
        counts=pairs_of(given.count[first], given.count[second]),
        ops=pairs_of(given.op[first], given.op[second]),
    )


ANOMALY = Anomaly(
    name="delivery-count",
    summary="The delivery count of a record was out of range, fell, or did not rise.",
    source=KIP_932,
    kind="share",
    prose=described("the delivery counts are {counts} ({kind})"),
    guarantee=TRACKED,
    find_share=find,
)
