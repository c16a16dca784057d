"""Internal send skip: the log has other values between two consecutive sends of one op to a key.

This anomaly never counts against the verdict: Kafka does not isolate the writes of transactions from each other.
Witness {key, values, delta, skipped, op}: `delta` is how many positions the second value is after the first in the log,
`skipped` has the values in between. Source: jepsen.tests.kafka, `int-send-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import jepsen_always_allows, never
from checker.anomalies.prose import step_inside
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import inside_sends, within_op


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness wherever the log has other values between two values that an op sent consecutively."""
    return within_op(bucket, bucket.once(inside_sends), skips=True)


ANOMALY = Anomaly(
    name="int-send-skip",
    summary="Between two records that one operation sent to a key consecutively, the log has other records.",
    source="jepsen.tests.kafka, int-send-skip+nonmonotonic-cases",
    prose=step_inside("sent"),
    bad=never,
    jepsen_allows=jepsen_always_allows,
    find=find,
    worst_first=("delta", True),
)
