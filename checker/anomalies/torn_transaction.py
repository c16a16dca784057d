"""Torn transaction: of one committed transaction some sends are visible and some are lost, or of an aborted
one any is visible.

A transaction's keys may lie in several buckets, so this is found in two steps: the ops that lost a write or
had an aborted one read are collected over all buckets (`suspects`), then each bucket counts what became of
their sends (`parts`), and the sums decide (`reduce`). Witness {op, sent, visible, lost, aborted}.
Only ops of f `txn`, or any op where the run's settings say that producers are transactional. Source:
KIP-98 (a transaction's records are visible all or none).
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
    """Per send row: it is part of a transaction."""
    if bucket.options.settings.txn is not None:
        return np.full(len(bucket.sends), bucket.options.settings.txn, np.bool_)
    return bucket.data.send_txn


def suspects(bucket: Bucket) -> Ints:
    """Transactions that lost a write here, or that failed and had a write polled by an `ok` op."""
    lost = np.zeros(len(bucket.data.pair_key), np.bool_)
    lost[bucket.once(lost_pairs)] = True
    sends = bucket.sends
    aborted = (sends.type == FAIL) & bucket.data.polled_ok[sends.pair]
    # To other readers, a record that can be read does not show that an `info` transaction was committed.
    committed_is_read = bucket.options.settings.isolation_level == "read_committed"
    torn = lost[sends.pair] & (committed_is_read | (sends.type != INFO))
    rows = (aborted | torn) & _transactional(bucket)
    return np.unique(sends.op[rows])


def parts(bucket: Bucket, ops: Ints) -> pa.Table:
    """{op, sent, visible, lost, aborted} of the given ops, as far as this bucket knows."""
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
    """The transactions that are torn over all buckets."""
    joined = pa.concat_tables(tables).group_by("op")
    summed = joined.aggregate([("sent", "sum"), ("visible", "sum"), ("lost", "sum"), ("aborted", "max")])
    summed = summed.rename_columns(["op", "sent", "visible", "lost", "aborted"])
    summed = summed.sort_by([("aborted", "ascending"), ("op", "ascending")])  # of either kind, some are shown
    visible, lost = summed.column("visible").to_numpy(), summed.column("lost").to_numpy()
    aborted = summed.column("aborted").to_numpy().astype(np.bool_)
    return summed.filter(pa.array((visible > 0) & ((lost > 0) | aborted)))


SOURCE = f"{DOCUMENTED}: transactional.id, isolation.level, transaction.state.log.min.isr; KIP-98"
WHOLE = Guarantee((*DURABLE, transaction_log_kept), "a transaction that has committed stays as a whole", SOURCE)
WHOLE_OR_NOT = Guarantee(
    (read_committed, *DURABLE, transaction_log_kept), "a transaction is visible as a whole or not at all", SOURCE
)


def bad(rows: Rows, options: CheckOptions) -> bool:
    """A part of a transaction that did commit may not be missing under read_uncommitted either."""
    return not uncommitted_is_read(options) or any(not row.get("aborted", True) for row in rows)


def guarantee_of(rows: Rows) -> Guarantee:
    """Parts that are lost were promised to whoever reads; what was aborted is hidden from some only."""
    return WHOLE if any(not row.get("aborted", True) for row in rows) else WHOLE_OR_NOT


def prose(witness: Witness, phrases: Phrases) -> str:
    op = witness["op"]
    lost = witness.get("lost") or 0
    rest = "although it was aborted" if witness.get("aborted") else f"{lost:,} lost"
    return joined(
        f"the transaction of {phrases.who(op)} sent {many(witness['sent'], 'record')}: "
        f"{witness['visible']:,} can be read, {rest}{phrases.faults(op)}"
    )


ANOMALY = Anomaly(
    name="torn-transaction",
    summary="A part of one transaction's records is visible, and another part is not.",
    source="KIP-98, atomic multi-partition writes; Kafka documentation: isolation.level",
    prose=prose,
    guarantee=WHOLE_OR_NOT,
    guarantee_of=guarantee_of,
    bad=bad,
    native=True,
)
