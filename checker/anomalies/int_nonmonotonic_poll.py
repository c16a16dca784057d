"""Internal nonmonotonic poll: within one op, the polled values of a key go back in the log, or repeat.

Keys that were reassigned during the op (its rebalance log) are exempt. Witness {key, values, delta, op}: `delta` is how
many positions the second value is after the first in the log.
Source: jepsen.tests.kafka, `int-poll-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import READ_IN_ORDER
from checker.anomalies.prose import step_inside
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import within_op
from checker.kernels.unexcused_poll_steps import inside_op


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness wherever an op's next polled value of a key is not after the previous one in the log."""
    return within_op(bucket, bucket.once(inside_op), skips=False)


ANOMALY = Anomaly(
    name="int-nonmonotonic-poll",
    summary="Within one operation, polls of a key went back in the log, or returned a record twice.",
    source="jepsen.tests.kafka, int-poll-skip+nonmonotonic-cases",
    prose=step_inside("polled"),
    guarantee=READ_IN_ORDER,
    find=find,
    worst_first=("delta", False),
)
