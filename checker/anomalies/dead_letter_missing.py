"""A record that a share group rejected, or delivered as often as the limit allows, is not in the dead letter queue.

Judged if an op of the final phase listed the group's dead letter queue (share-dead-letters). A rejected record counts
if the rejection was confirmed, and no accept of it may have taken effect. A record at the limit counts if it was
certainly not accepted, and its lock had expired before the final phase ended (see checker.kernels.share_unfinished).
Records whose end fell into a fault are not judged, because a broker writes the queue after the end. Witness {group,
key, offset, kind, ops}. Source: KIP-1191.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import KIP_1191, PARKED, described
from checker.kernels.share_bucket import NEVER, ShareBucket, column
from checker.kernels.share_unfinished import quiet_since, state_of
from checker.kernels.witness import pairs_of
from checker.tables.packing import Bools, Ints
from checker.tables.schema import ACCEPT, FAIL, OK, REJECT, SHARE_DEAD_LETTERS


def _listed(share: ShareBucket) -> tuple[Bools, Ints]:
    """Returns, for each record: (whether it is in the queue, when the group's queue was read first, in ns)."""
    letters, ops, records = share.small.dead_letters, share.small.share_ops, share.records
    rows = zip(*(column(letters, name).tolist() for name in ("group", "key", "offset")), strict=True)
    present = set(rows)
    mine = zip(records.group.tolist(), records.key.tolist(), records.offset.tolist(), strict=True)
    read = (column(ops, "kind") == SHARE_DEAD_LETTERS) & (column(ops, "type") == OK)
    first: dict[int, int] = {}
    for group, at in zip(column(ops, "group")[read].tolist(), column(ops, "invoke_ns")[read].tolist(), strict=True):
        first[group] = max(at, first.get(group, -1))
    found = np.array([record in present for record in mine], np.bool_)
    return found, np.array([first.get(group, NEVER) for group in records.group.tolist()], np.int64)


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each record that should be in the queue and is not."""
    if share.small.share_ops.num_rows == 0 or not share.provable or len(share.records.group) == 0:
        return share.none()
    listed, read_ns = _listed(share)
    acks, state, lock = share.acknowledgements, share.once(state_of), share.lock_ns
    rejected = np.zeros(len(listed), np.bool_)
    rejected[acks.record[(acks.kind == REJECT) & (acks.type == OK)]] = True
    # If an accept made the record final, a later reject is confirmed without an effect.
    rejected[acks.record[(acks.kind == ACCEPT) & (acks.type != FAIL)]] = False
    archived = np.zeros(len(listed), np.bool_)
    if lock is not None and share.settings.delivery_limit is not None:
        quiet = {group: span[1] for group, span in quiet_since(share).items()}
        until = np.array([quiet.get(group, -1) for group in share.records.group.tolist()], np.int64)
        archived = (state.count >= share.settings.delivery_limit) & ~state.finished & (state.last_ns + lock < until)
    due = (rejected | archived) & ~listed & (read_ns < NEVER) & (state.last_ns < read_ns)
    rows = np.flatnonzero(due & ~share.disturbed.between(state.last_ns, np.minimum(read_ns, NEVER)))
    kinds = pa.array(np.where(rejected[rows], "rejected", "limit reached").tolist(), pa.string())
    ops = pairs_of(state.last_op[rows], state.last_op[rows])
    return share.witnesses(rows, kind=kinds, ops=ops)


ANOMALY = Anomaly(
    name="dead-letter-missing",
    summary="A rejected or archived record of a share group is not in its dead letter queue.",
    source=KIP_1191,
    kind="share",
    prose=described("the record is final ({kind}), but not in the dead letter queue"),
    guarantee=PARKED,
    find_share=find,
)
