"""Phantom read: a polled value that no op sent, or whose payload does not verify.

Ops of every type count, and so do sends that never completed. Witness {key, value, offset, op, count}: the
first op that polled it and how many records did. Source:
jepsen.tests.kafka, which throws `no-writer-of-value` here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.model import Anomaly
from checker.kernels.bucket import Bucket
from checker.kernels.witness import nullable, table
from checker.tables.packing import begins, order


def find(bucket: Bucket) -> pa.Table:
    """Pairs that were polled and never sent."""
    polls = bucket.polls
    rows = np.flatnonzero(bucket.data.writer_row[polls.pair] < 0)
    rows = rows[order(polls.pair[rows], polls.op[rows])]
    pair = polls.pair[rows]
    heads = np.flatnonzero(begins(pair))
    first = rows[heads]
    return table(
        {
            "key": bucket.key_codes(polls.pair[first]),
            "value": bucket.values(polls.pair[first]),
            "offset": nullable(polls.offset[first]),
            "op": polls.op[first],
            "count": np.diff(np.append(heads, len(rows))),
        }
    )


ANOMALY = Anomaly(
    "phantom-read",
    "A record was read that nobody sent, or whose content is not what was sent.",
    "jepsen.tests.kafka, no-writer-of-value; Kafka documentation: check.crcs",
    find,
)
