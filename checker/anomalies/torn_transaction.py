"""Torn transaction: a committed transaction has visible and lost records, or an aborted one has a visible record.

The keys of a transaction may be in several buckets, so there are three steps. `suspects` collects, over all buckets,
the ops that lost a write or whose aborted write was read. `parts` counts in each bucket how many sends of these ops are
visible or lost. `reduce` adds up the counts and selects the torn transactions. Witness {op, sent, visible, lost,
aborted}. Only ops with f `txn` are considered, or all ops if the run's settings say that producers are transactional.
Source: KIP-98 (either all records of a transaction are visible, or none).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import Rows, uncommitted_is_read
from checker.anomalies.guarantees import DOCUMENTED, DURABLE, Guarantee, read_committed, transaction_log_kept
from checker.anomalies.lost_write import lost_pairs
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import table
from checker.tables.packing import Ints, begins, member, order
from checker.tables.schema import FAIL, INFO
from harness.model.check_options import CheckOptions
from harness.model.values_as_text import joined, many


def _transactional(bucket: Bucket) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns, for each send, whether it is part of a transaction."""
    if bucket.options.settings.txn is not None:
        return np.full(len(bucket.sends), bucket.options.settings.txn, np.bool_)
    return bucket.data.send_txn


def suspects(bucket: Bucket) -> Ints:
    """Returns the ids of the transactions that may be torn, judging by the keys of this bucket.

    These are the transactions that lost a write, and those that failed although an `ok` op polled one of their writes.
    """
    lost = np.zeros(len(bucket.data.pair_key), np.bool_)
    lost[bucket.once(lost_pairs)] = True
    sends = bucket.sends
    aborted = (sends.type == FAIL) & bucket.data.polled_ok[sends.pair]
    # Under read_uncommitted, a visible record does not prove that an `info` transaction committed.
    committed_is_read = bucket.options.settings.isolation_level == "read_committed"
    torn = lost[sends.pair] & (committed_is_read | (sends.type != INFO))
    rows = (aborted | torn) & _transactional(bucket)
    return np.unique(sends.op[rows])


def parts(bucket: Bucket, ops: Ints) -> pa.Table:
    """Returns {op, sent, visible, lost, aborted} for each of the ops, counting its sends in this bucket."""
    sends = bucket.sends
    rows = np.flatnonzero(member(sends.op, ops))
    rows = rows[order(sends.op[rows])]
    lost = np.zeros(len(bucket.data.pair_key), np.int64)
    lost[bucket.once(lost_pairs)] = 1
    op, pair = sends.op[rows], sends.pair[rows]
    heads = np.flatnonzero(begins(op))
    visible = bucket.data.polled_ok[pair].astype(np.int64)

    def total(column: Ints) -> Ints:
        return np.add.reduceat(column, heads) if len(heads) else column[:0]

    return table(
        {
            "op": op[heads],
            "sent": np.diff(np.append(heads, len(op))),
            "visible": total(visible),
            "lost": total(lost[pair]),
            "aborted": (sends.type[rows] == FAIL)[heads],
        }
    )


def reduce(tables: list[pa.Table]) -> pa.Table:
    """Returns a witness for each transaction that is torn according to the counts of all buckets."""
    joined = pa.concat_tables(tables).group_by("op")
    summed = joined.aggregate([("sent", "sum"), ("visible", "sum"), ("lost", "sum"), ("aborted", "max")])
    summed = summed.rename_columns(["op", "sent", "visible", "lost", "aborted"])
    summed = summed.sort_by([("aborted", "ascending"), ("op", "ascending")])  # committed transactions first
    visible, lost = summed.column("visible").to_numpy(), summed.column("lost").to_numpy()
    aborted = summed.column("aborted").to_numpy().astype(np.bool_)
    return summed.filter(pa.array((visible > 0) & ((lost > 0) | aborted)))


SOURCE = f"{DOCUMENTED}: transactional.id, isolation.level, transaction.state.log.min.isr; KIP-98"
WHOLE = Guarantee((*DURABLE, transaction_log_kept), "a committed transaction keeps all of its records", SOURCE)
WHOLE_OR_NOT = Guarantee(
    (read_committed, *DURABLE, transaction_log_kept), "all of a transaction's records are visible or none are", SOURCE
)


def bad(rows: Rows, options: CheckOptions) -> bool:
    """Returns whether the torn transactions count against the verdict.

    Under read_uncommitted, records of aborted transactions may be read, but records of committed ones must not be lost.
    """
    return not uncommitted_is_read(options) or any(not row.get("aborted", True) for row in rows)


def guarantee_of(rows: Rows) -> Guarantee:
    """Returns the guarantee that rules the torn transactions out.

    Committed records must be visible at every isolation level. Aborted records are hidden only by read_committed.
    """
    return WHOLE if any(not row.get("aborted", True) for row in rows) else WHOLE_OR_NOT


def prose(witness: Witness, phrases: Phrases) -> str:
    op = witness["op"]
    lost = witness.get("lost") or 0
    rest = " although it was aborted" if witness.get("aborted") else f", {lost:,} lost"
    return joined(
        f"the transaction of {phrases.who(op)} sent {many(witness['sent'], 'record')}: "
        f"{witness['visible']:,} visible{rest}{phrases.faults(op)}"
    )


ANOMALY = Anomaly(
    name="torn-transaction",
    summary="A transaction is not atomic: a committed one lost some records, or records of an aborted one were read.",
    source="KIP-98, atomic multi-partition writes; Kafka documentation: isolation.level",
    prose=prose,
    guarantee=WHOLE_OR_NOT,
    guarantee_of=guarantee_of,
    bad=bad,
    native=True,
)
