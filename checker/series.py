"""Series beside the verdict, aggregated to what a screen can show: unseen over time, realtime lag.

Both are computed per bucket from events only (a send, a poll that moved a consumer, an assign), never by
stepping through ops, and reduced to a grid of times; maxima survive the reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checker.bucket import Bucket, Columns
from checker.packing import Bools, Ints, begins, empty, expand, member, order, tails
from checker.schema import ASSIGN, OK

UNSEEN_POINTS = 2000
LAG_POINTS = 5000


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


def _first_ok(bucket: Bucket, rows: Columns) -> tuple[Ints, Ints]:
    """Per pair: op and completion time of the first `ok` row; a huge op where there is none."""
    none = np.iinfo(np.int64).max
    op, at = np.full(len(bucket.data.pair_key), none), np.full(len(bucket.data.pair_key), none)
    chosen = np.flatnonzero(rows.type == OK)[::-1]  # backwards: the first stays
    op[rows.pair[chosen]] = rows.op[chosen]
    at[rows.pair[chosen]] = rows.complete_ns[chosen]
    return op, at


def unseen(bucket: Bucket, points: int) -> pa.Table:
    """{key (code), time_ns, unseen}: per key and cell of time, the most values sent and not yet polled.

    The last cell of a key holds its last value. `points`: how many rows there may be, roughly.
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
    whole = np.append(begins(key, op)[1:], True)  # an op counts as a whole, where it sends and polls
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


@dataclass(frozen=True, slots=True)
class Reads:
    """`ok` poll and txn ops, ordered by process and op."""

    process: Ints
    op: Ints
    invoke_ns: Ints

    @classmethod
    def of(cls, ops: pa.Table) -> Reads:
        """From the table of ops."""
        wanted = pc.and_(
            pc.equal(ops.column("type"), "ok"), pc.is_in(ops.column("f"), pa.array(["poll", "txn"]))
        )
        chosen = ops.filter(wanted)
        process, op = _column(chosen, "process"), _column(chosen, "index")
        by = order(process, op)
        return cls(process[by], op[by], _column(chosen, "invoke_ns")[by])


@dataclass(frozen=True, slots=True)
class _Known:
    """When an offset was first known to exist: by key rank and offset, the earliest time at or above it."""

    packed: Ints
    key: Ints
    since: Ints
    bits: int

    def expired(self, key: Ints, offset: Ints) -> Ints:
        """First time at which `offset` or a higher one was known; a huge time if never."""
        none = np.iinfo(np.int64).max
        if len(self.key) == 0:
            return np.full(len(key), none)
        place = np.searchsorted(self.packed, (key << self.bits) + np.maximum(offset, 0))
        inside = np.minimum(place, len(self.key) - 1)
        hit = (place < len(self.key)) & (self.key[inside] == key)
        return np.where(hit, self.since[inside], none)


def _known(bucket: Bucket) -> _Known:
    """Native: from acknowledged sends. Jepsen: from sends and polls of `ok` and `info` ops."""
    if bucket.options.jepsen_compatible:
        parts = [rows.where((rows.type <= 1) & (rows.offset >= 0)) for rows in (bucket.sends, bucket.polls)]
    else:
        parts = [bucket.sends.where((bucket.sends.type == OK) & (bucket.sends.offset >= 0))]
    key, offset, at = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "offset", "complete_ns")
    )
    by = order(key, offset)
    key, offset, at = key[by], offset[by], at[by]
    heads = np.flatnonzero(begins(key))
    for low, high in zip(heads, tails(heads, len(key)), strict=True):  # one round per key
        at[low:high] = np.minimum.accumulate(at[low:high][::-1])[::-1]
    bits = int(max(int(offset.max(initial=0)), int(bucket.polls.offset.max(initial=0))) + 2).bit_length()
    return _Known((key << bits) + offset, key, at, bits)


@dataclass(frozen=True, slots=True)
class _Holds:
    """What each process reads: `ok` assigns and subscribes, counted so that drops show."""

    every: Ints
    listed: Ints
    processes: Ints
    bits: int
    op: Ints
    start: Ints

    @classmethod
    def of(cls, bucket: Bucket, processes: Ints, bits: int) -> tuple[_Holds, tuple[Ints, Ints, Ints]]:
        """With the (process rank, key rank, op) of each assign that lists a key."""
        assigns = bucket.small.assigns
        done = _column(assigns, "type") == OK
        op, process, key, how = (_column(assigns, name)[done] for name in ("op", "process", "key", "how"))
        place = np.minimum(np.searchsorted(processes, process), max(len(processes) - 1, 0))
        ours = processes[place] == process if len(processes) else np.zeros(len(process), np.bool_)
        op, place, key, how = op[ours], place[ours], bucket.key_ranks(key[ours]), how[ours]
        every = np.unique((place << bits) | op)
        lists = (how == ASSIGN) & (key >= 0)
        listed = np.unique(((key * len(processes) + place) << bits)[lists] | op[lists])
        start = np.searchsorted(every, np.arange(len(processes) + 1) << bits)
        holds = cls(every, listed, processes, bits, every & ((1 << bits) - 1), start)
        return holds, (place[lists], key[lists], op[lists])

    def epoch(self, place: Ints, key: Ints, op: Ints) -> Ints:
        """How often the process had dropped the key by (and at) an op."""
        had = np.searchsorted(self.every, (place << self.bits) | op, side="right") - self.start[place]
        group = (key * len(self.processes) + place) << self.bits
        held = np.searchsorted(self.listed, group | op, side="right") - np.searchsorted(self.listed, group)
        result: Ints = had - held
        return result

    def dropped_at(self, place: Ints, key: Ints, op: Ints) -> Ints:
        """The first op after `op` at which the process drops the key; a huge one if it never does."""
        epoch = self.epoch(place, key, op)
        low = np.searchsorted(self.every, (place << self.bits) | op, side="right")
        high = self.start[place + 1].copy()
        top = high.copy()
        for _ in range(64):  # binary search: the epoch only grows
            if not bool((low < high).any()):
                break
            middle = (low + high) // 2
            later = self.epoch(place, key, self.op[np.minimum(middle, max(len(self.op) - 1, 0))]) > epoch
            go = low < high
            high = np.where(go & later, middle, high)
            low = np.where(go & ~later, middle + 1, low)
        none = np.iinfo(np.int64).max
        if len(self.op) == 0:
            return np.full(len(place), none)
        return np.where(low < top, self.op[np.minimum(low, len(self.op) - 1)], none)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """A process stands at `offset` of a key from the op `op` until before `until`."""

    place: Ints
    key: Ints
    offset: Ints
    op: Ints
    until: Ints


