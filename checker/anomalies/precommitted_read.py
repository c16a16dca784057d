"""Precommitted read: an op polled a value that the same op sends.

Consumers at read_committed never see uncommitted records, so an op cannot see the records that it sends itself. Ops of
every type count. There is one witness {key, value, op} for each value. Jepsen has only one witness for
each op: of the keys with such values, it takes the one that the op sent to first; of the key's values, the one that is
first in a hash set. Source: jepsen.tests.kafka, `precommitted-read-cases`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import Rows, unless_uncommitted
from checker.anomalies.guarantees import (
    DOCUMENTED,
    LOG,
    Guarantee,
    read_committed,
    transaction_log_kept,
    transactions,
)
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.clojure_set_order import SET_ORDER_BITS, set_order
from checker.kernels.witness import table
from checker.tables.packing import Ints, begins, member, order
from harness.model.check_options import CheckOptions
from harness.model.values_as_text import joined


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each value that an op both sent and polled."""
    sends, polls = bucket.sends, bucket.polls
    writer = bucket.data.writer
    suspect = np.flatnonzero(bucket.data.writer_row[polls.pair] >= 0)
    # `writer` has only the last writer of a value, so values with several writers need all their sends.
    again = np.zeros(len(bucket.data.pair_key), np.bool_)
    again[sends.pair[writer[sends.pair] != sends.op]] = True
    pair = polls.pair[suspect]
    suspect = suspect[(writer[pair] == polls.op[suspect]) | again[pair]]
    twice = np.flatnonzero(again[sends.pair] | (writer[sends.pair] == sends.op))
    op = np.concatenate([sends.op[twice], polls.op[suspect]])
    pair = np.concatenate([sends.pair[twice], polls.pair[suspect]])
    polled = np.concatenate([np.zeros(len(twice), np.int64), np.ones(len(suspect), np.int64)])
    if len(suspect) == 0:
        op, pair, polled = op[:0], pair[:0], polled[:0]
    by = order(op, pair, polled)
    op, pair, polled = op[by], pair[by], polled[by]
    heads = np.flatnonzero(begins(op, pair))
    both = heads[(polled[heads] == 0) & (np.maximum.reduceat(polled, heads) == 1)] if len(heads) else heads
    op, pair = op[both], pair[both]
    columns = {"op": op, "key": bucket.key_codes(pair), "value": bucket.values(pair)}
    if bucket.options.jepsen_compatible:
        columns["place"] = _places(bucket, op, pair)
    return table(columns)


def _places(bucket: Bucket, op: Ints, pair: Ints) -> Ints:
    """Returns sort keys for the order in which Jepsen finds the values of an op.

    Each value is given as its op and its (key, value) pair. Values are ordered by the place of the op's first send to
    their key, then as in a hash set.
    """
    sends, pair_key = bucket.sends, bucket.data.pair_key
    rows = np.flatnonzero(member(sends.op, np.unique(op)))
    columns = (sends.op[rows].tolist(), sends.key[rows].tolist(), sends.mop[rows].tolist())
    first: dict[tuple[int, int], int] = {}
    for sender, key, mop in zip(*columns, strict=True):
        first[sender, key] = min(mop, first.get((sender, key), mop))
    mops = [first[sender, key] for sender, key in zip(op.tolist(), pair_key[pair].tolist(), strict=True)]
    places: Ints = (np.array(mops, np.int64) << SET_ORDER_BITS) + set_order(bucket.values(pair))
    return places


def bad(rows: Rows, options: CheckOptions) -> bool:
    """Returns whether ops are transactions and consumers must not read uncommitted records.

    Without transactions no record is uncommitted, so an op may poll a record that it has just sent.
    """
    return options.settings.txn is not False and unless_uncommitted(rows, options)


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, op = witness["key"], witness["value"], witness["op"]
    return joined(
        f"{phrases.who(op)} sent value {value} to key {key} and polled it{phrases.place('polled', key, op, value)} "
        f"within the same transaction, before it could commit{phrases.faults(op)}"
    )


ANOMALY = Anomaly(
    name="precommitted-read",
    summary="A transaction polled its own record before it committed.",
    source="jepsen.tests.kafka, precommitted-read-cases",
    prose=prose,
    guarantee=Guarantee(
        (transactions, read_committed, *LOG, transaction_log_kept),
        "uncommitted records are not read, not even by the transaction that sent them",
        f"{DOCUMENTED}: transactional.id, isolation.level; Design, 4.7 Replication; KIP-98",
    ),
    bad=bad,
    find=find,
    per_op=True,
)
