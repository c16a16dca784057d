"""Phantom read: a polled value that no op sent, or whose payload does not verify.

Ops of every type count, and so do sends that never completed. Witness {key, value, offset, op, count}: the
first op that polled it and how many records did. Source:
jepsen.tests.kafka, which throws `no-writer-of-value` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from checker.anomalies.guarantees import DOCUMENTED, Guarantee, damage_noticed
from checker.anomalies.model import Anomaly
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import nullable, table
from checker.tables.packing import begins, order
from harness.model.values_as_text import joined


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


PAYLOAD: Final[Mapping[str, str]] = {
    "format": "what it holds is not a payload of this harness",
    "run": "its payload is of another run",
    "key": "its payload is of another key",
    "checksum": "its payload is damaged",
}


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, op, count = witness["key"], witness["value"], witness["op"], witness.get("count", 1)
    if isinstance(value, str) and value.startswith("bad-payload:"):
        reason, _, start = value.removeprefix("bad-payload:").partition(":")
        what = f"a record that does not verify: {PAYLOAD.get(reason, reason)}"
        what += f" (it begins with {start})" if start else ""
    else:
        what = f"value {value}, which nobody sent"
    often = f", the first of {count:,} such records" if count and count > 1 else ""
    return joined(
        f"key {key}, offset {witness.get('offset')}: {phrases.who(op)} polled {what}{often}{phrases.faults(op)}"
    )


ANOMALY = Anomaly(
    name="phantom-read",
    summary="A record was read that nobody sent, or whose content is not what was sent.",
    source="jepsen.tests.kafka, no-writer-of-value; Kafka documentation: check.crcs",
    prose=prose,
    guarantee=Guarantee((damage_noticed,), "what is read was sent", f"{DOCUMENTED}: check.crcs"),
    find=find,
)
