"""Internal nonmonotonic send: two consecutive sends of one op to a key are in the log in reverse order.

Witness {key, values, delta, op}: `delta` is how many positions the second value is after the first in the log. Source:
jepsen.tests.kafka, `int-send-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import SENT_IN_ORDER
from checker.anomalies.prose import step_inside
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import inside_sends, within_op


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness wherever an op's next sent value of a key is not after the previous one in the log."""
    return within_op(bucket, bucket.once(inside_sends), skips=False)


ANOMALY = Anomaly(
    name="int-nonmonotonic-send",
    summary="Two records that one operation sent to a key consecutively are in the log in reverse order.",
    source="jepsen.tests.kafka, int-send-skip+nonmonotonic-cases",
    prose=step_inside("sent"),
    guarantee=SENT_IN_ORDER,
    find=find,
    worst_first=("delta", False),
)
