"""G1a, aborted read: an `ok` op polled a value that a failed (`fail`) op sent.

There is one witness {key, value, writer, reader} for each poll of such a value. If the transaction of an `info` op was
aborted, reads of its values are not detected. Source: Adya, "Weak Consistency", 1999, G1a; jepsen.tests.kafka,
`g1a-cases`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import unless_uncommitted
from checker.anomalies.guarantees import DOCUMENTED, LOG, Guarantee, read_committed, transaction_log_kept
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import table
from checker.tables.schema import OK
from harness.model.values_as_text import joined


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each poll by an `ok` op of a value that a failed op sent."""
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


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, reader = witness["key"], witness["value"], witness["reader"]
    place = phrases.place("polled", key, reader, value)
    return joined(
        f"key {key}, value {value}: {phrases.sent(key, value, witness['writer'])}",
        f"nevertheless {phrases.who(reader)} read it{place}{phrases.faults(reader)}",
    )


ANOMALY = Anomaly(
    name="G1a",
    summary="Aborted read: a record was read although the operation that sent it had definitely failed or aborted.",
    source="Adya 1999, G1a; jepsen.tests.kafka, g1a-cases",
    prose=prose,
    guarantee=Guarantee(
        (read_committed, *LOG, transaction_log_kept),
        "records of failed sends and aborted transactions are not read, as long as the log keeps the abort markers",
        f"{DOCUMENTED}: isolation.level; Design, 4.7 Replication; KIP-98",
    ),
    bad=unless_uncommitted,
    find=find,
)
