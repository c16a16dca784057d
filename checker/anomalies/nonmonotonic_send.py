"""Nonmonotonic send: between two ops of one process, its sends to a key go back in the log.

Between `ok` and `info` ops. A reassign that drops the key resets it in Jepsen; under native rules it does
not, because a producer does not care what its consumer reads. Witness {key, values, delta, ops}.
Source: jepsen.tests.kafka, `nonmonotonic-send-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import SENT_IN_ORDER
from checker.anomalies.prose import step_between
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import across_ops, between, kept
from checker.kernels.subscriptions import subscriptions
from checker.tables.schema import FAIL


def find(bucket: Bucket) -> pa.Table:
    """Steps between ops with a delta below 1."""
    sends = bucket.sends.where(bucket.sends.type != FAIL)
    steps = between(bucket, sends, sends.where(slice(0, 0)), any_type=True)
    if bucket.options.jepsen_compatible:
        steps = kept(steps, subscriptions(bucket))
    return across_ops(bucket, steps, skips=False)


ANOMALY = Anomaly(
    name="nonmonotonic-send",
    summary="One process sent to a key twice in a row, and the later record stands before the earlier one.",
    source="jepsen.tests.kafka, nonmonotonic-send-cases",
    prose=step_between("sent"),
    guarantee=SENT_IN_ORDER,
    find=find,
    worst_first=("delta", False),
)
