"""Strongly connected components of the graph of ops in a group of windows, and the data needed to find cycles in each.

Three things are computed for all components together: the components of every subgraph that a type of cycle uses,
real-time and process order, and the components of the graph of events (checker.cycles.event_cycles). This is possible
because no cycle leaves its component. Then each component is searched for short cycles separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from checker.cycles.dependency_edges import PROCESS, REALTIME
from checker.cycles.realtime_and_components import Ops, components, process_edges, realtime_edges
from checker.cycles.shortest import Adjacent
from checker.tables.packing import Ints


@dataclass(frozen=True, slots=True)
class Cycle:
    """One type of cycle found in one component.

    name        the type of the cycle (checker.cycles.types_and_levels)
    ops         the ops of the cycle, with the first one repeated at the end; empty if only its existence is known
    kinds       the kind of the edge at each step
    members     the ops of the strongly connected component in which the type was found, ascending
    forbidden   whether no order of events can produce the cycle, even if the writes of transactions are interleaved
                (checker.cycles.event_cycles)
    invoked     the index of the invocation of each op of the cycle
    processes   the process of each op of the cycle
    """

    name: str
    ops: tuple[int, ...]
    kinds: tuple[int, ...]
    members: tuple[int, ...]
    forbidden: bool = False
    invoked: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tangle:
    """All components of the graph of ops in a group of windows (see checker.cycles.windows).

    ops     all ops that belong to a component
    label   the number of each op's component
    source  the source of each edge within a component, as a position in `ops`
    target  the target of each edge within a component, as a position in `ops`
    kind    the kind of each edge
    """

    ops: Ops
    label: Ints
    source: Ints
    target: Ints
    kind: Ints

    def labels(self, kinds: int) -> Ints:
        """Returns each op's component in the subgraph with only these kinds of edges; -1 for an op in no cycle."""
        rows = (1 << self.kind) & kinds != 0
        return components(self.ops, self.source[rows], self.target[rows], kinds)

    def ordered(self, kinds: int, ops_max: int) -> Tangle:
        """Returns the components with further edges: those of process and real-time order, if these are among `kinds`.

        Only components of at most `ops_max` ops get further edges.
        """
        size = np.bincount(self.label)[self.label]
        some = np.flatnonzero(size <= ops_max)
        ops, label = self.ops.where(some), self.label[some]
        parts = [(self.source, self.target, self.kind)]
        for order, draw in ((PROCESS, process_edges), (REALTIME, realtime_edges)):
            if kinds & (1 << order):
                a, b = draw(ops)
                same = label[a] == label[b]
                parts.append((some[a[same]], some[b[same]], np.full(int(same.sum()), order, np.int64)))
        return Tangle(self.ops, self.label, *(np.concatenate([part[n] for part in parts]) for n in range(3)))


@dataclass(frozen=True)
class Component:
    """One strongly connected component.

    ops      its ops, in ascending order of ids
    source   the source of each edge, as a position in `ops`
    target   the target of each edge, as a position in `ops`
    kind     the kind of each edge
    labels   kinds of edges (bits) -> each op's component in the subgraph with only these kinds; -1 for an op in none
    circles  the component of each event in the graph of events (checker.cycles.event_cycles), with 4 events per op; -1
             for an event in none
    """

    ops: Ops
    source: Ints
    target: Ints
    kind: Ints
    labels: dict[int, Ints]
    circles: Ints
    _smallest: dict[int, list[int]] = field(default_factory=dict)

    def smallest(self, kinds: int) -> list[int]:
        """Returns the positions of the ops in the smallest component of the subgraph with only these kinds of edges.

        If several components are equally small, returns the first one. The list is empty if the subgraph has no cycle.
        """
        if kinds not in self._smallest:
            self._smallest[kinds] = smallest(self.labels[kinds].tolist())
        return self._smallest[kinds]

    @cached_property
    def adjacent(self) -> Adjacent:
        """The edges as source -> target -> kinds (bits). Sources and targets are positions in `ops`."""
        return adjacent(zip(self.source.tolist(), self.target.tolist(), self.kind.tolist(), strict=True))

    def named(self, places: Sequence[int]) -> tuple[int, ...]:
        """Returns the ids of the ops at the positions `places`."""
        return tuple(self.ops.op[np.asarray(places, np.int64)].tolist())

    def cycle(
        self,
        name: str,
        places: Sequence[int],
        kinds: Sequence[int],
        members: Sequence[int],
        forbidden: bool = False,
    ) -> Cycle:
        """Returns the cycle through the ops at the positions `places`, whose last element equals the first.

        For the other arguments, see `Cycle`.
        """
        at = np.asarray(places, np.int64)
        own, invoked, processes = (
            tuple(column[at].tolist()) for column in (self.ops.op, self.ops.invoke, self.ops.process)
        )
        return Cycle(name, own, tuple(kinds), self.named(members), forbidden, invoked, processes)


def smallest(labels: Iterable[int]) -> list[int]:
    """Returns the positions of the rarest label other than -1.

    If several are equally rare, the first of them counts.
    """
    groups: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        if label >= 0:
            groups.setdefault(label, []).append(place)
    return min(groups.values(), key=len, default=[])


def adjacent(edges: Iterable[tuple[int, int, int]]) -> Adjacent:
    """Converts edges (source, target, kind) to source -> target -> kinds (bits); sources and targets ascend."""
    neighbours: dict[int, dict[int, int]] = {}
    for a, b, kind in edges:
        out = neighbours.setdefault(a, {})
        out[b] = out.get(b, 0) | 1 << kind
    return {a: dict(sorted(neighbours[a].items())) for a in sorted(neighbours)}


def split(tangle: Tangle, labels: dict[int, Ints], circles: Ints) -> Iterator[Component]:
    """Yields the components of `tangle` one by one, each with its part of `labels` and `circles` (see `Component`)."""
    by = np.argsort(tangle.label, kind="stable")
    heads = np.flatnonzero(np.diff(tangle.label[by], prepend=-1))
    place = np.empty(len(by), np.int64)
    place[by] = np.arange(len(by))
    rows = np.argsort(tangle.label[tangle.source], kind="stable")
    own, named = tangle.label[tangle.source][rows], tangle.label[by][heads]
    cuts = np.searchsorted(own, named), np.searchsorted(own, named, side="right")
    for low, high, first, last in zip(heads, [*heads[1:], len(by)], *cuts, strict=True):
        members, mine = by[low:high], rows[first:last]
        yield Component(
            tangle.ops.where(members),
            place[tangle.source[mine]] - low,
            place[tangle.target[mine]] - low,
            tangle.kind[mine],
            {kinds: label[members] for kinds, label in labels.items()},
            circles[members].reshape(-1),
        )
