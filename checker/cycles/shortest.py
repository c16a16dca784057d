"""Shortest cycles inside one strongly connected component, by breadth-first search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from checker.cycles.dependency_edges import KINDS, RW
from checker.cycles.types_and_levels import RwMode

# target -> kinds, as bits, per source
Adjacent = Mapping[int, Mapping[int, int]]

# In a large component not every op is tried as the beginning of a cycle.
STARTS_MAX = 64
_RW_BIT = 1 << RW


def explained(kinds: int) -> int:
    """The kind that explains an edge of several: data first, then process, then real time."""
    return next(kind for kind in range(len(KINDS)) if kinds & (1 << kind))


def steps(adjacent: Adjacent, cycle: Sequence[int]) -> list[int]:
    """The kind of each step of a cycle, whose first op is also its last."""
    return [explained(adjacent[a][b]) for a, b in pairwise(cycle)]


def _path(adjacent: Adjacent, kinds: int, start: int, goal: int) -> list[int] | None:
    """A shortest path from start to goal, over edges of these kinds; for start == goal a shortest cycle."""
    came: dict[int, int] = {}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for neighbour, edge_kinds in adjacent.get(here, {}).items():
            if not edge_kinds & kinds:
                continue
            if neighbour == goal:
                path = [goal, here]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return path[::-1]
            if neighbour not in came and neighbour != start:
                came[neighbour] = here
                queue.append(neighbour)
    return None


def _plain(
    adjacent: Adjacent, kinds: int, starts: Sequence[int], good: Callable[[list[int]], bool]
) -> list[int] | None:
    """The shortest cycle over these kinds; among equals one that is `good`, then the first."""
    best: list[int] | None = None
    for start in starts[:STARTS_MAX]:
        found = _path(adjacent, kinds, start, start)
        if found is None:
            continue
        if best is None or len(found) < len(best) or (len(found) == len(best) and good(found) and not good(best)):
            best = found
        if len(best) == 3 and good(best):
            break
    return best


def _closing(adjacent: Adjacent, kinds: int, starts: Sequence[int]) -> Iterator[list[int]]:
    """Cycles of one rw edge and otherwise these kinds."""
    for a in starts:
        for b, edge_kinds in adjacent.get(a, {}).items():
            if edge_kinds & _RW_BIT:
                path = _path(adjacent, kinds, b, a)
                if path is not None:
                    yield [a, *path]


def _apart(adjacent: Adjacent, kinds: int, starts: Sequence[int]) -> Iterator[list[int]]:
    """Cycles in which no rw edge follows another; breadth-first over (op, came by rw)."""
    for a in starts:
        for b, edge_kinds in adjacent.get(a, {}).items():
            if not edge_kinds & _RW_BIT:
                continue
            first = (b, True)
            came: dict[tuple[int, bool], tuple[int, bool]] = {first: first}
            queue = deque([first])
            while queue:
                here, by_rw = state = queue.popleft()
                if here == a and not by_rw:
                    path = [state]
                    while path[-1] != first:
                        path.append(came[path[-1]])
                    ops = [a, *(op for op, _ in reversed(path))]
                    if len(set(ops)) == len(ops) - 1:
                        yield ops
                    break
                for neighbour, edge_kinds in adjacent.get(here, {}).items():
                    for next_state in [(neighbour, False)] * bool(edge_kinds & kinds) + [(neighbour, True)] * bool(
                        edge_kinds & _RW_BIT and not by_rw
                    ):
                        if next_state not in came:
                            came[next_state] = state
                            queue.append(next_state)


def find(
    adjacent: Adjacent, kinds: int, rw: RwMode, starts: Sequence[int], good: Callable[[list[int]], bool]
) -> list[int] | None:
    """A short cycle [op, ..., op] over edges of these kinds and as many rw edges as the mode says.

    `good`: whether a cycle is explained as the type that is looked for. Without rw the answer is a cycle
    wherever there is one, even if none is good; with rw it is good or None.
    """
    if rw == "none":
        return _plain(adjacent, kinds, starts, good)
    candidates = {
        "single": lambda: _closing(adjacent, kinds, starts),
        "nonadjacent": lambda: _apart(adjacent, kinds, starts),
        "several": lambda: _closing(adjacent, kinds | _RW_BIT, starts),
    }[rw]()
    return min((cycle for cycle in candidates if good(cycle)), key=len, default=None)
