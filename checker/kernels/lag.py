"""Realtime lag: at each poll, for how long a record that the consumer had not read yet had been in the log.

The lag of a key at a poll is the invocation time of the poll minus the completion time of the first known send with a
higher offset than the consumer has read; 0 if there is none. The lag is computed per bucket from the events that move a
consumer (polls and assigns), not op by op. To limit the size of the result, the run is divided into intervals of equal
length (*cells*), and only the maximum in each cell is kept. These maxima are exact: while a consumer's position does
not change, its lag only grows, so only the last poll before a move, or the last poll in a cell, can be a maximum.
Source: jepsen.tests.kafka, `realtime-lag`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.tables.packing import Bools, Ints, begins, empty, expand, member, order, tails
from checker.tables.schema import ASSIGN, INFO, OK, is_one

LAG_POINTS = 5000
_NEVER = int(np.iinfo(np.int64).max)


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


@dataclass(frozen=True, slots=True)
class Reads:
    """The *reads*, which are the `ok` ops with f poll or txn, ordered by process and op.

    processes  the processes with reads, ascending; the index of a process in this array is its rank
    bits       how many bits of an element of `packed` contain the op
    packed     for each read: the rank of the process in the high bits, and the op in the low bits
    invoke_ns  for each read: its invocation time
    ends       the results cached by `cell_ends`
    """

    processes: Ints
    bits: int
    packed: Ints
    invoke_ns: Ints
    ends: dict[tuple[int, int], Ints] = field(default_factory=dict)

    def place(self, rank: Ints, op: Ints) -> Ints:
        """Returns, for each (process, op), the index of the process's first read in this op or later.

        `rank`: index of the process in `processes`.
        """
        return np.searchsorted(self.packed, (rank << self.bits) | np.minimum(op, (1 << self.bits) - 1))

    def cell_ends(self, bins: int, max_ns: int) -> Ints:
        """Divides the run, up to the time `max_ns`, into `bins` intervals.

        Returns, for each process and interval, the index of the last read. The indexes are those of `packed`. An
        interval in which a process has no read is skipped.
        """
        if (bins, max_ns) not in self.ends:
            cell = self.invoke_ns * bins // (max_ns + 1)
            last = np.append(begins(self.packed >> self.bits, cell)[1:], True)
            self.ends[bins, max_ns] = np.flatnonzero(last)
        return self.ends[bins, max_ns]

    @classmethod
    def of(cls, ops: Iterable[pa.Table]) -> Reads:
        """Selects the reads from the table of ops, which is given in one or more pieces."""
        found: list[tuple[Ints, Ints, Ints]] = [(empty(), empty(), empty())]
        for table in ops:
            rows = is_one(table, "type", ("ok",)) & is_one(table, "f", ("poll", "txn"))
            process, op, at = (_column(table, name)[rows] for name in ("process", "index", "invoke_ns"))
            found.append((process, op, at))
        process, op, at = (np.concatenate(columns) for columns in zip(*found, strict=True))
        by = order(process, op)
        process, op, at = process[by], op[by], at[by]
        processes = process[begins(process)]
        bits = (int(op.max(initial=0)) + 1).bit_length()
        return cls(processes, bits, (np.searchsorted(processes, process) << bits) | op, at)


@dataclass(frozen=True, slots=True)
class _Known:
    """When each offset was first known to exist: the earliest time at which this offset or a higher one was seen."""

    packed: Ints
    key: Ints
    since: Ints
    bits: int

    def expired(self, key: Ints, offset: Ints) -> Ints:
        """Returns the first time at which `offset` or a higher offset of the key was known; _NEVER if there is none."""
        if len(self.key) == 0:
            return np.full(len(key), _NEVER)
        place = np.searchsorted(self.packed, (key << self.bits) + np.maximum(offset, 0))
        inside = np.minimum(place, len(self.key) - 1)
        hit = (place < len(self.key)) & (self.key[inside] == key)
        return np.where(hit, self.since[inside], _NEVER)


def _known(bucket: Bucket) -> _Known:
    """Returns the times at which offsets became known.

    Under the harness's own rules, the offsets of acknowledged sends count; under Jepsen's rules, those of `ok` and
    `info` sends and polls.
    """
    if bucket.options.jepsen_compatible:
        parts = [(rows, (rows.type <= INFO) & (rows.offset >= 0)) for rows in (bucket.sends, bucket.polls)]
    else:
        parts = [(bucket.sends, (bucket.sends.type == OK) & (bucket.sends.offset >= 0))]
    key, offset, at = (
        np.concatenate([getattr(rows, name)[known] for rows, known in parts])
        for name in ("key", "offset", "complete_ns")
    )
    by = order(key, offset)
    key, offset, at = key[by], offset[by], at[by]
    heads = np.flatnonzero(begins(key))
    for low, high in zip(heads, tails(heads, len(key)), strict=True):  # one round per key
        at[low:high] = np.minimum.accumulate(at[low:high][::-1])[::-1]
    bits = int(max(int(offset.max(initial=0)), int(bucket.polls.offset.max(initial=0))) + 2).bit_length()
    return _Known((key << bits) + offset, key, at, bits)


@dataclass(frozen=True, slots=True)
class _Assigned:
    """The keys assigned to each process, from its `ok` assigns and subscribes.

    A process drops a key by a subscribe, or by an assign that does not list the key. To find out whether it dropped a
    key between two ops, both kinds are counted: it did if the assigns and subscribes between these ops are more than
    the assigns that list the key.

    every   the assigns and subscribes: process (its index in `Reads.processes`) and op, packed into one number and
            sorted
    listed  the assigns that list a key: key (its index in `Data.keys`), process and op, packed into one number and
            sorted
    bits    how many bits of a packed number contain the op
    op      the op of each element of `every`
    start   for each process: the position of its first element in `every`
    """

    every: Ints
    listed: Ints
    processes: Ints
    bits: int
    op: Ints
    start: Ints

    @classmethod
    def of(cls, bucket: Bucket, processes: Ints, bits: int) -> tuple[_Assigned, tuple[Ints, Ints, Ints]]:
        """Returns (the assignments, (process, key, op) of each assign that lists a key, as columns).

        Processes and keys are given as their indices in `Reads.processes` and `Data.keys`. `processes` becomes
        `Reads.processes`; for `bits`, see the class.
        """
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
        assigned = cls(every, listed, processes, bits, every & ((1 << bits) - 1), start)
        return assigned, (place[lists], key[lists], op[lists])

    def epoch(self, place: Ints, key: Ints, op: Ints) -> Ints:
        """Returns, for each row, how many times the process dropped the key, up to and including the op.

        `place`: index of the process in `Reads.processes`.
        """
        had = np.searchsorted(self.every, (place << self.bits) | op, side="right") - self.start[place]
        group = (key * len(self.processes) + place) << self.bits
        listed_count = np.searchsorted(self.listed, group | op, side="right") - np.searchsorted(self.listed, group)
        result: Ints = had - listed_count
        return result

    def dropped_at(self, place: Ints, key: Ints, op: Ints) -> Ints:
        """Returns, for each row, the first op after `op` at which the process drops the key; _NEVER if it does not.

        `place`: index of the process in `Reads.processes`.
        """
        epoch = self.epoch(place, key, op)
        low = np.searchsorted(self.every, (place << self.bits) | op, side="right")
        high = self.start[place + 1].copy()
        top = high.copy()
        for _ in range(64):  # binary search, as the epoch never decreases
            if not bool((low < high).any()):
                break
            middle = (low + high) // 2
            later = self.epoch(place, key, self.op[np.minimum(middle, max(len(self.op) - 1, 0))]) > epoch
            go = low < high
            high = np.where(go & later, middle, high)
            low = np.where(go & ~later, middle + 1, low)
        if len(self.op) == 0:
            return np.full(len(place), _NEVER)
        return np.where(low < top, self.op[np.minimum(low, len(self.op) - 1)], _NEVER)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Ranges of ops during which a process's position in the log of a key stays the same.

    They are ordered by process, key and op.

    place   index of the process in `Reads.processes`
    key     index of the key in `Data.keys`
    offset  the highest offset that the process has read
    op      the first op of the range
    until   the op after the range
    """

    place: Ints
    key: Ints
    offset: Ints
    op: Ints
    until: Ints


