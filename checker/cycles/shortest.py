"""Short cycles within one strongly connected component, found by breadth-first search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from checker.cycles.dependency_edges import KINDS, RW
from checker.cycles.types_and_levels import RwMode

# source -> target -> kinds of edges, as bits
Adjacent = Mapping[int, Mapping[int, int]]

# At most so many ops of a component are tried as the start of a cycle.
STARTS_MAX = 64
_RW_BIT = 1 << RW


def explained(kinds: int) -> int:
    """Returns the one kind that explanations name for an edge of several kinds (bits).

    This is a data dependency if there is one, else process, else realtime.
    """
    return next(kind for kind in range(len(KINDS)) if kinds & (1 << kind))


def steps(adjacent: Adjacent, cycle: Sequence[int]) -> list[int]:
    """Returns the kind of edge that explains each step of a cycle. `cycle` ends with its first op."""
    return [explained(adjacent[a][b]) for a, b in pairwise(cycle)]


def _path(adjacent: Adjacent, kinds: int, start: int, goal: int) -> list[int] | None:
    """Returns a shortest path from start to goal over edges of these kinds; if `start` equals `goal`, a shortest cycle.

    Returns None if there is no such path.
    """
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
    """Returns a shortest cycle over edges of these kinds through one of `starts`; None if there is no cycle.

    Of equally short cycles, one for which `good` is true is preferred. At most STARTS_MAX of `starts` are tried.
    """
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
    """Yields cycles that start with an rw edge and otherwise use edges of these kinds."""
    for a in starts:
        for b, edge_kinds in adjacent.get(a, {}).items():
            if edge_kinds & _RW_BIT:
                path = _path(adjacent, kinds, b, a)
                if path is not None:
                    yield [a, *path]


def _apart(adjacent: Adjacent, kinds: int, starts: Sequence[int]) -> Iterator[list[int]]:
    """Yields cycles in which no rw edge follows another rw edge.

    They are found by a breadth-first search over (op, whether the op was reached by an rw edge).
    """
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
    """Returns a short cycle [op, ..., op] over edges of these kinds, with the number of rw edges that `rw` requires.

    `good` returns whether a cycle has the type that is searched for. If `rw` is "none" and no good cycle was found, the
    result may be another cycle. Otherwise the result is a good cycle or None. `starts` are the ops from which cycles
    are searched.
    """
    if rw == "none":
        return _plain(adjacent, kinds, starts, good)
    candidates = {
        "single": lambda: _closing(adjacent, kinds, starts),
        "nonadjacent": lambda: _apart(adjacent, kinds, starts),
        "several": lambda: _closing(adjacent, kinds | _RW_BIT, starts),
    }[rw]()
    return min((cycle for cycle in candidates if good(cycle)), key=len, default=None)
