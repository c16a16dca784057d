"""Inconsistent offsets: more than one value was observed at the same offset of a key.

Witness {key, offset, index, values}. Source: jepsen.tests.kafka, `version-orders`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import STAYS
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import int_lists, table
from checker.tables.packing import expand
from harness.model.values_as_text import joined, listed


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each offset with more than one value."""
    orders = bucket.versions
    slots = np.flatnonzero(orders.slot_values > 1)
    lengths = orders.slot_values[slots]
    begin = np.searchsorted(orders.entry_slot, slots)
    entries = expand(begin.astype(np.int64), lengths)
    return table(
        {
            "key": bucket.data.keys[orders.slot_key[slots]],
            "offset": orders.slot_offset[slots],
            "index": orders.within_key(slots),
            "values": int_lists(bucket.values(orders.entry_pair[entries]), lengths),
        }
    )


def prose(witness: Witness, phrases: Phrases) -> str:
    key, offset, values = witness["key"], witness["offset"], witness["values"]
    parts = [f"key {key}: different values were observed at offset {offset}: {listed(values)}"]
    for value in values[:3]:
        facts = [phrases.sent(key, value), phrases.read(key, value, offset)]
        facts = [text for text in facts if text]
        if facts:
            parts.append(f"value {value}: {'; '.join(facts)}")
    return joined(*parts)


ANOMALY = Anomaly(
    name="inconsistent-offsets",
    summary="Different records were observed at the same offset of a key.",
    source="jepsen.tests.kafka, version-orders",
    prose=prose,
    guarantee=STAYS,
    find=find,
    worst_first=("values", True),
)