def _moves(bucket: Bucket, reads: Reads) -> tuple[_Assigned, tuple[Ints, ...]]:
    """Returns the events that move consumers: (process, key, op, offset), ordered by process, key and op.

    Processes and keys are given as their indices in `Reads.processes` and `Data.keys`.
    """
    processes = reads.processes
    sends, polls = bucket.sends, bucket.polls
    moved = np.flatnonzero((sends.type == OK) & bucket.data.send_txn & (sends.offset >= 0))
    polled = polls.where((polls.type == OK) & member(polls.process, processes))
    # Under Jepsen's rules, a poll that lists a key without records counts as reading it, with offset -1.
    nothing = bucket.data.nothing
    compatible = bucket.options.jepsen_compatible
    empty_polls = nothing.where((nothing.type == OK) & member(nothing.process, processes) & compatible)
    process, key, op, offset = (
        np.concatenate([getattr(sends, name)[moved], getattr(polled, name), getattr(empty_polls, name)])
        for name in ("process", "key", "op", "offset")
    )
    top = max(int(bucket.polls.op.max(initial=0)), int(bucket.sends.op.max(initial=0)))
    assign_ops = _column(bucket.small.assigns, "op")
    bits = (max(top, int(assign_ops.max(initial=0))) + 1).bit_length()
    assigned, (assign_place, assign_key, assign_op) = _Assigned.of(bucket, processes, bits)
    columns = (
        np.concatenate([np.searchsorted(processes, process), assign_place]),
        np.concatenate([key, assign_key]),
        np.concatenate([op, assign_op]),
        np.concatenate([offset, np.full(len(assign_op), -1, np.int64)]),
    )
    by = order(*columns[:3])
    return assigned, tuple(column[by] for column in columns)


