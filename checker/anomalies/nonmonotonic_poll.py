"""Nonmonotonic poll: between two ops of a process, its position in a key went back, or did not advance.

The last value that an `ok` op polled of the key is compared with the first value that the process's next op polled of
the key. The next op may be of any type. Witness {key, values, delta, ops}: `delta` is how many
positions the second value is after the first in the log. Source: jepsen.tests.kafka,
`poll-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import jepsen_allows_with_subscribe
from checker.anomalies.guarantees import READ_IN_ORDER
from checker.anomalies.prose import step_between
from checker.anomalies.what_stands import keep_without_gap
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import across_ops
from checker.kernels.unexcused_poll_steps import between_ops


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness wherever a process's next op on a key begins at or before the last value of its previous op.

    Values are compared by their order in the log.
    """
    return across_ops(bucket, bucket.once(between_ops), skips=False)


ANOMALY = Anomaly(
    name="nonmonotonic-poll",
    summary="A consumer's next poll of a key returned a record that it had already read, or an earlier one.",
    source="jepsen.tests.kafka, poll-skip+nonmonotonic-cases",
    prose=step_between("polled"),
    guarantee=READ_IN_ORDER,
    jepsen_allows=jepsen_allows_with_subscribe,
    find=find,
    if_lines_missing=keep_without_gap,
    worst_first=("delta", False),
)
