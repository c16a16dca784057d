"""Duplicate: a value stands at more than one offset of its key.

Witness {key, value, count, offsets}. Source: jepsen.tests.kafka, `duplicate-cases`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.model import Anomaly
from checker.kernels.bucket import Bucket
from checker.kernels.witness import int_lists, table
from checker.tables.packing import begins, order


def find(bucket: Bucket) -> pa.Table:
    """Pairs with more than one entry in the version order."""
    orders = bucket.versions
    several = np.flatnonzero(orders.first[orders.entry_pair] != orders.last[orders.entry_pair])
    pair, offset = orders.entry_pair[several], orders.entry_offset[several]
    by = order(pair, offset)
    pair, offset = pair[by], offset[by]
    heads = np.flatnonzero(begins(pair))
    count = np.diff(np.append(heads, len(pair)))
    return table(
        {
            "key": bucket.key_codes(pair[heads]),
            "value": bucket.values(pair[heads]),
            "count": count,
            "offsets": int_lists(offset, count),
        }
    )


ANOMALY = Anomaly(
    "duplicate",
    "A record that was sent once stands at more than one offset.",
    "jepsen.tests.kafka, duplicate-cases",
    find,
)
