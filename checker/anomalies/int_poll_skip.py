"""Internal poll skip: within one op, consecutive polls of a key skip values of the log.

Keys that were reassigned during the op (its rebalance log) are exempt. Witness {key, values, delta, skipped, op}:
`delta` is how many positions the second value is after the first in the log, `skipped` has the values in between.
Source: jepsen.tests.kafka, `int-poll-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import READ_WHOLLY
from checker.anomalies.prose import step_inside
from checker.anomalies.what_stands import keep_none
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import within_op
from checker.kernels.unexcused_poll_steps import inside_op


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness wherever the log has other values between two values that an op polled consecutively."""
    return within_op(bucket, bucket.once(inside_op), skips=True)


ANOMALY = Anomaly(
    name="int-poll-skip",
    summary="Within one operation, polls of a key skipped records of the log.",
    source="jepsen.tests.kafka, int-poll-skip+nonmonotonic-cases",
    prose=step_inside("polled"),
    guarantee=READ_WHOLLY,
    find=find,
    if_lines_missing=keep_none,
    worst_first=("delta", True),
)
