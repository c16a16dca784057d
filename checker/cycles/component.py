"""The strongly connected components of some windows, and what is found in each.

What can be computed for all components at once is: the components of every subgraph that a type of cycle
asks for (no cycle leaves its component, so the others do no harm), the order in real time and within
processes, and the circles of events. What is left for each component alone is looking things up, and
searching for short cycles.
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
    """One type in one component.

    ops     the cycle, its first op last again; empty for a type that says only that some cycle is there
    kinds   the kind of each step
    members the component: the smallest of the subgraph that shows the type; ascending
    forbidden   no order of events explains it, however little writes are isolated (checker.cycles.event_cycles)
    invoked, processes   of each op of the cycle: index of its invocation, process
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
    """All ops that are in some component, and the edges within components, as places in `ops`."""

    ops: Ops
    label: Ints
    source: Ints
    target: Ints
    kind: Ints

    def labels(self, kinds: int) -> Ints:
        """Per op, its component in the subgraph of some kinds; -1 for an op alone in it."""
        rows = (1 << self.kind) & kinds != 0
        return components(self.ops, self.source[rows], self.target[rows], kinds)

    def ordered(self, kinds: int, most: int) -> Tangle:
        """With the orders among `kinds` as edges between the ops of components of at most so many."""
        size = np.bincount(self.label)[self.label]
        some = np.flatnonzero(size <= most)
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
    """One component: its ops, ids ascending, and the edges between them, as places in `ops`.

    labels   by kinds: per op, its component in that subgraph, or -1
    circles  per event of each op (4 an op, see checker.cycles.event_cycles), its circle, or -1
    """

    ops: Ops
    source: Ints
    target: Ints
    kind: Ints
    labels: dict[int, Ints]
    circles: Ints
    _smallest: dict[int, list[int]] = field(default_factory=dict)

    def smallest(self, kinds: int) -> list[int]:
        """Places of the ops of the subgraph's smallest component, the first of several; none if acyclic."""
        if kinds not in self._smallest:
            self._smallest[kinds] = smallest(self.labels[kinds].tolist())
        return self._smallest[kinds]

    @cached_property
    def adjacent(self) -> Adjacent:
        """target -> kinds per source, by places."""
        return adjacent(zip(self.source.tolist(), self.target.tolist(), self.kind.tolist(), strict=True))

    def named(self, places: Sequence[int]) -> tuple[int, ...]:
        """Ids of ops by their places."""
        return tuple(self.ops.op[np.asarray(places, np.int64)].tolist())

    def cycle(
        self,
        name: str,
        places: Sequence[int],
        kinds: Sequence[int],
        members: Sequence[int],
        forbidden: bool = False,
    ) -> Cycle:
        """A cycle through these places, the first of them last again."""
        at = np.asarray(places, np.int64)
        own, invoked, processes = (
            tuple(column[at].tolist()) for column in (self.ops.op, self.ops.invoke, self.ops.process)
        )
        return Cycle(name, own, tuple(kinds), self.named(members), forbidden, invoked, processes)


def smallest(labels: Iterable[int]) -> list[int]:
    """The places of the label that stands least often, the first of several; -1 does not count."""
    groups: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        if label >= 0:
            groups.setdefault(label, []).append(place)
    return min(groups.values(), key=len, default=[])


def adjacent(edges: Iterable[tuple[int, int, int]]) -> Adjacent:
    """target -> kinds, as bits, per source, from (source, target, kind); both ascending."""
    neighbours: dict[int, dict[int, int]] = {}
    for a, b, kind in edges:
        out = neighbours.setdefault(a, {})
        out[b] = out.get(b, 0) | 1 << kind
    return {a: dict(sorted(neighbours[a].items())) for a in sorted(neighbours)}


def split(tangle: Tangle, labels: dict[int, Ints], circles: Ints) -> Iterator[Component]:
    """The components one by one, in the order of their first ops."""
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
