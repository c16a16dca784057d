"""G1a, aborted read: an `ok` op polled a value whose writer `fail`ed.

One witness {key, value, writer, reader} for each time such a value was polled. Cannot see values of `info`
ops that in truth aborted. Source: Adya, "Weak Consistency", 1999, G1a; jepsen.tests.kafka, `g1a-cases`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.model import Anomaly
from checker.kernels.bucket import Bucket
from checker.kernels.witness import table
from checker.tables.schema import OK


def find(bucket: Bucket) -> pa.Table:
    """Polls by `ok` ops of pairs that a `fail`ed op sent."""
    polls = bucket.polls
    rows = np.flatnonzero((polls.type == OK) & bucket.failed[polls.pair])
    pair = polls.pair[rows]
    return table(
        {
            "key": bucket.key_codes(pair),
            "value": bucket.values(pair),
            "writer": bucket.data.writer[pair],
            "reader": polls.op[rows],
        }
    )


ANOMALY = Anomaly(
    "G1a",
    "A record was read although the operation that sent it certainly failed or aborted.",
    "Adya 1999, G1a; jepsen.tests.kafka, g1a-cases",
    find,
)
