"""Nonmonotonic send: between two ops of a process, its sends to a key go back in the log.

`ok` and `info` ops are compared. Under Jepsen's rules, two ops are not compared if the process's consumer dropped the
key between them. Under native rules they are, because the producer does not depend on the consumer's assignment.
Witness {key, values, delta, ops}: `delta` is how many positions the second value is after the first in the log. Source:
jepsen.tests.kafka, `nonmonotonic-send-cases`.
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
    """Returns a witness wherever a process's next op on a key begins at or before the last value of its previous op.

    Values are compared by their order in the log.
    """
    sends = bucket.sends.where(bucket.sends.type != FAIL)
    steps = between(bucket, sends, sends.where(slice(0, 0)), any_type=True)
    if bucket.options.jepsen_compatible:
        steps = kept(steps, subscriptions(bucket))
    return across_ops(bucket, steps, skips=False)


ANOMALY = Anomaly(
    name="nonmonotonic-send",
    summary="Two successive operations of a process sent to a key, and the later record comes first in the log.",
    source="jepsen.tests.kafka, nonmonotonic-send-cases",
    prose=step_between("sent"),
    guarantee=SENT_IN_ORDER,
    find=find,
    worst_first=("delta", False),
)
