"""The search for cycles in one component, compared with every simple cycle of small random graphs."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx as nx
import pytest

from checker.cycles.dependency_edges import RW, WR, WW
from checker.cycles.shortest import Adjacent, find, steps
from checker.cycles.types_and_levels import mask, name_of

DATA = mask((WW, WR))
SEEDS = 200
MODES = {"single": "G-single", "nonadjacent": "G-nonadjacent", "several": "G2-item"}


def _graph(draw: random.Random) -> Adjacent:
    """A graph with one kind per edge, so that a cycle has one explanation."""
    ops = range(draw.randint(2, 6))
    kinds = [1 << WW, 1 << WR, 1 << RW]
    adjacent = {a: {b: draw.choice(kinds) for b in ops if b != a and draw.random() < 0.4} for a in ops}
    return {a: out for a, out in adjacent.items() if out}


def _cycles(graph: Adjacent) -> list[list[int]]:
    """Every simple cycle, with its first op repeated at the end."""
    drawn = nx.DiGraph([(a, b) for a, out in graph.items() for b in out])
    return [[*cycle, cycle[0]] for cycle in nx.simple_cycles(drawn)]


def _is_cycle(graph: Adjacent, cycle: list[int]) -> bool:
    closed = cycle[0] == cycle[-1] and len(set(cycle)) == len(cycle) - 1
    return closed and all(b in graph[a] for a, b in pairwise(cycle))


def test_without_rw_a_shortest_cycle() -> None:
    for seed in range(SEEDS):
        _shortest(_graph(random.Random(seed)))


def _shortest(graph: Adjacent) -> None:
    plain = [cycle for cycle in _cycles(graph) if not {RW} & set(steps(graph, cycle))]
    found = find(graph, DATA, "none", sorted(graph), lambda cycle: name_of(steps(graph, cycle)) == "G1c")
    assert (found is None) == (plain == [])
    if found is not None:
        assert _is_cycle(graph, found)
        assert len(found) == min(map(len, plain))
        assert RW not in steps(graph, found)


@pytest.mark.parametrize("mode", MODES)
def test_with_rw_a_cycle_of_the_type(mode: str) -> None:
    """With one rw edge, the shortest cycle; with several, a cycle of the type, if there is any."""
    for seed in range(SEEDS):
        _of_type(_graph(random.Random(seed)), mode)


def _of_type(graph: Adjacent, mode: str) -> None:
    named = [cycle for cycle in _cycles(graph) if name_of(steps(graph, cycle)) == MODES[mode]]
    found = find(graph, DATA, mode, sorted(graph), lambda cycle: name_of(steps(graph, cycle)) == MODES[mode])  # type: ignore[arg-type]
    if mode == "single":
        assert (found is None) == (named == [])
        assert found is None or len(found) == min(map(len, named))
    if found is not None:
        assert _is_cycle(graph, found)
        assert sorted(set(found)) in [sorted(set(cycle)) for cycle in named]


def test_two_rw_edges_apart() -> None:
    graph = {1: {2: 1 << RW}, 2: {3: 1 << WR}, 3: {4: 1 << RW}, 4: {1: 1 << WW, 5: 1 << WW}, 5: {6: 1 << WR}}
    found = find(graph, DATA, "nonadjacent", [1, 2, 3, 4], lambda cycle: True)
    assert found == [1, 2, 3, 4, 1]
    assert find({1: {2: 1 << RW}, 2: {1: 1 << RW}}, DATA, "nonadjacent", [1, 2], lambda cycle: True) is None


def test_a_cycle_of_the_wanted_type_is_preferred_among_equals() -> None:
    graph = {1: {2: 1 << WW}, 2: {1: 1 << WW}, 3: {4: 1 << WR}, 4: {3: 1 << WW}}

    def wanted(cycle: list[int]) -> bool:
        return name_of(steps(graph, cycle)) == "G1c"

    found = find(graph, DATA, "none", [1, 2, 3, 4], wanted)
    assert found is not None and set(found) == {3, 4}
    longer = {**graph, 3: {5: 1 << WR}, 5: {4: 1 << WW}}
    shorter = find(longer, DATA, "none", [3, 1, 2], wanted)
    assert shorter is not None and set(shorter) == {1, 2}
