"""Cycles that are impossible even though Kafka does not isolate the writes of transactions from each other.

Kafka interleaves the writes of transactions, so most cycles with ww edges are legal. Jepsen allows all of them when it
draws ww edges. A cycle of single events, each of which must happen before the next one, is never legal. The
order of events follows from these rules:

    an op begins, then polls and sends, then ends (if it is `ok`)
    a record is sent before it is polled
    if an op completed before another op was invoked (real time), its end is before the begin of the other op
    under read_committed, a transaction's records become visible when it commits, which is after all of its polls

Each op is split into four events: begin, poll, send and end. A cycle among events is an anomaly of the log.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from checker.cycles.component import Component, Cycle, Tangle, adjacent, smallest
from checker.cycles.dependency_edges import KINDS, REALTIME, WR
from checker.cycles.realtime_and_components import Ops, strong, time_edges
from checker.cycles.shortest import find
from checker.cycles.types_and_levels import mask, name_of
from checker.tables.packing import Bools, Ints
from harness.model.check_options import CheckOptions

# The events of op i have the numbers EVENTS * i + BEGIN, POLL, SEND and END.
EVENTS: Final = 4
BEGIN: Final = 0
POLL: Final = 1
SEND: Final = 2
END: Final = 3
# The kind of edges between events of the same op.
_WITHIN: Final = len(KINDS)


def _isolated(ops: Ops, options: CheckOptions) -> Bools:
    """Returns, for each op, whether its records become visible only after all of its polls."""
    settings = options.settings
    if settings.isolation_level == "read_uncommitted" or settings.txn is False:
        return np.zeros(len(ops), np.bool_)
    return ops.txn & ~ops.failed


def _within(ops: Ops, options: CheckOptions) -> tuple[Ints, Ints]:
    """Returns the edges between events (begin, poll, send, end) of the same op, as (sources, targets)."""
    begin = EVENTS * np.arange(len(ops))
    ok, isolated = begin[ops.ok], begin[_isolated(ops, options)]
    source = np.concatenate([begin, begin, ok + POLL, ok + SEND, isolated + POLL])
    target = np.concatenate([begin + POLL, begin + SEND, ok + END, ok + END, isolated + SEND])
    return source, target


def circles(tangle: Tangle, options: CheckOptions) -> Ints:
    """Returns the strongly connected component of each event, as an array (ops, EVENTS); -1 for an event in no cycle.

    Under Jepsen's rules, which have no such check, all elements are -1.
    """
    ops = tangle.ops
    if options.jepsen_compatible:
        return np.full((len(ops), EVENTS), -1, np.int64)
    sent = tangle.kind == WR
    inner, outer = _within(ops, options)
    source = [inner, EVENTS * tangle.source[sent] + SEND]
    target = [outer, EVENTS * tangle.target[sent] + POLL]
    times = 0
    if "realtime" in options.edges:
        before, after, times = time_edges(ops)
        shift = (EVENTS - 1) * len(ops)  # time vertices are numbered after the events
        source.append(np.where(before < len(ops), EVENTS * before + END, before + shift))
        target.append(np.where(after < len(ops), EVENTS * after + BEGIN, after + shift))
    size = EVENTS * len(ops)
    return strong(np.concatenate(source), np.concatenate(target), size, size + times).reshape(-1, EVENTS)


def impossible(component: Component, options: CheckOptions, ops_max: int) -> Cycle | None:
    """Returns a cycle in the component that no order of events can produce; None if there is none.

    If more than `ops_max` ops are involved, the result only states that such a cycle exists, and has no steps.
    """
    events = smallest(component.circles.tolist())
    if not events:
        return None
    members = sorted({event // EVENTS for event in events})
    if len(members) > ops_max:
        return Cycle("G1c", (), (), component.named(members), True)
    inner, outer = (side.tolist() for side in _within(component.ops, options))
    edges = [(a, b, _WITHIN) for a, b in zip(inner, outer, strict=True)]
    for a, b, kind in zip(component.source.tolist(), component.target.tolist(), component.kind.tolist(), strict=True):
        if kind == WR:
            edges.append((EVENTS * a + SEND, EVENTS * b + POLL, WR))
        elif kind == REALTIME:
            edges.append((EVENTS * a + END, EVENTS * b + BEGIN, REALTIME))
    inside = set(events)
    graph = adjacent(edge for edge in edges if edge[0] in inside and edge[1] in inside)
    circle = find(graph, mask((_WITHIN, WR, REALTIME)), "none", events, lambda cycle: True)
    assert circle is not None  # every strongly connected component contains a cycle
    # Rotate the cycle to start with a step between ops: otherwise its first op would be listed twice.
    circle = circle[:-1]
    turn = next(n for n, event in enumerate(circle) if circle[n - 1] // EVENTS != event // EVENTS)
    circle = [*circle[turn:], *circle[: turn + 1]]
    hops = [(a, b) for a, b in pairwise(circle) if a // EVENTS != b // EVENTS]
    kinds = [WR if a % EVENTS == SEND else REALTIME for a, _ in hops]
    places = [a // EVENTS for a, _ in hops]
    return component.cycle(name_of(kinds), [*places, places[0]], kinds, members, forbidden=True)
