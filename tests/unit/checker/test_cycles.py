"""Windows lose no component, files contain the same as messages, and the search finds shortest cycles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from checker.cycles import windows
from checker.cycles.dependency_edges import PROCESS, REALTIME, RW, WR, WW, Edges
from checker.cycles.realtime_and_components import Ops, components, places, process_edges, realtime_edges
from checker.cycles.shortest import find
from checker.cycles.types_and_levels import IMPLIED, LEVELS, SPECS, WEAKER, mask, name_of
from checker.cycles.windows import Graph, Stored


def _edges(rng: random.Random, ops: int, count: int, reach: int) -> Edges:
    """Random edges between ops 0, 3, 6, ..., mostly between neighbours."""
    rows = []
    for _ in range(count):
        a = rng.randrange(ops)
        b = min(ops - 1, max(0, a + rng.randint(-reach, 3 * reach)))
        if a != b:
            rows.append((3 * a, 3 * b, rng.choice((WW, WR))))
    source, target, kind = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Edges(source, target, kind, source, target)


def _pairs(graph: Graph) -> set[tuple[int, int, int]]:
    return set(zip(graph.source.tolist(), graph.target.tolist(), graph.kind.tolist(), strict=True))


def _components(edges: set[tuple[int, int, int]]) -> set[frozenset[int]]:
    graph = nx.DiGraph([(a, b) for a, b, _ in edges])
    return {frozenset(part) for part in nx.strongly_connected_components(graph) if len(part) > 1}


@pytest.mark.parametrize("seed", range(30))
def test_windows_hold_every_component(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(windows, "INLINE", rng.choice((0, 1 << 16)))
    monkeypatch.setattr(windows, "INTERVALS", rng.choice((1, 3, 1 << 14)))
    buckets = [[_edges(rng, 200, rng.randint(20, 150), rng.choice((1, 4)))] for _ in range(3)]
    stored = [windows.stored(edges, tmp_path, n) for n, edges in enumerate(buckets)]
    present = [one for one in stored if one is not None]
    everything = {
        (int(a), int(b), int(k))
        for (edges,) in buckets
        for a, b, k in zip(edges.source, edges.target, edges.kind, strict=True)
    }
    assert set().union(*(_pairs(one.between(0, 1000)) for one in present)) == everything
    spans = windows.windows(present)
    assert (spans.starts[1:] > spans.ends[:-1]).all()
    found: set[frozenset[int]] = set()
    for group in spans.slices(rng.randint(1, 5)):
        found |= _components(_pairs(windows.within(present, group)))
    assert found == _components(everything)


def test_ids_too_far_apart_to_pack() -> None:
    far = np.array([0, 1 << 61, 5], np.int64), np.array([1 << 61, 1, 1 << 60], np.int64)
    edges = Edges(far[0], far[1], np.array([WW, WR, WW], np.int64), far[0], far[1])
    stored = windows.stored([edges], None, 0)
    assert isinstance(stored, Stored)
    assert _pairs(stored.between(0, 1 << 61)) == {(0, 1 << 61, WW), (1 << 61, 1, WR), (5, 1 << 60, WW)}
    assert windows.windows([stored]).starts.tolist() == [1]


def _ops(rng: random.Random, count: int) -> Ops:
    """Concurrent ops of a few processes; ids are indices of completions."""
    clock, begun, rows = 0, {}, []
    while len(rows) < count:
        process = rng.randrange(5)
        if process in begun:
            rows.append((clock, begun.pop(process), process, rng.random() < 0.8))
        else:
            begun[process] = clock
        clock += 1
    op, invoke, process_of, ok = (np.array(column) for column in zip(*rows, strict=True))
    return Ops(op, invoke, process_of, ok, ~ok, np.ones(count, np.bool_))


@pytest.mark.parametrize("seed", range(20))
def test_orders_between_ops(seed: int) -> None:
    rng = random.Random(seed)
    ops = _ops(rng, 60)
    before = {(a, b) for a in range(60) for b in range(60) if ops.ok[a] and ops.op[a] < ops.invoke[b] and a != b}
    reduced = set(zip(*(side.tolist() for side in realtime_edges(ops)), strict=True))
    assert reduced == {
        (a, b) for a, b in before if not any((a, c) in before and (c, b) in before and ops.ok[c] for c in range(60))
    }
    assert set(zip(*(side.tolist() for side in process_edges(ops)), strict=True)) <= before
    source, target = (np.array([rng.randrange(60) for _ in range(25)]) for _ in range(2))
    label = components(ops, source, target, mask((WW, REALTIME)))
    graph = nx.DiGraph([*before, *zip(source.tolist(), target.tolist(), strict=True)])
    graph.remove_edges_from(nx.selfloop_edges(graph))
    expected = {frozenset(part) for part in nx.strongly_connected_components(graph) if len(part) > 1}
    found = {frozenset(np.flatnonzero(label == one).tolist()) for one in set(label.tolist()) - {-1}}
    assert found == expected


def test_edges_of_ops_that_are_not_there() -> None:
    ops = _ops(random.Random(1), 4)
    gone = Graph(np.array([ops.op[0], 999]), np.array([ops.op[1], ops.op[0]]), np.array([WW, WW]))
    assert [side.tolist() for side in places(ops, gone)] == [[0], [1], [WW]]


def _graph(rng: random.Random) -> dict[int, dict[int, int]]:
    adjacent: dict[int, dict[int, int]] = {}
    for _ in range(rng.randint(4, 16)):
        a, b = rng.sample(range(7), 2)
        out = adjacent.setdefault(a, {})
        out[b] = out.get(b, 0) | 1 << rng.choice((WW, WR, RW))
    return adjacent


def _all_cycles(adjacent: dict[int, dict[int, int]], kinds: int) -> Iterator[list[int]]:
    graph = nx.DiGraph([(a, b) for a, out in adjacent.items() for b, own in out.items() if own & kinds])
    for cycle in nx.simple_cycles(graph):
        yield [*cycle, cycle[0]]


@pytest.mark.parametrize("seed", range(200))
def test_search_against_every_cycle(seed: int) -> None:
    """There is an answer exactly if there is a cycle, and it is as short as the shortest."""
    adjacent = _graph(random.Random(seed))
    data, starts = mask((WW, WR)), list(range(7))

    def count_rw(cycle: list[int]) -> tuple[int, bool]:
        """The number of edges that are only rw, and whether two such edges are adjacent."""
        anti = [adjacent[a][b] == 1 << RW for a, b in pairwise(cycle)]
        return sum(anti), any(x and y for x, y in zip(anti, anti[1:] + anti[:1], strict=True))

    plain = [len(cycle) for cycle in _all_cycles(adjacent, data)]
    found = find(adjacent, data, "none", starts, lambda cycle: True)
    assert (None if found is None else len(found)) == min(plain, default=None)
    single = [len(c) for c in _all_cycles(adjacent, data | 1 << RW) if count_rw(c)[0] == 1]
    found = find(adjacent, data, "single", starts, lambda cycle: count_rw(cycle)[0] == 1)
    assert (None if found is None else len(found)) == min(single, default=None)
    if plain or single:
        return  # the more general types are searched only if these are absent
    apart = [c for c in _all_cycles(adjacent, data | 1 << RW) if count_rw(c)[0] > 1 and not count_rw(c)[1]]
    found = find(adjacent, data, "nonadjacent", starts, lambda cycle: True)
    assert (found is not None) == bool(apart)
    several = [c for c in _all_cycles(adjacent, data | 1 << RW) if count_rw(c)[0] > 1]
    found = find(adjacent, data, "several", starts, lambda cycle: True)
    assert (found is not None) == bool(several)


def test_names() -> None:
    assert name_of([WW, WW]) == "G0"
    assert name_of([WW, WR, REALTIME]) == "G1c-realtime"
    assert name_of([RW, WR, PROCESS]) == "G-single-process"
    assert name_of([RW, WR, RW, WW]) == "G-nonadjacent"
    assert name_of([RW, WR, WW, RW]) == "G2-item"
    assert name_of([REALTIME, PROCESS, WW]) == "G0-realtime"


def test_what_implies_what() -> None:
    assert {name for name, all_of in IMPLIED.items() if "G1c-realtime" in all_of} == {
        "G0",
        "G0-process",
        "G0-realtime",
        "G1c",
        "G1c-process",
        "G1c-realtime",
    }
    assert "G1c" not in IMPLIED["G0-realtime"]
    assert "G2-item-realtime" in IMPLIED["G-single"]
    assert WEAKER["PL-SS"] == {level.name for level in LEVELS}
    assert len({spec.name for spec in SPECS}) == len(SPECS) == 15
