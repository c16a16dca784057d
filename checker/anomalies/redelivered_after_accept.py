"""A record was delivered again after an accept or reject of it was confirmed.

A confirmed accept or reject is final. There are two kinds:

- member  a member got the record that began only after the confirmation
- count   a later poll returned it with a higher delivery count than the accepted delivery had. Counts rise with each
          acquisition, so this acquisition came after the accepted one. Judged only if the accepted delivery's lock
          surely held at the confirmation, and if no leader may have moved.

Two confirmations of a record are no anomaly: a broker confirms an acknowledgement of a record below the share
partition's start offset without an effect, and a member whose lock has ended may send one (seen on Kafka 4.3.1).

Witness {group, key, offset, kind, ops}: the op that confirmed, then the op after it. Source: KIP-932.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import KIP_932, TRACKED, described
from checker.kernels.share_bucket import ShareBucket
from checker.kernels.share_locks import endings
from checker.kernels.witness import pairs_of


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each delivery after the first confirmed accept or reject."""
    if len(share.acknowledgements.record) == 0 or not share.provable:
        return share.none()
    ended, acks, given = share.once(endings), share.acknowledgements, share.deliveries
    ack = ended.ack[given.record]
    confirmed = acks.complete_ns[np.maximum(ack, 0)]
    new_member = (ack >= 0) & (given.earliest > confirmed)
    by_count = np.zeros(len(ack), np.bool_)
    if share.lock_ns is not None:
        begun, count = ended.earliest[given.record], ended.count[given.record]
        by_count = (ack >= 0) & (count >= 0) & (given.count > count) & (given.complete_ns > confirmed)
        by_count &= (confirmed - begun < share.lock_ns) & ~share.disturbed.between(begun, given.complete_ns)
    again = np.flatnonzero(new_member | by_count)
    kinds = np.where(new_member[again], "member", "count")
    return share.witnesses(
        given.record[again],
        kind=pa.array(kinds.tolist(), pa.string()),
        ops=pairs_of(acks.op[ack[again]], given.op[again]),
    )


ANOMALY = Anomaly(
    name="redelivered-after-accept",
    summary="A share group delivered a record again after its accept or reject was confirmed.",
    source=KIP_932,
    kind="share",
    prose=described("an accept or reject was confirmed, and the record was not final ({kind})"),
    guarantee=TRACKED,
    find_share=find,
)
