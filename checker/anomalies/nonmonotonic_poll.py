"""Nonmonotonic poll: between two ops of one process, its place in a key went back, or stayed.

Compared: the last value of the previous `ok` op that polled the key, and the first of this one (of any type).
Witness {key, values, delta, ops}. Source: jepsen.tests.kafka, `poll-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import jepsen_allows_with_subscribe
from checker.anomalies.guarantees import READ_IN_ORDER
from checker.anomalies.prose import step_between
from checker.anomalies.what_stands import nothing_between
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import across_ops
from checker.kernels.unexcused_poll_steps import between_ops


def find(bucket: Bucket) -> pa.Table:
    """Steps between ops with a delta below 1."""
    return across_ops(bucket, bucket.once(between_ops), skips=False)


ANOMALY = Anomaly(
    name="nonmonotonic-poll",
    summary="A consumer read records of a key that it had already read, or that stand before them.",
    source="jepsen.tests.kafka, poll-skip+nonmonotonic-cases",
    prose=step_between("polled"),
    guarantee=READ_IN_ORDER,
    jepsen_allows=jepsen_allows_with_subscribe,
    find=find,
    stands=nothing_between,
    worst_first=("delta", False),
)