def _stretches(bucket: Bucket, processes: Ints) -> _Stretches:
    sends = bucket.sends.where((bucket.sends.type == OK) & bucket.data.send_txn & (bucket.sends.offset >= 0))
    polls = bucket.polls.where((bucket.polls.type == OK) & member(bucket.polls.process, processes))
    process = np.concatenate([sends.process, polls.process])
    key, op = np.concatenate([sends.key, polls.key]), np.concatenate([sends.op, polls.op])
    offset = np.concatenate([sends.offset, polls.offset])
    top = max(int(bucket.polls.op.max(initial=0)), int(bucket.sends.op.max(initial=0)))
    assigned = _column(bucket.small.assigns, "op")
    bits = (max(top, int(assigned.max(initial=0))) + 1).bit_length()
    holds, (assign_place, assign_key, assign_op) = _Holds.of(bucket, processes, bits)
    place = np.concatenate([np.searchsorted(processes, process), assign_place])
    key, op = np.concatenate([key, assign_key]), np.concatenate([op, assign_op])
    offset = np.concatenate([offset, np.full(len(assign_op), -1, np.int64)])
    epoch = holds.epoch(place, key, op)
    by = order(place, key, epoch, op)
    place, key, op, offset = place[by], key[by], op[by], offset[by]
    segment: Ints = np.cumsum(begins(place, key, epoch[by]), dtype=np.int64)
    width = int(offset.max(initial=0) + 2).bit_length()
    reached = (np.maximum.accumulate((segment << width) | (offset + 1)) & ((1 << width) - 1)) - 1
    last_of_op = np.ones(len(op), np.bool_)
    last_of_op[:-1] = begins(segment, op)[1:]
    place, key, op, segment = place[last_of_op], key[last_of_op], op[last_of_op], segment[last_of_op]
    reached = reached[last_of_op]
    until = holds.dropped_at(place, key, op)
    same = ~begins(segment)[1:] if len(op) else np.zeros(0, np.bool_)
    until[:-1] = np.where(same, op[1:], until[:-1])
    return _Stretches(place, key, reached, op, until)


def realtime_lag(bucket: Bucket, reads: Reads, points: int) -> pa.Table:
    """{time_ns, process, key (code), lag_ns}: per process, key and cell of time, the poll that lags most.

    The lag of a key at a poll is the poll's invocation time minus the completion time of the first known send
    newer than what the poller has read; 0 if there is none. Exact maxima: within a stretch in which a process
    stays where it is the lag only grows, so only the last poll of each stretch and cell can be a maximum.
    """
    processes = np.unique(reads.process)
    if len(processes) == 0:
        return pa.table({name: pa.array(empty()) for name in ("time_ns", "process", "key", "lag_ns")})
    spans = _stretches(bucket, processes)
    bits = int(max(int(reads.op.max()), int(spans.op.max(initial=0))) + 1).bit_length()
    rank = np.searchsorted(processes, reads.process)
    packed = (rank << bits) | reads.op
    low = np.searchsorted(packed, (spans.place << bits) | spans.op)
    ceiling = np.minimum(spans.until, (1 << bits) - 1)
    high = np.searchsorted(packed, (spans.place << bits) | ceiling)
    pairs = len(np.unique(spans.place * (len(bucket.data.keys) + 1) + spans.key)) if len(spans.op) else 1
    bins = int(np.clip(points // max(1, pairs), 10, 200))
    cell = reads.invoke_ns * bins // (int(bucket.small.meta["max_ns"]) + 1)
    ends: Bools = np.append(begins(rank, cell)[1:], True)
    at_ends = np.flatnonzero(ends)
    low_end, high_end = np.searchsorted(at_ends, low), np.searchsorted(at_ends, high)
    some = high > low
    span = np.concatenate([np.repeat(np.arange(len(low)), high_end - low_end), np.flatnonzero(some)])
    poll = np.concatenate([at_ends[expand(low_end, high_end - low_end)], high[some] - 1])
    key, offset = spans.key[span], spans.offset[span]
    lag = np.maximum(reads.invoke_ns[poll] - _known(bucket).expired(key, offset + 1), 0)
    by = order(rank[poll], key, cell[poll], -lag)
    heads = by[begins(rank[poll][by], key[by], cell[poll][by])]
    return pa.table(
        {
            "time_ns": pa.array(reads.invoke_ns[poll[heads]]),
            "process": pa.array(reads.process[poll[heads]]),
            "key": pa.array(bucket.data.keys[key[heads]]),
            "lag_ns": pa.array(lag[heads]),
        }
    )