def _segments(assigned: _Assigned, place: Ints, key: Ints, op: Ints) -> Bools:
    """Marks the rows at which a process begins to read a key, for the first time or after it dropped the key.

    The number of drops never decreases. If it is equal in the first and last row of a key, it is equal in all rows
    between.
    """
    begin = begins(place, key)
    heads = np.flatnonzero(begin)
    ends = tails(heads, len(op))
    first, last = (assigned.epoch(place[rows], key[rows], op[rows]) for rows in (heads, ends - 1))
    changing = np.flatnonzero(first != last)
    rows = expand(heads[changing], ends[changing] - heads[changing])
    epoch = assigned.epoch(place[rows], key[rows], op[rows])
    begin[rows] |= begins(epoch)
    return begin


def _stretches(bucket: Bucket, reads: Reads) -> _Stretches:
    assigned, (place, key, op, offset) = _moves(bucket, reads)
    segment: Ints = np.cumsum(_segments(assigned, place, key, op), dtype=np.int64)
    width = int(offset.max(initial=0) + 2).bit_length()
    reached = (np.maximum.accumulate((segment << width) | (offset + 1)) & ((1 << width) - 1)) - 1
    last_of_op = np.ones(len(op), np.bool_)
    last_of_op[:-1] = begins(segment, op)[1:]
    place, key, op, segment = place[last_of_op], key[last_of_op], op[last_of_op], segment[last_of_op]
    reached = reached[last_of_op]
    # A stretch ends where the next one of its segment begins; the last one ends where the key is dropped.
    until = np.append(op[1:], 0)
    ends = np.flatnonzero(np.append(begins(segment)[1:], True)) if len(op) else op
    until[ends] = assigned.dropped_at(place[ends], key[ends], op[ends])
    return _Stretches(place, key, reached, op, until)


def _at_cell_ends(spans: _Stretches, reads: Reads, ends: Ints) -> tuple[Ints, Ints]:
    """Finds the stretches (see `_Stretches`) in which reads took place. Returns (stretch, read), as columns.

    There is one row for each read of `ends` and each key of its process, if the read is in a stretch of this key.
    """
    heads = np.flatnonzero(begins(spans.place, spans.key))
    of_process = np.searchsorted(reads.packed[ends], np.arange(len(reads.processes) + 1) << reads.bits)
    count = np.diff(of_process)[spans.place[heads]]
    read = ends[expand(of_process[spans.place[heads]], count)]
    group = np.repeat(np.arange(len(heads)), count)
    op = reads.packed[read] & ((1 << reads.bits) - 1)
    groups = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(spans.op))))
    bits = max(reads.bits, (int(spans.op.max(initial=0)) + 1).bit_length())
    span = np.searchsorted((groups << bits) | spans.op, (group << bits) | op, side="right") - 1
    inside = np.maximum(span, 0)
    inside_span = (span >= heads[group]) & (op < spans.until[inside])
    return span[inside_span], read[inside_span]


def realtime_lag(bucket: Bucket, reads: Reads, points: int) -> pa.Table:
    """Returns {time_ns, process, key (code), lag_ns}, one row for each process, key and interval of the run.

    The row has the poll with the largest lag in this interval. The length of the intervals is chosen so that the table
    has about `points` rows at most.
    """
    processes = reads.processes
    if len(processes) == 0:
        return pa.table({name: pa.array(empty()) for name in ("time_ns", "process", "key", "lag_ns")})
    spans = _stretches(bucket, reads)
    pairs = int(np.count_nonzero(begins(spans.place, spans.key)))
    bins = int(np.clip(points // max(1, pairs), 10, 200))
    max_ns = int(bucket.small.meta["max_ns"])
    since = _known(bucket).expired(spans.key, spans.offset + 1)
    last = reads.place(spans.place, spans.until) - 1
    some = np.flatnonzero(reads.packed[last] >= (spans.place << reads.bits) | spans.op)
    some = some[last[some] >= 0]
    at_ends, read = _at_cell_ends(spans, reads, reads.cell_ends(bins, max_ns))
    span, poll = np.concatenate([at_ends, some]), np.concatenate([read, last[some]])
    at, key, rank = reads.invoke_ns[poll], spans.key[span], spans.place[span]
    lag = np.maximum(at - since[span], 0)
    cell = at * bins // (max_ns + 1)
    by = order(rank, key, cell, -lag)
    heads = by[begins(rank[by], key[by], cell[by])]
    return pa.table(
        {
            "time_ns": pa.array(at[heads]),
            "process": pa.array(processes[rank[heads]]),
            "key": pa.array(bucket.data.keys[key[heads]]),
            "lag_ns": pa.array(lag[heads]),
        }
    )
