"""Process order and real-time order of ops, and the strongly connected components of the graph of ops.

Real-time order (an `ok` completion before an invocation) is represented by a chain of time vertices, one per `ok`
completion. Each op has an edge to its time vertex, each time vertex has an edge to the next, and the last time
vertex before an invocation has an edge to the invoked op. The number of edges is thus proportional to the number of
ops, independent of the concurrency, and the components of ops are the same as with direct edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checker.cycles.dependency_edges import PROCESS, REALTIME
from checker.cycles.windows import Graph
from checker.tables.packing import Bools, Ints, begins, empty, expand, member, order
from checker.tables.schema import MICRO, is_one

SMALL: Final = 1000  # up to this number of vertices, looking for a cycle takes less time than importing scipy


@dataclass(frozen=True, slots=True)
class Ops:
    """Ops as columns, in ascending order of their ids."""

    op: Ints
    invoke: Ints
    process: Ints
    ok: Bools
    failed: Bools
    txn: Bools

    def __len__(self) -> int:
        return len(self.op)

    def where(self, rows: Bools | Ints) -> Ops:
        return Ops(*(getattr(self, name)[rows] for name in self.__slots__))


def ops_of(tables: Iterable[pa.Table]) -> Ops:
    """Returns the send, poll and txn ops of the given tables, in ascending order of their ids.

    Other ops are not in the graph.
    """
    found = [_ops(table) for table in tables]
    if not found:
        return Ops(*(empty(),) * 3, *(np.empty(0, np.bool_),) * 3)
    ops = Ops(*(np.concatenate([getattr(one, name) for one in found]) for name in Ops.__slots__))
    return ops if bool((ops.op[1:] > ops.op[:-1]).all()) else ops.where(np.argsort(ops.op, kind="stable"))


def _ops(table: pa.Table) -> Ops:
    op, invoke, process = (table.column(name).to_numpy() for name in ("index", "invoke_index", "process"))
    ops = Ops(
        op,
        np.where(invoke < 0, op, invoke),
        process,
        is_one(table, "type", ("ok",)),
        is_one(table, "type", ("fail",)),
        is_one(table, "f", ("txn",)),
    )
    vertices = is_one(table, "f", tuple(MICRO))
    return ops if bool(vertices.all()) else ops.where(vertices)


def process_edges(ops: Ops) -> tuple[Ints, Ints]:
    """Returns (sources, targets): the positions of each `ok` op and of the next `ok` op of the same process."""
    oks = np.flatnonzero(ops.ok)
    by = oks[order(ops.process[oks], ops.op[oks])]
    same = np.flatnonzero(~begins(ops.process[by])) if len(by) else by
    return by[same - 1], by[same]


def realtime_edges(ops: Ops) -> tuple[Ints, Ints]:
    """Returns (sources, targets): the position of an `ok` op, and that of an op that was invoked after its completion.

    An edge is left out if another `ok` op was invoked and completed between the two ops, because their order then
    follows from the other edges.
    """
    oks = np.flatnonzero(ops.ok)
    if len(oks) == 0:
        return oks, oks
    ids = ops.op[oks]
    last = np.searchsorted(ids, ops.invoke) - 1
    latest = np.maximum.accumulate(ops.invoke[oks])[np.maximum(last, 0)]
    first = np.searchsorted(ids, latest)
    count = np.where(last >= 0, np.maximum(last - first + 1, 0), 0)
    return oks[expand(first, count)], np.repeat(np.arange(len(ops)), count)


def time_edges(ops: Ops) -> tuple[Ints, Ints, int]:
    """Returns edges that express the real-time order: (sources, targets, number of time vertices).

    A time vertex stands for the completion of an `ok` op. Ops are numbered by their positions. Time vertex t has the
    number len(ops) + t.
    """
    oks = np.flatnonzero(ops.ok)
    times = len(ops) + np.arange(len(oks))
    last = np.searchsorted(ops.op[oks], ops.invoke) - 1
    late = np.flatnonzero(last >= 0)
    source = np.concatenate([oks, times[:-1], times[last[late]]])
    target = np.concatenate([times, times[1:], late])
    return source, target, len(oks)


def components(ops: Ops, source: Ints, target: Ints, kinds: int) -> Ints:
    """Returns the number of each op's strongly connected component; -1 for an op that is in no cycle.

    source  the sources of the ww, wr and rw edges, as positions in `ops`
    target  the targets of these edges, as positions in `ops`
    kinds   kinds of edges as bits; edges of process and real-time order are added if `kinds` contains them
    """
    sources, targets, extra = [source], [target], 0
    if kinds & (1 << PROCESS):
        before, after = process_edges(ops)
        sources.append(before)
        targets.append(after)
    if kinds & (1 << REALTIME):
        before, after, extra = time_edges(ops)
        sources.append(before)
        targets.append(after)
    return strong(np.concatenate(sources), np.concatenate(targets), len(ops), len(ops) + extra)


def _acyclic(source: Ints, target: Ints, size: int) -> bool:
    """Returns whether a graph has no cycle. Removes, again and again, the vertices that no edge leads to."""
    remaining = len(source) + 1
    while 0 < len(source) < remaining:
        remaining = len(source)
        reached = np.zeros(size, np.bool_)
        reached[target] = True
        kept = reached[source]
        source, target = source[kept], target[kept]
    return len(source) == 0


def strong(source: Ints, target: Ints, count: int, size: int) -> Ints:
    """Returns the number of the strongly connected component of each of the first `count` vertices of a graph.

    The number is -1 for a vertex whose component contains no other of the first `count` vertices.

    source  the source of each edge
    target  the target of each edge
    count   the number of vertices in the result; all further vertices only serve to connect these
    size    the number of all vertices
    """
    if size <= SMALL and _acyclic(source, target, size):
        return np.full(count, -1, np.int64)
    from scipy.sparse import coo_array  # importing it takes longer than checking a short history
    from scipy.sparse.csgraph import connected_components

    matrix = coo_array((np.ones(len(source), np.int32), (source, target)), shape=(size, size))
    _, label = connected_components(matrix.tocsr(), directed=True, connection="strong")
    own: Ints = label[:count].astype(np.int64)
    if count == 0:
        return own
    return np.where(np.bincount(own)[own] > 1, own, -1)


def places(ops: Ops, graph: Graph) -> tuple[Ints, Ints, Ints]:
    """Returns (sources, targets, kinds) of the edges between these ops, with positions in `ops` in place of ids."""
    known = member(graph.source, ops.op) & member(graph.target, ops.op)
    source, target, kind = graph.source[known], graph.target[known], graph.kind[known]
    return np.searchsorted(ops.op, source), np.searchsorted(ops.op, target), kind
