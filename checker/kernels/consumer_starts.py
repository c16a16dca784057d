"""Finds the assignments after which a consumer did not begin to read at the group's committed offset.

A group member that is assigned a key starts to read at the group's committed offset. If there is none and
auto.offset.reset is earliest, it starts at the beginning of the log. The first record that the member polls afterwards
must be the first one at or above the start offset. If it is a later one, records were skipped. If it is an earlier one,
the group had already processed it. The rebalance explains neither.

A start is checked only if the committed offset was recorded (`committed` of the event, schema.COMMITS) and the key was
not assigned or revoked again before that poll. Under read_uncommitted, groups that commit offsets in transactions are
not checked: the recorded offset may be older than the one at which the consumer then started. Native rules only.
Source: Kafka documentation, Design, 4.5 The Consumer; auto.offset.reset; KIP-447.
"""

from __future__ import annotations

import numpy as np

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.steps_between_values import Steps
from checker.kernels.subscriptions import Subscriptions
from checker.tables.columns import Columns
from checker.tables.packing import Bools, Ints, begins, order


def _found(bucket: Bucket) -> tuple[Ints, Ints, Ints, Ints]:
    """Returns (process, key, op, offset) of every assignment whose start offset is known.

    A key is given as its index in `Data.keys`.
    """
    commits = bucket.small.commits

    def column(name: str) -> Ints:
        result: Ints = commits.column(name).to_numpy().astype(np.int64, copy=False)
        return result

    settings = bucket.options.settings
    key, offset = bucket.key_ranks(column("key")), column("offset")
    known = (column("fetched") > 0) & (key >= 0)
    if settings.isolation_level == "read_uncommitted" and settings.txn is not False:
        known[:] = False
    if settings.auto_offset_reset == "earliest":
        offset = np.maximum(offset, 0)
    known &= offset >= 0
    return column("process")[known], key[known], column("op")[known], offset[known]


def _first_visits(polls: Columns, process: Ints, key: Ints, op: Ints) -> Ints:
    """Returns, for each (process, key, op), the row of the first record that the process polled in this op or later.

    The row is -1 if there is no such record.
    """
    count = len(process)
    mark = np.concatenate([np.zeros(count, np.int64), np.ones(len(polls), np.int64)])
    by = order(
        np.concatenate([process, polls.process]),
        np.concatenate([key, polls.key]),
        np.concatenate([op, polls.op]),
        mark,
    )
    # Backwards from the end: the nearest row of a poll at or after each position.
    place = np.arange(len(by), dtype=np.int64)
    polled = by >= count
    nearest = np.minimum.accumulate(np.where(polled, place, len(by))[::-1])[::-1]
    next_place = np.empty(count, np.int64)
    next_place[by[~polled]] = nearest[~polled]
    exists = next_place < len(by)
    row = np.where(exists, by[np.minimum(next_place, len(by) - 1)] - count, -1)
    same = exists & (polls.process[row] == process) & (polls.key[row] == key)
    return np.where(same, row, -1)


def _certain(bucket: Bucket, process: Ints, key: Ints, op: Ints, until: Ints) -> Bools:
    """Returns, for each assignment in `op`, whether the poll in the op `until` is certainly the first poll after it.

    This is not certain if the op recorded several assignments of the key, or if the same op polled the key and recorded
    other rebalance events of the key: the poll may have come before these events.
    """
    table = bucket.small.rebalances
    moved_process, moved_op, moved = (
        table.column(name).to_numpy().astype(np.int64, copy=False) for name in ("process", "op", "key")
    )
    events = (moved_process, bucket.key_ranks(moved), moved_op)
    rows = [np.concatenate(both) for both in zip((process, key, op), events, strict=True)]
    by = order(*rows)
    heads = np.flatnonzero(begins(*(column[by] for column in rows)))
    size = np.diff(np.append(heads, len(by)))
    own = np.add.reduceat((by < len(op)).astype(np.int64), heads)
    known, all_of = np.empty(len(by), np.int64), np.empty(len(by), np.int64)
    known[by], all_of[by] = np.repeat(own, size), np.repeat(size, size)
    alone = all_of[: len(op)] == 2  # the offset, and the event that recorded it
    result: Bools = (known[: len(op)] == 1) & ((until > op) | alone)
    return result


def steps(bucket: Bucket, subscribed: Subscriptions) -> tuple[Steps, Ints]:
    """Returns (steps, committed offsets) for the consumers that did not start at the committed offset.

    Each step leads from the last value before the offset at which the consumer should have started to the value that
    it polled first. The committed offset of each step is the offset that the group had committed.
    """
    process, key, op, offset = _found(bucket)
    polls, orders = bucket.polls, bucket.versions
    if len(process) == 0 or len(polls) == 0:
        none = process[:0]
        return Steps(*(none,) * 8), none
    row = _first_visits(polls, process, key, op)
    until = polls.op[row]
    clear = (row >= 0) & (polls.offset[row] >= 0) & _certain(bucket, process, key, op, until)
    clear &= ~subscribed.rebalanced(process, key, op + 1, until) & ~subscribed.reset(process, op, until)
    process, key, op, offset, row, until = (c[clear] for c in (process, key, op, offset, row, until))
    slot = _slots(bucket, key, polls.offset[row])
    log_start, _, _ = bucket.ends.of(bucket.data.keys)
    expected = _slots(bucket, key, offset)
    standing = _slots(bucket, key, np.maximum(offset, log_start[key]))
    first = np.where(slot > standing, standing, expected)
    delta = slot - first + 1
    odd = (delta > 1) | (delta < 1)
    before = (first - 1)[odd]
    a = np.where(before >= 0, orders.slot_pick[np.maximum(before, 0)], -1)
    found = Steps(a, polls.pair[row][odd], op[odd], until[odd], key[odd], process[odd], delta[odd], before)
    return found, offset[odd]


def _slots(bucket: Bucket, key: Ints, offset: Ints) -> Ints:
    """Returns, for each (key, offset), the key's first slot (offset with a value) at or above the offset.

    If there is none, returns the slot after the key's last one. Slots are numbered: see `Versions`.
    """
    orders = bucket.versions
    count = len(orders.slot_key)
    by = order(
        np.concatenate([orders.slot_key, key]),
        np.concatenate([orders.slot_offset, offset]),
        np.concatenate([np.ones(count, np.int64), np.zeros(len(key), np.int64)]),
    )
    is_query = by >= count
    before = np.cumsum(~is_query)
    found = np.empty(len(key), np.int64)
    found[by[is_query] - count] = before[is_query]
    return found
