"""Edges of the dependency graph between ops that follow from one bucket of keys.

    ww   from the op that sent a value to the op that sent the next value in the key's version order
    wr   from the op that sent a value to each op that polled the value; the ops may have any type
    rw   from an `ok` op that polled a key to the op that sent the next value, which is the value after the highest
         polled one in the key's version order

Edges of the kinds process and realtime do not depend on keys: see checker.cycles.realtime_and_components.

These are Adya's dependencies (Weak Consistency, 1999). ww and wr edges are drawn as in jepsen.tests.kafka, which has no
rw edges. An op is represented by its id, the index of its completion. A backward edge goes from a higher id to a lower
one, and every cycle contains at least one backward edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.tables.columns import Columns
from checker.tables.packing import Bools, Ints, begins, member, order
from checker.tables.schema import OK

WW: Final = 0
WR: Final = 1
RW: Final = 2
PROCESS: Final = 3
REALTIME: Final = 4
KINDS: Final = ("ww", "wr", "rw", "process", "realtime")

# Why an edge exists: the key, the value or values, and the micro-ops that sent or polled them (-1: none).
DETAILS: Final = pa.schema(
    [
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("kind", pa.int8()),
        ("key", pa.int64()),
        ("value", pa.int64()),
        ("next", pa.int64()),
        ("source_mop", pa.int64()),
        ("target_mop", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges as columns: each leads from op `source` to op `target`, and follows from the pairs `a` and `b`.

    A pair is a (key, value). For ww and rw, `b` follows `a` in the version order; for wr, `a` and `b` are equal.
    """

    source: Ints
    target: Ints
    kind: Ints
    a: Ints
    b: Ints

    def where(self, rows: Bools) -> Edges:
        return Edges(*(getattr(self, name)[rows] for name in self.__slots__))


def _edges(kind: int, source: Ints, target: Ints, a: Ints, b: Ints) -> Edges:
    """Returns the edges without those whose source or target is unknown, and without those from an op to itself."""
    found = Edges(source, target, np.full(len(source), kind, np.int64), a, b)
    return found.where((source >= 0) & (target >= 0) & (source != target))


def _ww(bucket: Bucket) -> Edges:
    orders = bucket.versions
    b = np.flatnonzero(orders.index >= 0)
    slot = orders.index[b]
    b = b[slot > orders.key_start[orders.slot_key[slot]]]
    a = orders.slot_pick[orders.index[b] - 1]
    writer = bucket.data.writer
    return _edges(WW, writer[a], writer[b], a, b)


def _wr(bucket: Bucket) -> Edges:
    pair = bucket.polls.pair
    return _edges(WR, bucket.data.writer[pair], bucket.polls.op, pair, pair)


def _rw(bucket: Bucket) -> Edges:
    orders, polls = bucket.versions, bucket.polls
    rows = np.flatnonzero((polls.type == OK) & (orders.index[polls.pair] >= 0))
    op, slot = polls.op[rows], orders.index[polls.pair[rows]]
    by = order(op, polls.key[rows], slot)
    highest = np.append(begins(op[by], polls.key[rows][by])[1:], True) if len(by) else np.zeros(0, np.bool_)
    op, slot = op[by][highest], slot[by][highest]
    inside = slot + 1 < orders.key_start[orders.slot_key[slot] + 1]
    op, slot = op[inside], slot[inside]
    a, b = orders.slot_pick[slot], orders.slot_pick[slot + 1]
    return _edges(RW, op, bucket.data.writer[b], a, b)


_DRAWN: Final = {"ww": _ww, "wr": _wr, "rw": _rw}


def of_bucket(bucket: Bucket, kinds: frozenset[str]) -> list[Edges]:
    """Returns the edges of those of the kinds ww, wr and rw that are in `kinds`.

    An edge that follows from several pairs occurs once for each.
    """
    return [draw(bucket) for kind, draw in _DRAWN.items() if kind in kinds and len(bucket.data.pair_key)]


def details(bucket: Bucket, kinds: frozenset[str], ops: Ints) -> pa.Table:
    """Returns the reasons for the edges between the given ops, as a table with the schema DETAILS.

    Keys and values in the table are codes (integers).

    ops  the ids of the ops, ascending
    """
    found = [edges.where(member(edges.source, ops) & member(edges.target, ops)) for edges in of_bucket(bucket, kinds)]
    if not found:
        return DETAILS.empty_table()
    rows = Edges(*(np.concatenate([getattr(edges, name) for edges in found]) for name in Edges.__slots__))
    sent, polled = (_mops(records, ops) for records in (bucket.sends, bucket.polls))

    def mops(kinds_polled: Bools, op: Ints, pair: Ints) -> Ints:
        chosen = zip(kinds_polled.tolist(), op.tolist(), pair.tolist(), strict=True)
        return np.array([(polled if poll else sent).get((o, p), -1) for poll, o, p in chosen], np.int64)

    columns = [
        rows.source,
        rows.target,
        rows.kind.astype(np.int8),
        bucket.key_codes(rows.a),
        bucket.values(rows.a),
        bucket.values(rows.b),
        mops(rows.kind == RW, rows.source, rows.a),
        mops(rows.kind == WR, rows.target, rows.b),
    ]
    return pa.table([pa.array(column) for column in columns], schema=DETAILS)


def _mops(rows: Columns, ops: Ints) -> dict[tuple[int, int], int]:
    """Returns (op, pair) -> number of the op's first micro-op with this (key, value) pair, for the given ops."""
    some = rows.where(member(rows.op, ops))
    found: dict[tuple[int, int], int] = {}
    for op, pair, mop in zip(some.op.tolist(), some.pair.tolist(), some.mop.tolist(), strict=True):
        found.setdefault((op, pair), mop)
    return found
