"""Steps from one value of a key to the next that a process polled or sent, and how far apart they stand.

The delta of a step is the difference of the values' indices in the version order: 1 for neighbours, more
for a skip, less for going back or staying. An unknown index counts as 1, so that nothing is claimed. Shared
by the seven skip and nonmonotonic anomalies; the rules are jepsen.tests.kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.subscriptions import Subscriptions
from checker.kernels.witness import int_lists, pairs_of, table
from checker.tables.columns import Columns
from checker.tables.packing import AnyInts, Bools, Ints, begins, expand, order, tails
from checker.tables.schema import OK

SKIPPED_MAX: Final = 20_000_000
SKIPPED_CUT: Final = 100


@dataclass(frozen=True, slots=True)
class Steps:
    """Rows: from pair `a` in op `op_a` to pair `b` in op `op_b`, of one key (rank) and process.

    `place`: the slot from which the delta counts; `a` is -1 where nothing stands there.
    """

    a: Ints
    b: Ints
    op_a: Ints
    op_b: Ints
    key: Ints
    process: Ints
    delta: Ints
    place: Ints

    def where(self, rows: Bools) -> Steps:
        return Steps(*(getattr(self, name)[rows] for name in self.__slots__))


def _deltas(bucket: Bucket, a: Ints, b: Ints) -> Ints:
    """Index of b minus index of a; 1 where a pair is negative (no value) or an index is unknown."""
    index = bucket.versions.index
    if len(index) == 0:
        return np.ones(len(a), np.int64)
    i, j = index[np.maximum(a, 0)], index[np.maximum(b, 0)]
    known = (i >= 0) & (j >= 0) & (a >= 0) & (b >= 0)
    return np.where(known, j - i, 1)


def inside(bucket: Bucket, rows: Columns) -> Steps:
    """Steps within one op, with a delta other than 1."""
    by = order(rows.op, rows.key)
    op, key, pair = rows.op[by], rows.key[by], rows.pair[by]
    same = np.flatnonzero(~begins(op, key))
    a, b = pair[same - 1], pair[same]
    delta = _deltas(bucket, a, b)
    odd = np.flatnonzero(delta != 1)
    at = same[odd]
    places = _places(bucket, a[odd])
    return Steps(a[odd], b[odd], op[at], op[at], key[at], rows.process[by][at], delta[odd], places)


def _places(bucket: Bucket, pairs: Ints) -> Ints:
    """The slot that counts of each pair."""
    index = bucket.versions.index
    return index[pairs] if len(index) else pairs


def inside_sends(bucket: Bucket) -> Steps:
    """Steps between the sends of one op."""
    return inside(bucket, bucket.sends)


@dataclass(frozen=True, slots=True)
class _Visits:
    """One row per (process, key, op), ordered so: first and last pair; -1 for a poll that held nothing."""

    process: Ints
    key: Ints
    op: Ints
    type: AnyInts
    first: Ints
    last: Ints


def _visits(rows: Columns, nothing: Columns) -> _Visits:
    if len(nothing) == 0:
        by = order(rows.process, rows.key, rows.op)
        heads = np.flatnonzero(begins(rows.process[by], rows.key[by], rows.op[by]))
        at, last = by[heads], by[tails(heads, len(by)) - 1]
        pair = rows.pair
        return _Visits(rows.process[at], rows.key[at], rows.op[at], rows.type[at], pair[at], pair[last])
    process = np.concatenate([rows.process, nothing.process])
    key = np.concatenate([rows.key, nothing.key])
    op = np.concatenate([rows.op, nothing.op])
    kind = np.concatenate([rows.type, nothing.type])
    pair = np.concatenate([rows.pair, np.full(len(nothing), -1, np.int64)])
    hollow = (pair < 0).astype(np.int64)
    by = order(process, key, op, hollow)  # an op that polled twice: what it held comes before nothing
    process, key, op, kind, pair, hollow = (c[by] for c in (process, key, op, kind, pair, hollow))
    heads = np.flatnonzero(begins(process, key, op))
    ends = tails(heads, len(op))
    record_count = np.add.reduceat(1 - hollow, heads) if len(heads) else heads
    last = np.where(record_count > 0, heads + record_count - 1, ends - 1)
    return _Visits(process[heads], key[heads], op[heads], kind[heads], pair[heads], pair[last])


def between(bucket: Bucket, rows: Columns, nothing: Columns, any_type: bool) -> Steps:
    """Steps from the last visit of a key by a process to its next one, with a delta other than 1.

    The last visit is one of an `ok` op, or of any op with `any_type`. Visits of ops of every type in `rows`
    are compared. What was dropped in between by an assign is still in: see `Subscriptions.dropped`.
    """
    visits = _visits(rows, nothing)
    count = len(visits.op)
    place = np.arange(count, dtype=np.int64)
    anchor = place if any_type else np.where(visits.type == OK, place, -1)
    last = np.full(count, -1, np.int64)
    last[1:] = np.maximum.accumulate(anchor)[:-1] if count else last[1:]
    start = begins(visits.process, visits.key)
    group_start = np.maximum.accumulate(np.where(start, place, 0)) if count else place
    at = np.flatnonzero(last >= group_start)
    before = last[at]
    a, b = visits.last[before], visits.first[at]
    delta = _deltas(bucket, a, b)
    odd = delta != 1
    at, before = at[odd], before[odd]
    a, b, delta = a[odd], b[odd], delta[odd]
    ops, key, process = (visits.op[before], visits.op[at]), visits.key[at], visits.process[at]
    return Steps(a, b, *ops, key, process, delta, _places(bucket, a))


def joined(first: Steps, second: Steps) -> Steps:
    """The rows of both, ordered by op."""
    columns = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in Steps.__slots__]
    by = np.argsort(columns[Steps.__slots__.index("op_b")], kind="stable")
    return Steps(*(column[by] for column in columns))


def kept(steps: Steps, subscribed: Subscriptions) -> Steps:
    """Only steps whose key was not dropped by an assign or subscribe in between."""
    return steps.where(~subscribed.dropped(steps.process, steps.key, steps.op_a, steps.op_b))


def skipped(bucket: Bucket, steps: Steps) -> pa.Array:
    """The values that each step of delta > 1 passed over, as lists.

    All of them, unless the lists together would hold more than SKIPPED_MAX values, as when a whole log is
    read in disorder: then each is cut to its first SKIPPED_CUT. The delta always says how many there are.
    """
    picks = bucket.versions.slot_pick
    lengths = np.maximum(steps.delta - 1, 0)
    if int(lengths.sum()) > SKIPPED_MAX:
        lengths = np.minimum(lengths, SKIPPED_CUT)
    slots = expand(steps.place + 1, lengths)
    return int_lists(bucket.values(picks[slots]), lengths)


def within_op(bucket: Bucket, steps: Steps, skips: bool) -> pa.Table:
    """Witnesses {key, values, delta, op} of steps inside an op, with `skipped` for skips."""
    chosen = steps.where(steps.delta > 1 if skips else steps.delta < 1)
    columns = {
        "key": bucket.data.keys[chosen.key],
        "values": pairs_of(bucket.values(chosen.a), bucket.values(chosen.b)),
        "delta": chosen.delta,
        "op": chosen.op_b,
    }
    if skips:
        columns["skipped"] = skipped(bucket, chosen)
    return table(columns)


def across_ops(bucket: Bucket, steps: Steps, skips: bool) -> pa.Table:
    """Witnesses {key, values or skipped, delta, ops} of steps between ops, in the shape of Jepsen's."""
    chosen = steps.where(steps.delta > 1 if skips else steps.delta < 1)
    columns = {"key": bucket.data.keys[chosen.key]}
    if skips:
        columns["skipped"] = skipped(bucket, chosen)
    else:
        columns["values"] = pairs_of(bucket.values(chosen.a), bucket.values(chosen.b))
    columns["delta"] = chosen.delta
    columns["ops"] = pairs_of(chosen.op_a, chosen.op_b)
    return table(columns)
