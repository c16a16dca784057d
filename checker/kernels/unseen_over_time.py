"""The number of unseen values over time, reduced to as many points as a plot can show.

A value is unseen from its first `ok` send to its first `ok` poll. The number is computed per bucket from these events,
not op by op. To limit the size of the result, the run is divided into intervals of equal length (*cells*), and only the
maximum in each cell is kept.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.tables.columns import Columns
from checker.tables.packing import Ints, begins, empty, order
from checker.tables.schema import OK

UNSEEN_POINTS = 2000


def _first_ok(bucket: Bucket, rows: Columns) -> tuple[Ints, Ints]:
    """Returns, for each value, (op, completion time) of the first `ok` op in `rows` that has the value.

    Both are the largest integer if there is no such op.
    """
    none = np.iinfo(np.int64).max
    op, at = np.full(len(bucket.data.pair_key), none), np.full(len(bucket.data.pair_key), none)
    chosen = np.flatnonzero(rows.type == OK)[::-1]  # backwards: the first stays
    op[rows.pair[chosen]] = rows.op[chosen]
    at[rows.pair[chosen]] = rows.complete_ns[chosen]
    return op, at


def unseen(bucket: Bucket, points: int) -> pa.Table:
    """Returns {key (code), time_ns, unseen}, one row for each key and interval of the run.

    `unseen` is the maximum number of unseen values in the interval. The last row of a key has the number at the end of
    the run. The length of the intervals is chosen so that the table has about `points` rows at most.
    """
    data = bucket.data
    sent_op, sent_at = _first_ok(bucket, bucket.sends)
    polled_op, polled_at = _first_ok(bucket, bucket.polls)
    none = np.iinfo(np.int64).max
    was = np.flatnonzero((sent_op < none) & (polled_op > sent_op))
    ended = was[polled_op[was] < none]
    key = np.concatenate([data.pair_key[was], data.pair_key[ended]])
    if len(key) == 0:
        return pa.table({name: pa.array(empty()) for name in ("key", "time_ns", "unseen")})
    op = np.concatenate([sent_op[was], polled_op[ended]])
    at = np.concatenate([sent_at[was], polled_at[ended]])
    step = np.concatenate([np.ones(len(was), np.int64), -np.ones(len(ended), np.int64)])
    by = order(key, op)
    key, op, at, step = key[by], op[by], at[by], step[by]
    total = np.cumsum(step)
    heads = begins(key)
    base = np.maximum.accumulate(np.where(heads, np.arange(len(key)), 0))
    level = total - (total[base] - step[base])
    whole = np.append(begins(key, op)[1:], True)  # sends and polls of the same op take effect together
    key, at, level = key[whole], at[whole], level[whole]
    last = np.append(begins(key)[1:], True)
    bins = int(np.clip(points // max(1, len(data.keys)), 10, 500))
    cell = at * bins // (int(bucket.small.meta["max_ns"]) + 1)
    groups = np.flatnonzero(begins(key, np.where(last, bins, cell)))
    return pa.table(
        {
            "key": pa.array(data.keys[key[groups]]),
            "time_ns": pa.array(np.maximum.reduceat(at, groups)),
            "unseen": pa.array(np.maximum.reduceat(level, groups)),
        }
    )
