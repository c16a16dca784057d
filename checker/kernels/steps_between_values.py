"""Steps between consecutive values of a key that a process polled or sent, and their distance in the log.

The *delta* of a step is the difference of the values' indices in the version order (`checker.kernels.version_order`): 1
for neighbours, more for a skip, less if the process went back or stayed. If an index is unknown, the delta is 1, so
that no anomaly is reported. The seven skip and nonmonotonic anomalies are based on these steps. The rules are those of
jepsen.tests.kafka.
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
    """Steps of processes from one value of a key to the next, as columns with one element per step.

    Values are given as pairs, and the log position of a value as a slot; for both see `checker.kernels.version_order`.

    a, op_a  the pair at which the step starts, and its op; the pair is -1 if the step starts before the first value
    b, op_b  the pair at which the step ends, and its op
    key      the key of both pairs, as its index in `Data.keys`
    delta    the distance from `a` to `b` in the log: 1 for neighbours, more for a skip, less if the process went back
             or stayed
    place    the slot at which the step starts
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
    """Returns, for each row, the index of pair `b` in the version order minus that of pair `a`.

    The result is 1 if a pair is negative (no value) or has no known index.
    """
    index = bucket.versions.index
    if len(index) == 0:
        return np.ones(len(a), np.int64)
    i, j = index[np.maximum(a, 0)], index[np.maximum(b, 0)]
    known = (i >= 0) & (j >= 0) & (a >= 0) & (b >= 0)
    return np.where(known, j - i, 1)


def inside(bucket: Bucket, rows: Columns) -> Steps:
    """Returns the steps whose delta is not 1, between consecutive values that an op sent or polled (`rows`)."""
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
    index = bucket.versions.index
    return index[pairs] if len(index) else pairs


def inside_sends(bucket: Bucket) -> Steps:
    """Returns the steps whose delta is not 1, between consecutive values that an op sent."""
    return inside(bucket, bucket.sends)


@dataclass(frozen=True, slots=True)
class _Visits:
    """The visits of processes to keys: one row per (process, key, op), sorted by process, key and op.

    A row has the first and the last pair that the op polled or sent; both are -1 for a poll without records.
    """

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
    by = order(process, key, op, hollow)  # of an op with several polls, those with records come first
    process, key, op, kind, pair, hollow = (c[by] for c in (process, key, op, kind, pair, hollow))
    heads = np.flatnonzero(begins(process, key, op))
    ends = tails(heads, len(op))
    record_count = np.add.reduceat(1 - hollow, heads) if len(heads) else heads
    last = np.where(record_count > 0, heads + record_count - 1, ends - 1)
    return _Visits(process[heads], key[heads], op[heads], kind[heads], pair[heads], pair[last])


def between(bucket: Bucket, rows: Columns, nothing: Columns, any_type: bool) -> Steps:
    """Returns the steps whose delta is not 1, from one op that sends to or polls a key to the process's next such op.

    A step leads from the last value of the first op to the first value of the second op.

    rows      the sends or the polled records
    nothing   the polls without records; they count as ops that polled the key
    any_type  whether the first op may be of any type; otherwise it must be `ok`. The second op may be of any type

    Steps are included even if the process dropped the key between the two ops; `kept` removes these.
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
    """Returns the steps of `first` and `second` together, ordered by the op in which they end."""
    columns = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in Steps.__slots__]
    by = np.argsort(columns[Steps.__slots__.index("op_b")], kind="stable")
    return Steps(*(column[by] for column in columns))


def kept(steps: Steps, subscribed: Subscriptions) -> Steps:
    """Returns the steps without those during which an assign or subscribe dropped the key."""
    return steps.where(~subscribed.dropped(steps.process, steps.key, steps.op_a, steps.op_b))


def skipped(bucket: Bucket, steps: Steps) -> pa.Array:
    """Returns, for each step, the list of values that it skipped; empty if the delta is not above 1.

    If all lists together have more than SKIPPED_MAX values (for example because a whole log was read out of order),
    each list is cut to its first SKIPPED_CUT values. The full number of skipped values is the step's delta minus 1.
    """
    picks = bucket.versions.slot_pick
    lengths = np.maximum(steps.delta - 1, 0)
    if int(lengths.sum()) > SKIPPED_MAX:
        lengths = np.minimum(lengths, SKIPPED_CUT)
    slots = expand(steps.place + 1, lengths)
    return int_lists(bucket.values(picks[slots]), lengths)


def within_op(bucket: Bucket, steps: Steps, skips: bool) -> pa.Table:
    """Returns witnesses {key, values, delta, op} for the steps within an op that go back in the log or stay.

    If `skips` is set, the witnesses are for the steps that skip values instead, and have the column `skipped`, too.
    """
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
    """Returns witnesses {key, values, delta, ops} for the steps between ops that go back in the log or stay.

    If `skips` is set, the witnesses are for the steps that skip values instead, and have the column `skipped` in place
    of `values`. This is Jepsen's format.
    """
    chosen = steps.where(steps.delta > 1 if skips else steps.delta < 1)
    columns = {"key": bucket.data.keys[chosen.key]}
    if skips:
        columns["skipped"] = skipped(bucket, chosen)
    else:
        columns["values"] = pairs_of(bucket.values(chosen.a), bucket.values(chosen.b))
    columns["delta"] = chosen.delta
    columns["ops"] = pairs_of(chosen.op_a, chosen.op_b)
    return table(columns)
