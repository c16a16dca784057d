"""Poll skip: between two ops of a process, its position in a key skipped values of the log.

The last value that an `ok` op polled of the key is compared with the first value that the process's next op polled of
the key. The next op may be of any type. Witness {key, skipped, delta, ops}: `delta` is how many
positions the second value is after the first in the log. Source: jepsen.tests.kafka,
`poll-skip+nonmonotonic-cases`.
"""

from __future__ import annotations

import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import jepsen_allows_with_subscribe
from checker.anomalies.guarantees import READ_WHOLLY
from checker.anomalies.prose import step_between
from checker.anomalies.what_stands import keep_none
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import across_ops
from checker.kernels.unexcused_poll_steps import between_ops


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness if a process's next op on a key skipped values after the last value of its previous op."""
    return across_ops(bucket, bucket.once(between_ops), skips=True)


ANOMALY = Anomaly(
    name="poll-skip",
    summary="A consumer's next poll of a key skipped records that it had not read.",
    source="jepsen.tests.kafka, poll-skip+nonmonotonic-cases",
    prose=step_between("polled"),
    guarantee=READ_WHOLLY,
    jepsen_allows=jepsen_allows_with_subscribe,
    find=find,
    if_lines_missing=keep_none,
    worst_first=("delta", True),
)
