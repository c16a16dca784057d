"""Duplicate: a value is at more than one offset of its key.

Witness {key, value, count, offsets}. Source: jepsen.tests.kafka, `duplicate-cases`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, LOG, STUDY, Guarantee, exactly_once_log
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import int_lists, table
from checker.tables.packing import begins, order
from harness.model.values_as_text import joined, listed


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each value that is at more than one offset."""
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


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, offsets = witness["key"], witness["value"], witness.get("offsets") or []
    parts = [
        f"key {key}, value {value} is at {witness['count']} offsets: {listed(offsets)}",
        phrases.sent(key, value),
    ]
    parts += [phrases.read(key, value, offset) for offset in offsets[:3]]
    return joined(*parts)


ANOMALY = Anomaly(
    name="duplicate",
    summary="A record that was sent once is in the log at more than one offset.",
    source="jepsen.tests.kafka, duplicate-cases",
    prose=prose,
    guarantee=Guarantee(
        (exactly_once_log, *LOG),
        "each record is appended once, as long as the log keeps the producer's sequence numbers",
        f"{DOCUMENTED}: enable.idempotence, producer.id.expiration.ms; Design, 4.7 Replication; KIP-98; "
        f"{STUDY}, tests 2, 3 and 5",
    ),
    find=find,
    worst_first=("count", True),
)
